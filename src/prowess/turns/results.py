"""What a turn came to: runs and calls noted on its plan, errors of the voice, the result (T3, T8)."""

from __future__ import annotations

import logging
from dataclasses import replace

from prowess.access.quotas.model import EXHAUSTED
from prowess.errors import InvalidInput, ProwessError, VoiceError
from prowess.turns.definitions import Instruction, ToolSkill
from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.request import DecisionView, RunView, ToolCallView, TurnResult
from prowess.turns.runners.tool import failure_instruction
from prowess.turns.runs import RunStatus
from prowess.turns.words import denial_instruction, instruct, waiting_instruction

logger = logging.getLogger(__name__)


def tool_turn(plan: TurnPlan, tool: ToolSkill, outcome: ToolOutcome) -> tuple[RunStatus, str | None, Instruction]:
    """Run status, error code and instruction of a turn that a tool served."""
    language, name = plan.language, tool.manifest.display_name or tool.manifest.id
    if outcome.status == "succeeded" and outcome.output is not None:
        try:
            return RunStatus.COMPLETED, None, tool.build_system_instruction(outcome.output, language)
        except Exception as error:
            # The exception's own text may quote the output, so only its type is logged (R3).
            logger.warning("instruction of tool %s raised %s", tool.tool_id, type(error).__name__)
            return RunStatus.FAILED, "instruction_failed", failure_instruction(tool, "tool_error", language)
    if outcome.approval is not None:
        return RunStatus.WAITING_USER, None, waiting_instruction({outcome.approval: name}, language)
    if outcome.error_code == EXHAUSTED:
        return RunStatus.DENIED, EXHAUSTED, failure_instruction(tool, EXHAUSTED, language)
    if outcome.status == "denied" and outcome.decision is not None:
        instruction = denial_instruction(outcome.decision, tool.manifest.id, name, plan.agent.name, language)
        return RunStatus.DENIED, outcome.decision.reason, instruction
    if outcome.status == "recorded" and outcome.error_code is None:
        return RunStatus.COMPLETED, None, instruct("already_done", language, name=name)
    code = outcome.error_code or "tool_error"
    return RunStatus.FAILED, code, failure_instruction(tool, code, language)


def set_run(plan: TurnPlan, status: RunStatus, error_code: str | None) -> None:
    """Note how the run of the turn ends."""
    run = plan.record.run
    plan.record = replace(plan.record, run=None if run is None else RunView(run.id, str(status)), run_error=error_code)


def note_call(plan: TurnPlan, outcome: ToolOutcome) -> None:
    """Note a tool call on the plan; several may end at once."""
    with plan.lock:
        record = plan.record
        decision = outcome.decision
        view = decision and DecisionView(
            decision.effect, decision.layer and str(decision.layer), decision.missing, decision.reason
        )
        plan.record = replace(
            record,
            tool_calls=(*record.tool_calls, ToolCallView(outcome.id, outcome.tool, outcome.status)),
            decision=view or record.decision,
            events=(*record.events, *outcome.events),
            pending=tuple(dict.fromkeys((*record.pending, *filter(None, (outcome.approval,))))),
        )
        if outcome.approval is not None:
            tool = plan.tools_by_name[outcome.tool]
            plan.pending[outcome.approval] = tool.manifest.display_name or tool.manifest.id
        elif decision is not None and decision.reason == "approved":
            plan.pending.pop(decision.rule or "", None)  # it was given meanwhile, and used by this loop itself


def as_voice_error(error: Exception) -> ProwessError:
    """What the caller is told: a reply that cannot be stored is the voice's fault, not the input's."""
    if isinstance(error, ProwessError) and not isinstance(error, InvalidInput):
        return error
    cause = error.code if isinstance(error, ProwessError) else type(error).__name__
    return VoiceError("voice_failed", cause=cause)


def turn_result(plan: TurnPlan, reply: str) -> TurnResult:
    """The result as callers see it."""
    record = plan.record
    return TurnResult(
        message_id=plan.message_id,
        reply=reply,
        selection=record.selection,
        session=record.session,
        run=record.run,
        decision=record.decision,
        instruction=None if plan.instruction is None else plan.instruction.text,
        tool_calls=record.tool_calls,
        pending_approvals=record.pending,
        replayed=plan.replayed,
        events=record.events,
    )
