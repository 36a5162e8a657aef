"""``memory-recall@1.0.0``: look up what this agent remembers of this user, and say honestly when it is nothing (X5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prowess.kernel.clock import iso
from prowess.kernel.untrusted import Untrusted, quote
from prowess.messages import render
from prowess.skills.manifest import (
    ChatScope,
    MemoryPermissions,
    ParameterSpec,
    RequirementSpec,
    ResourcePermissions,
    ReturnSpec,
    SkillKind,
    SkillManifest,
    ToolSpec,
    TriggerRules,
)
from prowess.turns.definitions import Instruction, ToolContext, ToolSkill, ToolTurn

TOOL_ID = "agent-memory.search"
MAX_QUERY_LENGTH = 2_000
MAX_MEMORIES = 6


class RecallInput(BaseModel):
    """What to look for, and how many memories at most."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    query: Annotated[str, Field(max_length=MAX_QUERY_LENGTH)]
    limit: Annotated[int, Field(ge=1, le=MAX_MEMORIES, strict=True)] = MAX_MEMORIES


class RecalledMemory(BaseModel):
    """One memory. ``importance`` is in [0, 1]; ``updated_at`` is ISO 8601 in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    importance: Annotated[float, Field(ge=0, le=1)]
    matches: Annotated[int, Field(ge=0)]
    """how many terms of the query it matched"""
    updated_at: str


class RecallOutput(BaseModel):
    """The memories found, best first; empty where there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memories: Annotated[tuple[RecalledMemory, ...], Field(max_length=MAX_MEMORIES)] = ()


# --- when it fires ---------------------------------------------------------------------------------------------------

_ZH_NEAR = r"[^。！？!?\n;；]"
_ZH_ASKS = r"(?:吗|嗎|么|麼|什么|什麼|啥|哪|谁|誰|几|幾|多少|怎么|怎麼|来着|來著|没有|沒有|是不是|[?？])"
_ZH_US = r"(?:我|咱|上次|上回|之前|以前|昨天|前几天|那次)"
_ZH_TELL = r"(?:说|說|讲|講|提|聊|告诉|告訴|交代|介绍|介紹|分享)"
_ZH_WHEN = r"(?:之前|以前|上次|上回|昨天|前天|前几天|曾经|好像|有没有|是不是|应该|最早|刚才)"

_ZH_DO_YOU_REMEMBER = (
    rf"(?:你(?:还|還)?(?:能|会)?|(?:^|[,，、\s])(?:还|還)(?:能)?)(?:记得|記得|记不记得|記不記得|想得起来?|想起来?)"
    rf"{_ZH_NEAR}{{0,6}}?{_ZH_US}{_ZH_NEAR}{{0,40}}?{_ZH_ASKS}"
)
_ZH_DO_YOU_STILL_REMEMBER = rf"(?:你|^\s*|[,，、。!！\s])(?:还|還)(?:记得|記得)(?:关于)?{_ZH_US}|你(?:还|還|都)?(?:记不记得|記不記得)(?:关于)?{_ZH_US}"
_ZH_I_TOLD_YOU = (
    rf"我{_ZH_WHEN}?(?:跟|和|对|對|向|给|給)你{_ZH_WHEN}?{_ZH_TELL}(?:过|過|的){_ZH_NEAR}{{0,40}}?{_ZH_ASKS}"
    rf"|我{_ZH_WHEN}?(?:告诉|告訴)(?:过|過)?你(?:过|過|的)?{_ZH_NEAR}{{0,40}}?{_ZH_ASKS}"
)
_ZH_WHAT_DO_YOU_REMEMBER = r"(?:关于我|關於我|对我|對我)[^。！？!?\n]{0,6}(?:你|都)?(?:还|還|都)?(?:记得|記得|知道|记住|了解)[^。！？!?\n]{0,6}(?:什么|什麼|哪些|多少|啥)|你(?:还|都|還)?(?:记得|記得|记住了?)(?:关于)?我的?(?:什么|什麼|哪些|多少|啥)"
_ZH_DO_YOU_KNOW_ME = (
    rf"你(?:还|還)?(?:知道|清楚|晓得)我(?:最)?(?:喜欢|喜歡|爱|愛|讨厌|怕|叫|住|对什么过敏|的?(?:生日|名字|口味|偏好|爱好|愛好|习惯|职业|家人?|孩子|女儿|儿子|宠物|猫|狗))"
    rf"{_ZH_NEAR}{{0,20}}?{_ZH_ASKS}"
)
_ZH_ASKED_LAST = rf"我{_ZH_NEAR}{{1,40}}?[,，、\s]*你(?:还|還|都)?(?:记得|記得|有印象|想得起来)(?:吗|嗎|么|麼|不)"
_ZH_SEARCH_MEMORY = r"(?:查|搜|翻|找|检索|檢索|调取)(?:一?下|一查|一翻|一找|翻|查|找)?(?:你(?:的|对我的)?|关于我的?|長期|长期)?(?:记忆|記憶)|(?:回忆|回憶|回想)(?:一下|一回)?(?:你)?(?:我|咱)(?:们)?(?:之前|以前|上次|说过|跟你)"

