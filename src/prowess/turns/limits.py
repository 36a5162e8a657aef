"""What one turn may cost (T12). Each limit is a clear error to the model and an event."""

from __future__ import annotations

from dataclasses import dataclass, field

from prowess.errors import InvalidInput
from prowess.turns.ports import VoiceLimits


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits of every turn, beside each tool's own number of calls a turn (X1)."""

    tool_calls: int = 32
    """calls of all tools together, refused ones included"""
    seconds: float = 600.0
    """from the message to the last tool call, by the runtime's clock"""
    voice: VoiceLimits = field(default=VoiceLimits())
    """of the model that speaks: requests, tokens, wall time"""

    def check(self) -> None:
        """Raises ``InvalidInput('turn_limits')`` for a limit that leaves nothing."""
        amounts = (self.tool_calls, self.seconds, self.voice.requests, self.voice.tokens, self.voice.seconds)
        if not all(amount > 0 for amount in amounts):
            raise InvalidInput("turn_limits", field="limits")
