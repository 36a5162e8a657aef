"""Sessions, runs and the log (W12, T8, R1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from prowess.events.followers import Follower, Handler
from prowess.events.model import EVENT_TYPES, Actor, Event
from prowess.events.seals import Seal, Verification
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.runs import Run, list_runs
from prowess.turns.sessions.model import Session

EXPORT_BATCH = 1_000


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

    def seal_log(self) -> Seal | None:
        """Seal what was logged since the last seal, of every tenant; null where that is nothing (R4)."""
        return self._parts.seals.seal()

    def verify_log(self) -> Verification:
        """Whether the sealed log is as it was sealed, and what that cannot say (R4, ruling 12.30). Writes nothing."""
        return self._parts.seals.verify()

    def export_log(
        self, *, audit_only: bool = True, after: int = 0, tenant: str = DEFAULT_TENANT
    ) -> Iterator[dict[str, Any]]:
        """Every event of a tenant above ``after``, oldest first, as JSON objects; only audit rows unless told."""
        while batch := self._parts.log.after(tenant, after, EXPORT_BATCH):
            after = batch[-1].seq
            yield from (event.to_json() for event in batch if not audit_only or EVENT_TYPES[event.type].audit)
