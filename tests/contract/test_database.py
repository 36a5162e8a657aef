"""Transactions: one view, all or nothing, no waiting for oneself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from tests.support.kit import LIMIT, at_once, rows

from prowess.db.engine import Database, undone_alone
from prowess.errors import StorageError

_COUNT = text("SELECT count(*) FROM skill_catalogs")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


def insert(database: Database, tenant: str) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO skill_catalogs VALUES (:tenant, 1)"), {"tenant": tenant})


def test_r1_a_block_that_raises_writes_nothing(database: Database, url: str) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        raise ZeroDivisionError
    assert rows(url, "SELECT * FROM skill_catalogs") == []
    insert(database, "t")
    assert rows(url, "SELECT * FROM skill_catalogs") == [{"tenant": "t", "revision": 1}]


def test_a_read_is_one_view_whatever_is_committed_meanwhile(database: Database) -> None:
    insert(database, "before")
    with database.read() as connection:
        assert connection.execute(_COUNT).scalar() == 1
        at_once([lambda: insert(database, "meanwhile")])
        assert connection.execute(_COUNT).scalar() == 1
    with database.read() as connection:
        assert connection.execute(_COUNT).scalar() == 2


def test_nothing_is_written_in_a_read(database: Database, url: str) -> None:
    try:
        with database.read() as connection:
            connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
    except StorageError as error:
        assert error.code == "database_unavailable"
    assert rows(url, "SELECT * FROM skill_catalogs") == []


def test_a_write_inside_a_write_is_refused_at_once(database: Database, url: str) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('outer', 1)"))
        with pytest.raises(RuntimeError, match="already open in this thread"), database.write():
            pass
    assert rows(url, "SELECT tenant FROM skill_catalogs") == [{"tenant": "outer"}]
    insert(database, "later")


def test_a_read_inside_a_write_does_not_end_it(database: Database, url: str) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('outer', 1)"))
        with database.read() as reading:
            reading.execute(_COUNT)
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('outer 2', 1)"))
    assert len(rows(url, "SELECT tenant FROM skill_catalogs")) == 2


def test_a_read_inside_a_write_in_memory_does_not_end_it() -> None:
    database = Database("sqlite://")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO notes VALUES ('undone')")
        with database.read() as reading:
            reading.execute(text("SELECT * FROM notes"))
        raise ZeroDivisionError
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO notes VALUES ('kept')")
        with database.read() as reading:
            reading.execute(text("SELECT * FROM notes"))
        connection.exec_driver_sql("INSERT INTO notes VALUES ('kept too')")
    with database.read() as connection:
        assert connection.execute(text("SELECT text FROM notes")).scalars().all() == ["kept", "kept too"]
    database.close()


def test_many_threads_write_without_loss_or_lock_error(database: Database, url: str) -> None:
    insert(database, "counter")

    def grow() -> None:
        for _ in range(10):
            with database.write() as connection:
                connection.execute(text("UPDATE skill_catalogs SET revision = revision + 1"))

    assert at_once([grow] * 16) == [None] * 16
    assert rows(url, "SELECT revision FROM skill_catalogs") == [{"revision": 161}]


def test_readers_do_not_wait_for_a_writer(database: Database) -> None:
    insert(database, "t")
    read, finish = threading.Event(), threading.Event()

    def look() -> None:
        with database.read() as connection:
            assert connection.execute(_COUNT).scalar() == 1
        read.set()

    def write() -> bool:
        with database.write() as connection:
            connection.execute(text("INSERT INTO skill_catalogs VALUES ('u', 1)"))
            threading.Thread(target=look).start()
            return finish.wait(0) or read.wait(LIMIT)

    assert write()


def test_a_broken_constraint_keeps_its_own_name(database: Database) -> None:
    insert(database, "t")
    with pytest.raises(IntegrityError):
        insert(database, "t")


def test_t8_a_statement_may_be_undone_alone(database: Database, url: str) -> None:
    insert(database, "t")
    with database.write() as connection:
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('before', 1)"))
        with pytest.raises(IntegrityError), undone_alone(connection):
            connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        connection.execute(text("INSERT INTO skill_catalogs VALUES ('after', 1)"))
    assert {row["tenant"] for row in rows(url, "SELECT tenant FROM skill_catalogs")} == {"t", "before", "after"}


def test_a_database_that_somebody_else_holds_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prowess.db.engine._PRAGMAS", ("PRAGMA busy_timeout=1",))
    holder = sqlite3.connect(tmp_path / "held.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    database = Database(f"sqlite:///{tmp_path / 'held.db'}")
    with pytest.raises(StorageError) as refused, database.write():
        pass
    assert (refused.value.code, refused.value.detail) == ("database_unavailable", {"cause": "OperationalError"})
    holder.rollback()
    holder.close()
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
    database.close()
