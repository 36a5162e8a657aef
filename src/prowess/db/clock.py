"""The database's clock: several machines on one database must agree on what has expired (ruling 12.29)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from prowess.db.engine import Database

REFRESH = timedelta(seconds=30)
"""How long a reading is carried forward by this machine's monotonic clock."""


class DatabaseClock:
    """Asks the database now and then, and counts on between; this machine's own idea of the time plays no part."""

    def __init__(self, ask: Callable[[], datetime], ticks: Callable[[], float] = time.monotonic) -> None:
        """``ask`` returns the database's instant; ``ticks`` counts seconds from anywhere."""
        self._ask = ask
        self._ticks = ticks
        self._lock = threading.Lock()
        self._reading = self._read()

    def now(self) -> datetime:
        """The current instant, aware, in UTC. Raises ``StorageError`` where the database cannot be asked."""
        instant, at = self._reading
        elapsed = timedelta(seconds=self._ticks() - at)
        if elapsed > REFRESH and self._lock.acquire(blocking=False):
            try:
                self._reading = instant, at = self._read()
                elapsed = timedelta(seconds=self._ticks() - at)
            finally:
                self._lock.release()
        return instant + elapsed

    def _read(self) -> tuple[datetime, float]:
        before = self._ticks()
        instant = self._ask().astimezone(UTC)
        return instant, (before + self._ticks()) / 2


def postgres_clock(database: Database) -> DatabaseClock:
    """The clock of a PostgreSQL server. Raises ``StorageError``."""

    def ask() -> datetime:
        with database.read() as connection:
            instant: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
            return instant

    return DatabaseClock(ask)
