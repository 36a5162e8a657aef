"""What one tool call came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from prowess.access.model import Decision, EffectiveAction

CallStatus = Literal[
    "succeeded", "pending", "denied", "failed", "timeout", "invalid_input", "over_limit", "not_found", "recorded"
]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A refusal is an outcome, not an exception: the loop that called goes on."""

    id: str
    tool: str
    status: CallStatus
    """``pending``: it waits for a person's yes; ``recorded``: a repeated write, answered from its record (X4)"""
    output: BaseModel | None = None
    decision: Decision | None = None
    error_code: str | None = None
    message: str | None = None
    """for the caller's model, in the turn's language, where there is no output"""
    detail: tuple[Mapping[str, str], ...] = ()
    """for ``invalid_input``: ``place`` and ``fault`` of each"""
    events: tuple[str, ...] = ()
    """types of the events that the call wrote"""
    suggested: EffectiveAction | None = None
    """where a yes was asked for that a person may give once and for all: what an "always allow" would bind (U5)"""
    approval: str | None = None
    """where it waits: the id of the approval"""

    def to_json(self) -> dict[str, Any]:
        """The shape that ``app.call`` hands to somebody else's loop."""
        return {
            "id": self.id,
            "tool": self.tool,
            "status": self.status,
            "output": None if self.output is None else self.output.model_dump(mode="json"),
            "decision": None if self.decision is None else self.decision.to_json(),
            "error_code": self.error_code,
            "message": self.message,
            "detail": [dict(fault) for fault in self.detail],
            "approval": self.approval,
        }

    def to_answer(self) -> dict[str, Any]:
        """What a model is told: ``{"status", "output"}`` or ``{"status", "message"}`` and what more there is."""
        if self.output is not None:
            return {"status": "ok", "output": self.output.model_dump(mode="json")}
        answer: dict[str, Any] = {"status": self.status, "message": self.message or self.status}
        if self.error_code is not None:
            answer["error"] = self.error_code
        if self.detail:
            answer["detail"] = [dict(fault) for fault in self.detail]
        if self.approval is not None:
            answer["approval"] = self.approval
        return answer
