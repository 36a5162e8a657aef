"""Writing what a turn came to: message, session, run, turn and events in one transaction (R1).

Two transactions a turn: one when it begins, one when its reply is stored. Each loses cleanly: ``LostRace`` or an
``IntegrityError`` leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from prowess.chat.model import Message
from prowess.chat.store import find_message, insert_message
from prowess.errors import Conflict
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.canonical import text_digest
from prowess.kernel.ids import IdSource
from prowess.turns.executor import Outcome, SessionChange
from prowess.turns.facts import TurnReading
from prowess.turns.plan import TurnPlan
from prowess.turns.request import RunView, SessionView, TurnRequest
from prowess.turns.runs import Run, RunStatus, finish_run, record_run
from prowess.turns.safety import SafetyResponse
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.service import expire
from prowess.turns.sessions.store import change_session, insert_session
from prowess.turns.store import TurnRecord, finish_turn, insert_turn


class LostRace(Exception):
    """Somebody else committed first; nothing was written."""


class TurnWriter:
    """The two commits of a turn."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def begin(self, request: TurnRequest, reading: TurnReading, outcome: Outcome) -> TurnRecord:
        """Commit what the executor decided. Raises ``LostRace``, ``IntegrityError``, ``Conflict``."""
        record = new_record(request, outcome)
        with self._log.transaction() as transaction:
            self._store_message(transaction, request)
            expire(transaction, reading.overdue)
            emit(transaction, "turn.started", request, origin=request.origin)
            for change in outcome.changes:
                _write_session(transaction, request, change)
            if outcome.unknown_command is not None:
                emit(transaction, "command.unknown", request, decision="denied")
            record = replace(record, run=self._record_run(transaction, request, outcome))
            return self._insert(transaction, request, record)

    def begin_safety(self, request: TurnRequest, reading: TurnReading, response: SafetyResponse) -> TurnRecord:
        """Commit that the safety response answers; no session is made or moved."""
        with self._log.transaction() as transaction:
            self._store_message(transaction, request)
            expire(transaction, reading.overdue)
            emit(transaction, "turn.started", request, origin=request.origin)
            emit(
                transaction,
                "safety.responded",
                request,
                actor=SYSTEM,
                decision="denied",
                category=response.category,
                rule=response.rule,
            )
            return self._insert(transaction, request, new_record(request, Outcome("safety")))

    def finish(self, plan: TurnPlan, reply: str, voice: str) -> TurnRecord:
        """Store the reply. Raises ``LostRace`` where the turn is finished already."""
        request, record = plan.request, plan.record
        run, session = record.run, record.session
        with self._log.transaction() as transaction:
            if run is not None:
                duration = transaction.now - plan.started_at
                finish_run(
                    transaction.connection, run.id, RunStatus(run.status), record.run_error, milliseconds(duration)
                )
            message = Message(
                id=self._ids.new("msg"),
                chat=request.chat,
                author_kind="agent",
                author=request.agent,
                text=reply,
                reply_to=request.message_id,
                run_id=None if run is None else run.id,
                session_id=None if session is None else session.id,
                created_at=transaction.now,
            )
            emit(
                transaction,
                "turn.completed",
                request,
                actor=Actor("agent", request.agent),
                run_id=message.run_id,
                session_id=message.session_id,
                voice=voice,
            )
            finished = replace(record, reply_id=message.id, events=(*record.events, *transaction.emitted))
            if not finish_turn(transaction.connection, request, finished, message.id, transaction.now_ms):
                raise LostRace
            insert_message(transaction.connection, request.tenant, message)
        return finished

    def fail(self, plan: TurnPlan, code: str) -> None:
        """Record that no reply came."""
        with self._log.transaction() as transaction:
            run = plan.record.run
            if run is not None:
                duration = milliseconds(transaction.now - plan.started_at)
                finish_run(transaction.connection, run.id, RunStatus.FAILED, code, duration)
            emit(transaction, "turn.failed", plan.request, error_code=code)

    @staticmethod
    def _store_message(transaction: Transaction, request: TurnRequest) -> None:
        connection = transaction.connection
        if request.group is not None:
            # Several agents of a group answer one message: it is stored once.
            said = find_message(connection, request.tenant, request.chat, request.message_id)
            if said is not None:
                if (said.author_kind, said.author, said.text) != ("user", request.user, request.text):
                    raise Conflict("message_id_reused", field="message_id")
                return
        message = Message(
            id=request.message_id,
            chat=request.chat,
            author_kind="user",
            author=request.user,
            text=request.text,
            reply_to=None,
            run_id=None,
            session_id=None,
            created_at=transaction.now,
        )
        insert_message(connection, request.tenant, message)

    def _record_run(self, transaction: Transaction, request: TurnRequest, outcome: Outcome) -> RunView | None:
        selection = outcome.selection
        if selection is None:
            return None
        run = Run(
            id=self._ids.new("run"),
            tenant=request.tenant,
            user=request.user,
            agent=request.agent,
            chat=request.chat,
            message_id=request.message_id,
            selection=selection,
            session_id=None if outcome.session is None else outcome.session.id,
            status=RunStatus.RUNNING,
            error_code=None,
            started_at=transaction.now,
            duration_ms=None,
        )
        where: dict[str, Any] = {
            "skill": (selection.skill_id, selection.version),
            "session_id": run.session_id,
            "run_id": run.id,
        }
        emit(
            transaction,
            "skill.selected",
            request,
            **where,
            trigger=selection.trigger,
            score=selection.score,
            reason=selection.reason,
        )
        if record_run(transaction.connection, run):
            emit(transaction, "run.recorded", request, **where)
        return RunView(run.id, str(outcome.run_status))

    @staticmethod
    def _insert(transaction: Transaction, request: TurnRequest, record: TurnRecord) -> TurnRecord:
        record = replace(record, events=tuple(transaction.emitted))
        insert_turn(transaction.connection, request, record, transaction.now_ms)
        return record


