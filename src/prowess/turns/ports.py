"""What the turn needs from outside (T10). The offline voice is one adapter; models are the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

from prowess.turns.definitions import Instruction


@dataclass(frozen=True, slots=True)
class Line:
    """One earlier message."""

    role: Literal["user", "agent"]
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that a voice is given for one reply."""

    agent_name: str
    persona: str
    """how the agent speaks; may be empty"""
    language: str
    """``en`` or ``zh``: the language to answer in"""
    text: str
    """the user's message"""
    instruction: Instruction | None
    """null: no skill serves this turn"""
    history: tuple[Line, ...] = ()


class Voice(Protocol):
    """Turns an instruction into a reply, in the agent's own voice.

    Both methods raise ``VoiceError`` where the model cannot answer.
    """

    @property
    def name(self) -> str:
        """Shown by ``prowess doctor`` and recorded with the turn."""
        ...

    @property
    def instant(self) -> bool:
        """Whether it waits for nothing. Then it is asked before the turn is committed, and one commit stores it all."""
        ...

    @property
    def history_length(self) -> int:
        """How many earlier messages it wants to see; 0 for none."""
        ...

    def speak(self, prompt: Prompt) -> str:
        """The whole reply."""
        ...

    def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        """The reply in pieces."""
        ...
