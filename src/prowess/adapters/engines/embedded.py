"""The embedded engine: one asyncio dispatcher in this process over the ledger itself (B18).

It sleeps until the next job is due. Jobs that this process commits wake it; those of other processes on the same
database it finds within a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TypeVar

from prowess.automation.ports import Work
from prowess.errors import StorageError
from prowess.kernel.clock import Clock

logger = logging.getLogger(__name__)

POLL = timedelta(seconds=1)
"""how long what another process has committed may stay unnoticed"""
BATCH = 200
BATCHES_AT_ONCE = 64
YOUNG_AT_ONCE = 2
"""batches that may have begun within ``PATIENCE``: more would only wait for each other"""
PATIENCE = 0.1
"""seconds; what takes longer is a batch of slow jobs, which wait for others, and quick ones do not wait for them"""
AHEAD = 4
"""batches that one look finds beyond those that can begin, where there is a backlog"""
LOOK_LASTS = 0.25
"""seconds that what a look found is begun from: that long, what has just become due may wait behind a backlog"""
SWEEP_REST = timedelta(milliseconds=100)
"""between two sweeps, where work follows work: at the least, and ten times as long as the last sweep took"""
SWEEP_SHARE = 10
GRACE = timedelta(seconds=10)
"""how long what runs is waited for when the engine stops"""

T = TypeVar("T")


class EmbeddedEngine:
    """One instance serves one process."""

    name = "embedded"

    def __init__(self, clock: Clock, *, poll: timedelta = POLL) -> None:
        self._clock = clock
        self._poll = poll
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None

    def wake(self, jobs: Sequence[tuple[str, datetime]]) -> None:
        """Look at the ledger now. Nothing where no dispatcher runs in this process."""
        loop, woken = self._loop, self._woken
        if loop is None or woken is None:
            return
        try:
            loop.call_soon_threadsafe(woken.set)
        except RuntimeError:  # the loop was closed a moment ago
            return

    def close(self) -> None:
        """Nothing is held between two calls of ``serve``."""

    async def serve(self, work: Work, stop: asyncio.Event) -> None:
        """Sweep, run what is due, sleep until the next is; until ``stop`` is set."""
        self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()
        dispatcher = _Dispatcher(work, self._clock, self._poll)
        try:
            await dispatcher.serve(self._woken, stop)
        finally:
            self._loop = self._woken = None


class _Dispatcher:
    def __init__(self, work: Work, clock: Clock, poll: timedelta) -> None:
        self._work = work
        self._clock = clock
        self._poll = poll
        # Looking never waits for what runs.
        self._looks = ThreadPoolExecutor(1, thread_name_prefix="prowess engine")
        self._runs = ThreadPoolExecutor(BATCHES_AT_ONCE, thread_name_prefix="prowess batch")
        self._running: set[asyncio.Task[None]] = set()
        self._taken: set[str] = set()
        """ids that are being run here"""
        self._ahead: list[str] = []
        """ids that were due at the last look, and have not begun"""
        self._looked = 0.0
        self._young = 0
        self._sweep_again: float | None = None

    async def serve(self, woken: asyncio.Event, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                woken.clear()
                next_due = await self._turn(woken)
                await self._sleep(next_due, woken, stopping)
            if self._running:
                await asyncio.wait(self._running, timeout=GRACE.total_seconds())
        finally:
            stopping.cancel()
            self._looks.shutdown(wait=False, cancel_futures=True)
            self._runs.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, woken: asyncio.Event) -> datetime | None:
        """Everything that can be begun now; returns when something is next due."""
        try:
            next_due = await self._sweep()
            free = max(0, min(BATCHES_AT_ONCE - len(self._running), YOUNG_AT_ONCE - self._young))
            later = await self._look(free) if free > 0 else []
        except StorageError as error:
            logger.warning("the ledger cannot be read: %s", error.code)
            return None
        ready, self._ahead = self._ahead[: free * BATCH], self._ahead[free * BATCH :]
        for start in range(0, len(ready), BATCH):
            self._begin(ready[start : start + BATCH], woken)
        now = self._clock.now()
        return min([*later, *([next_due] if next_due is not None and next_due > now else [])], default=None)

    async def _look(self, free: int) -> list[datetime]:
        """Find what is due, unless enough of that is known; returns when what was found beside it is due."""
        loop = asyncio.get_running_loop()
        if len(self._ahead) >= free * BATCH and loop.time() < self._looked + LOOK_LASTS:
            return []
        # Those that run, those that can begin, and the next of a backlog.
        look = len(self._taken) + (free + AHEAD) * BATCH
        self._looked = loop.time()
        due = await self._hop(self._looks, lambda: self._work.due(look))
        now = self._clock.now()
        due = [item for item in due if item[0] not in self._taken]
        self._ahead = [job_id for job_id, at in due if at <= now]
        return [at for _, at in due if at > now]

    async def _sweep(self) -> datetime | None:
        """Sweep, unless it was done a moment ago and work goes on; returns when something is next due."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        goes_on = self._running or self._ahead
        if self._sweep_again is not None and goes_on and began < self._sweep_again:
            return self._clock.now() + timedelta(seconds=self._sweep_again - began)
        next_due = await self._hop(self._looks, self._work.sweep)
        took = loop.time() - began
        rest = max(SWEEP_REST.total_seconds(), min(SWEEP_SHARE * took, self._poll.total_seconds()))
        self._sweep_again = loop.time() + rest
        return next_due

    def _begin(self, ids: list[str], woken: asyncio.Event) -> None:
        self._taken.update(ids)
        task = asyncio.create_task(self._run(ids))
        self._running.add(task)
        self._young += 1
        young = True

        def aged() -> None:
            nonlocal young
            if young:
                young = False
                self._young -= 1
                woken.set()  # there may be more

        aging = asyncio.get_running_loop().call_later(PATIENCE, aged)

        def ended(done: asyncio.Task[None]) -> None:
            self._running.discard(done)
            self._taken.difference_update(ids)
            aging.cancel()
            aged()
            woken.set()

        task.add_done_callback(ended)

    async def _run(self, ids: list[str]) -> None:
        try:
            await self._hop(self._runs, lambda: self._work.run(ids))
        except StorageError as error:
            logger.warning("%d jobs could not be run now: %s", len(ids), error.code)

    @staticmethod
    async def _hop(pool: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, call)

    async def _sleep(self, next_due: datetime | None, woken: asyncio.Event, stopping: asyncio.Task[bool]) -> None:
        seconds = self._poll.total_seconds()
        if next_due is not None:
            seconds = min(max((next_due - self._clock.now()).total_seconds(), 0.0), seconds)
        waking = asyncio.create_task(woken.wait())
        try:
            await asyncio.wait({waking, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
