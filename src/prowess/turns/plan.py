"""A turn that has begun, and the tools that it may call."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prowess.chat.model import Agent
from prowess.skills.catalog import CatalogEntry
from prowess.turns.definitions import Instruction, SkillDefinition, ToolSkill
from prowess.turns.request import PlanTool, RunView, Selection, SessionView, TurnRequest
from prowess.turns.store import TurnRecord


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
    callable_tools: Mapping[str, ToolSkill] = field(repr=False)
    calls: Counter[str] = field(default_factory=Counter, repr=False)
    """calls so far, by tool"""
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
    def tools(self) -> tuple[PlanTool, ...]:
        """The tools that may be called, by name."""
        return tuple(_offer(self.callable_tools[name]) for name in sorted(self.callable_tools))


def tools_here(candidates: Iterable[CatalogEntry[SkillDefinition]], request: TurnRequest) -> dict[str, ToolSkill]:
    """The tools of the skills that are enabled and serve this kind of chat; the gate judges each call."""
    definitions = (entry.definition for entry in candidates)
    return {
        tool.tool_id: tool
        for tool in definitions
        if isinstance(tool, ToolSkill) and request.scope in tool.manifest.scopes
    }


def _offer(tool: ToolSkill) -> PlanTool:
    return PlanTool(tool.tool_id, tool.manifest.id, tool.manifest.description, tool.input_schema.model_json_schema())
