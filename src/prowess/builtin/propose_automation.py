"""``propose-automation@1.0.0``: leave an automation for the user to confirm; never anything active (B15, G15)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from prowess.messages import render
from prowess.skills.manifest import (
    ChatScope,
    ParameterSpec,
    RequirementSpec,
    ReturnSpec,
    SkillKind,
    SkillManifest,
    ToolSpec,
)
from prowess.turns.definitions import Instruction, ToolContext, ToolSkill, ToolTurn

TOOL_ID = "automations.propose"
PERMISSION = "automation:propose"
MAX_NAME, MAX_PROMPT = 120, 8_000


class ProposalInput(BaseModel):
    """What to do, and when: exactly one of ``cron``, ``at`` and ``every_seconds``."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_PROMPT)]
    """what the user would say"""
    cron: Annotated[str, Field(max_length=256)] | None = None
    """five fields, in ``tz``"""
    at: Annotated[str, Field(max_length=40)] | None = None
    """local time such as 2027-01-31T09:00, in ``tz``"""
    every_seconds: Annotated[int, Field(ge=10, strict=True)] | None = None
    tz: Annotated[str, Field(max_length=64)] = "UTC"
    """name of the IANA database"""

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if [self.cron, self.at, self.every_seconds].count(None) != 2:
            raise ValueError("give exactly one of cron, at and every_seconds")
        return self


class ProposalOutput(BaseModel):
    """What waits for the user's yes; ``next`` is ISO 8601 in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    name: str
    kind: Literal["once", "cron", "interval"]
    next: str
    status: Literal["proposed"] = "proposed"


def skill() -> ToolSkill:
    """The tool skill: L2, persistent consent to ``automation:propose``, single chats only."""
    return ToolSkill(
        manifest=_manifest(),
        tool_id=TOOL_ID,
        timeout=timedelta(seconds=5),
        max_calls_per_turn=2,
        input_schema=ProposalInput,
        output_schema=ProposalOutput,
        build_input=build_input,
        execute=propose,
        build_system_instruction=build_instruction,
        effect="write",
    )


def _manifest() -> SkillManifest:
    requirement = {"code": PERMISSION, "risk": "L2", "approval": "persistent"}
    return SkillManifest(
        id="propose-automation",
        version="1.0.0",
        kind=SkillKind.TOOL,
        description=(
            "Propose that something be done later or again and again: a reminder, a daily summary. "
            "The user confirms it. 提议稍后或定期要做的事，由用户确认。"
        ),
        scopes=(ChatScope.SINGLE,),
        display_name="Propose an automation · 提议自动化",
        tools=(_tool_spec(),),
        requirements=(RequirementSpec.model_validate(requirement),),
        tags=("automation", "schedule", "自动化", "定时"),
        category="automation",
    )


def _tool_spec() -> ToolSpec:
    def parameter(name: str, description: str, *, required: bool = False, type: str = "string") -> ParameterSpec:
        return ParameterSpec.model_validate(
            {"name": name, "type": type, "description": description, "required": required}
        )

    return ToolSpec(
        name=TOOL_ID,
        description="Leave a proposal for the user to confirm.",
        parameters=(
            parameter("name", "A short name.", required=True),
            parameter("prompt", "What the user would say when it is time.", required=True),
            parameter("cron", "Five fields: minute hour day month weekday."),
            parameter("at", "Or one local time, such as 2027-01-31T09:00."),
            parameter("every_seconds", "Or elapsed seconds.", type="integer"),
            parameter("tz", "IANA zone of cron and at; UTC where it is left out."),
        ),
        returns=ReturnSpec(type="object", description="id, name, kind, next, status"),
    )


def build_input(turn: ToolTurn) -> Mapping[str, Any]:
    """A slash command is read as ``cron fields | what to do``; anything else is refused by the schema."""
    schedule, _, prompt = turn.text.partition("|")
    return {"name": prompt.strip()[:MAX_NAME], "prompt": prompt.strip(), "cron": schedule.strip()}


def propose(context: ToolContext, arguments: ProposalInput) -> Mapping[str, Any]:
    """Leave the proposal. Raises ``RuntimeError`` where the context has no place for it, and as ``Proposals``."""
    if context.proposals is None:
        raise RuntimeError("propose-automation was called without automation:propose")
    return context.proposals.propose({"name": arguments.name, "prompt": arguments.prompt, **_schedule(arguments)})


def _schedule(arguments: ProposalInput) -> Mapping[str, Any]:
    """Kind and spec."""
    if arguments.cron is not None:
        return {"kind": "cron", "spec": {"cron": arguments.cron, "tz": arguments.tz}}
    if arguments.at is not None:
        return {"kind": "once", "spec": {"local": arguments.at, "tz": arguments.tz}}
    return {"kind": "interval", "spec": {"seconds": arguments.every_seconds}}


def build_instruction(output: ProposalOutput, language: str) -> Instruction:
    """Tell the user what waits for them, and that nothing happens without their yes."""
    fields = {"name": output.name, "next": output.next, "id": output.id}
    text = render("builtin.propose.instruct", language, fields)
    return Instruction(text, (render("builtin.propose.say", language, fields),), language)
