"""From a message to arguments, and from a result to words (X6)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.skills.manifest import ParameterSpec
from prowess.turns.scripts.saying import MAX_QUOTED, MAX_SAID, arguments_of, result_instruction

TEXT = ParameterSpec(name="text", type="string", required=True)
COUNT = ParameterSpec(name="count", type="integer", default=1)
FLAG = ParameterSpec(name="flag", type="boolean", required=True)


@pytest.mark.parametrize(
    ("text", "specs", "expected"),
    [
        ('{"text": "a", "count": 2}', (TEXT, COUNT), {"text": "a", "count": 2}),
        ('{"b": 1}', (TEXT, COUNT), {"text": '{"b": 1}'}),
        ('{"b": 1}', (FLAG,), {"b": 1}),
        ("{broken", (TEXT,), {"text": "{broken"}),
        ('text="a \\"b\\"" count=2', (TEXT, COUNT), {"text": 'a "b"', "count": 2}),
        ("text=a count=many", (TEXT, COUNT), {"text": "a", "count": "many"}),
        ("flag=true", (FLAG,), {"flag": True}),
        ("other=1", (TEXT,), {"text": "other=1"}),
        ("text=a text=b", (TEXT,), {"text": "text=a text=b"}),
        ("看这段", (TEXT,), {"text": "看这段"}),
        ("anything", (), {}),
        ("", (COUNT,), {}),
    ],
)
def test_x6_a_message_gives_arguments(text: str, specs: tuple[ParameterSpec, ...], expected: dict[str, Any]) -> None:
    assert arguments_of(text, specs) == expected


@pytest.mark.parametrize(
    ("text", "specs"), [("", (TEXT,)), ("words", (COUNT,)), ("words", (TEXT, FLAG)), ("words", (FLAG,))]
)
def test_x6_a_message_without_arguments_is_no_call(text: str, specs: tuple[ParameterSpec, ...]) -> None:
    with pytest.raises(ValueError, match="no arguments"):
        arguments_of(text, specs)


@pytest.mark.parametrize(
    ("output", "said"),
    [("words", "words"), ({"a": "中"}, '{\n  "a": "中"\n}'), (None, "“Demo” is done; it returned nothing."), (3, "3")],
)
def test_x6_a_result_is_said_as_it_is(output: Any, said: str) -> None:
    assert result_instruction("Demo", output, "en").say == (said,)


def test_x6_a_long_result_is_cut_and_says_so() -> None:
    found = result_instruction("Demo", "x" * 100_000, "zh")
    assert found.say[0].endswith(f"（还有 {100_000 - MAX_SAID} 个字符）")
    assert len(found.text) < MAX_QUOTED + 500
