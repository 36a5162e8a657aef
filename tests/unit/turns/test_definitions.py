"""What registration refuses (W1, X1) and what the writing helpers make."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.kit import interview, manual, tool

from prowess.errors import InvalidInput
from prowess.skills.manifest import ChatScope, SkillKind
from prowess.turns.definitions import CancelToken, SkillDefinition, check_definition


def refused(make: Any) -> dict[str, Any]:
    with pytest.raises(InvalidInput) as refusal:
        make()
    return {"code": refusal.value.code, **refusal.value.detail}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"timeout": timedelta(milliseconds=99)}, "timeout"),
        ({"timeout": timedelta(seconds=30, milliseconds=1)}, "timeout"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"max_calls_per_turn": 0}, "max_calls_per_turn"),
        ({"max_calls_per_turn": 5}, "max_calls_per_turn"),
        ({"tool_id": ""}, "tool_id"),
        ({"tool_id": "has space"}, "tool_id"),
        ({"tool_id": "-x"}, "tool_id"),
        ({"tool_id": "x" * 129}, "tool_id"),
        ({"tool_id": "工具"}, "tool_id"),
    ],
    ids=["99ms", "30001ms", "0ms", "0-calls", "5-calls", "no-id", "space", "hyphen", "long", "script"],
)
def test_x1_a_tool_outside_the_bounds_is_refused(changed: dict[str, Any], field: str) -> None:
    assert refused(lambda: tool("lookup", **changed)) == {"code": "tool_bounds", "skill": "lookup", "field": field}


@pytest.mark.parametrize("timeout", [timedelta(milliseconds=100), timedelta(seconds=30)], ids=["100ms", "30s"])
@pytest.mark.parametrize("calls", [1, 4])
def test_x1_the_bounds_themselves_are_allowed(timeout: timedelta, calls: int) -> None:
    made = tool("lookup", timeout=timeout, max_calls_per_turn=calls)
    assert (made.timeout, made.max_calls_per_turn) == (timeout, calls)


@pytest.mark.parametrize("definition", [manual("a"), interview("a"), tool("a")], ids=["prompt", "workflow", "tool"])
@pytest.mark.parametrize("kind", list(SkillKind))
def test_x1_w1_a_definition_of_the_wrong_kind_is_refused(definition: SkillDefinition, kind: SkillKind) -> None:
    own = definition.manifest.kind
    wrong = replace(definition, manifest=definition.manifest.model_copy(update={"kind": kind}))
    if kind is own:
        check_definition(wrong)
        return
    assert refused(lambda: check_definition(wrong)) == {
        "code": "wrong_skill_kind",
        "skill": "a",
        "expected": str(own),
        "got": str(kind),
    }


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1)], ids=["zero", "negative"])
def test_w1_a_workflow_needs_a_lifetime(ttl: timedelta) -> None:
    assert refused(lambda: interview(ttl=ttl)) == {
        "code": "workflow_bounds",
        "skill": "interview",
        "field": "session_ttl",
    }


def test_t7_default_scopes_follow_the_kind() -> None:
    assert manual("a").manifest.scopes == (ChatScope.SINGLE, ChatScope.GROUP)
    assert interview("a").manifest.scopes == (ChatScope.SINGLE,)
    assert tool("a").manifest.scopes == (ChatScope.SINGLE,)
    assert manual("a", scopes=["group_chat"]).manifest.scopes == (ChatScope.GROUP,)
    with pytest.raises(ValidationError):
        manual("a", scopes=[])


@pytest.mark.parametrize("wrong", [{"id": "A_b"}, {"version": "1.0"}, {"description": ""}, {"colour": "red"}], ids=str)
def test_s2_a_manifest_that_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    fields = {"id": "a", **wrong}
    with pytest.raises(ValidationError):
        manual(**fields)


def test_x2_a_cancel_token_is_set_once_and_stays() -> None:
    token = CancelToken()
    assert not token.cancelled
    token.cancel()
    token.cancel()
    assert token.cancelled
