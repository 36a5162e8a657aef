"""Background jobs: scheduling, cancelling, looking (B3, B7)."""

from __future__ import annotations

from datetime import datetime

from prowess.automation.jobs.model import Job, JobStatus
from prowess.automation.scheduling import Wish
from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.definitions import BackgroundSkill

CHECK_IN = "goal-check-in-reminder"


class Jobs(Facade):
    """Background jobs: scheduling, cancelling, looking (B3, B7)."""

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
        """Cancel a job before it starts, or before it is tried again (B7).

        Where ``attempts`` of the result is 0 nothing happened, and nothing will.

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
