"""An engine that serves a runtime, in a thread of its own, and tells after each call what became of its jobs.

As a program it serves until its input ends: ``python -m tests.support.serving URL ENGINE``.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from tests.support.kit import LIMIT

import prowess
from prowess import Prowess
from prowess.automation.ports import JobEngine, Work


class Told:
    """Work that tells when a call has returned: what it did is committed then."""

    def __init__(self, work: Work, tell: Callable[[int], None]) -> None:
        self._work = work
        self._tell = tell

    def run(self, ids: Sequence[str]) -> None:
        self._work.run(ids)
        self._tell(len(ids))

    def sweep(self) -> datetime | None:
        return self._work.sweep()

    def due(self, limit: int) -> list[tuple[str, datetime]]:
        return self._work.due(limit)


class News:
    """Something to wait for, instead of sleeping."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def tell(self, _jobs: int = 0) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until it is so; fails after the limit."""
        with self._changed:
            assert self._changed.wait_for(reached, LIMIT)


@contextmanager
def serving(engine: JobEngine, work: Work) -> Iterator[None]:
    """The engine at work; stopped and awaited at the end."""
    begun, handles = threading.Event(), list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()
    failed: list[BaseException] = []

    async def serve() -> None:
        stop = asyncio.Event()
        handles.append((asyncio.get_running_loop(), stop))
        begun.set()
        await engine.serve(work, stop)

    def work_on() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
            begun.set()

    thread = threading.Thread(target=work_on)
    thread.start()
    assert begun.wait(LIMIT)
    try:
        yield
    finally:
        for loop, stop in handles:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert failed == []


@contextmanager
def served(app: Prowess, news: News) -> Iterator[None]:
    """A runtime whose own engine works; ``news`` after each call."""
    with serving(app._parts.job_engine, Told(app._parts.worker, news.tell)):
        yield


def main() -> None:
    url, engine = sys.argv[1:]
    with prowess.open(url, engine=engine) as app:
        # In one piece: several threads tell.
        told = Told(app._parts.worker, lambda jobs: print(f"{jobs}\n", end="", flush=True))
        with serving(app._parts.job_engine, told):
            print("ready", flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