_EN_GAP = r"[^.!?\n;]"
_EN_ABOUT_US = (
    r"(?:me|my|mine|our|us|(?:what|when|where|who|why|how|which|that|if|whether)\s+(?:\w+\s+)?(?:i|we|my|our)"
    rf"|(?:the|that|those|any)\s+{_EN_GAP}{{1,40}}?\b(?:i|we)\s+(?:told|mentioned|said|gave|talked|shared|discussed|spoke|like|love|bought|went|met))"
)
_EN_DO_YOU_REMEMBER = rf"(?:\b(?:do|can|could|would|did)\s+you\s+(?:still\s+|happen\s+to\s+|actually\s+)?(?:remember|recall|recollect)|(?:^|[.!?,\n]\s*)(?:still\s+)?remember(?=\s+(?:what|when|where|who|how)\s+(?:i|we)\s+(?:said|told|mentioned|talked)))\s+{_EN_ABOUT_US}\b"
_EN_TOLD = r"(?:tell|told|say\s+to|said\s+to|mention(?:ed)?(?:\s+to)?|share(?:d)?\s+with|talk(?:ed)?\s+to)\s+you|mention(?:ed)?|say|said"
_EN_WHAT_DID_I_TELL = (
    rf"\b(?:what|when|where|who|which\s+\w+|how\s+much|how\s+many\s+\w+)\s+(?:did|have|had)\s+i\s+(?:\w+\s+)?(?:{_EN_TOLD})\b"
    r"|\b(?:have|did|had)\s+i\s+(?:ever\s+|already\s+|not\s+)?(?:tell|told|mention(?:ed)?(?:\s+to)?|share(?:d)?\s+with)\s+you\b"
    r"|\b(?:have|did)\s+i\s+(?:ever\s+|already\s+)?mention(?:ed)?\s+(?:my|that|the|where|what)\b"
)
_EN_RECALL = r"(?:^|[.!?,\n]\s*|\b(?:please|you)\s+)recall\s+(?:what|when|where|who|how|which|everything|anything|all)\b[^.!?\n]{0,30}?\b(?:i|we|my|me|us)\b|(?:^|[.!?,\n]\s*|\b(?:please|you)\s+)recall\s+(?:my|our)\b"
_EN_WHAT_DO_YOU_KNOW = r"\bwhat\s+(?:all\s+)?do\s+you\s+(?:still\s+)?(?:remember|know|recall)\s+(?:about|of)\s+(?:me|my|us|our)\b|\b(?:search|check|look\s+(?:through|in|up))\s+your\s+memor(?:y|ies)\b"
_EN_KNOW_MY = (
    r"\bdo\s+you\s+(?:even\s+|still\s+)?know\s+(?:my\s+(?:favou?rite|birthday|name|job|hobb|allerg|diet|dog|cat|pet|kids?|wife|husband"
    r"|partner|address|shoe|taste)|what\s+i\s+(?:like|love|hate|do\s+for)|where\s+i\s+(?:live|work))"
)
_EN_THING_I_TOLD = (
    r"\b(?:what|who|where|when|which)(?:['’]s|\s+(?:is|was|are|were))\s+(?:the|that|those)\b[^.!?\n]{1,50}?"
    r"\bi\s+(?:told\s+you|mentioned)\b"
)
_EN_REMIND_ME_WHAT = r"\bremind\s+me\s+(?:again\s+)?(?:of\s+)?(?:what|where|when|who|which\s+\w+)\s+(?:i|we)\s+(?:said|told|mentioned|talked|liked?|decided|agreed|chose)\b"

_ZH_NOT_RECALL = (
    r"(?:你(?:要|得|可要|一定要|别忘了|最好)|请|请你|麻烦|幫我|帮我|给我)(?:记得|記得|记住|記住)"
    r"|(?:多少(?:次|遍|回)|几(?:百|十)?(?:次|遍))|我(?:也|都|还|真|又|已经|完全|实在)?(?:不|没|想不起来?|记不)(?:记得|記得|得)"
)
_EN_NOT_RECALL = (
    r"\bhow\s+many\s+times\s+(?:did|have|do)\b|\b(?:can['’]?t|cannot|don['’]?t|didn['’]?t)\s+(?:even\s+)?(?:remember|recall)\b"
    r"|\b(?:do|did|can|will|would)\s+you\s+(?:\w+\s+)?remember\s+(?:me\s+)?to\b"
)

