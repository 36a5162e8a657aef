"""Bringing a database to the schema of this program, and refusing one that is ahead of it (U14's first half).

Alembic is imported only when there is something to do: every other start reads one row.
"""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, inspect, text

from prowess.db.engine import Database
from prowess.errors import StorageError

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", "0013")
"""Every schema revision that this program knows, oldest first; equals the files in ``migrations/versions`` (tested)."""

HEAD = REVISIONS[-1]


def current_revision(database: Database) -> str | None:
    """The revision that the database is at; null where it holds no Prowess schema."""
    with database.read() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def check_schema(database: Database) -> bool:
    """Whether the database is at ``HEAD``.

    Raises ``StorageError('database_newer')`` where its revision is none of ``REVISIONS``.
    """
    found = current_revision(database)
    if found is not None and found not in REVISIONS:
        raise StorageError("database_newer", found=found, known=HEAD)
    return found == HEAD


def migrate(database: Database) -> str:
    """Upgrade to ``HEAD`` and return it; does nothing where it is there already.

    One process migrates, the others wait and find it done: SQLite by the file lock, PostgreSQL by an advisory lock.
    The upgrade is one transaction on both. Raises ``StorageError``.
    """
    current = check_schema(database)  # first of all: a database that is ahead is not touched
    if database.dialect == "sqlite":
        database.use_wal()
    if current:
        return HEAD
    with database.write() as connection:
        if database.dialect == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(1347571543)")
        _upgrade(connection)
    return HEAD


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("prowess.db").joinpath("migrations")))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
