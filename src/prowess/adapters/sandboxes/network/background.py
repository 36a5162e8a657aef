"""One thread with an event loop for the proxies of all runs; it is there while any of them is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT_S = 10.0
"""seconds that a caller waits for the loop: to begin, to do one thing, to end"""
LOOKUPS = 8
"""names that are looked up at once; the resolver of the system blocks"""


class BackgroundLoop:
    """A thread of its own that runs coroutines for others."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prowess-network", daemon=True)
        self._thread.start()
        if not self._ready.wait(LIMIT_S):
            raise TimeoutError("the network loop does not begin")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, and wait for it. Raises what it raises, and ``TimeoutError``."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    def stop(self) -> None:
        """End the thread, and whatever still runs there."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(LIMIT_S)

    def _run(self) -> None:
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        # Not the loop's own pool: that is waited for at the end, and a lookup may hang for minutes.
        self.lookups = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="prowess-lookup")
        self._ready.set()
        await self._stopping.wait()
        self.lookups.shutdown(wait=False, cancel_futures=True)


class SharedLoop:
    """Lends out one loop: it begins with the first borrower and ends with the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: BackgroundLoop | None = None
        self._borrowers = 0

    def borrow(self) -> BackgroundLoop:
        """The loop; to be given back."""
        with self._lock:
            if self._loop is None:
                self._loop = BackgroundLoop()
            self._borrowers += 1
            return self._loop

    def give_back(self) -> None:
        """One borrower less."""
        with self._lock:
            self._borrowers -= 1
            if self._borrowers == 0 and self._loop is not None:
                self._loop.stop()
                self._loop = None
