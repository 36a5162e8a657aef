"""What a voice is given for one reply (T9, T10). Nothing in it holds a secret of the tenant (U4)."""

from __future__ import annotations

from typing import Literal

from prowess.chat.model import Message
from prowess.chat.store import list_messages
from prowess.events.log import EventLog
from prowess.kernel.redaction import Redactor
from prowess.turns.definitions import Instruction, PromptSkill
from prowess.turns.limits import TurnLimits
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Line, Prompt, SkillCard, ToolBox, Voice

MAX_CARDS = 200
"""skills that the system prompt of a model names"""


def build_prompt(log: EventLog, plan: TurnPlan, voice: Voice, toolbox: ToolBox | None, limits: TurnLimits) -> Prompt:
    """The prompt of a turn: as much history as the voice wants, and what it may load and call."""
    return Prompt(
        agent_name=plan.agent.name,
        persona=plan.agent.persona,
        language=plan.language,
        text=log.redactor(plan.request.tenant).redact(plan.request.said),
        instruction=plan.instruction,
        history=_history(log, plan, voice.history_length),
        skills=() if voice.instant else _cards(plan),
        toolbox=toolbox,
        limits=limits.voice,
        stop=plan.stop,
    )


def redacted_instruction(instruction: Instruction | None, redactor: Redactor) -> Instruction | None:
    """An instruction may quote the user, who may have typed a secret."""
    if instruction is None or not redactor:
        return instruction
    say = tuple(map(redactor.redact, instruction.say))
    return Instruction(redactor.redact(instruction.text), say, instruction.language)


def _history(log: EventLog, plan: TurnPlan, wanted: int) -> tuple[Line, ...]:
    if not wanted:
        return ()
    with log.database.read() as connection:
        said = list_messages(connection, plan.request.tenant, plan.request.chat, limit=wanted + 1)
    grouped = plan.request.group is not None
    lines = [
        Line(_role(item, plan), item.text, item.author if grouped else "")
        for item in said
        if item.id != plan.message_id
    ]
    return tuple(lines[-wanted:])


def _role(message: Message, plan: TurnPlan) -> Literal["user", "agent"]:
    """In a group another agent's words are not this agent's own."""
    return "agent" if message.author_kind == "agent" and message.author == plan.request.agent else "user"


def _cards(plan: TurnPlan) -> tuple[SkillCard, ...]:
    """The granted manuals that a model may load, but the one it is given anyway."""
    return tuple(
        SkillCard(entry.manifest.id, entry.manifest.description)
        for entry in plan.view.candidates
        if isinstance(entry.definition, PromptSkill)
        and plan.request.scope in entry.manifest.scopes
        and entry.manifest.id != plan.serving
    )[:MAX_CARDS]
