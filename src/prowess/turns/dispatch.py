"""Every effect goes through here: gate, validation, record, execution, audit (rule 4 of the house, X2, G4).

The gate is asked twice: before the input is built, and again in the transaction that records the execution, against
the grants of that moment. A revocation committed before that transaction stops the call. No transaction is open while
the handler runs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, SecretStr, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from prowess.access.gate import decide
from prowess.access.guards import Guard
from prowess.access.model import Decision, Risk
from prowess.errors import ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.kernel.canonical import digest
from prowess.kernel.ids import IdSource
from prowess.memory.service import MemoryService
from prowess.messages import render
from prowess.secrets.service import SecretService
from prowess.turns.activity import ACTIVITY, ScopedActivity
from prowess.turns.definitions import CancelToken, Proposals, ToolContext
from prowess.turns.emitting import emit_call
from prowess.turns.executions import (
    Execution,
    ExecutionStatus,
    find_execution,
    finish_execution,
    idempotency_key,
    insert_execution,
)
from prowess.turns.fencing import hold
from prowess.turns.outcome import ToolOutcome
from prowess.turns.questions import Asked, Call, asked_of, gate_facts, gate_request, meta_question
from prowess.turns.request import TurnRequest
from prowess.turns.runners.tool import ToolFailure, execute, input_faults, validate_input
from prowess.turns.view import TurnView
from prowess.turns.words import denial_message

logger = logging.getLogger(__name__)


Arguments = Callable[[], Mapping[str, Any]]
ProposalSource = Callable[[TurnRequest], Proposals]
"""(the turn) → where a tool of it leaves proposals"""


class Dispatcher:
    """Runs tool calls."""

    def __init__(
        self,
        log: EventLog,
        ids: IdSource,
        memory: MemoryService,
        secrets: SecretService,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._log = log
        self._ids = ids
        self._memory = memory
        self._secrets = secrets
        self._guards = tuple(guards)
        self.proposals: ProposalSource | None = None
        """set by the composition root: who keeps proposals stands above turns"""

    def call(self, call: Call, arguments: Arguments) -> ToolOutcome:
        """Gate → input → validation → guards → gate and record → handler → output → audit.

        ``arguments`` is asked only when the gate has not said no. Never raises for what the caller, the gate, a guard
        or the handler did.
        """
        call_id = self._ids.new("call")
        with self._log.database.read() as connection:
            decision = self._decide(connection, call, None)
        if decision.effect == "deny":
            return self._denied(call, call_id, decision)
        try:
            validated = validate_input(call.tool, arguments())
            plain = validated.model_dump(mode="json")
            input_digest = digest(plain)
            asked = asked_of(call, validated, plain, self._guards)
        except ValidationError as error:
            return self._invalid(call, call_id, decision, tuple(input_faults(error)))
        except Exception as error:
            logger.warning("input of tool %s could not be built: %s", call.tool.tool_id, type(error).__name__)
            return self._invalid(call, call_id, decision, ({"place": "arguments", "fault": "unusable"},))
        try:
            decision, known, written = self._admit(call, call_id, input_digest, asked)
        except IntegrityError:  # the same call in another worker was recorded at the same moment
            decision, known, written = self._admit(call, call_id, input_digest, asked)
        if not decision.allowed:
            return self._refused(call, call_id, decision, written, asked)
        if known is not None and call.tool.effect == "write":
            code = _recorded_code(known, input_digest)
            return ToolOutcome(
                known.id, call.tool.tool_id, "recorded", decision=decision, error_code=code, events=written
            )
        outcome = self._execute(call, call_id if known is None else known.id, validated, decision)
        return replace(outcome, events=written + outcome.events)

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
        reason: Literal["not_found", "over_limit"],
        language: str = "en",
        **noted: Any,
    ) -> ToolOutcome:
        """Answer a call that cannot reach the gate: a tool that is not there for this call, or one too many; audited.

        ``noted`` is for the auditor alone. A tool that does not exist and one that is not granted are refused by the
        same words (G8).
        """
        call_id = self._ids.new("call")
        shown = "".join(character if character.isprintable() else "?" for character in tool[:200])
        with self._log.transaction(request.tenant) as transaction:
            emit_call(transaction, "tool.refused", request, shown, decision="denied", reason=reason, **noted)
        message = render(f"tool.{reason}", language, {"tool": shown, **noted})
        return ToolOutcome(call_id, tool, reason, error_code=reason, message=message, events=tuple(transaction.emitted))

    def _admit(
        self, call: Call, call_id: str, input_digest: str, asked: Asked
    ) -> tuple[Decision, Execution | None, tuple[str, ...]]:
        """The gate once more, its audit and the record of the call, in one transaction; and an earlier record of it."""
        with self._log.transaction(call.request.tenant) as transaction:
            hold(call.fence, transaction.connection)
            decision = self._decide(transaction.connection, call, asked)
            self._audit_decision(transaction, call, call_id, decision)
            known = self._record(transaction, call, call_id, input_digest) if decision.allowed else None
        return decision, known, tuple(transaction.emitted)

    def _decide(self, connection: Connection, call: Call, asked: Asked | None) -> Decision:
        now = self._log.clock.now()
        return decide(gate_request(call, asked), gate_facts(connection, call, asked, now, final=asked is not None))

    def _refused(
        self, call: Call, call_id: str, decision: Decision, written: tuple[str, ...], asked: Asked
    ) -> ToolOutcome:
        # What stands whatever was allowed in general is not offered to be allowed in general.
        risky = any(requirement.risk is Risk.L3 for requirement in call.tool.manifest.permission_requirements)
        safety = risky or any(guard.effect == "ask" for guard in asked.guards)
        return ToolOutcome(
            call_id,
            call.tool.tool_id,
            "denied",
            decision=decision,
            message=denial_message(decision, call.language),
            events=written,
            suggested=asked.action if decision.effect == "ask" and not safety else None,
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

    def _record(self, transaction: Transaction, call: Call, call_id: str, input_digest: str) -> Execution | None:
        """Insert the execution, or return the one that this key already has."""
        request = call.request
        key = idempotency_key(
            request.tenant,
            request.user,
            request.agent,
            request.chat,
            call.tool.tool_id,
            request.message_id,
            call.ordinal,
        )
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
            input_digest=input_digest,
            started_at=transaction.now_ms,
        )
        return None

    def _execute(self, call: Call, call_id: str, validated: BaseModel, decision: Decision) -> ToolOutcome:
        started = time.perf_counter()
        try:
            output = self._redacted(call, execute(call.tool, self._context(call, decision), validated))
        except ToolFailure as failure:
            status: Literal["timeout", "failed"] = "timeout" if failure.code == "timeout" else "failed"
            written = self._finish(call, call_id, ExecutionStatus(status), failure.code, started)
            message = render(f"tool.{failure.code}", call.language, {"tool": call.tool.tool_id})
            return ToolOutcome(
                call_id,
                call.tool.tool_id,
                status,
                decision=decision,
                error_code=failure.code,
                message=message,
                events=written,
            )
        written = self._finish(call, call_id, ExecutionStatus.SUCCEEDED, None, started)
        return ToolOutcome(call_id, call.tool.tool_id, "succeeded", output=output, decision=decision, events=written)

    def _redacted(self, call: Call, output: BaseModel) -> BaseModel:
        """The output without secrets: whoever reads it, no one needs them (U4). Raises ``ToolFailure``."""
        redactor = self._secrets.redactor(call.request.tenant)
        if not redactor:
            return output
        plain = output.model_dump(mode="json")
        redacted = redactor.redact_value(plain)
        if redacted == plain:
            return output
        try:
            return call.tool.output_schema.model_validate(redacted)
        except ValidationError:
            raise ToolFailure("invalid_output") from None

    def _opened(self, call: Call) -> dict[str, SecretStr]:
        """What the declared slots hold. A slot that is empty fails the call: nobody else's stands in (U4)."""
        request = call.request
        opened: dict[str, SecretStr] = {}
        for slot in call.tool.secrets:
            owner = slot.owner(tenant=request.tenant, user=request.user, skill=call.tool.manifest.id)
            try:
                opened[slot.name] = self._secrets.open(request.tenant, owner, slot.name)
            except ProwessError as error:
                raise ToolFailure(error.code) from None
        return opened

    def _context(self, call: Call, decision: Decision) -> ToolContext:
        """The resources that the skill declared and the user granted, and nothing else (M2). Raises ``ToolFailure``."""
        request, manifest = call.request, call.tool.manifest
        granted = {grant.code for grant in decision.grants}
        layers = frozenset(str(layer) for layer in manifest.permissions.memory.read_layers)
        readable = "memory:read" in granted and layers
        source = self.proposals if "automation:propose" in granted else None
        return ToolContext(
            tenant=request.tenant,
            user=request.user,
            agent=request.agent,
            language=call.language,
            now=self._log.clock.now(),
            cancel=CancelToken(),
            secrets=self._opened(call),
            proposals=None if source is None else source(request),
            memories=self._memory.reader(request.tenant, request.user, request.agent, layers) if readable else None,
            activity=ScopedActivity(self._log, request) if ACTIVITY in granted else None,
        )

    def _finish(
        self, call: Call, call_id: str, status: ExecutionStatus, error_code: str | None, started: float
    ) -> tuple[str, ...]:
        duration_ms = round((time.perf_counter() - started) * 1000)
        with self._log.transaction(call.request.tenant) as transaction:
            finish_execution(transaction.connection, call_id, status, error_code, duration_ms)
            decision = "succeeded" if status is ExecutionStatus.SUCCEEDED else "failed"
            self._emit(
                transaction, "tool.finished", call, call_id, decision, error_code=error_code, duration_ms=duration_ms
            )
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


def _recorded_code(execution: Execution, input_digest: str) -> str | None:
    """Null where this very write is known to have succeeded (U7).

    A call that never finished has an unknown outcome; one that asked for something else has done nothing for this one.
    """
    if execution.input_digest != input_digest:
        return "input_differs"
    if execution.status is ExecutionStatus.RUNNING:
        return "outcome_unknown"
    return execution.error_code
