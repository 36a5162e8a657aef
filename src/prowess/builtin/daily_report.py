"""``daily-report@1.0.0``: a Markdown report of the day, from what the agent may read of its user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prowess.kernel.untrusted import Untrusted, quote
from prowess.messages import render
from prowess.skills.manifest import (
    ChatScope,
    Constraints,
    MemoryPermissions,
    RequirementSpec,
    ResourcePermissions,
    Schedule,
    SkillKind,
    SkillManifest,
    TriggerRules,
)
from prowess.turns.definitions import Activity, Instruction, ToolContext, ToolSkill, ToolTurn

SKILL_ID = "daily-report"
TOOL_ID = "daily-report.compose"
MAX_MEMORIES = 6
MAX_DAYS = 31
_MARKUP = re.compile(r"[\\`*_{}\[\]()<>#+\-!|~&]")


class ReportInput(BaseModel):
    """How many days back."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 1


class ReportOutput(BaseModel):
    """The report."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    markdown: Annotated[str, Field(min_length=1, max_length=60_000)]


def build_input(_turn: ToolTurn) -> Mapping[str, Any]:
    """The day."""
    return {"days": 1}


def compose(context: ToolContext, arguments: ReportInput) -> ReportOutput:
    """Read and write it down. Raises ``RuntimeError`` where the call came without the declared permissions."""
    if context.activity is None or context.memories is None:
        raise RuntimeError("daily-report was called without what it declares")
    activity = context.activity.since(context.now - timedelta(days=arguments.days))
    remembered = [hit.memory.text for hit in context.memories.most_important(MAX_MEMORIES)]
    return ReportOutput(markdown=_markdown(context, activity, remembered))


def build_instruction(output: ReportOutput, language: str) -> Instruction:
    """Hand it over as it stands."""
    text = render("builtin.report.instruction", language)
    report = quote(Untrusted(output.markdown, "report"), language=language)
    return Instruction(f"{text}\n\n{report}", (output.markdown,), language)


def _markdown(context: ToolContext, activity: Activity, remembered: list[str]) -> str:
    def words(key: str, **fields: Any) -> str:
        return render(f"builtin.report.{key}", context.language, fields)

    blocks = [
        f"# {words('title', date=context.now.date().isoformat())}",
        f"## {words('talk')}",
        words("counts", said=activity.said, answered=activity.answered, fired=activity.fired),
        f"## {words('skills')}",
        _table(activity, words("columns")) if activity.skills else words("no_skills"),
        f"## {words('waiting')}",
        "\n".join(f"- {skill}" for skill in activity.waiting) or words("nothing_waits"),
        f"## {words('memories')}",
        "\n>\n".join(f"> {_plain(text)}" for text in remembered) or words("nothing_remembered"),
    ]
    return "\n\n".join(blocks)


def _table(activity: Activity, columns: str) -> str:
    rows = [
        f"| {item.skill_id} | {item.uses} | {item.completed} | {item.failed + item.denied} |"
        for item in activity.skills
    ]
    return "\n".join([columns, "|---|---:|---:|---:|", *rows])


def _plain(text: str) -> str:
    """Remembered words on one line, with all that Markdown or HTML would obey written out: they are nobody's report."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def skill() -> ToolSkill:
    """The definition: it asks for a schedule, which becomes a trigger only when a person confirms it (B15)."""
    manifest = SkillManifest(
        id=SKILL_ID,
        version="1.0.0",
        kind=SkillKind.TOOL,
        description=(
            "Compose a report of the day in Markdown: conversations, skills used, open questions, what is remembered. "
            "每日报告：汇总当天的对话、使用的技能、待回答的问题和记住的内容。"
        ),
        scopes=(ChatScope.SINGLE,),
        display_name="Daily report · 每日报告",
        triggers=TriggerRules(
            patterns=(
                r"(?:(?:给我|帮我|请)(?:写|出|做|生成|来|看)?|(?:写|出|做|生成|来))(?:一?份|个)?(?:今天的?|今日|每日|当日)(?:报告|日报|总结)",
                r"\b(?:write|compose|give me|show me|make)\s+(?:me\s+)?(?:a|the|my|today'?s)\s+(?:daily\s+)?report\b",
            )
        ),
        requirements=tuple(
            RequirementSpec.model_validate({"code": code, "risk": "L1", "approval": "persistent"})
            for code in ("activity:read", "memory:read")
        ),
        permissions=ResourcePermissions(memory=MemoryPermissions(read_layers=("L2", "L3"))),
        constraints=Constraints(schedule=Schedule(type="cron", expression="0 18 * * *")),
        tags=("report", "报告"),
        category="planning",
    )
    return ToolSkill(
        manifest=manifest,
        tool_id=TOOL_ID,
        timeout=timedelta(seconds=5),
        max_calls_per_turn=1,
        input_schema=ReportInput,
        output_schema=ReportOutput,
        build_input=build_input,
        execute=compose,
        build_system_instruction=build_instruction,
        effect="read",
    )
