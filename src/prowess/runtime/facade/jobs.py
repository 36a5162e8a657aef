"""Background jobs: scheduling, cancelling, looking, and running them in this process (B3 to B10)."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta

from prowess.automation.jobs.model import Job, JobStatus
from prowess.automation.scheduling import Wish
from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import check_id
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.definitions import BackgroundSkill

CHECK_IN = "goal-check-in-reminder"
_LOOK = timedelta(seconds=1)
"""how often work of other processes is looked for"""


class Jobs(Facade):
    """Background jobs: scheduling, cancelling, looking, and running them in this process (B3 to B10)."""

    def schedule(
        self, *, user: str, agent: str, skill: str, at: datetime, note: str = "", tenant: str = DEFAULT_TENANT
    ) -> Job:
        """Run a background skill for this user at that moment; the gate is asked now, and again then (G4).

        Where it speaks and what it says is not the caller's to choose: ``note`` is quoted. Raises
        ``NotFound`` (``skill_not_found``, ``agent_not_found``), ``InvalidInput`` (``not_background``,
        ``time_too_early``, ``time_too_late``, ``bad_instant``), ``Denied('job_denied')``,
        ``LimitExceeded('jobs_full')``.
        """
        check_id(user, "user")
        check_id(agent, "agent")
        if at.tzinfo is None:
            raise InvalidInput("bad_instant", field="at", value=at.isoformat())
        entry = self._visible(tenant, user, agent, skill)
        if not isinstance(entry.definition, BackgroundSkill):
            raise InvalidInput("not_background", field="skill", skill=entry.manifest.id)
        wish = Wish(tenant, user, agent, (entry.manifest.id, entry.manifest.version), at, note)
        return self._parts.scheduler.schedule(wish, entry.definition, actor=Actor("user", user))

    def schedule_check_in(
        self, user: str, agent: str, at: datetime, note: str = "", *, tenant: str = DEFAULT_TENANT
    ) -> Job:
        """A reminder in the user's conversation with the agent (B9). Raises as ``schedule``."""
        return self.schedule(user=user, agent=agent, skill=CHECK_IN, at=at, note=note, tenant=tenant)

    def cancel_job(self, job_id: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Job:
        """Cancel a job before it starts; whenever this returns, nothing happened and nothing will (B7).

        ``user``: only one of theirs. Raises ``NotFound('job_not_found')``, ``Conflict`` (``job_running``,
        ``job_finished``).
        """
        actor = Actor("operator", "operator") if user is None else Actor("user", user)
        return self._parts.ledger.cancel(tenant, job_id, user=user, actor=actor)

    def job(self, job_id: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Job:
        """One job. Raises ``NotFound('job_not_found')``."""
        return self._parts.ledger.get(tenant, job_id, user=user)

    def jobs(
        self,
        *,
        user: str | None = None,
        status: JobStatus | str | None = None,
        trigger: str | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Job]:
        """Jobs, the latest first; of all users where none is given. Raises ``InvalidInput('bad_choice')``."""
        try:
            wanted = None if status is None else JobStatus(status)
        except ValueError:
            raise InvalidInput("bad_choice", field="status", known=[str(known) for known in JobStatus]) from None
        return self._parts.ledger.list(tenant, user=user, status=wanted, trigger=trigger, limit=limit)

    def work(self, *, until: datetime | None = None) -> int:
        """Run what is due in this process, triggers and followers of the log included; returns how many jobs it ran.

        ``until``: also what comes due before that instant. A ``ManualClock`` is moved from one moment to the next, and
        at last to ``until``; with any other this call lasts as long.
        """
        ran = self._run_due()
        while until is not None and (now := self._parts.clock.now()) < until:
            moments = (self._parts.worker.sweep(), self._parts.automations.scheduler.next_due())
            soonest = min((moment for moment in moments if moment is not None), default=until)
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
        """Run jobs as they come due, by this runtime's engine, until ``stop`` is set."""
        await self._parts.job_engine.serve(self._parts.worker, stop)

    def _run_due(self) -> int:
        worker, ran = self._parts.worker, set[str]()
        while True:
            self._bring_due()
            worker.sweep()
            now = self._parts.clock.now()
            ids = [job_id for job_id, at in worker.due() if at <= now and job_id not in ran]
            if not ids:
                return len(ran)
            worker.run(ids)
            ran.update(ids)

    def _bring_due(self) -> None:
        """The jobs of triggers that are due by now, and of reactions to what the log holds."""
        automations = self._parts.automations
        while automations.scheduler.fire_due().more:
            continue
        automations.reactions.catch_up()

    def _pass(self, moment: datetime, now: datetime) -> None:
        """Let time pass until ``moment``, or until it is time to look again."""
        clock = self._parts.clock
        if isinstance(clock, ManualClock):
            clock.advance(max(moment - now, timedelta(milliseconds=1)))
            return
        threading.Event().wait(max(min(moment - now, _LOOK).total_seconds(), 0.01))
