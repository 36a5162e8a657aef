"""Writing what a turn came to: message, session, run, turn and events in one transaction (R1).

Two transactions a turn: one when it begins, one when its reply is stored; one where the reply is known when it begins.
Each loses cleanly: ``LostRace`` or an
``IntegrityError`` leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from prowess.access.approvals.service import tell_turn_settled
from prowess.access.approvals.store import forget_results, lock_turn
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
from prowess.turns.request import AGENT_PREFIX, RunView, Selection, SessionView, TurnRequest
from prowess.turns.runs import Run, RunStatus, finish_run, record_run
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.service import expire
from prowess.turns.sessions.store import change_session, insert_session
from prowess.turns.stopped import hold_unstopped
from prowess.turns.stopping import turn_key
from prowess.turns.store import TurnRecord, find_turn, finish_turn, insert_turn
from prowess.turns.suspended import SuspendedTurn, release, suspend, suspend_again
from prowess.turns.words import stopped_words


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

        Raises ``LostRace``, ``IntegrityError``, ``Conflict`` (``message_id_reused``, ``turn_stopped``), and what
        ``fence`` raises.
        """
        record = new_record(request, outcome)
        with self._log.transaction(request.tenant) as transaction:
            hold(fence, transaction.connection)
            if request.origin.startswith(AGENT_PREFIX):  # stopped with its parent, before it began
                hold_unstopped(transaction.connection, turn_key(request))
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

    def finish(self, plan: TurnPlan, said: Said, waiting: SuspendedTurn | None = None) -> TurnRecord:
        """Store the reply, and with it that the turn waits.

        Raises ``LostRace`` where it is finished already, ``Conflict('turn_stopped')``.
        """
        request, record = plan.request, plan.record
        with self._log.transaction(request.tenant) as transaction:
            hold(plan.fence, transaction.connection)
            hold_unstopped(transaction.connection, turn_key(request), alone=True)
            if record.run is not None:
                duration = milliseconds(transaction.now - plan.started_at)
                status = RunStatus(record.run.status)
                finish_run(transaction.connection, record.run.id, status, record.run_error, duration)
            message = self._reply(transaction, request, record, said)
            finished = replace(record, reply_id=message.id, events=(*record.events, *transaction.emitted))
            if not finish_turn(transaction.connection, request, finished, message.id, transaction.now_ms):
                raise LostRace
            if waiting is not None:
                suspend(transaction.connection, waiting, transaction.now_ms)
                _tell_waiting(transaction, request, waiting)
        return finished

    def go_on(
        self, plan: TurnPlan, said: Said, reply_id: str, earlier: SuspendedTurn, waiting: SuspendedTurn | None
    ) -> str:
        """Store how a suspended turn went on, once; returns the reply that is stored under ``reply_id``.

        Raises ``Conflict``: ``turn_not_waiting`` where another reply was faster, ``turn_stopped``.
        """
        request, record = plan.request, plan.record
        with self._log.transaction(request.tenant) as transaction:
            connection = transaction.connection
            hold(plan.fence, connection)
            hold_unstopped(connection, turn_key(request))
            if waiting is None:
                ours = release(connection, earlier.turn, earlier.revision)
            else:
                ours = suspend_again(connection, waiting)
            if not ours:
                known = find_message(connection, request.tenant, request.chat, reply_id)
                if known is not None:
                    return known.text
                raise Conflict("turn_not_waiting", message_id=request.message_id)
            forget_results(connection, request.tenant, earlier.approvals)
            if record.run is not None:
                duration = milliseconds(transaction.now - plan.started_at)
                finish_run(connection, record.run.id, RunStatus(record.run.status), record.run_error, duration)
            message = self._message(transaction, request, record, said.reply, reply_id)
            emit(
                transaction,
                "turn.continued",
                request,
                actor=Actor("agent", request.agent),
                run_id=message.run_id,
                target=reply_id,
                voice=said.voice,
            )
            if waiting is not None:
                _tell_waiting(transaction, request, waiting)
        plan.record = replace(record, events=(*record.events, *transaction.emitted))
        return transaction.redact(said.reply)

    def stop(self, transaction: Transaction, request: TurnRequest, language: str) -> str | None:
        """End a stopped turn: its run is cancelled, and one short sentence is its reply; the reply's id (U10).

        Null where the turn has its reply already, or never began.
        """
        connection = transaction.connection
        record = find_turn(connection, request)
        if record is None or record.reply_id is not None:
            return None
        stopped, reply_id = record, self._ids.new("msg")
        if record.run is not None:
            stopped = replace(record, run=RunView(record.run.id, str(RunStatus.CANCELLED)), run_error="stopped")
        message = self.say_stopped(transaction, request, stopped, language, reply_id)
        stopped = replace(stopped, reply_id=message.id)
        finish_turn(connection, request, stopped, message.id, transaction.now_ms)
        return message.id

    def say_stopped(
        self, transaction: Transaction, request: TurnRequest, record: TurnRecord, language: str, reply_id: str
    ) -> Message:
        """What is said of a stopped turn, and the end of its run where that is still open."""
        if record.run is not None:
            finish_run(transaction.connection, record.run.id, RunStatus.CANCELLED, "stopped", None)
        return self._message(transaction, request, record, stopped_words(language), reply_id)

    def stop_late(self, plan: TurnPlan) -> None:
        """End a turn that was stopped at the moment when it began."""
        with self._log.transaction(plan.request.tenant) as transaction:
            self.stop(transaction, plan.request, plan.language)

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
        message = self._message(transaction, request, record, said.reply, self._ids.new("msg"))
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

    @staticmethod
    def _message(
        transaction: Transaction, request: TurnRequest, record: TurnRecord, text: str, message_id: str
    ) -> Message:
        message = Message(
            id=message_id,
            chat=request.chat,
            author_kind="agent",
            author=request.agent,
            text=text,
            reply_to=request.message_id,
            run_id=None if record.run is None else record.run.id,
            session_id=None if record.session is None else record.session.id,
            created_at=transaction.now,
        )
        insert_message(transaction.connection, request.tenant, message)
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


def _tell_waiting(transaction: Transaction, request: TurnRequest, waiting: SuspendedTurn) -> None:
    """The turn waits; and where all was answered while it still spoke, it can go on at once."""
    emit(transaction, "turn.waiting", request, origin=request.origin, approvals=list(waiting.approvals))
    if not lock_turn(transaction.connection, waiting.turn):
        tell_turn_settled(transaction, waiting.turn, request.user)


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
