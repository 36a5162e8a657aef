"""``daily-planning@1.0.0``: arrange one day, or a weekend. Anything longer is for long-term goal planning (W10)."""

from __future__ import annotations

from prowess.skills.manifest import ChatScope, SkillKind, SkillManifest, TriggerRules
from prowess.turns.definitions import PromptSkill

BODY = """\
# Plan a day

Turn what the user has to do, and the hours they have, into a day that can really be lived. Answer in the user's
language.

1. Settle which day is meant. "Today" starts from now: plan only the hours that are left.
2. Sort what they named into *fixed* (appointments, travel), *must* (at most three) and *nice to have*. Name nothing
   that they did not mention, apart from meals, travel time and breaks.
3. Put the fixed points first, then the musts into the hours when the user is at their best, then the rest. Leave a
   fifth of the day open, and ten minutes between things that need a change of place.
4. Show the day as a short table of time and activity, in 24-hour time, then one line that says what to drop first if
   the day runs late.
5. If nothing was named, plan around an ordinary day with blanks to fill in, and ask one question: what must be done by
   the evening.

Do not set reminders or write to a calendar: this skill only advises. For plans over months, offer
`/long-term-goal-planning`.
"""

SAY = {
    "en": (
        "A day is easily planned on one page. Copy this and fill it in:",
        "1. Fixed points: appointments and travel, with their times.\n"
        "2. Three musts: no more; put the hardest where you are most awake.\n"
        "3. Nice to have: only what fits between.\n"
        "4. Open space: keep a fifth of the day free.",
        "Morning: the hardest must. Midday: lunch, then something light. Afternoon: the other two musts. "
        "Evening: ten minutes to look back and move what is left to another day.",
        "If the day runs late, drop the nice-to-haves first.",
    ),
    "zh": (
        "一天的安排一页纸就够。照着下面填就行：",
        "1. 定好时间的事：约会、会议、路上的时间。\n"
        "2. 三件必须做的事：不要更多，最难的放在精神最好的时段。\n"
        "3. 有空再做的事：见缝插针。\n"
        "4. 留白：一天里留出五分之一不排。",
        "上午：最难的那件。中午：吃饭，做点轻松的。下午：另外两件。晚上：花十分钟回顾，没做完的挪到别的日子。",
        "要是来不及，先放掉“有空再做”的那些。",
    ),
}

# --- when it fires ---------------------------------------------------------------------------------------------------

_ZH_NEAR = r"[^。！？!?\n;；]"
_ZH_DAY = (
    r"(?:今天|今日|今晚|今早|明天|明日|明早|明晚|后天|後天|大后天|(?:这|這|本|下)?(?:个|個)?周末|(?:这|這|本|下)?(?:周|週|星期|礼拜)[一二三四五六日天]"
    r"|一整?天|一天|全天|上午|下午|晚上|假期第?一天)"
)
_ZH_ARRANGE = r"(?:安排|规划|規劃|计划|計劃|排|列|做|制定|理|梳理)(?:一下|一个|一份|个|個|好|出)?"
_ZH_PLAN = r"(?:计划|計劃|安排|行程|日程|待办|待辦|日程表|时间表|時間表|任务|任務|工作|学习|日子)"
_ZH_ASK = r"(?:帮|幫|请|請|麻烦|给我|給我|替我|陪我|和我|我想|我要|我该|咱们|来|怎么|怎麼|如何|该)"

_ZH_ARRANGE_THE_DAY = rf"{_ZH_ASK}{_ZH_NEAR}{{0,10}}?{_ZH_ARRANGE}{_ZH_NEAR}{{0,6}}?{_ZH_DAY}的?{_ZH_NEAR}{{0,8}}?(?:{_ZH_PLAN}|$|[。.!！])"
_ZH_DAY_ARRANGED = rf"{_ZH_DAY}{_ZH_NEAR}{{0,30}}?(?:帮|幫|请|給我|给我|怎么|怎麼|如何|该){_ZH_NEAR}{{0,6}}?(?:安排|规划|規劃|排一?下|计划一?下|列(?:个|一个)?(?:计划|待办|日程))"
_ZH_BARE_ORDER = rf"^\s*(?:安排|规划|規劃|计划|計劃|排)(?:一下|好)?(?:我的?)?{_ZH_DAY}的?{_ZH_NEAR}{{0,8}}?(?:{_ZH_PLAN})?[。.!！\s]*$"

