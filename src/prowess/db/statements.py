"""Statements on the path of every turn: SQLAlchemy Core, compiled once a dialect, run on the driver's cursor.

``Connection.execute`` costs several times what SQLite itself needs for a row by key; ``prowess bench turn`` shows the
sum. Everything else, above all queries put together at run time, goes through ``Connection.execute`` as usual.
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Integer,
    Select,
    Table,
    Text,
    TypeDecorator,
    bindparam,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from prowess.db.engine import REDACTOR, redacted

_TYPES = ((Text, "text"), (BigInteger, "bigint"), (Integer, "integer"), (Boolean, "boolean"))
_Processor = Callable[[Any], Any]


class _Compiled(NamedTuple):
    sql: str
    names: tuple[str, ...] | None
    """parameter names in order, where the driver takes a sequence"""
    defaults: Mapping[str, Any]
    lists: tuple[str, ...]
    """parameters that are lists of ids"""
    row: Callable[[Sequence[Any]], Any]


class _Ids(TypeDecorator[Any]):
    """A list of ids as one parameter: an array, or JSON where there are no arrays."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(ARRAY(Text()) if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return list(value) if dialect.name == "postgresql" else json.dumps(list(value))


class _Among(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> _Among:
        """As it stands: ``… = 1``, which SQLAlchemy would make of it for SQLite, would have the whole table read."""
        return self


@compiles(_Among)
def _among_json(element: _Among, compiler: Any, **options: Any) -> str:
    column, ids = element.clauses
    of, given = compiler.process(column, **options), compiler.process(ids, **options)
    return f"{of} IN (SELECT value FROM json_each({given}))"


@compiles(_Among, "postgresql")
def _among_array(element: _Among, compiler: Any, **options: Any) -> str:
    column, ids = element.clauses
    return f"{compiler.process(column, **options)} = ANY({compiler.process(ids, **options)})"


def among(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Whether ``column`` is one of the ids in the parameter ``name``.

    Unlike ``in_`` it is the same statement however many they are, so nothing is compiled, parsed or planned anew.
    """
    return _Among(column, bindparam(name, type_=_Ids()))


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT of this connection's dialect, which knows ON CONFLICT; the other dialect is not imported."""
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)


class Statement:
    """One SELECT, INSERT, UPDATE or DELETE with bound parameters; lists in it are literal columns, not parameters."""

    def __init__(self, core: Select[Any] | UpdateBase, columns: Sequence[str] | None = None) -> None:
        """``columns``: those that an INSERT fills, where not all; one without a value becomes null."""
        self._core = core
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def all(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Every row, as a named tuple."""
        compiled, cursor = self._execute(connection, values)
        return [compiled.row(row) for row in cursor.fetchall()]

    def first(self, connection: Connection, values: Mapping[str, Any]) -> Any | None:
        """The first row as a named tuple, or none."""
        compiled, cursor = self._execute(connection, values)
        row = cursor.fetchone()
        cursor.close()
        return None if row is None else compiled.row(row)

    def run(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """Carry out a change; returns how many rows it touched. Raises ``sqlalchemy.exc.IntegrityError``."""
        _, cursor = self._execute(connection, values)
        return int(cursor.rowcount)

    def _execute(self, connection: Connection, values: Mapping[str, Any]) -> tuple[_Compiled, Any]:
        compiled = self._compiled.get(connection.dialect.name) or self._compile(connection)
        merged = {**compiled.defaults, **values} if compiled.defaults else values
        redactor = connection.connection.info.get(REDACTOR)
        if redactor is not None:
            merged = redacted(redactor, merged)
        if compiled.lists:
            write = _array if connection.dialect.name == "postgresql" else json.dumps
            merged = {**merged, **{name: write(list(merged[name])) for name in compiled.lists}}
        parameters: Any = merged if compiled.names is None else [merged[name] for name in compiled.names]
        return compiled, _execute(connection, compiled.sql, parameters)

    def _compile(self, connection: Connection) -> _Compiled:
        dialect = connection.dialect
        done = self._core.compile(dialect=dialect, column_keys=self._columns)
        defaults = dict(done.params)
        if not isinstance(self._core, Insert):
            defaults = {name: value for name, value in defaults.items() if value is not None}
        names = tuple(done.positiontup) if done.positional and done.positiontup is not None else None
        lists = tuple(name for name, bind in done.binds.items() if isinstance(bind.type, _Ids))
        compiled = _Compiled(str(done), names, defaults, lists, _row_maker(self._core, dialect))
        self._compiled[dialect.name] = compiled
        return compiled


class Many:
    """One change for many rows at a time, in the words of both dialects: it names the rows ``{said}``.

    PostgreSQL runs it once, over an array of each column's values (``unnest``): a statement a row costs it several
    times what the row does. A column that holds the same in every row is sent once. SQLite runs it over ``VALUES``,
    fifty rows at a time, so that other threads go on meanwhile; the rest one by one, which needs no statement for
    every number.
    """

    def __init__(self, sql: str, columns: Mapping[str, str]) -> None:
        """``columns``: names and types, in the order of the values."""
        self._sql = sql
        self._columns = dict(columns)
        self._block, self._single = self._listed(_BLOCK), self._listed(1)
        self._written: dict[tuple[bool, ...], str] = {}

    @classmethod
    def insert(cls, table: Table, columns: Sequence[str], *, ignore_known: bool = False) -> Many:
        """Insert rows, in their order, that have these columns; ``ignore_known``: but none whose key is taken."""
        types = [next(word for kind, word in _TYPES if isinstance(table.c[name].type, kind)) for name in columns]
        names = ", ".join(columns)
        # SQLite needs the WHERE to tell the ON of a conflict from that of a join.
        end = " WHERE true ON CONFLICT DO NOTHING" if ignore_known else ""
        sql = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {{said}}{end}"
        return cls(sql, dict(zip(columns, types, strict=True)))

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Carry it out; returns how many rows it touched. Raises ``sqlalchemy.exc.IntegrityError``."""
        if not rows:
            return 0
        redactor = connection.connection.info.get(REDACTOR)
        if redactor is not None:
            rows = [redacted(redactor, tuple(row)) for row in rows]
        return (
            self._run_blocks(connection, rows) if connection.dialect.name == "sqlite" else self._run(connection, rows)
        )

    def _run_blocks(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        touched, whole = 0, len(rows) - len(rows) % _BLOCK
        for start in range(0, whole, _BLOCK):
            values = list(chain.from_iterable(rows[start : start + _BLOCK]))
            touched += int(_execute(connection, self._block, values).rowcount)
        if whole < len(rows):
            touched += int(_execute(connection, self._single, rows[whole:], many=True).rowcount)
        return touched

    def _run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> int:
        values = list(zip(*rows, strict=True))
        same = _same(values) if len(rows) >= _WORTH_COMPARING else (False,) * len(values)
        sql = self._written.get(same) or self._write(same)
        sent = [_word(column[0]) if once else _array(column) for column, once in zip(values, same, strict=True)]
        # In the order of the statement: first what is sent once, then the arrays.
        parameters = [value for value, _ in sorted(zip(sent, same, strict=True), key=lambda item: not item[1])]
        return int(_execute(connection, sql, parameters).rowcount)

    def _listed(self, count: int) -> str:
        """The statement for SQLite, over so many rows."""
        chosen = ", ".join(f"column{number} AS {name}" for number, name in enumerate(self._columns, 1))
        row = f"({', '.join('?' * len(self._columns))})"
        return self._sql.format(said=f"(SELECT {chosen} FROM (VALUES {', '.join([row] * count)})) AS said")

    def _write(self, same: tuple[bool, ...]) -> str:
        columns = list(zip(self._columns.items(), same, strict=True))
        chosen = [f"%s::{kind} AS {name}" for (name, kind), once in columns if once]
        varied = [(name, kind) for (name, kind), once in columns if not once]
        arrays = ", ".join(f"%s::{kind}[]" for _, kind in varied)
        names = ", ".join(name for name, _ in varied)
        said = f"(SELECT {', '.join([*chosen, 'many.*'])} FROM unnest({arrays}) AS many({names})) AS said"
        sql = self._written[same] = self._sql.format(said=said)
        return sql


_BLOCK = 50
"""rows in one statement of SQLite's; more gain nothing, and cost more to prepare"""
_WORTH_COMPARING = 16
"""rows; fewer are not worth a statement of their own for the columns that are the same in all"""


def _same(values: Sequence[Sequence[Any]]) -> tuple[bool, ...]:
    """Which columns hold one value throughout; never all, because an array says how many rows there are."""
    same = [column.count(column[0]) == len(column) for column in values]
    return (False, *same[1:]) if all(same) else tuple(same)


def _word(value: Any) -> str | None:
    """A value as PostgreSQL reads it from text; the statement says of which type it is."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower()


def _array(values: Iterable[Any]) -> str:
    """An array as PostgreSQL reads it from text, which takes a fraction of what the driver's own list does."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else str(value).lower()


def _execute(connection: Connection, sql: str, parameters: Any, *, many: bool = False) -> Any:
    """Run it on a cursor of the driver's and return that. Raises what SQLAlchemy would."""
    cursor = connection.connection.cursor()
    errors: Any = connection.dialect.loaded_dbapi
    try:
        if many:
            cursor.executemany(sql, parameters)
        else:
            cursor.execute(sql, parameters)
    except errors.IntegrityError as error:
        raise IntegrityError(sql, None, error) from error
    except errors.Error as error:
        raise DBAPIError(sql, None, error) from error
    return cursor


def _row_maker(core: Select[Any] | UpdateBase, dialect: Any) -> Callable[[Sequence[Any]], Any]:
    if not isinstance(core, Select):
        return tuple
    columns = list(core.selected_columns)
    make: Any = cast(Any, namedtuple)("Row", [column.key for column in columns])._make
    processors: list[_Processor | None] = [column.type.result_processor(dialect, None) for column in columns]

    def processed(row: Sequence[Any]) -> Any:
        return make(
            value if process is None else process(value) for value, process in zip(row, processors, strict=True)
        )

    return processed if any(processors) else cast(Callable[[Sequence[Any]], Any], make)
