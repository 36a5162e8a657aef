"""Tells the queue of new jobs from synchronous code, without keeping it waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime

Notice = tuple[str, datetime]
"""job id, when it is due"""

_log = logging.getLogger(__name__)


class Waker:
    """A thread that passes notices on in batches, because every notice to a PostgreSQL server serialises its commits.

    ``put`` opens a connection where there is none and passes a batch on; ``drop`` gives the connection up. Both are
    called from the thread alone. What cannot be passed on is dropped: the sweep finds it in the ledger.
    """

    def __init__(self, put: Callable[[list[Notice]], None], drop: Callable[[], None], limit: int) -> None:
        """``limit``: notices that may wait; more are dropped, so that a database that is gone fills no memory."""
        self._put = put
        self._drop = drop
        self._limit = limit
        self._changed = threading.Condition()
        self._waiting: list[Notice] = []
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def wake(self, jobs: Sequence[Notice]) -> None:
        """Take these; returns at once."""
        with self._changed:
            if self._closed:
                return
            self._waiting += jobs[: max(0, self._limit - len(self._waiting))]
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="prowess-waker", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, limit: float) -> bool:
        """Wait until all was passed on or dropped; false after ``limit`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, limit)

    def close(self, limit: float) -> None:
        """Pass on what waits, for at most ``limit`` seconds, and end the thread."""
        self.flush(limit)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(limit)

    def _work(self) -> None:
        while batch := self._next():
            try:
                self._put(batch)
            except Exception as error:
                # Also what nobody thought of: a thread that ended here would leave every later job to the sweep.
                _log.warning("%d jobs are left to the sweep: %s", len(batch), type(error).__name__)
                self._drop()
        self._drop()

    def _next(self) -> list[Notice]:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch, self._waiting = self._waiting, []
            self._busy = bool(batch)
            return batch
