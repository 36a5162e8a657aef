"""What operators do to a database as a whole: migrate it, and look at it without changing it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from prowess.automation.jobs.store import count_overdue
from prowess.db.clock import postgres_clock
from prowess.db.engine import Database
from prowess.db.schema import HEAD, REVISIONS, current_revision, migrate
from prowess.errors import StorageError
from prowess.kernel.clock import SystemClock, to_ms
from prowess.mounts.store import count_mounts

OVERDUE = timedelta(minutes=1)


def migrate_database(url: str) -> str:
    """Bring the database to this program's schema; returns the revision. Raises ``StorageError``."""
    database = Database(url)
    try:
        return migrate(database)
    finally:
        database.close()


def overdue_jobs(url: str) -> int:
    """How many jobs have been due for more than a minute: a sign that no worker runs. Raises ``StorageError``."""
    database = Database(url)
    try:
        clock = SystemClock() if database.dialect == "sqlite" else postgres_clock(database)
        with database.read() as connection:
            return count_overdue(connection, to_ms(clock.now() - OVERDUE))
    finally:
        database.close()


class MountCounts(NamedTuple):
    """How many servers are mounted, how many tools wait to be approved, how many servers could not be reached."""

    mounted: int
    waiting: int
    failing: int


def mounts_in(url: str) -> MountCounts:
    """Of all tenants. Raises ``StorageError``."""
    database = Database(url)
    try:
        with database.read() as connection:
            return MountCounts(*count_mounts(connection))
    finally:
        database.close()


def describe_database(url: str) -> str:
    """One line: dialect, schema revision. Raises ``StorageError`` where it cannot be used as it is."""
    database = Database(url)
    try:
        file = database.url.database if database.dialect == "sqlite" else None
        # To look for the schema of a file that is not there would make it.
        missing = file not in (None, "", ":memory:") and not Path(str(file)).exists()
        revision = None if missing else current_revision(database)
        if revision is None:
            raise StorageError("database_not_migrated", found="none", known=HEAD)
        if revision not in REVISIONS:
            raise StorageError("database_newer", found=revision, known=HEAD)
        if revision != HEAD:
            raise StorageError("database_not_migrated", found=revision, known=HEAD)
        return f"{database.dialect} {revision}"
    finally:
        database.close()
