"""Going on after an approval: the call, then the turn, each a new call whose rights are resolved anew (ruling 12.22).

``resume_call`` runs exactly the approved arguments at most once. ``continue_turn`` gives every call that waited its one
true result and lets the voice go on, in whichever process.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prowess.access.approvals.model import Approval, ApprovalStatus, TurnKey
from prowess.chat.model import ChatRef, Message
from prowess.chat.store import find_message
from prowess.errors import Conflict, NotFound
from prowess.events.model import SYSTEM
from prowess.kernel.ids import check_id
from prowess.messages import render
from prowess.turns.calls import call_of
from prowess.turns.commit import Said
from prowess.turns.engine import TurnEngine
from prowess.turns.executions import find_execution, ordinals_of, recorded_code
from prowess.turns.options import NO_OPTIONS, CallOptions
from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Resumed, Suspended
from prowess.turns.request import TurnRequest, TurnResult
from prowess.turns.results import as_voice_error, set_run, turn_result
from prowess.turns.stopped import is_stopped
from prowess.turns.stopping import STOPPED
from prowess.turns.suspended import SuspendedTurn, find_suspended
from prowess.turns.suspending import answer_of, instruction_of, run_status, suspension, waiting_reply
from prowess.turns.view import both_unattended, stricter, unseen_verdict


class ResumingEngine(TurnEngine):
    """An engine whose turns can stop for a person's yes and go on."""

    def resume_call(
        self,
        tenant: str,
        approval_id: str,
        arguments: Mapping[str, Any] | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ToolOutcome:
        """Run the approved call, at most once; whoever comes later is told what came of it.

        Every layer is asked anew: a refusal ends the approval. ``arguments``: must come to the same digest, else the
        call is denied with the reason ``arguments_differ`` and the approval stays (C32). Raises ``NotFound``,
        ``Denied('surface_unresolved')``.
        """
        approval = self._dispatcher.approvals.current(tenant, approval_id)
        if approval.status is not ApprovalStatus.APPROVED or approval.used_at is not None:
            return self._told(approval)
        outcome = self._resume(approval, arguments, options)
        if arguments is None and outcome.status in ("denied", "not_found", "invalid_input"):
            reason = outcome.error_code or (outcome.decision.reason if outcome.decision else "denied")
            with contextlib.suppress(Conflict):  # it ended meanwhile
                self._dispatcher.approvals.cancel(actor=SYSTEM, tenant=tenant, approval_id=approval_id, reason=reason)
        return outcome

    def continue_turn(
        self,
        tenant: str,
        chat: ChatRef,
        message_id: str,
        agent: str,
        reply_id: str,
        options: CallOptions = NO_OPTIONS,
    ) -> TurnResult:
        """Let a suspended turn go on; what it says is stored once, as the agent's message ``reply_id``.

        ``pending_approvals`` of the result: what it waits for now, where it stopped again. Raises ``NotFound`` and
        ``Conflict`` (``turn_not_waiting``), ``Conflict`` (``turn_still_waiting``, ``message_id_reused``,
        ``turn_stopped``), ``VoiceError``, after which it can be tried again.
        """
        check_id(reply_id, "reply_id")
        key = TurnKey(tenant, chat, message_id, agent)
        with self._log.database.read() as connection:
            suspended = find_suspended(connection, key, self._log.clock.now())
            said = find_message(connection, tenant, chat, reply_id)
            stopped = is_stopped(connection, key)
        if said is not None:
            return self._said_already(key, said)
        if stopped:
            raise Conflict(STOPPED, message_id=message_id)
        if suspended is None:
            raise NotFound("turn_not_waiting", message_id=message_id)
        found = {item.id: item for item in self._dispatcher.approvals.of_turn(key)}
        approvals = [found[name] for name in suspended.approvals]
        if any(item.outcome is None for item in approvals):
            raise Conflict("turn_still_waiting", message_id=message_id)
        plan = self._plan_of(key, suspended.user, suspended.origin, suspended.language, suspended, options)
        self._take_ordinals(plan, list(found.values()))
        return self._go_on(plan, suspended, approvals, reply_id)

    def _go_on(self, plan: TurnPlan, suspended: SuspendedTurn, approvals: list[Approval], reply_id: str) -> TurnResult:
        plan.instruction = instruction_of(plan, approvals)
        if plan.record.kind == "tool":
            set_run(plan, *run_status(approvals))
        outcomes = {item.id: answer_of(item, plan.language) for item in approvals}
        resumed = None if suspended.state is None else Resumed(suspended.state, outcomes)
        state: str | None = None
        try:
            reply = self._say(plan, replace(self._prompt(plan), resumed=resumed))
        except Suspended as again:
            reply, state = waiting_reply(plan, again.said), again.state
        except Exception as error:
            plan.stop.check()
            raise as_voice_error(error) from error
        plan.stop.check()
        waiting = suspension(plan, state, suspended) if plan.pending else None
        stored = self._writer.go_on(plan, Said(reply, self.voice.name), reply_id, suspended, waiting)
        return turn_result(plan, stored)

    def _resume(self, approval: Approval, arguments: Mapping[str, Any] | None, options: CallOptions) -> ToolOutcome:
        asked = approval.call
        plan = self._plan_of(asked.turn, asked.user, asked.origin, asked.language, None, options, asked.above)
        tool = plan.tools_by_name.get(asked.tool)
        if tool is None or not unseen_verdict(plan.view, asked.tool).allowed:
            return self._dispatcher.refuse(plan.request, asked.tool, "not_found", asked.language)
        given = json.loads(asked.arguments or "{}") if arguments is None else arguments
        if tool.script is not None:  # what it calls are other calls than those of the turn so far
            self._take_ordinals(plan, list(self._dispatcher.approvals.of_turn(asked.turn)))
        call = call_of(plan, tool, asked.ordinal, self.call, resumed=approval)
        return self._dispatcher.call(call, lambda: given)

    def _told(self, approval: Approval) -> ToolOutcome:
        """What became of a call that is not there to be run."""
        call = approval.call
        if approval.used_at is not None:
            with self._log.database.read() as connection:
                known = find_execution(connection, call.call_key)
            code = "outcome_unknown" if known is None else recorded_code(known, call.input_digest)
            return ToolOutcome(call.call_id, call.tool, "recorded", error_code=code)
        if approval.status is ApprovalStatus.PENDING:
            message = render("tool.pending", call.language)
            return ToolOutcome(call.call_id, call.tool, "pending", message=message, approval=approval.id)
        message = answer_of(approval, call.language)["message"]
        return ToolOutcome(call.call_id, call.tool, "denied", error_code=approval.outcome, message=message)

    def _plan_of(
        self,
        key: TurnKey,
        user: str,
        origin: str,
        language: str,
        suspended: SuspendedTurn | None,
        options: CallOptions,
        above: tuple[str, ...] = (),
    ) -> TurnPlan:
        """The turn as it stands now. Raises ``NotFound('turn_not_waiting')`` where it is gone."""
        chat = ChatRef(*key.chat)  # type: ignore[arg-type]
        with self._log.database.read() as connection:
            message = find_message(connection, key.tenant, chat, key.message_id)
        if message is None:
            raise NotFound("turn_not_waiting", message_id=key.message_id)
        conversation, group = (None, chat.id) if chat.kind == "group" else (chat.id, None)
        request = TurnRequest(key.tenant, user, key.agent, message.text, key.message_id, conversation, group, origin)
        rights = self.rights(request, options)
        if suspended is not None:
            rights = replace(
                rights,
                mode=stricter(rights.mode, suspended.mode),
                unattended=both_unattended(suspended.unattended, rights.unattended),
            )
            above = suspended.above
        reading = self._reader.read(request, replace(rights, above=above))
        if reading.earlier is None:
            raise NotFound("turn_not_waiting", message_id=key.message_id)
        plan = self._plan(
            request, reading, replace(reading.earlier, events=(), pending=(), tool_calls=()), fence=options.fence
        )
        plan.language = language
        return plan

    def _take_ordinals(self, plan: TurnPlan, approvals: list[Approval]) -> None:
        """Calls that ran or wait keep their place: the next call of a tool is another one (X4)."""
        request = plan.request
        with self._log.database.read() as connection:
            taken = ordinals_of(
                connection, request.tenant, request.user, request.agent, request.chat, request.message_id
            )
        for tool, ordinal in [*taken, *((item.call.tool, item.call.ordinal) for item in approvals)]:
            plan.ordinals.setdefault(tool, set()).add(ordinal)

    def _said_already(self, key: TurnKey, said: Message) -> TurnResult:
        if (said.author_kind, said.author, said.reply_to) != ("agent", key.agent, key.message_id):
            raise Conflict("message_id_reused", field="reply_id")
        with self._log.database.read() as connection:
            waiting = find_suspended(connection, key, self._log.clock.now())
        return TurnResult(
            message_id=key.message_id,
            reply=said.text,
            selection=None,
            session=None,
            run=None,
            decision=None,
            instruction=None,
            tool_calls=(),
            pending_approvals=() if waiting is None else waiting.approvals,
            replayed=True,
            events=(),
        )
