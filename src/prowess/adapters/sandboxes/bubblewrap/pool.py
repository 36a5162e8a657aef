"""Sandboxes that wait for their one job, by profile, so that a run need not wait for a start."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from prowess.adapters.sandboxes.bubblewrap.launch import Started
from prowess.adapters.sandboxes.bubblewrap.programs import ProgramMissing
from prowess.adapters.sandboxes.bubblewrap.session import StartFailed
from prowess.sandbox.model import SandboxProfile

PER_PROFILE = 2
TOTAL = 4
IDLE_S = 60.0
PAUSE_S = 0.012
"""before more are started: the run that took one has the processor first"""
_log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    started: Started
    since: float
    places: tuple[tuple[int, int] | None, ...]
    """what the paths of the profile were then: a mount stays with a folder that was replaced"""


class Pool:
    """Thread-safe and bounded. One thread starts them: the kernel ends a sandbox with the thread that started it."""

    def __init__(
        self,
        start: Callable[[SandboxProfile], Started],
        *,
        per_profile: int = PER_PROFILE,
        total: int = TOTAL,
        idle: float = IDLE_S,
    ) -> None:
        """``start`` blocks until the sandbox is ready. ``idle`` in seconds."""
        self._start = start
        self._per_profile = per_profile
        self._total = total
        self._idle = idle
        self._kept: OrderedDict[SandboxProfile, deque[_Kept]] = OrderedDict()
        self._wanted: set[SandboxProfile] = set()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def take(self, profile: SandboxProfile) -> Started | None:
        """One that is ready, if there is; more of the kind are started meanwhile. Whoever takes it closes it."""
        dropped: list[Started] = []
        found: Started | None = None
        with self._change:
            if self._closed:
                return None
            kept = self._kept.get(profile)
            places = _places(profile)
            while kept and found is None:
                candidate = kept.popleft()
                if candidate.started.process.poll() is None and candidate.places == places:
                    found = candidate.started
                else:
                    dropped.append(candidate.started)
            if kept is not None:
                self._kept.move_to_end(profile)
            self._wanted.add(profile)
            self._awake()
        for stale in dropped:
            stale.close()
        return found

    def size(self) -> int:
        """How many are ready."""
        with self._change:
            return sum(len(kept) for kept in self._kept.values())

    def wait_filled(self, profile: SandboxProfile, limit: float) -> bool:
        """Until as many of the kind are ready as are kept; false after ``limit`` seconds."""
        with self._change:
            return self._change.wait_for(lambda: len(self._kept.get(profile, ())) >= self._per_profile, limit)

    def close(self) -> None:
        """End all that waits, and start none again."""
        with self._change:
            self._closed = True
            rest = [kept.started for line in self._kept.values() for kept in line]
            self._kept.clear()
            self._change.notify_all()
        for started in rest:
            started.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10)

    def _awake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._fill, daemon=True, name="sandbox-pool")
            self._thread.start()
        self._change.notify_all()

    def _fill(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or self._wanted, self._idle / 2)
                if self._closed:
                    return
                profile = self._wanted.pop() if self._wanted else None
            self._drop_idle()
            if profile is not None:
                self._let_run()
                self._fill_one(profile)

    def _let_run(self) -> None:
        with self._change:
            self._change.wait_for(lambda: self._closed, PAUSE_S)

    def _fill_one(self, profile: SandboxProfile) -> None:
        while True:
            with self._change:
                if self._closed or len(self._kept.get(profile, ())) >= self._per_profile:
                    return
            places = _places(profile)
            try:
                started = self._start(profile)
            except (OSError, ProgramMissing, StartFailed, subprocess.SubprocessError) as error:
                _log.warning("no sandbox was kept ready: %s", error)  # a run starts its own, and tells
                return
            if not self._keep(profile, _Kept(started, time.monotonic(), places)):
                started.close()
                return

    def _keep(self, profile: SandboxProfile, fresh: _Kept) -> bool:
        dropped: list[_Kept] = []
        with self._change:
            if self._closed:
                return False
            self._kept.setdefault(profile, deque()).append(fresh)
            self._kept.move_to_end(profile)
            while sum(map(len, self._kept.values())) > self._total:
                oldest = next(line for line in self._kept.values() if line)
                dropped.append(oldest.popleft())
            self._forget_empty()
            self._change.notify_all()
        for kept in dropped:
            kept.started.close()
        return True

    def _drop_idle(self) -> None:
        limit = time.monotonic() - self._idle
        dropped: list[_Kept] = []
        with self._change:
            for line in self._kept.values():
                while line and line[0].since < limit:
                    dropped.append(line.popleft())
            self._forget_empty()
        for kept in dropped:
            kept.started.close()

    def _forget_empty(self) -> None:
        for profile in [profile for profile, line in self._kept.items() if not line]:
            del self._kept[profile]


def _places(profile: SandboxProfile) -> tuple[tuple[int, int] | None, ...]:
    return tuple(map(_place, (*profile.read, *profile.write, *profile.delete)))


def _place(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