def new_record(request: TurnRequest, outcome: Outcome) -> TurnRecord:
    """The turn as it begins, without run and events."""
    return TurnRecord(
        user=request.user,
        text_digest=text_digest(request.text),
        kind=outcome.kind,
        selection=outcome.selection,
        session=None if outcome.session is None else session_view(outcome.session),
        run=None,
        run_error=outcome.error_code,
        decision=None,
        tool_calls=(),
        events=(),
        instruction=outcome.instruction,
        reply_id=None,
    )


def session_view(session: Session) -> SessionView:
    """What a turn's result shows of a session."""
    return SessionView(session.id, str(session.status), session.step, session.revision, session.pending_question)


def emit(
    transaction: Transaction, kind: str, request: TurnRequest, *, actor: Actor | None = None, **fields: Any
) -> None:
    """An event of this turn; done by its user where no other actor is named."""
    transaction.emit(
        kind,
        tenant=request.tenant,
        actor=actor or Actor("user", request.user),
        user=request.user,
        agent=request.agent,
        chat=request.chat,
        message_id=request.message_id,
        **fields,
    )


def milliseconds(duration: timedelta) -> int:
    """Whole milliseconds, never negative: a clock may have been set back meanwhile."""
    return max(0, duration // timedelta(milliseconds=1))


def _write_session(transaction: Transaction, request: TurnRequest, change: SessionChange) -> None:
    session = change.session
    if change.expected_revision is None:
        insert_session(transaction.connection, session)
    elif not change_session(transaction.connection, session, expected_revision=change.expected_revision):
        raise LostRace
    where: dict[str, Any] = {"skill": session.skill, "session_id": session.id}
    if session.cancelled_at is not None:
        where["decision"] = "cancelled"
    emit(transaction, change.event, request, **where, step=session.step, revision=session.revision)
    if session.completed_at is not None:
        emit(transaction, "session.completed", request, **where)