RULES = TriggerRules(
    patterns=(
        _ZH_DO_YOU_REMEMBER,
        _ZH_DO_YOU_STILL_REMEMBER,
        _ZH_I_TOLD_YOU,
        _ZH_WHAT_DO_YOU_REMEMBER,
        _ZH_DO_YOU_KNOW_ME,
        _ZH_ASKED_LAST,
        _ZH_SEARCH_MEMORY,
        _EN_DO_YOU_REMEMBER,
        _EN_WHAT_DID_I_TELL,
        _EN_RECALL,
        _EN_WHAT_DO_YOU_KNOW,
        _EN_KNOW_MY,
        _EN_THING_I_TOLD,
        _EN_REMIND_ME_WHAT,
    ),
    exclude=(r"(?s)\A.{4000}", _ZH_NOT_RECALL, _EN_NOT_RECALL),
)


# --- the definition --------------------------------------------------------------------------------------------------


def skill() -> ToolSkill:
    """The tool skill: L1, persistent consent to ``memory:read``, single chats only (X5)."""
    return ToolSkill(
        manifest=_manifest(),
        tool_id=TOOL_ID,
        timeout=timedelta(seconds=2),
        max_calls_per_turn=1,
        input_schema=RecallInput,
        output_schema=RecallOutput,
        build_input=build_input,
        execute=recall,
        build_system_instruction=build_instruction,
        effect="read",
    )


def _manifest() -> SkillManifest:
    return SkillManifest(
        id="memory-recall",
        version="1.0.0",
        kind=SkillKind.TOOL,
        description=(
            "Recall what this agent remembers of the user: preferences, facts and earlier talk. "
            "记忆检索：查找当前助手记住的、与用户问题有关的内容。"
        ),
        scopes=(ChatScope.SINGLE,),
        display_name="Memory recall · 记忆检索",
        triggers=RULES,
        tools=(_tool_spec(),),
        requirements=(RequirementSpec.model_validate({"code": "memory:read", "risk": "L1", "approval": "persistent"}),),
        permissions=ResourcePermissions(memory=MemoryPermissions(read_layers=("L2", "L3"))),
        tags=("memory", "recall", "记忆", "回忆"),
        category="memory",
    )


def _tool_spec() -> ToolSpec:
    return ToolSpec(
        name=TOOL_ID,
        description="Search the memories of this user and agent; the best matches come first.",
        parameters=(
            ParameterSpec(
                name="query",
                type="string",
                required=True,
                description="what to look for, in the user's words",
                max_length=MAX_QUERY_LENGTH,
            ),
            ParameterSpec(
                name="limit",
                type="integer",
                default=MAX_MEMORIES,
                description="how many memories at most",
                min=1,
                max=MAX_MEMORIES,
            ),
        ),
        returns=ReturnSpec(type="object", description="memories: text, importance, matches, updated_at"),
    )


def build_input(turn: ToolTurn) -> Mapping[str, Any]:
    """The message itself is the query, cut at the longest that the schema takes; blank asks for what matters most."""
    return {"query": turn.text.strip()[:MAX_QUERY_LENGTH]}


def recall(context: ToolContext, arguments: RecallInput) -> RecallOutput:
    """Ask the memories of this user and agent.

    Raises ``RuntimeError`` where the context holds none: the call came without the declared permission.
    """
    if context.memories is None:
        raise RuntimeError("memory-recall was called without memory:read")
    hits = context.memories.recall(arguments.query, arguments.limit)
    return RecallOutput(
        memories=tuple(
            RecalledMemory(
                text=hit.memory.text,
                importance=hit.memory.importance,
                matches=hit.matches,
                updated_at=iso(hit.memory.updated_at) or "",
            )
            for hit in hits[: arguments.limit]
        )
    )


def build_instruction(output: RecallOutput, language: str) -> Instruction:
    """Answer from what was found, quoted; or say that nothing certain is remembered (X5)."""
    if not output.memories:
        said = (render("builtin.recall.say_none", language),)
        return Instruction(render("builtin.recall.none", language), said, language)
    memories = [Untrusted(memory.text, "memory") for memory in output.memories]
    text = render("builtin.recall.found", language) + "\n\n" + quote(*memories, language=language)
    items = [
        render("builtin.recall.say_item", language, {"text": " ".join(memory.text.split())})
        for memory in output.memories
    ]
    return Instruction(text, (render("builtin.recall.say_found", language), "\n".join(items)), language)
