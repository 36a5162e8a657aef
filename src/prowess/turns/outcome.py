"""What one tool call came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from prowess.access.model import Decision, EffectiveAction

CallStatus = Literal["succeeded", "denied", "failed", "timeout", "invalid_input", "over_limit", "not_found", "recorded"]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A refusal is an outcome, not an exception: the loop that called goes on."""

    id: str
    tool: str
    status: CallStatus
    """``recorded``: a repeated write, answered from its record (X4)"""
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
        }
