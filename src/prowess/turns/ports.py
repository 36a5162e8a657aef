"""What the turn needs from outside (T10). The offline voice is one adapter; models are the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from prowess.turns.definitions import Instruction
from prowess.turns.request import PlanTool


@dataclass(frozen=True, slots=True)
class Line:
    """One earlier message."""

    role: Literal["user", "agent"]
    text: str
    author: str = ""
    """who said it, where a group has several: a user's id or an agent's name; empty in a conversation of two"""


@dataclass(frozen=True, slots=True)
class SkillCard:
    """A skill whose manual the model may load: what the system prompt says of it."""

    id: str
    description: str


@dataclass(frozen=True, slots=True)
class VoiceLimits:
    """What one reply may cost (T12). Calls of tools are counted where they are dispatched."""

    requests: int = 16
    """requests to the model, retries apart; the last one is made without tools, so that it can only answer"""
    tokens: int = 200_000
    """input and output tokens over all requests"""
    seconds: float = 120.0
    """wall time, tools included"""


class ToolBox(Protocol):
    """The tools of one turn, as its voice sees them: cut to what this user may call at this moment (T11)."""

    def tools(self) -> tuple[PlanTool, ...]:
        """What may be called now; asked again before every request, because a call can equip more or less.

        Raises ``Conflict('turn_stopped')`` once the turn was stopped: a voice lets it pass, and asks nothing more.
        """
        ...

    def call(self, name: str, arguments: Any) -> Mapping[str, Any]:
        """The answer for the model: ``{"status", "output"}`` or ``{"status", "error", "message"}``, plain JSON.

        Blocks; safe to call from any thread. An unknown tool, one that is not there for this user, arguments that are
        no JSON object, a limit and a failure are answers too, and each is an event. Raises nothing but ``tools`` does.
        """
        ...


class StopSignal(Protocol):
    """Says when a turn is stopped (U10)."""

    @property
    def stopped(self) -> bool:
        """Whether it is."""
        ...

    def listening(self, listener: Callable[[], None]) -> AbstractContextManager[None]:
        """Have ``listener`` called when it is, at once where it is already; from any thread."""
        ...


class Suspended(Exception):
    """Calls of a reply wait for approval: the voice has stopped, and its ``state`` lets any process go on (G13)."""

    def __init__(self, state: str, said: str = "") -> None:
        self.state = state
        self.said = said
        """what was said before, where the caller has not heard it yet"""
        super().__init__("suspended")


@dataclass(frozen=True, slots=True)
class Resumed:
    """A reply that goes on where ``Suspended`` stopped it."""

    state: str
    """what the voice handed out"""
    outcomes: Mapping[str, Mapping[str, Any]]
    """by approval id: the answer for the model, in the form of ``ToolBox.call``"""


@dataclass(slots=True)
class Spending:
    """What a reply has cost so far; a voice that pays for tokens adds them as it learns of them (U9)."""

    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Those of one request."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens


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
    skills: tuple[SkillCard, ...] = ()
    """granted skills that can be loaded on demand; empty: the system prompt has no block of them"""
    toolbox: ToolBox | None = None
    limits: VoiceLimits = VoiceLimits()
    stop: StopSignal | None = None
    """says when the turn is stopped: a voice that waits for something breaks off then, with whatever error"""
    spending: Spending | None = None
    """where what the reply costs is to be told"""
    resumed: Resumed | None = None
    """set where an earlier reply goes on; a voice without a state of its own says ``instruction``"""


class Voice(Protocol):
    """Turns an instruction into a reply, in the agent's own voice.

    Both methods raise ``VoiceError`` where the model cannot answer, and ``Suspended`` where a call waits for a yes:
    after the other calls of that answer ran.
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
