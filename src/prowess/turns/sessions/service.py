"""Sessions as seen from outside a turn: list, expire, cancel (W7, W8, W12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prowess.errors import Conflict, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.clock import to_ms
from prowess.kernel.ids import IdSource
from prowess.turns.request import Selection
from prowess.turns.runs import Run, RunStatus, record_run
from prowess.turns.sessions.model import Session, SessionStatus
from prowess.turns.sessions.store import change_session, find_session, list_sessions, overdue_sessions


def expire(transaction: Transaction, overdue: Iterable[Session]) -> None:
    """Mark sessions expired whose time has passed; one that moved on meanwhile is left alone (W7)."""
    for session in overdue:
        expired = replace(
            session,
            status=SessionStatus.EXPIRED,
            pending_question=None,
            revision=session.revision + 1,
            updated_at=transaction.now,
        )
        if change_session(transaction.connection, expired, expected_revision=session.revision):
            transaction.emit(
                "session.expired",
                tenant=session.tenant,
                actor=SYSTEM,
                user=session.user,
                agent=session.agent,
                chat=session.chat,
                skill=session.skill,
                session_id=session.id,
            )


class SessionService:
    """The use cases of the sessions page."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def list(self, tenant: str, user: str, *, live_only: bool = False, limit: int = 50) -> list[Session]:
        """Sessions of the user, the latest change first."""
        self._expire(tenant, user)
        with self._log.database.read() as connection:
            return list_sessions(connection, tenant, user, live_only=live_only, limit=limit)

    def cancel(self, *, actor: Actor, tenant: str, user: str, session_id: str) -> Session:
        """Cancel a live session of the user and write one cancelled run.

        Raises ``NotFound('session_not_found')``, ``Conflict('session_not_live')``, ``Conflict('session_changed')``.
        """
        self._expire(tenant, user)
        with self._log.transaction(tenant) as transaction:
            session = find_session(transaction.connection, tenant, user, session_id)
            if session is None:
                raise NotFound("session_not_found", session=session_id)
            if not session.live:
                raise Conflict("session_not_live", session=session_id, status=str(session.status))
            cancelled = replace(
                session,
                status=SessionStatus.CANCELLED,
                pending_question=None,
                revision=session.revision + 1,
                updated_at=transaction.now,
                cancelled_at=transaction.now,
            )
            if not change_session(transaction.connection, cancelled, expected_revision=session.revision):
                raise Conflict("session_changed")
            run = self._cancelled_run(transaction, session)
            transaction.emit(
                "session.cancelled",
                tenant=tenant,
                actor=actor,
                user=user,
                agent=session.agent,
                chat=session.chat,
                skill=session.skill,
                session_id=session.id,
                run_id=run.id,
                decision="cancelled",
            )
            return cancelled

    def _expire(self, tenant: str, user: str) -> None:
        with self._log.database.read() as connection:
            overdue = overdue_sessions(connection, tenant, user, to_ms(self._log.clock.now()))
        if overdue:
            with self._log.transaction(tenant) as transaction:
                expire(transaction, overdue)

    def _cancelled_run(self, transaction: Transaction, session: Session) -> Run:
        run = Run(
            id=self._ids.new("run"),
            tenant=session.tenant,
            user=session.user,
            agent=session.agent,
            chat=session.chat,
            message_id=session.last_message_id,
            selection=Selection(session.skill.id, session.skill.version, "workflow", "session", 1.0, "cancelled"),
            session_id=session.id,
            status=RunStatus.CANCELLED,
            error_code=None,
            started_at=transaction.now,
            duration_ms=0,
        )
        record_run(transaction.connection, run)
        return run