_EN_GAP = r"[^.!?\n;]"
_EN_DAY = (
    r"(?:today|tonight|tomorrow|this\s+(?:morning|afternoon|evening|weekend)|(?:the|this|next|my)\s+weekend"
    r"|(?:on\s+|this\s+|next\s+|for\s+)?(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
)
_EN_MINE = r"(?:my|our|the)\s+(?:\w+\s+)?(?:day|morning|afternoon|evening|weekend|schedule|to-?dos?|to-?do\s+list|tasks|workday|study\s+day)"
_EN_ORDER = r"(?:plan(?:\s+out)?|organi[sz]e|schedule|arrange|structure|lay\s+out|map\s+out|sort\s+out|make\s+a\s+(?:plan|schedule)\s+for)"
_EN_LEAD = r"(?:^\s*|[.!?,;:\n]\s*|\b(?:help\s+me(?:\s+to)?|please|can\s+you|could\s+you|let['’]?s|(?:i|we)\s+(?:want|need)\s+to|i['’]d\s+like\s+to|how\s+(?:should|do|can)\s+i)\s+(?:help\s+me\s+)?(?:please\s+)?)"
_EN_PLAN_MY_DAY = rf"{_EN_LEAD}{_EN_ORDER}\s+{_EN_MINE}\b(?:\s+(?:for\s+)?{_EN_DAY}|(?=\s*(?:$|[.!?,;:\n]|please\b|so\b|with\b|around\b|and\b)))"
_EN_PLAN_TOMORROW = rf"{_EN_LEAD}{_EN_ORDER}\s+(?:out\s+)?(?:for\s+)?(?:my\s+|our\s+)?{_EN_DAY}(?:['’]s\s+(?:tasks|work|schedule|to-?dos?))?(?=\s*(?:$|[.!?,;:\n]|please\b|for\s+me\b|with\b|so\b))"
_EN_PLAN_FOR_TOMORROW = rf"\b(?:make|create|draft|write|give|build|suggest)\s+(?:me\s+)?(?:a|my|the)\s+(?:\w+\s+){{0,2}}?(?:plan|schedule|to-?do\s+list|timetable)\s+(?:for\s+)?{_EN_DAY}\b"
_EN_DAY_PLAN = (
    r"\b(?:make|create|draft|write|give|build|need|want)\s+(?:me\s+)?(?:a|my)\s+(?:daily|day)\s+(?:plan|schedule)\b"
)

_ZH_NOT = rf"(?:不想|不要|不用|别|別|无需){_ZH_NEAR}{{0,6}}?(?:安排|规划|计划)|(?:昨天|上周|已经|刚刚?){_ZH_NEAR}{{0,8}}?(?:安排|规划|计划)(?:了|好了|过)|(?:会议|航班|火车|车票|医生|面试){_ZH_NEAR}{{0,6}}?(?:取消|改期)"
_EN_NOT = rf"\b(?:don['’]?t|do\s+not|never|no\s+need|stop|cancel)\b{_EN_GAP}{{0,20}}?\b(?:plan|planning|schedule)\b|\b(?:yesterday|last\s+(?:week|night|weekend))\b"

RULES = TriggerRules(
    patterns=(
        _ZH_ARRANGE_THE_DAY,
        _ZH_DAY_ARRANGED,
        _ZH_BARE_ORDER,
        _EN_PLAN_MY_DAY,
        _EN_PLAN_TOMORROW,
        _EN_PLAN_FOR_TOMORROW,
        _EN_DAY_PLAN,
    ),
    exclude=(r"(?s)\A.{4000}", _ZH_NOT, _EN_NOT),
)


def skill() -> PromptSkill:
    """The prompt skill, in single and group chats."""
    return PromptSkill(
        manifest=SkillManifest(
            id="daily-planning",
            version="1.0.0",
            kind=SkillKind.PROMPT,
            description=(
                "Arrange a day or a weekend: fixed points, at most three musts, open space. "
                "日程安排：把一天或一个周末排得做得完。"
            ),
            scopes=(ChatScope.SINGLE, ChatScope.GROUP),
            display_name="Daily planning · 日程安排",
            triggers=RULES,
            tags=("planning", "day", "schedule", "日程", "安排"),
            category="planning",
        ),
        body=BODY,
        say=SAY,
    )
