"""What a worker process tells of a round: when its first job began, when its last one ended, and when each began."""

from __future__ import annotations

import threading
import time
from typing import Any


class Meter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[float] = []
        self._last = 0.0

    def started(self, jobs: int = 1) -> None:
        now = time.time()
        with self._lock:
            self._starts += [now] * jobs

    def ended(self) -> None:
        now = time.time()
        with self._lock:
            self._last = max(self._last, now)

    def report(self) -> dict[str, Any]:
        """Of the round so far; the next one begins empty."""
        with self._lock:
            told = {"starts": self._starts, "last": self._last}
            self._starts, self._last = [], 0.0
        return told
