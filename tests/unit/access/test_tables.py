"""Table tests of a surface, as ``prowess permissions test`` takes them (G14)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.access.tables import run_table_test, verdict_to_json
from prowess.errors import InvalidInput

AGENT = {
    "skills": {"fill_form": ["fill"], "note@1.2.0": []},
    "groups": {"files": ["read", "write"], "bound": ["stamp"]},
    "tools": ["clock"],
    "activate_on_skill": {"bound": "fill-form"},
}


def allowed(kind: str, name: str, surface: dict[str, Any], active: tuple[str, ...] = (), **agent: Any) -> bool:
    line = {
        "agent": AGENT | agent,
        "surface": surface,
        "active_groups": list(active),
        "ask": {"kind": kind, "name": name},
    }
    return run_table_test(line).verdict.allowed


@pytest.mark.parametrize(
    ("kind", "name", "surface", "active", "answer"),
    [
        ("skill", "fill-form", {}, (), True),
        ("skill", "Fill_Form", {"skills": ["fill_form"]}, (), True),
        ("skill", "fill-form", {"skills": []}, (), False),
        ("skill", "fill-form", {"tools": ["fill"]}, (), False),
        ("skill", "ghost", {"skills": ["ghost"]}, (), False),
        ("skill", "note", {"skills": ["note@1.2.0"]}, (), True),
        ("skill", "note", {"skills": ["note@1.3.0"]}, (), False),
        ("skill", "note", {"skills": [["x", "note"]]}, (), False),
        ("group", "files", {"groups": ["files"]}, (), True),
        ("group", "fill-form_skill_tools", {"skills": ["fill-form"]}, (), True),
        ("group", "note_skill_tools", {}, (), False),
        ("group", "bound", {"skills": ["fill-form"]}, (), True),
        ("tool", "read", {"groups": ["files"]}, (), True),
        ("tool", "read", {"tools": ["write"]}, (), False),
        ("execute", "read", {"groups": ["files"]}, (), False),
        ("execute", "read", {"groups": ["files"]}, ("files",), True),
        ("execute", "fill", {"skills": ["fill-form"]}, ("fill-form_skill_tools",), True),
        ("execute", "read", {"tools": ["read"]}, (), True),
        ("execute", "clock", {"tools": ["clock"]}, (), True),
        ("execute", "clock", {"skills": [], "groups": [], "tools": []}, (), False),
    ],
)
def test_g14_a_line_is_answered(
    kind: str, name: str, surface: dict[str, Any], active: tuple[str, ...], answer: bool
) -> None:
    assert allowed(kind, name, surface, active) is answer


def test_g10_g14_a_mark_exempts_each_thing_that_bears_the_name() -> None:
    nothing: dict[str, Any] = {"skills": [], "groups": [], "tools": []}
    assert allowed("execute", "clock", nothing, system=["clock"])
    assert allowed("skill", "fill-form", nothing, system=["fill_form"])
    assert allowed("group", "files", nothing, system=["files"])
    assert not allowed("tool", "read", nothing, system=["files"])


def test_g14_an_answer_says_which_layer_refused() -> None:
    line = {"agent": AGENT, "surface": {"groups": ["files"]}, "ask": {"kind": "execute", "name": "read"}}
    answered = run_table_test(line)
    assert verdict_to_json(answered.verdict) == {"allowed": False, "layer": "activation", "reason": "not_active"}
    answered = run_table_test(line | {"active_groups": ["files"]})
    assert verdict_to_json(answered.verdict) == {"allowed": True, "layer": None, "reason": "granted"}


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        (None, True), (False, True), (True, False), ({"allowed": False}, True), ({"layer": "activation"}, True),
        ({"layer": "filter"}, False), ({"allowed": False, "reason": "not_found"}, False), ({"other": 1}, False), ({}, True),
    ],
)  # fmt: skip
def test_g14_what_is_expected_is_a_yes_or_no_or_part_of_the_answer(expect: Any, holds: bool) -> None:
    line = {"agent": AGENT, "surface": {"groups": ["files"]}, "ask": {"kind": "execute", "name": "read"}}
    assert run_table_test(line | {"expect": expect}).holds is holds


ASK = {"kind": "tool", "name": "read"}


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ({}, "ask"),
        ({"ask": {"kind": "tool"}}, "ask.name"),
        ({"ask": {"kind": "call", "name": "x"}}, "ask.kind"),
        ({"ask": ASK, "surfaces": {}}, "surfaces"),
        ({"ask": ASK, "surface": {"skill": []}}, "surface.skill"),
        ({"ask": ASK, "agent": {"skills": ["a"]}}, "agent.skills"),
        ({"ask": ASK, "agent": {"skills": {"a-b": [], "a_b": []}}}, "agent.skills"),
        ({"ask": ASK, "agent": {"groups": {"a_skill_tools": []}}}, "agent.groups.a_skill_tools"),
        ({"ask": ASK, "active_groups": "files"}, "active_groups"),
    ],
)
def test_g14_a_malformed_line_is_refused_with_its_place(line: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        run_table_test(line)
    assert (refused.value.code, refused.value.detail["place"]) == ("table_test", place)


def test_g14_a_malformed_surface_is_refused() -> None:
    with pytest.raises(InvalidInput, match="surface_entry"):
        run_table_test({"ask": ASK, "surface": {"tools": [""]}})
