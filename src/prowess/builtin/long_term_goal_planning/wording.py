"""What a planning turn says: the instruction for a model, and the same readable without one (T9, W10).

Sentences live in ``messages/*/builtin.json``. The user's words enter an instruction through ``quote`` alone; in what is
said they are shortened and lose their question marks, so that a turn never asks more than its one question.
"""

from __future__ import annotations

import re
from datetime import date

from prowess.builtin.long_term_goal_planning.horizon import time_left
from prowess.builtin.long_term_goal_planning.state import FIELD_OF_STEP, FIELDS, PlanningState, Step
from prowess.kernel.text import has_cjk
from prowess.kernel.untrusted import Untrusted, quote
from prowess.messages import render
from prowess.turns.definitions import Instruction, WorkflowTurn

SHOWN_LENGTH = 120
"""Characters of one answer that are repeated back."""

_QUESTION_MARKS = str.maketrans({"?": ".", "？": "。", "﹖": "。", "⁇": ".", "‽": ".", "؟": ".", "¿": ""})
_CLOSING = "。．.!！?？;；,，、~～ "
_ZH_REQUEST = re.compile(
    r"^(?:(?:你好|您好|嗨|请问?|請|麻烦你?|麻煩你?|能不能|可不可以|可以|能|帮我?忙?|幫我?|给我|我想让你|我想请你|我想|我要)[，,\s]*)+"
    r"(?:(?:制定|制订|制訂|规划|規劃|计划|計劃|安排|做|定|列|写)(?:一下|一下子|一份|一个|個|个|份)?)?"
)
_EN_REQUEST = re.compile(
    r"^(?:(?:hi|hello|hey|please|can you|could you|would you|will you|i want you to|i(?:['’]d| would) like(?: you)? to"
    r"|i want to|help me(?: to)?|let['’]s)[,\s]+)+(?:(?:plan|map|lay|make|create|set|build|draft)\s+(?:out\s+|up\s+|to\s+)?)?",
    re.IGNORECASE,
)

_LATIN_WORD = re.compile(r"[A-Za-z]+")
_SENTENCE_WORDS = 4
"""An answer of fewer Latin words, such as "N2" or "90 days", does not change the language of a Chinese session."""


def session_language(state: PlanningState, turn: WorkflowTurn) -> str:
    """The language to go on in: that of the turn, unless a Chinese session merely got a short Latin answer."""
    goal = state["goal"]
    if turn.language == "zh" or goal is None or len(_LATIN_WORD.findall(turn.text)) >= _SENTENCE_WORDS:
        return turn.language
    chinese = sum(map(has_cjk, goal))
    return "zh" if chinese > len(_LATIN_WORD.findall(goal)) else turn.language


def question(step: Step, language: str) -> str:
    """The one question of a step. It never holds the user's words: it is shown outside the conversation (W12)."""
    return render(f"builtin.planning.question.{step}", language)


def collecting_instruction(state: PlanningState, turn: WorkflowTurn, asked: str, language: str) -> Instruction:
    """Acknowledge, ask ``asked``, and nothing more: no early plan (W10)."""
    text = render("builtin.planning.instruct.collect", language, {"question": asked})
    return Instruction(_with_known(text, state, language), (_acknowledgement(state, turn, language), asked), language)


def plan_instruction(state: PlanningState, language: str, today: date) -> Instruction:
    """Write the whole plan now, and ask nothing (W10)."""
    text = render("builtin.planning.instruct.plan", language)
    return Instruction(_with_known(text, state, language), _plan(state, language, today), language)


def _with_known(text: str, state: PlanningState, language: str) -> str:
    known = [
        Untrusted(render(f"builtin.planning.field.{field}", language, {"answer": answer}), "user")
        for field in FIELDS
        if (answer := state[field]) is not None
    ]
    return f"{text}\n\n{quote(*known, language=language)}" if known else text


def _acknowledgement(state: PlanningState, turn: WorkflowTurn, language: str) -> str:
    answered = None if not turn.text.strip() else FIELD_OF_STEP.get(turn.state["current_step"])
    if answered is None:
        return render("builtin.planning.ack.none", language)
    key = "goal_and_horizon" if answered == "goal" and state["horizon"] is not None else answered
    return render(f"builtin.planning.ack.{key}", language, _shown(state))


def _plan(state: PlanningState, language: str, today: date) -> tuple[str, ...]:
    first, second, third = _phases(state["horizon"] or "", language, today)
    fields = _shown(state) | {"first": first, "second": second, "third": third}
    parts = ("opening", "milestones", "cadence", "first_step", "checkpoints", "risks")
    return tuple(render(f"builtin.planning.plan.{part}", language, fields) for part in parts)


def _shown(state: PlanningState) -> dict[str, str]:
    answers: dict[str, str] = {field: _shorten(state[field] or "") for field in FIELDS}
    return answers | {"goal": _shorten(_without_request(state["goal"] or ""))}


def _without_request(goal: str) -> str:
    """A goal without "please help me plan", for display; the state keeps every word."""
    goal = goal.strip()
    for request in (_ZH_REQUEST, _EN_REQUEST):
        rest = request.sub("", goal, count=1)
        if rest.strip(_CLOSING):
            goal = rest
    return goal


def _shorten(answer: str) -> str:
    line = " ".join(answer.translate(_QUESTION_MARKS).split()).strip(_CLOSING)
    return line if len(line) <= SHOWN_LENGTH else line[: SHOWN_LENGTH - 1].rstrip() + "…"


_LONGEST_IN_WEEKS = 70
_LONGEST_IN_MONTHS = 760
_DAYS_PER_MONTH = 30.4375
_DAYS_PER_YEAR = 365.25


def _phases(horizon: str, language: str, today: date) -> tuple[str, str, str]:
    """Names of three phases over the horizon: weeks, months or years where its length is known, else thirds."""
    left = time_left(horizon, today)
    if left is None:
        first, second, third = (render(f"builtin.planning.phase.third_{part}", language) for part in (1, 2, 3))
        return first, second, third
    unit, length = "year", _DAYS_PER_YEAR
    if left.days <= _LONGEST_IN_WEEKS:
        unit, length = "week", 7.0
    elif left.days <= _LONGEST_IN_MONTHS:
        unit, length = "month", _DAYS_PER_MONTH
    total = max(3, round(left.days / length))
    ends = [round(total * part / 3) for part in range(4)]
    first, second, third = (_phase(unit, ends[part] + 1, ends[part + 1], language) for part in range(3))
    return first, second, third


def _phase(unit: str, start: int, end: int, language: str) -> str:
    key = f"builtin.planning.phase.{unit}" + ("" if start == end else "s")
    return render(key, language, {"start": start, "end": end})
