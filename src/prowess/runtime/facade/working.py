"""Running jobs, triggers and approved calls in this process (B10, B18)."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta

from prowess.kernel.clock import ManualClock
from prowess.runtime.facade.automations import Automations
from prowess.runtime.facade.jobs import Jobs

_LOOK = timedelta(seconds=1)
"""how often work of other processes is looked for"""


class Working(Jobs, Automations):
    """Running jobs, triggers and approved calls in this process (B10, B18)."""

    def now(self) -> datetime:
        """The instant by this runtime's clock, in UTC."""
        return self._parts.clock.now()

    def work(self, *, until: datetime | None = None) -> int:
        """Run what is due in this process, triggers and followers of the log included; returns how many jobs it ran.

        ``until``: also what comes due before that instant. A ``ManualClock`` is moved from one moment to the next, and
        at last to ``until``; with any other this call lasts as long.
        """
        ran = self._run_due()
        while until is not None and (now := self._parts.clock.now()) < until:
            soonest = self._parts.worker.sweep() or until
            self._pass(min(max(soonest, now), until), now)
            ran += self._run_due()
        return ran

    @property
    def engine_name(self) -> str:
        """The engine that wakes the worker: ``embedded`` or ``pgqueuer``."""
        return self._parts.job_engine.name

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._parts.database.dialect

    async def serve_jobs(self, stop: asyncio.Event) -> None:
        """Run jobs as they come due, by this runtime's engine, and watch files, until ``stop`` is set."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._parts.job_engine.serve(self._parts.worker, stop))
            if self._parts.automations.roots:
                group.create_task(self.watch_files(stop))

    def _run_due(self) -> int:
        worker, ran = self._parts.worker, set[str]()
        seen: datetime | None = None
        """that something was due at, the last time; what stays due without getting done is left"""
        while True:
            soonest, now = worker.sweep(), self._parts.clock.now()
            ids = [job_id for job_id, at in worker.due() if at <= now and job_id not in ran]
            if not ids and (soonest is None or soonest > now or soonest == seen):
                return len(ran)
            seen = soonest
            worker.run(ids)
            ran.update(ids)

    def _pass(self, moment: datetime, now: datetime) -> None:
        """Let time pass until ``moment``, or until it is time to look again."""
        clock = self._parts.clock
        if isinstance(clock, ManualClock):
            clock.advance(max(moment - now, timedelta(milliseconds=1)))
            return
        threading.Event().wait(max(min(moment - now, _LOOK).total_seconds(), 0.01))
