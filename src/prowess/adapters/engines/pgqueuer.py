"""Jobs on several machines: PGQueuer on the PostgreSQL database of the ledger (B5, B10, B18).

Only ids cross. A row of the queue says "look at these jobs" and nothing more; delivered twice, late or never it does
no harm, because the ledger decides by compare-and-set what is done, and a sweep each second delivers what was not.
A row holds many jobs, because one for each would cost more than the ledger spends on them; ``chunks`` says which.
The library is loaded when the engine is first used.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from prowess.adapters.engines.lanes import Lanes, LaneSettings
from prowess.adapters.engines.waker import Waker
from prowess.automation.ports import Work
from prowess.errors import InvalidInput, StorageError
from prowess.kernel.clock import Clock, SystemClock, to_ms

if TYPE_CHECKING:
    from pgqueuer.models import Job
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries
    from psycopg import Connection

    from prowess.adapters.engines.pgqueuer_tables import Link

ENTRYPOINT = "prowess_job"
CHUNK = 50
"""jobs in one row"""
MOMENT = timedelta(milliseconds=50)
"""jobs that are due within it share a row, which is delivered when the last of them is due"""
LATER = timedelta(milliseconds=10)
"""added to moments that are to come: delivered a little too early, by another clock, a job would wait for the sweep"""
HORIZON = timedelta(minutes=1)
"""Jobs that are due later are left to the sweep: a queue of years would only grow old with plans that change."""
CLOSE_LIMIT = 5.0
"""seconds"""
SHORTEST_REST = 0.02
"""seconds"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PGQueuerSettings:
    """Times in seconds; measured on two cores, see ``benchmarks/jobs.py``."""

    batch: int = 8
    """rows, of up to ``CHUNK`` jobs each, that one look at the queue takes"""
    concurrent: int = 16
    """rows that one worker holds at most; without a bound one worker would take the whole backlog"""
    heartbeat: float = 5.0
    """after which the rows of a worker that died are delivered to another; not above the ledger's lease"""
    poll: float = 2.0
    """between looks at the queue where no notice comes"""
    sweep: float = 1.0
    """between two sweeps"""
    backlog: int = 2_000
    """jobs that wait in the queue, about: the queue is first in, first out, and the rest of a backlog is fetched from
    the ledger, which is fair across tenants"""
    stop: float = 30.0
    """that running jobs are waited for at the end"""
    retry: float = 1.0
    """between attempts to connect"""
    clean: float = 600.0
    """between truncations of PGQueuer's own log, which nothing reads"""
    lanes: LaneSettings = field(default_factory=LaneSettings)


