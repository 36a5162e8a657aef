"""Connections and transactions on SQLite and PostgreSQL.

SQLite (WAL, ``synchronous=FULL``): a writer first takes a file lock beside the database, then ``BEGIN IMMEDIATE``, so
that processes queue in the kernel instead of polling SQLite's own lock; measured in ``docs/decisions/0002``. Whatever a
writer needs to know it has read before, and checks by revision inside.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.pool import QueuePool, StaticPool

from prowess.db.filelock import FileLock
from prowess.errors import StorageError
from prowess.kernel.redaction import Redactor

BUSY_TIMEOUT_MS = 60_000
CACHE_KIB = 8_192
"""for each connection to an SQLite file"""
CHECKPOINT_PAGES = 4_000
"""in the write-ahead log: a page that many transactions changed is copied into the file once"""
REDACTOR = "prowess.redactor"
"""Under this name ``connection.info`` holds the redactor of the transaction, where it has one."""
_GONE = ("OperationalError", "InterfaceError")
"""the drivers' words for a database that cannot be asked"""
_PRAGMAS = (
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}",
    f"PRAGMA cache_size=-{CACHE_KIB}",
    f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}",
)


class Database:
    """One database. Safe to share between threads; each ``read`` or ``write`` borrows a connection of its own."""

    def __init__(self, url: str) -> None:
        """``sqlite:///file.db``, ``sqlite://`` (in memory) or ``postgresql://…``.

        Raises ``StorageError``: ``database_url`` for any other address, ``postgres_missing`` without the driver. That
        it cannot be opened (``database_unavailable``) shows at the first use.
        """
        self.url = _parse_url(url)
        self.dialect: Literal["sqlite", "postgresql"] = (
            "sqlite" if self.url.get_backend_name() == "sqlite" else "postgresql"
        )
        self._in_memory = self.dialect == "sqlite" and self.url.database in (None, "", ":memory:")
        self._serial = threading.RLock() if self._in_memory else None
        self._lock = self._file_lock()
        self._local = threading.local()
        self._closed = False
        self.engine = self._make_engine()
        event.listen(self.engine, "checkin", self._close_late)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view; nothing may be written."""
        if self._in_memory and getattr(self._local, "writing", False):
            # One connection is all there is in memory: to end this read would end the write around it.
            yield self._local.connection
            return
        with self._serialised(), self._translated(), self.engine.connect() as connection:
            connection.begin()
            if self.dialect == "postgresql":
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            elif not self._in_memory:
                _begin(connection, "BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def write(self, redactor: Redactor | None = None) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises.

        ``redactor`` goes over every string parameter of every statement inside; bytes are left alone.

        Raises ``RuntimeError`` when a thread opens one inside another: it would wait for itself.
        """
        if getattr(self._local, "writing", False):
            raise RuntimeError("a write transaction is already open in this thread")
        self._local.writing = True
        try:
            with self._serialised(), self._lock, self._translated(), self.engine.connect() as connection:
                connection.begin()
                if self.dialect == "sqlite":
                    _begin(connection, "BEGIN IMMEDIATE")
                self._local.connection = connection
                with _redacting(connection, redactor) if redactor else nullcontext():
                    try:
                        yield connection
                    except BaseException:
                        connection.rollback()
                        raise
                    connection.commit()
        finally:
            self._local.writing = False

    def use_wal(self) -> None:
        """Switch an SQLite file to write-ahead logging, which it remembers; alone, because the switch needs that."""
        if self._in_memory or self.dialect != "sqlite":
            return
        with self._lock, self._translated(), self.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            connection.rollback()

    def close(self) -> None:
        """Close every connection, those that a thread still holds when it gives them back."""
        self._closed = True
        self.engine.dispose()

    def _close_late(self, dbapi_connection: Any, _record: Any) -> None:
        if self._closed and dbapi_connection is not None:
            dbapi_connection.close()

    def _serialised(self) -> AbstractContextManager[Any]:
        return self._serial if self._serial is not None else nullcontext()

    def _file_lock(self) -> AbstractContextManager[Any]:
        if self.dialect != "sqlite" or self._in_memory:
            return nullcontext()
        return FileLock(f"{self.url.database}.lock")

    def _make_engine(self) -> Engine:
        if self.dialect == "postgresql":
            try:
                return create_engine(self.url, pool_size=16, max_overflow=64, pool_timeout=60, pool_pre_ping=True)
            except ModuleNotFoundError:
                raise StorageError("postgres_missing") from None
        options: dict[str, Any] = {"connect_args": {"check_same_thread": False, "isolation_level": None}}
        if self._in_memory:
            options["poolclass"] = StaticPool
        else:
            # Both transactions end explicitly, so the pool need not roll back once more.
            options |= {
                "poolclass": QueuePool,
                "pool_size": 16,
                "max_overflow": 128,
                "pool_timeout": 60,
                # The connection that wrote last is the one whose cache still holds.
                "pool_use_lifo": True,
                "pool_reset_on_return": None,
            }
        engine = create_engine(self.url, **options)
        event.listen(engine, "connect", _set_pragmas)
        return engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise StorageError("database_unavailable", cause=type(error.orig).__name__) from error


def is_out_of_reach(error: BaseException) -> bool:
    """Whether it says that the database itself is gone, rather than that it refused a statement."""
    cause = error.__cause__
    orig = cause.orig if isinstance(cause, DBAPIError) else cause
    return isinstance(error, StorageError) and any(kind.__name__ in _GONE for kind in type(orig).__mro__)


@contextmanager
def undone_alone(connection: Connection) -> Iterator[None]:
    """A statement inside whose failure does not spoil the transaction around it.

    SQLite undoes a failed statement by itself; PostgreSQL needs a savepoint.
    """
    if connection.dialect.name == "sqlite":
        yield
        return
    with connection.begin_nested():
        yield


def redacted(redactor: Redactor, parameters: Any) -> Any:
    """Parameters of one statement or of many, in sequences or mappings, with every string redacted."""
    if isinstance(parameters, str):
        return redactor.redact(parameters)
    if isinstance(parameters, Mapping):
        return {name: redacted(redactor, value) for name, value in parameters.items()}
    if isinstance(parameters, tuple):
        return tuple(redacted(redactor, value) for value in parameters)
    if isinstance(parameters, list):
        return [redacted(redactor, value) for value in parameters]
    return parameters


@contextmanager
def _redacting(connection: Connection, redactor: Redactor) -> Iterator[None]:
    info = connection.info  # kept, because a connection that broke meanwhile would not give it again

    def redact_parameters(
        _connection: Connection, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        return statement, redacted(redactor, parameters)

    # On this object, which ends with the transaction: a listener on the engine would cost every transaction 20 µs.
    event.listen(connection, "before_cursor_execute", redact_parameters, retval=True)
    info[REDACTOR] = redactor  # for those who use the driver's own cursor
    try:
        yield
    finally:
        info.pop(REDACTOR, None)  # the pool lends the driver's connection to others


def _begin(connection: Connection, statement: str) -> None:
    """On the driver's own connection: a plain BEGIN needs nothing of what SQLAlchemy prepares for a statement."""
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute(statement)
    except sqlite3.Error as error:
        raise StorageError("database_unavailable", cause=type(error).__name__) from error


def _parse_url(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise StorageError("database_url") from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StorageError("database_url")
    return url


def _set_pragmas(dbapi_connection: Any, _record: Any) -> None:
    cursor = dbapi_connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()
