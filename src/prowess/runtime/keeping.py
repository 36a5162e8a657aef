"""What operators do to a database as a whole: migrate it, and look at it without changing it."""

from __future__ import annotations

from prowess.db.engine import Database
from prowess.db.schema import HEAD, current_revision, migrate
from prowess.errors import StorageError


def migrate_database(url: str) -> str:
    """Bring the database to this program's schema; returns the revision. Raises ``StorageError``."""
    database = Database(url)
    try:
        return migrate(database)
    finally:
        database.close()


def describe_database(url: str) -> str:
    """One line: dialect, schema revision. Raises ``StorageError`` where it cannot be used as it is."""
    database = Database(url)
    try:
        revision = current_revision(database)
        if revision is None:
            raise StorageError("database_not_migrated", found="none", known=HEAD)
        if revision != HEAD:
            raise StorageError("database_newer", found=revision, known=HEAD)
        return f"{database.dialect} {revision}"
    finally:
        database.close()