class PGQueuerEngine:
    """Wakes workers through PGQueuer. ``wake`` and ``close`` may be called from any thread."""

    name = "pgqueuer"

    def __init__(
        self, url: str, *, clock: Clock | None = None, settings: PGQueuerSettings = PGQueuerSettings()
    ) -> None:
        """``url``: that of the ledger's database; ``clock``: the ledger's.

        Raises ``InvalidInput``: ``engine_needs_postgres`` for any other database, ``engine_missing`` (with ``engine``
        and ``extra``) where the library is not installed; ``StorageError('database_url')`` where ``url`` is no address.
        """
        try:
            self._url = make_url(url)
        except (ArgumentError, ValueError):
            raise StorageError("database_url") from None
        if self._url.get_backend_name() not in ("postgresql", "postgres"):
            raise InvalidInput("engine_needs_postgres", engine=self.name)
        if any(importlib.util.find_spec(library) is None for library in ("pgqueuer", "asyncpg")):
            raise InvalidInput("engine_missing", engine=self.name, extra="pgqueuer")
        self._clock = clock or SystemClock()
        self._settings = settings
        self._connection: Connection[Any] | None = None
        self._waker = Waker(self._put, self._drop, settings.backlog)

    def wake(self, jobs: Sequence[tuple[str, datetime]]) -> None:
        """Have committed jobs (id, due) delivered when due; returns at once and never raises."""
        until = self._clock.now() + HORIZON
        if soon := [job for job in jobs if job[1] <= until]:
            self._waker.wake(soon)

    def flush(self, limit: float = CLOSE_LIMIT) -> bool:
        """Wait until all that ``wake`` took is in the queue, or was dropped; false after ``limit`` seconds."""
        return self._waker.flush(limit)

    def close(self, limit: float = CLOSE_LIMIT) -> None:
        """Pass on what ``wake`` took, for at most ``limit`` seconds, and close its connection."""
        self._waker.close(limit)

    async def serve(self, work: Work, stop: asyncio.Event) -> None:
        """Run jobs until ``stop`` is set; connects anew, as long as it takes, when the database was gone.

        Rows that wait at the end are handed back; what runs is waited for. Cancelling it stops the same way.
        """
        from asyncpg import InterfaceError, PostgresError

        worker = _Worker(work, stop, self._clock, self._settings)
        try:
            while not stop.is_set():
                try:
                    await worker.work(self._url)
                except (OSError, TimeoutError, PostgresError, InterfaceError) as error:
                    _log.warning("the job queue is lost and looked for again: %s", type(error).__name__)
                    await _wait(stop, self._settings.retry)
        finally:
            await worker.close()

    def _put(self, jobs: list[tuple[str, datetime]]) -> None:
        from pgqueuer.adapters.drivers.psycopg import SyncPsycopgDriver
        from psycopg import connect

        from prowess.adapters.engines.pgqueuer_tables import PAYLOADS, sync_queries

        if self._connection is None or self._connection.closed:
            address = self._url.set(drivername="postgresql").render_as_string(hide_password=False)
            self._connection = connect(address, autocommit=True, connect_timeout=10)
        driver = SyncPsycopgDriver(self._connection)
        known = queued(driver.fetch(PAYLOADS, ENTRYPOINT, self._settings.backlog))
        room = max(0, self._settings.backlog - len(known))
        if new := [job for job in jobs if key(*job) not in known][:room]:
            sync_queries(driver).enqueue(**rows(new, self._clock.now()), on_conflict="skip")

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class _Worker:
    """What ``serve`` keeps from one connection to the next: jobs go on running while the queue is looked for."""

    def __init__(self, work: Work, stop: asyncio.Event, clock: Clock, settings: PGQueuerSettings) -> None:
        self._work = work
        self._stop = stop
        self._clock = clock
        self._settings = settings
        self._lanes = Lanes(work.run, settings.lanes)
        self._lanes.start()
        self._sweeper = ThreadPoolExecutor(1, thread_name_prefix="prowess-sweep")

    async def close(self) -> None:
        await self._lanes.close(self._settings.stop)
        self._sweeper.shutdown(wait=False, cancel_futures=True)

    async def work(self, url: URL) -> None:
        """Until asked to stop or until the connection is lost."""
        from prowess.adapters.engines.pgqueuer_tables import Link, install, queries

        await install(url)
        link = Link(url)
        try:
            await link.open()
            await self._take(link, queries(link))
        finally:
            await link.close()

    async def _take(self, link: Link, tables: Queries) -> None:
        manager = self._manager(tables)
        settings = self._settings
        taking = asyncio.create_task(
            manager.run(
                dequeue_timeout=timedelta(seconds=settings.poll),
                batch_size=settings.batch,
                max_concurrent_tasks=settings.concurrent,
                heartbeat_timeout=timedelta(seconds=settings.heartbeat),
                log_aggregation_interval=timedelta(0),
            )
        )
        others = [asyncio.create_task(one) for one in (self._sweep(tables), self._stop.wait(), link.lost.wait())]
        try:
            await asyncio.wait([taking, *others], return_when=asyncio.FIRST_COMPLETED)
        finally:
            manager.shutdown.set()
            if self._stop.is_set():
                await self._lanes.close(settings.stop)
            # Deliveries end soon after their calls began, so this waits for PGQueuer's own last statements.
            await asyncio.wait({taking}, timeout=CLOSE_LIMIT)
            for task in (taking, *others):
                task.cancel()
            outcomes = await asyncio.gather(taking, *others, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _manager(self, tables: Queries) -> QueueManager:
        from pgqueuer.errors import RetryRequested
        from pgqueuer.qm import QueueManager

        from prowess.adapters.engines.pgqueuer_tables import SETTINGS

        manager = QueueManager(tables, channel=SETTINGS.channel)

        async def look_at(job: Job) -> None:
            ids = [known.rpartition("@")[0] for known in unpack(job.payload)]
            if not await self._lanes.deliver(ids):
                raise RetryRequested(reason="this worker stops")

        manager.entrypoint(ENTRYPOINT)(look_at)
        return manager

    async def _sweep(self, tables: Queries) -> None:
        """Deliver what the queue does not know of: lost notices, expired leases, triggers, the rest of a backlog."""
        from prowess.adapters.engines.pgqueuer_tables import PAYLOADS

        loop = asyncio.get_running_loop()
        cleaned = loop.time()
        while True:
            next_due, jobs = await loop.run_in_executor(self._sweeper, self._ask)
            if jobs:
                known = queued(await tables.driver.fetch(PAYLOADS, ENTRYPOINT, self._settings.backlog))
                if new := [job for job in jobs if key(*job) not in known]:
                    await tables.enqueue(**rows(new, self._clock.now()), on_conflict="skip")
            if loop.time() - cleaned > self._settings.clean:
                cleaned = loop.time()
                await tables.clear_queue_log()
            await self._rest(next_due, len(jobs))

    def _ask(self) -> tuple[datetime | None, list[tuple[str, datetime]]]:
        try:
            return self._work.sweep(), self._work.due(self._settings.backlog)
        except Exception:
            # A ledger that cannot be asked now is asked again in a second; the worker must not end over it.
            _log.exception("the sweep failed")
            return None, []

    async def _rest(self, next_due: datetime | None, delivered: int) -> None:
        """Until the next sweep: a second, sooner where something is due, or the backlog is half done."""
        loop = asyncio.get_running_loop()
        # Workers that started together drift apart.
        seconds = self._settings.sweep * random.uniform(0.8, 1.0)
        if next_due is not None:
            seconds = min(seconds, max(SHORTEST_REST, (next_due - self._clock.now()).total_seconds()))
        until = loop.time() + seconds
        enough = self._lanes.taken + self._settings.backlog // 2
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, SHORTEST_REST) if delivered >= self._settings.backlog else left)
            if self._lanes.taken >= enough:
                return


