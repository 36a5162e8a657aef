"""``goal-check-in-reminder@1.0.0``: at the agreed time the agent asks how the goal is going (B9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prowess.kernel.text import language_of
from prowess.messages import render
from prowess.skills.manifest import ChatScope, RequirementSpec, SkillKind, SkillManifest
from prowess.turns.definitions import BackgroundRequest, BackgroundSkill

SKILL_ID = "goal-check-in-reminder"
CODE = "proactive_message:write"
MAX_FOCUS = 2_000


class CheckInPayload(BaseModel):
    """Agent, conversation, and what the person wants to look at; made by the server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: Annotated[str, Field(min_length=1, max_length=200)]
    agent_name: Annotated[str, Field(min_length=1, max_length=200)]
    conversation_id: Annotated[str, Field(min_length=1, max_length=200)]
    note: Annotated[str, Field(max_length=MAX_FOCUS)] = ""


def build_payload(request: BackgroundRequest) -> Mapping[str, Any]:
    """The four fields of the specification."""
    return {
        "agent_id": request.agent_id,
        "agent_name": request.agent_name,
        "conversation_id": request.conversation_id,
        "note": request.note.strip(),
    }


def compose(payload: CheckInPayload, language: str) -> str:
    """The time has come; the focus, quoted, or a default prompt; a question on progress."""
    spoken = language_of(payload.note, language)
    focus = render("check_in.focus", spoken)
    if payload.note:
        # Quoted for the person who reads it; nothing of it is an instruction to anybody.
        focus = "\n".join(f"> {line}" for line in payload.note.splitlines() if line.strip())
    return "\n".join((render("check_in.opening", spoken), focus, render("check_in.question", spoken)))


def skill() -> BackgroundSkill:
    """The definition."""
    manifest = SkillManifest(
        id=SKILL_ID,
        version="1.0.0",
        kind=SkillKind.BACKGROUND,
        description="Asks in the conversation how a goal is going, at a time that was agreed. "
        "在约定的时间主动询问目标进展。",
        display_name="Goal check-in reminder",
        scopes=(ChatScope.SINGLE,),
        requirements=(RequirementSpec.model_validate({"code": CODE, "risk": "L2", "approval": "persistent"}),),
        tags=("goals", "reminder"),
        category="planning",
    )
    return BackgroundSkill(
        manifest=manifest,
        payload_schema=CheckInPayload,
        build_payload=build_payload,
        compose=compose,
        max_attempts=3,
        earliest=timedelta(minutes=1),
        latest=timedelta(days=365),
    )
