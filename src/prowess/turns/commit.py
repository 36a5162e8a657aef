"""Writing what a turn came to: message, session, run, turn and events in one transaction (R1).

Two transactions a turn: one when it begins, one when its reply is stored; one where the reply is known when it begins.
Each loses cleanly: ``LostRace`` or an
``IntegrityError`` leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from prowess.chat.model import Message
from prowess.chat.service import ChatService
from prowess.chat.store import find_message, insert_message
from prowess.errors import Conflict
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.canonical import text_digest
from prowess.kernel.ids import IdSource
from prowess.turns.emitting import emit
from prowess.turns.executor import Outcome, SessionChange
from prowess.turns.facts import TurnReading
from prowess.turns.fencing import Fence, hold
from prowess.turns.plan import TurnPlan
from prowess.turns.request import RunView, Selection, SessionView, TurnRequest
from prowess.turns.runs import Run, RunStatus, finish_run, record_run
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.service import expire
from prowess.turns.sessions.store import change_session, insert_session
from prowess.turns.store import TurnRecord, find_turn, finish_turn, insert_turn


class Said(NamedTuple):
    """A reply and the name of the voice that gave it."""

    reply: str
    voice: str


class LostRace(Exception):
    """Somebody else committed first; nothing was written."""


class TurnWriter:
    """The two commits of a turn."""

    def __init__(self, log: EventLog, ids: IdSource, chat: ChatService) -> None:
        self._log = log
        self._ids = ids
        self._chat = chat

    def begin(
        self,
        request: TurnRequest,
        reading: TurnReading,
        outcome: Outcome,
        said: Said | None = None,
        fence: Fence | None = None,
    ) -> TurnRecord:
        """Commit what the executor decided, and with it the reply where that is known already.

        Raises ``LostRace``, ``IntegrityError``, ``Conflict('message_id_reused')``, and what ``fence`` raises.
        """
        record = new_record(request, outcome)
        with self._log.transaction(request.tenant) as transaction:
            hold(fence, transaction.connection)
            self._open(transaction, request, reading)
            for change in outcome.changes:
                _write_session(transaction, request, change)
            _note(transaction, request, outcome)
            if outcome.selection is not None:
                run = self._run(transaction, request, outcome, outcome.selection, finished=said is not None)
                record = replace(record, run=_record_run(transaction, request, run, outcome))
            message = None if said is None else self._reply(transaction, request, record, said)
            record = replace(
                record, reply_id=None if message is None else message.id, events=tuple(transaction.emitted)
            )
            insert_turn(transaction.connection, request, record, transaction.now_ms)
        return record

    def finish(self, plan: TurnPlan, said: Said) -> TurnRecord:
        """Store the reply. Raises ``LostRace`` where the turn is finished already."""
        request, record = plan.request, plan.record
        with self._log.transaction(request.tenant) as transaction:
            hold(plan.fence, transaction.connection)
            if record.run is not None:
                duration = milliseconds(transaction.now - plan.started_at)
                status = RunStatus(record.run.status)
                finish_run(transaction.connection, record.run.id, status, record.run_error, duration)
            message = self._reply(transaction, request, record, said)
            finished = replace(record, reply_id=message.id, events=(*record.events, *transaction.emitted))
            if not finish_turn(transaction.connection, request, finished, message.id, transaction.now_ms):
                raise LostRace
        return finished

    def limited(self, plan: TurnPlan, limit: str) -> None:
        """Record that the turn reached a limit (T12)."""
        with self._log.transaction(plan.request.tenant) as transaction:
            emit(transaction, "turn.limited", plan.request, decision="denied", limit=limit)

    def unresolved(self, request: TurnRequest, cause: str) -> None:
        """Record that the call was aborted before anything of it was read (G9)."""
        with self._log.transaction(request.tenant) as transaction:
            emit(transaction, "surface.unresolved", request, decision="denied", cause=cause)

    def fail(self, plan: TurnPlan, code: str) -> None:
        """Record that no reply came; nothing where one was stored meanwhile."""
        with self._log.transaction(plan.request.tenant) as transaction:
            known = find_turn(transaction.connection, plan.request)
            if known is not None and known.reply_id is not None:
                return
            run = plan.record.run
            if run is not None:
                duration = milliseconds(transaction.now - plan.started_at)
                finish_run(transaction.connection, run.id, RunStatus.FAILED, code, duration)
            emit(transaction, "turn.failed", plan.request, error_code=code, origin=plan.request.origin)

    def _open(self, transaction: Transaction, request: TurnRequest, reading: TurnReading) -> None:
        """What every turn begins with."""
        if not reading.seat.taken:
            self._chat.take_seat(transaction, request.tenant, request.chat, request.user, request.agent)
        self._store_message(transaction, request)
        expire(transaction, reading.overdue)
        emit(transaction, "turn.started", request, origin=request.origin)

    @staticmethod
    def _store_message(transaction: Transaction, request: TurnRequest) -> None:
        connection = transaction.connection
        if request.group is not None:
            # Several agents of a group answer one message: it is stored once.
            said = find_message(connection, request.tenant, request.chat, request.message_id)
            if said is not None:
                same_text = transaction.redact(said.text) == transaction.redact(request.said)
                if (said.author_kind, said.author, same_text) != (*_author(request), True):
                    raise Conflict("message_id_reused", field="message_id")
                return
        author_kind, author = _author(request)
        message = Message(
            id=request.message_id,
            chat=request.chat,
            author_kind=author_kind,
            author=author,
            text=request.said,
            reply_to=None,
            run_id=None,
            session_id=None,
            created_at=transaction.now,
        )
        insert_message(connection, request.tenant, message)

    def _reply(self, transaction: Transaction, request: TurnRequest, record: TurnRecord, said: Said) -> Message:
        message = Message(
            id=self._ids.new("msg"),
            chat=request.chat,
            author_kind="agent",
            author=request.agent,
            text=said.reply,
            reply_to=request.message_id,
            run_id=None if record.run is None else record.run.id,
            session_id=None if record.session is None else record.session.id,
            created_at=transaction.now,
        )
        insert_message(transaction.connection, request.tenant, message)
        emit(
            transaction,
            "turn.completed",
            request,
            actor=Actor("agent", request.agent),
            run_id=message.run_id,
            session_id=message.session_id,
            voice=said.voice,
        )
        return message

    def _run(
        self, transaction: Transaction, request: TurnRequest, outcome: Outcome, selection: Selection, *, finished: bool
    ) -> Run:
        return Run(
            id=self._ids.new("run"),
            tenant=request.tenant,
            user=request.user,
            agent=request.agent,
            chat=request.chat,
            message_id=request.message_id,
            selection=selection,
            session_id=None if outcome.session is None else outcome.session.id,
            status=outcome.run_status if finished else RunStatus.RUNNING,
            error_code=outcome.error_code if finished else None,
            started_at=transaction.now,
            duration_ms=0 if finished else None,
        )


def _record_run(transaction: Transaction, request: TurnRequest, run: Run, outcome: Outcome) -> RunView:
    selection = run.selection
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


def _note(transaction: Transaction, request: TurnRequest, outcome: Outcome) -> None:
    if outcome.unknown_command is not None:
        emit(transaction, "command.unknown", request, decision="denied")
    if outcome.safety is not None:
        category, rule = outcome.safety.category, outcome.safety.rule
        emit(transaction, "safety.responded", request, actor=SYSTEM, decision="denied", category=category, rule=rule)


def new_record(request: TurnRequest, outcome: Outcome) -> TurnRecord:
    """The turn as it begins, without run and events."""
    return TurnRecord(
        user=request.user,
        text_digest=text_digest(request.said),
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


def _author(request: TurnRequest) -> tuple[Literal["user", "trigger"], str]:
    """Who said it: a message that a trigger sent is never taken for the person's own words."""
    return ("user", request.user) if request.trigger is None else ("trigger", request.trigger)


def session_view(session: Session) -> SessionView:
    """What a turn's result shows of a session."""
    return SessionView(session.id, str(session.status), session.step, session.revision, session.pending_question)


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
