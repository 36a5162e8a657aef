"""Sessions, runs and the log (W12, T8, R1)."""

from __future__ import annotations

from datetime import datetime

from prowess.events.followers import Follower, Handler
from prowess.events.model import Actor, Event
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.runs import Run, list_runs
from prowess.turns.sessions.model import Session


class Records(Facade):
    """Sessions, runs and the log (W12, T8, R1)."""

    def sessions(
        self, *, user: str, live_only: bool = False, limit: int = 50, tenant: str = DEFAULT_TENANT
    ) -> list[Session]:
        """The user's workflow sessions; faces show ``Session.to_json`` only, which holds no state."""
        return self._parts.sessions.list(tenant, user, live_only=live_only, limit=limit)

    def cancel_session(self, session_id: str, *, user: str, tenant: str = DEFAULT_TENANT) -> Session:
        """Cancel a live session of the user. Raises ``NotFound``, ``Conflict`` (``session_not_live``)."""
        return self._parts.sessions.cancel(actor=Actor("user", user), tenant=tenant, user=user, session_id=session_id)

    def runs(self, *, user: str, skill: str | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT) -> list[Run]:
        """The user's runs, newest first."""
        with self._parts.database.read() as connection:
            return list_runs(connection, tenant, user, skill=skill, limit=limit)

    def events(self, *, after: int = 0, limit: int = 1000, tenant: str = DEFAULT_TENANT) -> list[Event]:
        """Events with a sequence number above ``after``, oldest first."""
        return self._parts.log.after(tenant, after, limit)

    def audit(
        self,
        *,
        user: str | None = None,
        skill: str | None = None,
        decision: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Event]:
        """Audit events, newest first: decisions, outcomes, changes of consent, catalog and memory."""
        return self._parts.log.audit(tenant, user=user, skill=skill, decision=decision, since=since, limit=limit)

    def follow(self, name: str, handler: Handler, *, batch: int = 200) -> Follower:
        """A follower of the log with a stored cursor; call its ``catch_up``."""
        return Follower(self._parts.log, name, handler, batch=batch)
