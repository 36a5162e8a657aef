"""PGQueuer alone: a row for each job, a handler that does nothing, and the settings that serve it best."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from pgqueuer import AsyncpgPoolDriver, Job, QueueManager
from sqlalchemy.engine import make_url

from prowess.adapters.engines.pgqueuer import PGQueuerSettings
from prowess.adapters.engines.pgqueuer_tables import POOL_SIZE, SETTINGS, dsn, install, queries
from queues.meter import Meter

BATCH = 50
"""our engine takes fewer rows at a time, because each holds many jobs"""
TABLE = SETTINGS.qualified.queue_table


def prepare(url: str) -> None:
    asyncio.run(install(make_url(url)))


def add(url: str, name: str, count: int, due: datetime) -> None:
    """Payloads of the length of a job's id."""

    async def enqueue() -> None:
        import asyncpg

        async with asyncpg.create_pool(dsn(make_url(url)), min_size=1, max_size=1) as pool:
            for start in range(0, count, 1_000):
                ids = [f"{name}-{number}".encode() for number in range(start, min(start + 1_000, count))]
                wait = max(due - datetime.now(UTC), timedelta(0))
                await queries(AsyncpgPoolDriver(pool)).enqueue(
                    ["noop"] * len(ids), ids, [0] * len(ids), [wait] * len(ids)
                )

    asyncio.run(enqueue())


def left(url: str, _name: str) -> int:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    assert row is not None
    return int(row[0])


class Server:
    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter

    def begin(self, name: str) -> None:
        """Nothing: it serves all the time."""

    def report(self) -> dict[str, Any]:
        return self._meter.report()

    def serve(self, stop: threading.Event, ready: threading.Event) -> None:
        asyncio.run(self._serve(stop, ready))

    async def _serve(self, stop: threading.Event, ready: threading.Event) -> None:
        import asyncpg

        settings = PGQueuerSettings()
        async with asyncpg.create_pool(dsn(make_url(self._url)), min_size=1, max_size=POOL_SIZE) as pool:
            manager = QueueManager(queries(AsyncpgPoolDriver(pool)), channel=SETTINGS.channel)

            @manager.entrypoint("noop")
            async def noop(_job: Job) -> None:
                self._meter.started()
                self._meter.ended()

            running = asyncio.create_task(
                manager.run(
                    dequeue_timeout=timedelta(seconds=settings.poll),
                    batch_size=BATCH,
                    max_concurrent_tasks=2 * BATCH,
                    heartbeat_timeout=timedelta(seconds=settings.heartbeat),
                    log_aggregation_interval=timedelta(0),
                )
            )
            ready.set()
            await asyncio.to_thread(stop.wait)
            manager.shutdown.set()
            await running
