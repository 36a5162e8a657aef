"""A turn that has begun, and the tools that it may call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from prowess.access.surface import GroupId
from prowess.chat.model import Agent
from prowess.kernel.untrusted import quote
from prowess.turns.definitions import Instruction, PromptSkill, ToolSkill
from prowess.turns.fencing import Fence
from prowess.turns.meta import meta_tools
from prowess.turns.request import PlanTool, RunView, Selection, SessionView, TurnRequest
from prowess.turns.stopping import TurnStop
from prowess.turns.store import TurnRecord
from prowess.turns.view import TurnView


@dataclass(kw_only=True)
class TurnPlan:
    """What ``begin`` hands over: say it with ``instruction``, call ``tools`` if you like, then ``finish``.

    ``reply`` is set where nobody need speak any more: a safety response, or the stored reply of a repeated message.
    """

    request: TurnRequest
    agent: Agent
    record: TurnRecord
    instruction: Instruction | None
    reply: str | None
    replayed: bool
    language: str
    started_at: datetime
    view: TurnView = field(repr=False)
    equipped: Callable[[], frozenset[GroupId] | None] = field(repr=False)
    """what is stored as equipped at this moment"""
    stop: TurnStop = field(repr=False)
    """whether the turn was stopped, and what of it runs in this process (U10)"""
    fence: Fence | None = field(default=None, repr=False)
    """asked before every effect of the turn, where a job runs it"""
    ordinals: dict[str, set[int]] = field(default_factory=dict, repr=False)
    """by tool: which of its calls in this turn ran or are running (X1, X4)"""
    calls_made: int = 0
    """of all tools, refused ones included (T12)"""
    pending: dict[str, str] = field(default_factory=dict, repr=False)
    """by approval id: the name of the tool whose call waits"""
    limited: set[str] = field(default_factory=set, repr=False)
    """limits that were reached"""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def message_id(self) -> str:
        """The message that the turn answers."""
        return self.request.message_id

    @property
    def selection(self) -> Selection | None:
        """Which skill serves the turn."""
        return self.record.selection

    @property
    def session(self) -> SessionView | None:
        """The workflow session that the turn belongs to."""
        return self.record.session

    @property
    def run(self) -> RunView | None:
        """The run, with the status that it takes when the turn is finished."""
        return self.record.run

    @property
    def serving(self) -> str | None:
        """The id of the skill that serves the turn."""
        return None if self.selection is None else self.selection.skill_id

    @cached_property
    def tools_by_name(self) -> Mapping[str, ToolSkill]:
        """Every tool that the agent has in this kind of chat, granted or not: the gate judges each call."""
        if self.record.kind == "safety":
            return {}
        return {tool.tool_id: tool for tool in self.view.tools_in(self.request.scope)}

    @cached_property
    def allowed_tools(self) -> frozenset[str] | None:
        """The only tools that the serving skill may use, where its file says so (C41)."""
        if self.selection is None:
            return None
        entry = self.view.entry(self.selection.skill_id)
        definition = None if entry is None else entry.definition
        if not isinstance(definition, PromptSkill) or definition.manifest.allowed_tools is None:
            return None
        return frozenset(definition.manifest.allowed_tools)

    @property
    def tools(self) -> tuple[PlanTool, ...]:
        """The tools that may be called at this moment, by name, the meta tools first; none under a safety response."""
        if self.record.kind == "safety":
            return ()
        surface = self.view.surface(self.equipped())
        if self.serving is not None:
            surface = surface.with_loaded(self.serving)
        allowed = self.allowed_tools
        names = (
            name
            for name in sorted(self.tools_by_name)
            if (allowed is None or name in allowed) and surface.execute(name).allowed
        )
        return (
            *meta_tools(self.view, self.language),
            *(_offer(self.tools_by_name[name], self.language) for name in names),
        )


def _offer(tool: ToolSkill, language: str) -> PlanTool:
    description = tool.manifest.description
    if tool.described is not None:
        description += "\n" + quote(tool.described, language=language)
    return PlanTool(tool.tool_id, tool.manifest.id, description, tool.input_json_schema)
