"""Statements for many rows say the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, Table, Text, select
from sqlalchemy.exc import IntegrityError

from prowess.db.engine import Database
from prowess.db.statements import Many, Statement, among
from prowess.kernel.redaction import Redactor

THINGS = Table(
    "things",
    MetaData(),
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, unique=True, nullable=False),
    Column("at", BigInteger),
    Column("small", Integer),
    Column("flag", Boolean),
)
COLUMNS = ("id", "at", "small", "flag")
INSERT = Many.insert(THINGS, COLUMNS)
INSERT_NEW = Many.insert(THINGS, COLUMNS, ignore_known=True)
AMONG = select(THINGS.c.id).where(among(THINGS.c.id, "ids")).order_by(THINGS.c.seq)

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
ROWS = st.lists(
    st.tuples(
        TEXTS,
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.booleans(),
    ),
    unique_by=lambda row: row[0],
    max_size=30,
)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url)
    with database.write() as connection:
        THINGS.create(connection)
    yield database
    database.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(rows=ROWS, others=st.lists(TEXTS, max_size=5))
def test_many_rows_are_stored_in_order_and_found_by_their_ids(
    database: Database, rows: list[tuple[str, int | None, int | None, bool | None]], others: list[str]
) -> None:
    with database.write() as connection:
        connection.execute(THINGS.delete())
        assert INSERT.run(connection, rows) == len(rows)
        stored = connection.execute(select(*(THINGS.c[name] for name in COLUMNS)).order_by(THINGS.c.seq)).all()
        assert [tuple(row) for row in stored] == rows
        wanted = [row[0] for row in rows[::2]] + others
        found = connection.execute(AMONG, {"ids": wanted}).scalars().all()
        assert found == [row[0] for row in rows if row[0] in wanted]


def test_b8_rows_that_are_known_are_left_alone_and_not_counted(database: Database) -> None:
    first = [("a", 1, 1, True), ("b", 2, 2, False)]
    with database.write() as connection:
        assert INSERT_NEW.run(connection, first) == 2
        assert INSERT_NEW.run(connection, [("b", 9, 9, None), ("c", 3, 3, None)]) == 1
        assert INSERT_NEW.run(connection, []) == 0
        stored = connection.execute(select(THINGS.c.id, THINGS.c.at).order_by(THINGS.c.seq)).all()
    assert [tuple(row) for row in stored] == [("a", 1), ("b", 2), ("c", 3)]
    with pytest.raises(IntegrityError), database.write() as connection:
        INSERT.run(connection, first)


def test_b8_many_rows_keep_their_order_and_only_new_ones_are_counted(database: Database) -> None:
    rows = [(f"id {number}", number, None, None) for number in range(237)]
    with database.write() as connection:
        assert INSERT_NEW.run(connection, rows[20:140]) == 120
        assert INSERT_NEW.run(connection, rows) == 117
        stored = connection.execute(select(THINGS.c.id).order_by(THINGS.c.seq)).scalars().all()
    assert stored == [row[0] for row in [*rows[20:140], *rows[:20], *rows[140:]]]


def test_u4_secrets_are_redacted_in_many_rows(database: Database) -> None:
    secret = 'quo"ted \\ 秘密 value'
    with database.write(Redactor([secret])) as connection:
        INSERT.run(connection, [("a", None, None, None), (f"is {secret}", None, None, None)])
    with database.read() as connection:
        stored = connection.execute(select(THINGS.c.id).order_by(THINGS.c.seq)).scalars().all()
    assert stored[0] == "a"
    assert secret not in stored[1]
    assert stored[1].startswith("is ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    ids=st.lists(TEXTS, unique=True, min_size=16, max_size=24),
    at=st.none() | st.integers(-(2**63), 2**63 - 1),
    small=st.lists(st.none() | st.integers(-3, 3), min_size=24, max_size=24),
    flag=st.none() | st.booleans(),
)
def test_columns_that_are_the_same_in_every_row_are_stored_in_every_row(
    database: Database, ids: list[str], at: int | None, small: list[int | None], flag: bool | None
) -> None:
    many = [(name, at, number, flag) for name, number in zip(ids, small, strict=False)]
    with database.write() as connection:
        connection.execute(THINGS.delete())
        assert INSERT.run(connection, many) == len(many)
        stored = connection.execute(select(*(THINGS.c[name] for name in COLUMNS)).order_by(THINGS.c.seq)).all()
    assert [tuple(row) for row in stored] == many


def test_rows_that_are_all_the_same_are_as_many_as_they_were(database: Database) -> None:
    kinds = Many.insert(THINGS, ("id", "at", "small", "flag"), ignore_known=True)
    with database.write() as connection:
        assert kinds.run(connection, [("a", 1, 2, True)] * 20) == 1
        assert connection.execute(select(THINGS.c.id, THINGS.c.at)).all() == [("a", 1)]


def test_ids_are_looked_up_and_the_table_is_not_read_through(database: Database) -> None:
    found = Statement(AMONG)
    with database.write() as connection:
        INSERT.run(connection, [("a", 1, 1, True), ('b"\\', 2, 2, True)])
        assert found.all(connection, {"ids": ['b"\\', "c"]}) == [('b"\\',)]
        if database.dialect == "sqlite":
            # Nothing around the condition keeps SQLite from the index.
            text = str(select(THINGS.c.id).where(among(THINGS.c.id, "ids")).compile(dialect=connection.dialect))
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("[]",)).all()
            assert "SEARCH things" in str(plan[0])
