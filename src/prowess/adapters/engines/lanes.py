"""Many deliveries, one call: a queue hands over few ids at a time, while the ledger is quickest with two hundred."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

_Delivery = tuple[Sequence[str], asyncio.Future[bool]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaneSettings:
    """How deliveries become calls."""

    size: int = 200
    """ids in one call, about: a delivery is not divided"""
    gather: float = 0.002
    """seconds that a call waits for more ids"""
    lanes: int = 3
    """calls that are gathered side by side; more of them only wait for each other's rows"""
    threads: int = 32
    """calls that may be under way at the same moment, those of slow jobs included"""
    patience: float = 0.5
    """seconds after which a call that is still under way no longer keeps its lane nor the queue's rows: the lease of
    the ledger guards its jobs from then on, and quick jobs do not wait behind a slow one"""


class Lanes:
    """Gathers deliveries into calls of ``run`` in threads. One event loop uses it, from ``start`` to ``close``."""

    def __init__(self, run: Callable[[Sequence[str]], None], settings: LaneSettings) -> None:
        self._run = run
        self._settings = settings
        self._waiting: asyncio.Queue[_Delivery] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="prowess-jobs")
        self._free = asyncio.Semaphore(settings.threads)
        self._calls: set[asyncio.Future[None]] = set()
        self._lanes: list[asyncio.Task[None]] = []
        self._closed = False
        self.taken = 0
        """ids that were given to a call so far"""

    def start(self) -> None:
        """Begin to take deliveries."""
        self._lanes = [asyncio.create_task(self._lane()) for _ in range(self._settings.lanes)]

    async def deliver(self, ids: Sequence[str]) -> bool:
        """Have jobs run; true when their call is done or long under way, false when it never began: hand them back."""
        if self._closed:
            return False
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((ids, done))
        return await done

    async def close(self, limit: float) -> None:
        """Hand back what waits, and wait for the calls under way, for at most ``limit`` seconds."""
        self._closed = True
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        while not self._waiting.empty():
            _settle([self._waiting.get_nowait()], begun=False)
        if self._calls:
            await asyncio.wait(self._calls, timeout=limit)
        # A thread cannot be stopped: a job beyond the limit goes on until the process ends, and its lease then expires.
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _lane(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            try:
                if self._waiting.empty() and len(batch[0][0]) < self._settings.size:
                    await asyncio.sleep(self._settings.gather)
                await self._free.acquire()
            except asyncio.CancelledError:
                _settle(batch, begun=False)
                raise
            ids = list(batch[0][0])
            while len(ids) < self._settings.size and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
                ids += batch[-1][0]
            try:
                await asyncio.wait({self._call(ids)}, timeout=self._settings.patience)
            finally:
                _settle(batch, begun=True)

    def _call(self, ids: list[str]) -> asyncio.Future[None]:
        self.taken += len(ids)
        call = asyncio.get_running_loop().run_in_executor(self._threads, self._run_safely, ids)
        self._calls.add(call)
        call.add_done_callback(self._finished)
        return call

    def _finished(self, call: asyncio.Future[None]) -> None:
        self._calls.discard(call)
        self._free.release()

    def _run_safely(self, ids: list[str]) -> None:
        try:
            self._run(ids)
        except Exception:
            # Mostly the database, gone for a while. The ledger still holds these jobs; the sweep delivers them anew.
            _log.exception("%d jobs were not run and will be delivered again", len(ids))


def _settle(batch: Sequence[_Delivery], *, begun: bool) -> None:
    for _, done in batch:
        if not done.done():
            done.set_result(begun)
