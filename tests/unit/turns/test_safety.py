"""The safety response: what it hears, what it lets pass, what it costs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from prowess.turns.safety import OVERLAP, SafetyPolicy, SafetyRule, assess, load_rules

CASES = [line.split("\t") for line in (Path(__file__).parent / "safety_cases.tsv").read_text("utf-8").splitlines()]
HEARD = [(category, text) for category, text in CASES if category != "none"]
PASSED = [text for category, text in CASES if category == "none"]


def test_there_are_enough_cases_of_both_kinds() -> None:
    assert len(HEARD) >= 60
    assert len(PASSED) >= 80


@pytest.mark.parametrize(("category", "text"), HEARD)
def test_t2_danger_is_heard(category: str, text: str) -> None:
    response = assess(text)
    assert response is not None
    assert response.category == category
    assert response.reply.strip()


@pytest.mark.parametrize("text", PASSED)
def test_t2_idioms_quotations_and_work_pass(text: str) -> None:
    assert assess(text) is None


def test_danger_is_heard_wherever_it_stands_in_a_long_text() -> None:
    filler = "今天工作很顺利，晚上和同事吃了饭。"
    for before in range(0, 3 * OVERLAP, 7):
        text = (filler * 40)[:before] + "我真的不想活了" + filler * 40
        assert assess(text) is not None, before


def test_the_answer_is_in_the_language_of_the_danger() -> None:
    chinese, english = assess("我不想活了"), assess("I want to kill myself")
    assert chinese is not None
    assert english is not None
    assert (chinese.language, english.language) == ("zh", "en")


@pytest.mark.parametrize("unit", ["我想死你了", "我", " ", "\n", "i ", "he ", "in my novel ", "kill ", '"', "a \n "])
def test_the_longest_text_is_judged_in_bounded_time(unit: str) -> None:
    text = (unit * 32_000)[:32_000]
    started = time.process_time()
    assess(text)
    assert time.process_time() - started < 5


def test_rules_can_be_replaced() -> None:
    rule = SafetyRule("r1", "spoilers", "en", (re.compile("the butler"),), (re.compile("the butler's day"),), "Hush.")
    policy = SafetyPolicy([rule])
    response = policy.assess("It was THE BUTLER")
    assert response is not None
    assert (response.category, response.rule, response.reply) == ("spoilers", "r1", "Hush.")
    assert policy.assess("the butler's day off") is None
    assert policy.assess("I want to kill myself") is None


@pytest.mark.parametrize(
    "document",
    [
        {"rules": []},
        {"pieces": {}, "rules": [{"id": "x"}]},
        {"pieces": {"a": "{{b}}"}, "rules": []},
        {
            "pieces": {},
            "rules": [
                dict.fromkeys(("id", "category", "language", "reply"), "x") | {"patterns": ["("], "exceptions": []}
            ],
        },
    ],
)
def test_broken_rules_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="safety rules"):
        load_rules(json.dumps(document))