def chunks(jobs: Sequence[tuple[str, datetime]], now: datetime) -> list[list[tuple[str, datetime]]]:
    """Jobs that one row delivers: what is due already, and what is due at about the same moment, up to ``CHUNK``.

    The order is that of ``jobs`` for those that are due, so that what was fair stays so.
    """
    moments: dict[int, list[tuple[str, datetime]]] = {}
    for job in jobs:
        moments.setdefault(max(0, -((now - job[1]) // MOMENT)), []).append(job)
    return [found[start : start + CHUNK] for found in moments.values() for start in range(0, len(found), CHUNK)]


def key(job_id: str, due: datetime) -> str:
    """How the queue names a job. The instant is part of it: a job that moved is delivered anew."""
    return f"{job_id}@{to_ms(due)}"


def rows(jobs: Sequence[tuple[str, datetime]], now: datetime) -> dict[str, Any]:
    """What PGQueuer's ``enqueue`` takes for these jobs. Two workers that sweep at the same moment make equal keys."""
    parts = chunks(jobs, now)
    latest = [max(due for _, due in part) for part in parts]
    return {
        "entrypoint": [ENTRYPOINT] * len(parts),
        "payload": ["\n".join(key(*job) for job in part).encode() for part in parts],
        "priority": [0] * len(parts),
        "execute_after": [due - now + LATER if due > now else timedelta(0) for due in latest],
        "dedupe_key": [key(*part[0]) for part in parts],
    }


def unpack(payload: object) -> list[str]:
    """The jobs of a row, as ``key`` names them."""
    return bytes(payload).decode(errors="replace").split("\n") if isinstance(payload, bytes | memoryview) else []


def queued(found: Sequence[Mapping[str, object]]) -> set[str]:
    """The jobs that are in the queue, waiting or taken, as ``key`` names them."""
    return {known for row in found for known in unpack(row["payload"])}


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
