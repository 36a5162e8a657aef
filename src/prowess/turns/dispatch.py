"""Every effect goes through here: gate, validation, record, execution, audit (rule 4 of the house, X2, G4).

The gate is asked twice: before the input is built, and again in the transaction that records the execution, against
the grants of that moment. A revocation committed before that transaction stops the call. No transaction is open while
the handler runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from prowess.access.approvals.model import Approval, ApprovalGone
from prowess.access.approvals.service import ApprovalService
from prowess.access.gate import decide
from prowess.access.guards import Guard
from prowess.access.model import Decision, Layer, Risk
from prowess.access.quotas.model import Exhausted, Reservation
from prowess.errors import Conflict
from prowess.events.log import EventLog, Transaction
from prowess.kernel.canonical import compact_json
from prowess.kernel.ids import IdSource
from prowess.messages import render
from prowess.turns.asking import asked_call, kept_arguments, seats_of
from prowess.turns.budgets import Budgets, exhausted_error
from prowess.turns.changes import CONFLICT, TaskSource, alone, in_task, note_change
from prowess.turns.emitting import emit_call
from prowess.turns.executions import (
    Execution,
    ExecutionStatus,
    find_execution,
    finish_execution,
    insert_execution,
    recorded_code,
)
from prowess.turns.fencing import hold
from prowess.turns.handling import Handling
from prowess.turns.locks import BUSY, is_exclusive, release_lock, take_alone
from prowess.turns.outcome import CallStatus, ToolOutcome
from prowess.turns.questions import (
    Asked,
    Call,
    asked_of,
    gate_facts,
    gate_request,
    meta_question,
    refused_in_script,
    with_approval,
)
from prowess.turns.request import TurnRequest
from prowess.turns.runners.tool import input_faults, validate_input
from prowess.turns.stopped import hold_unstopped
from prowess.turns.stopping import is_stop, turn_key
from prowess.turns.view import TurnView
from prowess.turns.words import denial_message

logger = logging.getLogger(__name__)

MAX_RACES = 8
"""lost by one call before its fault is taken for another one"""


Arguments = Callable[[], Mapping[str, Any]]


class _Admission(NamedTuple):
    """What came of the gate, in the transaction that recorded it."""

    decision: Decision
    known: Execution | None
    """an earlier record of this very call"""
    waiting: Approval | None
    used: str | None
    """the approval that this call uses up"""
    events: tuple[str, ...]
    asked: Asked
    held: Reservation = Reservation()
    """what was reserved for it of the budgets that it is on"""
    exhausted: Exhausted | None = None
    """the budget that has no room for it"""
    busy: bool = False
    """another call has the tool to itself at this moment"""


class Dispatcher:
    """Runs tool calls."""

    def __init__(
        self,
        log: EventLog,
        ids: IdSource,
        handling: Handling,
        approvals: ApprovalService,
        budgets: Budgets,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._log = log
        self._ids = ids
        self.handling = handling
        self.approvals = approvals
        self.budgets = budgets
        self._guards = tuple(guards)
        self.tasks: TaskSource = alone
        """set by the composition root: who hands turns over stands above them"""

    def call(self, call: Call, arguments: Arguments) -> ToolOutcome:
        """Gate → input → validation → guards → gate and record → handler → output → audit.

        ``arguments`` is asked only when the gate has not said no. Never raises for what the caller, the gate, a guard
        or the handler did.
        """
        call_id = self._ids.new("call") if call.resumed is None else call.resumed.call.call_id
        with self._log.database.read() as connection:
            decision = self._decide(connection, call, None)
        if decision.effect == "deny":
            return self._denied(call, call_id, decision)
        try:
            validated = validate_input(call.tool, arguments())
            plain = validated.model_dump(mode="json")
            asked = asked_of(call, validated, plain, self._guards)
        except ValidationError as error:
            return self._invalid(call, call_id, decision, tuple(input_faults(error)))
        except Exception as error:
            logger.warning("input of tool %s could not be built: %s", call.tool.tool_id, type(error).__name__)
            return self._invalid(call, call_id, decision, ({"place": "arguments", "fault": "unusable"},))
        try:
            admission = self._admit_once(call, call_id, plain, asked)
        except Conflict as error:
            if not is_stop(error):
                raise
            if call.stop is not None:
                call.stop.stop()
            return self.refuse(call.request, call.tool.tool_id, "stopped", call.language)
        return self._admitted(call, call_id, validated, admission)

    def _admitted(self, call: Call, call_id: str, validated: BaseModel, admission: _Admission) -> ToolOutcome:
        """Run what was admitted; answer what was not, or what ran already."""
        decision, known, asked = admission.decision, admission.known, admission.asked
        if admission.busy:
            return ToolOutcome(
                call_id,
                call.tool.tool_id,
                "failed",
                decision=decision,
                error_code=BUSY,
                message=render(f"tool.{BUSY}", call.language, {"tool": call.tool.tool_id}),
                events=admission.events,
            )
        if known is not None and (call.tool.effect == "write" or not decision.allowed):
            return ToolOutcome(
                known.id,
                call.tool.tool_id,
                "recorded",
                decision=decision,
                error_code=recorded_code(known, asked.input_digest),
                events=admission.events,
            )
        if not decision.allowed:
            return self._refused(call, call_id, admission)
        outcome = self._execute(call, call_id if known is None else known.id, validated, admission)
        return replace(outcome, events=admission.events + outcome.events)

    def refuse_meta(
        self, request: TurnRequest, view: TurnView, tool: str, arguments: Any, language: str
    ) -> ToolOutcome | None:
        """A denied meta tool, audited; null where the gate allows it: policies, guards and modes hold here too (U1)."""
        decision = decide(*meta_question(request, view, tool, arguments, self._guards, self._log.clock.now()))
        if decision.allowed:
            return None
        call_id = self._ids.new("call")
        with self._log.transaction(request.tenant) as transaction:
            emit_call(
                transaction,
                "tool.decided",
                request,
                call_id,
                decision="denied",
                tool=tool,
                reason=decision.reason,
                layer=None if decision.layer is None else str(decision.layer),
                rule=decision.rule,
            )
        message = denial_message(decision, language)
        return ToolOutcome(
            call_id, tool, "denied", decision=decision, message=message, events=tuple(transaction.emitted)
        )

    def refuse(
        self,
        request: TurnRequest,
        tool: str,
        reason: Literal["not_found", "over_limit", "stopped"],
        language: str = "en",
        **noted: Any,
    ) -> ToolOutcome:
        """Answer a call that cannot reach the gate: no such tool here, one too many, or of a stopped turn; audited.

        ``noted`` is for the auditor alone. A tool that does not exist and one that is not granted are refused by the
        same words (G8).
        """
        call_id = self._ids.new("call")
        shown = "".join(character if character.isprintable() else "?" for character in tool[:200])
        with self._log.transaction(request.tenant) as transaction:
            emit_call(transaction, "tool.refused", request, shown, decision="denied", reason=reason, **noted)
        message = render(f"tool.{reason}", language, {"tool": shown, **noted})
        status: CallStatus = "denied" if reason == "stopped" else reason
        return ToolOutcome(call_id, tool, status, error_code=reason, message=message, events=tuple(transaction.emitted))

    def _admit_once(self, call: Call, call_id: str, plain: Mapping[str, Any], asked: Asked) -> _Admission:
        """``_admit``, again where the same call, tool or resource was somebody else's at the same moment."""
        for _ in range(MAX_RACES):
            with suppress(IntegrityError, ApprovalGone):
                return self._admit(call, call_id, plain, asked)
        return self._admit(call, call_id, plain, asked)

    def _admit(self, call: Call, call_id: str, plain: Mapping[str, Any], asked: Asked) -> _Admission:
        """The gate once more, its audit and the record of the call, in one transaction; and an earlier record of it.

        What would be asked gets an approval to wait for, or uses up the one that it has. Raises ``ApprovalGone``,
        ``IntegrityError`` where another worker was faster.
        """
        redactor = self._log.redactor(call.request.tenant)
        with self._log.transaction(call.request.tenant) as transaction:
            connection = transaction.connection
            hold(call.fence, connection)
            hold_unstopped(connection, turn_key(call.request))
            task, asked = in_task(connection, self.tasks, call, asked)
            decision, held = self._decide(connection, call, asked), Reservation()
            known: Execution | None = None
            waiting: Approval | None = None
            used: str | None = None
            if decision.allowed:
                reserved = self.budgets.reserve_call(transaction, call)
                if isinstance(reserved, Exhausted):
                    decision = self._decide(connection, call, asked, over_budget=reserved.quota.id)
                    self._audit_decision(transaction, call, call_id, decision)
                    return _Admission(decision, None, None, None, tuple(transaction.emitted), asked, exhausted=reserved)
                held = reserved
                if not take_alone(transaction, call, call_id):
                    self.budgets.release(transaction, held)
                    return _Admission(decision, None, None, None, ("tool.busy",), asked, busy=True)
                resumed = None if call.resumed is None else call.resumed.id
                used = decision.rule if decision.reason == "approved" else resumed
                if used is not None:
                    self.approvals.use(transaction, used, call.request.tenant)
                known = self._record(transaction, call, call_id, asked)
                if known is None and task is not None:
                    note_change(connection, task, call, call_id, transaction.now_ms)
                if known is not None and used is not None and call.tool.effect == "write":
                    outcome = recorded_code(known, asked.input_digest) or "succeeded"
                    self.approvals.settle(transaction, call.request.tenant, used, outcome)
            elif decision.effect == "ask":
                known, waiting = self._ask(transaction, call, call_id, asked, decision, kept_arguments(plain, redactor))
            self._audit_decision(transaction, call, call_id, decision)
        return _Admission(decision, known, waiting, used, tuple(transaction.emitted), asked, held)

    def _ask(
        self,
        transaction: Transaction,
        call: Call,
        call_id: str,
        asked: Asked,
        decision: Decision,
        arguments: str | None,
    ) -> tuple[Execution | None, Approval | None]:
        """An earlier record of the call, or what it waits for now; neither where it cannot wait."""
        known = find_execution(transaction.connection, call.key)
        if call.resumed is not None or (known is not None and call.tool.effect == "write"):
            return known, None
        if arguments is None:
            return None, None
        kept = asked_call(call, call_id, asked, arguments, decision.rule)
        return None, self.approvals.request(transaction, kept, seats_of(call))

    def still_permits(self, connection: Connection, call: Call, code: str) -> Decision:
        """Whether one code that an admitted call asks for holds at this moment (G4): asked while its script runs.

        ``ask`` is as good as a yes: the call itself was approved, or needed no approval.
        """
        facts = gate_facts(connection, call, None, self._log.clock.now(), final=False)
        wanted = tuple(item for item in facts.requirements or () if item.code == code)
        return decide(gate_request(call, None), replace(facts, requirements=wanted))

    def _decide(
        self, connection: Connection, call: Call, asked: Asked | None, over_budget: str | None = None
    ) -> Decision:
        request = gate_request(call, asked)
        facts = gate_facts(connection, call, asked, self._log.clock.now(), final=asked is not None)
        facts.over_budget = over_budget
        decision = decide(request, facts)
        if asked is not None and call.within is not None:
            return refused_in_script(decision, call)
        if asked is not None and decision.layer is Layer.APPROVAL:
            approved = with_approval(connection, call, asked, facts)
            decision = decision if approved is None else decide(request, approved)
            if asked.rival is not None and decision.effect == "ask":
                decision = decision._replace(reason=CONFLICT)
        return decision

    def _refused(self, call: Call, call_id: str, admission: _Admission) -> ToolOutcome:
        # What stands whatever was allowed in general is not offered to be allowed in general.
        decision, waiting, asked = admission.decision, admission.waiting, admission.asked
        risks = {requirement.risk for requirement in call.tool.manifest.permission_requirements}
        safety = risks & {Risk.L3, Risk.L4} or any(guard.effect == "ask" for guard in asked.guards)
        message, code = denial_message(decision, call.language), None
        if admission.exhausted is not None:
            error = exhausted_error(admission.exhausted, self._log.clock.now())
            message, code = error.message(call.language), error.code
        return ToolOutcome(
            call_id,
            call.tool.tool_id,
            "denied" if waiting is None else "pending",
            decision=decision,
            error_code=code,
            message=message if waiting is None else render("tool.pending", call.language),
            events=admission.events,
            suggested=asked.action if decision.effect == "ask" and not safety else None,
            approval=None if waiting is None else waiting.id,
        )

    def _denied(self, call: Call, call_id: str, decision: Decision) -> ToolOutcome:
        with self._log.transaction(call.request.tenant) as transaction:
            self._audit_decision(transaction, call, call_id, decision)
        message = denial_message(decision, call.language)
        written = tuple(transaction.emitted)
        return ToolOutcome(call_id, call.tool.tool_id, "denied", decision=decision, message=message, events=written)

    def _invalid(
        self, call: Call, call_id: str, decision: Decision, faults: tuple[Mapping[str, str], ...]
    ) -> ToolOutcome:
        with self._log.transaction(call.request.tenant) as transaction:
            self._audit_decision(transaction, call, call_id, decision)
            self._emit(transaction, "tool.refused", call, call_id, "failed", reason="invalid_input")
        return ToolOutcome(
            call_id,
            call.tool.tool_id,
            "invalid_input",
            decision=decision,
            error_code="invalid_input",
            message=render("tool.invalid_input", call.language),
            detail=faults,
            events=tuple(transaction.emitted),
        )

    def _record(self, transaction: Transaction, call: Call, call_id: str, asked: Asked) -> Execution | None:
        """Insert the execution, or return the one that this key already has."""
        request, key = call.request, call.key
        found = find_execution(transaction.connection, key)
        if found is not None:
            return found
        insert_execution(
            transaction.connection,
            id=call_id,
            tenant=request.tenant,
            user_id=request.user,
            agent_id=request.agent,
            scope_type=request.chat.kind,
            scope_id=request.chat.id,
            message_id=request.message_id,
            ordinal=call.ordinal,
            tool_id=call.tool.tool_id,
            skill_id=call.tool.manifest.id,
            skill_version=call.tool.manifest.version,
            run_id=call.run_id,
            idempotency_key=key,
            input_digest=asked.input_digest,
            started_at=transaction.now_ms,
        )
        return None

    def _execute(self, call: Call, call_id: str, validated: BaseModel, admission: _Admission) -> ToolOutcome:
        started = time.perf_counter()
        outcome = self.handling.run(call, call_id, validated, admission.decision)
        return replace(outcome, events=self._finish(call, outcome, admission, started))

    def _finish(self, call: Call, outcome: ToolOutcome, admission: _Admission, started: float) -> tuple[str, ...]:
        """Record what came of the call; settle its budgets, and its approval, whose result waits for the turn (G13)."""
        used = admission.used
        duration_ms = round((time.perf_counter() - started) * 1000)
        status, code = ExecutionStatus(outcome.status), outcome.error_code
        result = None if used is None else compact_json(outcome.to_answer())
        with self._log.transaction(call.request.tenant) as transaction:
            finish_execution(transaction.connection, outcome.id, status, code, duration_ms)
            self.budgets.settle_call(transaction, admission.held, duration_ms)
            decision = "succeeded" if status is ExecutionStatus.SUCCEEDED else "failed"
            self._emit(
                transaction, "tool.finished", call, outcome.id, decision, error_code=code, duration_ms=duration_ms
            )
            tenant, tool = call.request.tenant, call.tool
            if is_exclusive(tool) and release_lock(transaction.connection, tenant, tool.tool_id, outcome.id):
                self._emit(transaction, "tool.unlocked", call, outcome.id, decision, tool=tool.tool_id)
            if used is not None:
                self.approvals.settle(transaction, tenant, used, str(status), result)
        return tuple(transaction.emitted)

    def _audit_decision(self, transaction: Transaction, call: Call, call_id: str, decision: Decision) -> None:
        self._emit(
            transaction,
            "tool.decided",
            call,
            call_id,
            "allowed" if decision.allowed else "denied",
            tool=call.tool.tool_id,
            reason=decision.reason,
            layer=None if decision.layer is None else str(decision.layer),
            missing=list(decision.missing),
            grants=[grant.id for grant in decision.grants],
            rule=decision.rule,
        )

    @staticmethod
    def _emit(transaction: Transaction, kind: str, call: Call, call_id: str, decision: str, **data: Any) -> None:
        where: dict[str, Any] = {"skill": call.skill, "run_id": call.run_id}
        emit_call(transaction, kind, call.request, call_id, decision=decision, **where, **data)
