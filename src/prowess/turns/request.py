"""One entry for every turn, and its result (T1, T3). Attributes are the JSON keys of ``docs/contracts.md``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prowess.chat.model import ChatRef
from prowess.errors import InvalidInput
from prowess.kernel.ids import check_id
from prowess.kernel.text import check_text, language_of
from prowess.kernel.untrusted import Untrusted, quote
from prowess.skills.manifest import ChatScope

Trigger = Literal["explicit", "rule", "semantic", "session"]

BY_USER = "user"
TRIGGER_PREFIX = "trigger:"
AGENT_PREFIX = "agent:"
MAX_DATA_TEXT = 100_000
"""characters of untrusted data beside a message"""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A message and whom it concerns. Exactly one of ``conversation`` and ``group`` is given."""

    tenant: str
    user: str
    agent: str
    text: str
    message_id: str
    conversation: str | None = None
    group: str | None = None
    origin: str = BY_USER
    """who started the turn: ``user``, ``trigger:<id>``, ``agent:<id>``"""
    data: Untrusted | None = None
    """what came with the message and nobody has vouched for, such as a webhook's body: it selects no skill, is no
    command, and reaches the voice fenced (B15)"""

    def check(self) -> None:
        """Refuse what cannot be a turn.

        Raises ``InvalidInput`` naming the field: ``bad_id``, ``wrong_type``, ``text_empty``, ``text_too_long``,
        ``control_character``, ``scope_missing``.
        """
        for field in ("tenant", "user", "agent", "message_id", "origin"):
            check_id(getattr(self, field), field)
        if (self.conversation is None) == (self.group is None):
            raise InvalidInput("scope_missing", field="conversation")
        check_id(self.chat.id, self.chat.kind)
        check_text(self.text, "text")
        if self.data is not None:
            check_text(self.data.text, "data", limit=MAX_DATA_TEXT)

    @property
    def said(self) -> str:
        """The message as it is stored and shown to the voice: the text, and below it the data, fenced."""
        if self.data is None:
            return self.text
        return f"{self.text}\n\n{quote(self.data, language=language_of(self.text))}"

    @property
    def trigger(self) -> str | None:
        """The trigger that started the turn; null where a person or an agent did."""
        return self.origin.removeprefix(TRIGGER_PREFIX) if self.origin.startswith(TRIGGER_PREFIX) else None

    @property
    def chat(self) -> ChatRef:
        """The conversation or group as a typed pair."""
        if self.group is not None:
            return ChatRef("group", self.group)
        return ChatRef("conversation", self.conversation or "")

    @property
    def scope(self) -> ChatScope:
        """Which kind of chat this is (T7)."""
        return ChatScope.SINGLE if self.group is None else ChatScope.GROUP


@dataclass(frozen=True, slots=True)
class Selection:
    """Which skill serves the turn, and why (T3). ``reason`` names a rule, never the user's text."""

    skill_id: str
    version: str
    kind: str
    trigger: Trigger
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class SessionView:
    """What may be shown of a workflow session beside its skill (W12)."""

    id: str
    status: str
    step: str
    revision: int
    pending_question: str | None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and how it went."""

    id: str
    status: str


@dataclass(frozen=True, slots=True)
class DecisionView:
    """What the gate decided for this turn."""

    effect: str
    layer: str | None
    missing: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ToolCallView:
    """One tool call of the turn."""

    id: str
    tool: str
    status: str


@dataclass(frozen=True, slots=True)
class PlanTool:
    """A tool that the voice or another loop may call in this turn."""

    name: str
    skill_id: str | None
    """null: one of the runtime's own meta tools"""
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema"""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of a turn."""

    message_id: str
    reply: str
    selection: Selection | None
    session: SessionView | None
    run: RunView | None
    decision: DecisionView | None
    instruction: str | None
    """for the operator role only; faces drop it for others"""
    tool_calls: tuple[ToolCallView, ...]
    pending_approvals: tuple[str, ...]
    replayed: bool
    events: tuple[str, ...]
    """types of the events this turn wrote, in order"""
