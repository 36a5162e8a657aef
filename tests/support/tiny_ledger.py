"""The least that an engine can wake workers for: one table on PostgreSQL, claimed by compare-and-set.

It keeps what every test of an engine asks about: who ran what, how often, and in calls of how many.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

import psycopg
from tests.support.kit import LIMIT

LEASE = 2.0
"""seconds"""

_TABLES = """
CREATE TABLE tiny_jobs (
    id text PRIMARY KEY, tenant text NOT NULL DEFAULT 't', due timestamptz NOT NULL, state text NOT NULL DEFAULT 'waiting',
    epoch int NOT NULL DEFAULT 0, lease timestamptz
);
CREATE TABLE tiny_effects (job text NOT NULL, worker text NOT NULL, epoch int NOT NULL, at timestamptz NOT NULL);
"""
_CLAIM = """
UPDATE tiny_jobs SET state = 'running', epoch = epoch + 1, lease = clock_timestamp() + make_interval(secs => %s)
WHERE id IN (SELECT id FROM tiny_jobs WHERE id = ANY(%s) ORDER BY id FOR UPDATE)
  AND state = 'waiting' AND due <= clock_timestamp()
RETURNING id, epoch
"""
_FINISH = """
WITH held AS (SELECT id FROM tiny_jobs WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE), finished AS (
    UPDATE tiny_jobs SET state = 'done', lease = NULL
    FROM unnest(%(ids)s, %(epochs)s) AS mine(job, held)
    WHERE id = mine.job AND epoch = mine.held AND state = 'running' RETURNING id, epoch
)
INSERT INTO tiny_effects SELECT id, %(worker)s, epoch, clock_timestamp() FROM finished RETURNING job
"""
_EXPIRE = "UPDATE tiny_jobs SET state = 'waiting' WHERE state = 'running' AND lease < clock_timestamp()"
_NEXT = "SELECT min(due) FROM tiny_jobs WHERE state = 'waiting' AND due > clock_timestamp()"
_DUE = """
SELECT id, due FROM (
    SELECT id, due, row_number() OVER (PARTITION BY tenant ORDER BY due, id) AS place FROM tiny_jobs
    WHERE state = 'waiting' AND due <= clock_timestamp() + interval '1 minute'
) AS waiting ORDER BY place, due, id LIMIT %s
"""


class TinyLedger:
    """Keeps ``prowess.automation.ports.Work``; any number of them, in any number of processes, share one database."""

    def __init__(self, url: str, worker: str = "w", held: Callable[[list[str]], None] | None = None) -> None:
        """``held`` is called between the claim and the effect with the ids that were claimed."""
        self.url = url.replace("+psycopg", "")
        self.worker = worker
        self.calls: list[list[str]] = []
        self.sweeps = 0
        self.swept = threading.Condition()
        self._held = held

    def create(self) -> TinyLedger:
        self.ask(_TABLES)
        return self

    def add(self, count: int, prefix: str = "j", seconds: float = 0, tenant: str = "t") -> list[tuple[str, datetime]]:
        """Jobs that are due in so many seconds; returns them as ``wake`` takes them."""
        return [
            (job, due)
            for job, due in self.ask(
                "INSERT INTO tiny_jobs (id, tenant, due) SELECT %s || n, %s, clock_timestamp() + make_interval(secs => %s)"
                " FROM generate_series(1, %s) AS n RETURNING id, due",
                (prefix, tenant, seconds, count),
            )
        ]

    def run(self, ids: Sequence[str]) -> None:
        self.calls.append(list(ids))
        claimed = self.ask(_CLAIM, (LEASE, list(ids)))
        if not claimed:
            return
        if self._held is not None:
            self._held([job for job, _ in claimed])
        names, epochs = zip(*claimed, strict=True)
        self.ask(_FINISH, {"ids": list(names), "epochs": list(epochs), "worker": self.worker}, tell=True)

    def sweep(self) -> datetime | None:
        self.ask(_EXPIRE)
        with self.swept:
            self.sweeps += 1
            self.swept.notify_all()
        ((due,),) = self.ask(_NEXT)
        return due

    def due(self, limit: int) -> list[tuple[str, datetime]]:
        return self.ask(_DUE, (limit,))

    def effects(self) -> list[tuple[str, str, int]]:
        """(job, worker, epoch), in order."""
        return self.ask("SELECT job, worker, epoch FROM tiny_effects ORDER BY at")

    def wait_for(self, effects: int) -> None:
        """Until there are so many; fails after the limit."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("LISTEN tiny_effects")
            while self._count() < effects:
                heard = list(connection.notifies(timeout=LIMIT, stop_after=1))
                assert heard, f"{self._count()} of {effects}"

    def wait_for_sweeps(self, more: int = 1) -> None:
        """Until so many further sweeps of this ledger's own worker were done."""
        with self.swept:
            wanted = self.sweeps + more
            assert self.swept.wait_for(lambda: self.sweeps >= wanted, LIMIT)

    def _count(self) -> int:
        count: int = self.ask("SELECT count(*) FROM tiny_effects")[0][0]
        return count

    def ask(self, statement: str, parameters: Any = None, *, tell: bool = False) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement, parameters)
            found = cursor.fetchall() if cursor.description else []
            if tell:
                connection.execute("NOTIFY tiny_effects")
        return found


NewDatabase = Callable[[], AbstractContextManager[str]]
