"""Stopping a turn whose calls wait for a yes, and what its approvals came to when it goes on (G13, C36, C43, C86)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any

from prowess.access.approvals.model import Approval
from prowess.messages import render
from prowess.turns.definitions import Instruction
from prowess.turns.plan import TurnPlan
from prowess.turns.runners.tool import failure_instruction
from prowess.turns.runs import RunStatus
from prowess.turns.stopping import turn_key
from prowess.turns.suspended import SUSPENSION_LIFETIME, SuspendedTurn
from prowess.turns.words import instruct, waiting_instruction

logger = logging.getLogger(__name__)

_FAILED = ("failed", "timeout")
_TOLD = ("denied", "permission_timeout", "approval_unused", "outcome_unknown", "succeeded")


def suspension(plan: TurnPlan, state: str | None, earlier: SuspendedTurn | None = None) -> SuspendedTurn:
    """What is stored of a turn that stops to wait; ``earlier``: it had stopped before."""
    rights = plan.view.rights
    return SuspendedTurn(
        turn=turn_key(plan.request),
        user=plan.request.user,
        origin=plan.request.origin,
        language=plan.language,
        state=state,
        approvals=tuple(plan.pending),
        mode=rights.mode,
        unattended=rights.unattended,
        above=rights.above,
        revision=1 if earlier is None else earlier.revision + 1,
        expires_at=plan.started_at + SUSPENSION_LIFETIME,
    )


def waiting_reply(plan: TurnPlan, said: str = "") -> str:
    """What the user is told, in fixed words: which calls wait, and that nothing was done yet."""
    waiting = "\n".join(waiting_instruction(plan.pending, plan.language).say)
    return f"{said}\n\n{waiting}" if said.strip() else waiting


def answer_of(approval: Approval, language: str) -> dict[str, Any]:
    """What a model is told of a call that waited: the tool's own answer, or truly why there is none."""
    if approval.result is not None:
        answer: dict[str, Any] = json.loads(approval.result)
        return answer
    outcome = approval.outcome or "outcome_unknown"
    status = "ok" if outcome == "succeeded" else str(approval.status)
    if approval.used_at is not None and status != "ok":
        status = "failed"
    return {"status": status, "error": outcome, "message": render(f"approval.{_word(outcome)}", language)}


def instruction_of(plan: TurnPlan, approvals: Iterable[Approval]) -> Instruction:
    """The outcomes for a voice that has no state of its own: each success in the tool's words, all else honestly."""
    parts = [_instruction(plan, approval) for approval in approvals]
    say = tuple(line for part in parts for line in part.say)
    return Instruction("\n\n".join(part.text for part in parts), say, plan.language)


def run_status(approvals: Iterable[Approval]) -> tuple[RunStatus, str | None]:
    """How the run of a turn ends whose tool waited: by the first of its calls that did not succeed."""
    for approval in approvals:
        if approval.outcome == "succeeded":
            continue
        return (RunStatus.DENIED if approval.used_at is None else RunStatus.FAILED), approval.outcome
    return RunStatus.COMPLETED, None


def _instruction(plan: TurnPlan, approval: Approval) -> Instruction:
    outcome, tool = approval.outcome or "outcome_unknown", plan.tools_by_name.get(approval.call.tool)
    name = approval.call.skill_id if tool is None else tool.manifest.display_name or tool.manifest.id
    answer = {} if approval.result is None else json.loads(approval.result)
    if tool is not None and "output" in answer:
        try:
            output = tool.output_schema.model_validate(answer["output"])
            return tool.build_system_instruction(output, plan.language)
        except Exception as error:
            # The exception's own text may quote the output, so only its type is logged (R3).
            logger.warning("instruction of tool %s raised %s", tool.tool_id, type(error).__name__)
            return failure_instruction(tool, "tool_error", plan.language)
    if tool is not None and outcome in _FAILED:
        return failure_instruction(tool, answer.get("error", outcome), plan.language)
    return instruct(f"approval_{_word(outcome)}", plan.language, name=name)


def _word(outcome: str) -> str:
    return outcome if outcome in _TOLD else "refused"
