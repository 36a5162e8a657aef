"""Words that steer: cancel, pause and resume a workflow, ask for help (W8, W9).

As slash commands they always mean this; as plain sentences only while a session is there to be steered, and only where
the sentence says nothing else.
"""

from __future__ import annotations

import re
from typing import Literal

from prowess.kernel.text import fold
from prowess.turns.selectors.explicit import Command

Control = Literal["cancel", "pause", "resume", "help"]

_COMMANDS: dict[str, Control] = {
    "cancel-skill": "cancel",
    "cancel-workflow": "cancel",
    "pause-skill": "pause",
    "pause-workflow": "pause",
    "resume-skill": "resume",
    "resume-workflow": "resume",
    "help": "help",
}

_ZH_OBJECT = (
    "(?:当前|这次|这个|此次|本次|刚才的?|刚刚的?|现在的?|我们的?|之前的?)*(?:的)?(?:长期)?(?:目标)?"
    "(?:规划|计划|任务|流程)"
)
_EN_OBJECT = (
    r"(?:(?:the|this|that|our|my|current|goal|long-term)\s+)*(?:plan|planning|session|task|workflow|skill)"
    r"(?:\s+session)?"
)
_ZH_HEAD = "(?:请|麻烦|帮我|我想|我要|先|那就|算了|好吧|[,，\\s])*"
_ZH_TAIL = "(?:吧|了|一下|好了|[。.!！~\\s])*"
_EN_HEAD = r"(?:(?:please|ok|okay|let's|let us|can you|could you|i want to|i'd like to|just|now)[,\s]+)*"
_EN_TAIL = r"(?:,?\s+(?:now|please|for now|for a while))*[.!\s]*"

_PHRASES: tuple[tuple[Control, re.Pattern[str]], ...] = (
    ("cancel", re.compile(f"{_ZH_HEAD}(?:取消|停止|终止|结束|中止|放弃|退出)(?:掉)?{_ZH_OBJECT}{_ZH_TAIL}")),
    ("cancel", re.compile(f"{_ZH_HEAD}(?:把)?{_ZH_OBJECT}(?:给)?(?:取消|停止|终止|中止|停)(?:掉)?{_ZH_TAIL}")),
    ("cancel", re.compile(f"{_EN_HEAD}(?:cancel|stop|end|abort|quit|abandon|drop)\\s+{_EN_OBJECT}{_EN_TAIL}")),
    ("pause", re.compile(f"{_ZH_HEAD}(?:暂停|暂缓|搁置|放一放|放下){_ZH_OBJECT}{_ZH_TAIL}")),
    ("pause", re.compile(f"{_ZH_HEAD}(?:把)?{_ZH_OBJECT}(?:先)?(?:暂停|搁置|放一放|放下){_ZH_TAIL}")),
    ("pause", re.compile(f"{_EN_HEAD}(?:pause|park|suspend|shelve)\\s+{_EN_OBJECT}{_EN_TAIL}")),
    ("pause", re.compile(f"{_EN_HEAD}put\\s+{_EN_OBJECT}\\s+on hold{_EN_TAIL}")),
    ("resume", re.compile(f"{_ZH_HEAD}(?:继续|恢复|回到|接着){_ZH_OBJECT}{_ZH_TAIL}")),
    ("resume", re.compile(f"{_EN_HEAD}(?:resume|continue|go back to|return to)\\s+{_EN_OBJECT}{_EN_TAIL}")),
)


def control_of_command(command: Command | None) -> Control | None:
    """What a slash command steers; ``/skill name`` always means the skill (C21)."""
    if command is None or command.skill_only:
        return None
    return _COMMANDS.get(command.name)


def control_of_sentence(text: str) -> Control | None:
    """What a plain sentence steers, or none."""
    folded = fold(text).strip()
    if len(folded) > 80:
        return None
    return next((control for control, pattern in _PHRASES if pattern.fullmatch(folded)), None)


def command_names() -> tuple[str, ...]:
    """The built-in slash commands, for completion."""
    return tuple(_COMMANDS)
