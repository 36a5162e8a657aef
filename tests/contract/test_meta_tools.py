"""Meta tools and tool groups (T11; conformance B)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import AGENT, USER, OpenApp, ScriptedVoice, manual, request, rows, tool, turn

from prowess import CapabilitySurface, Conflict, InvalidInput, Prowess, ToolGroup, TurnPlan

LOAD, RESET = "load_skill_through_path", "reset_equipped_tools"
GROUPS = (
    ToolGroup(name="books", tools=("tool.ledger", "tool.shared")),
    ToolGroup(name="maps", tools=("tool.atlas", "tool.shared")),
    ToolGroup(name="fixed", tools=("tool.fixed",), manageable=False),
    ToolGroup(name="bound", tools=("tool.bound",), activate_on_skill="sailing", manageable=False),
    ToolGroup(name="ready", tools=("tool.ready",), equipped=True),
)
SKILLS = (
    *(tool(name, max_calls_per_turn=4) for name in ("ledger", "shared", "atlas", "fixed", "bound", "ready", "single")),
    manual("sailing", body="# Sailing\n\nMind the wind."),
    manual("rowing"),
)


@pytest.fixture
def app(open_app: OpenApp) -> Prowess:
    return open_app(*SKILLS, groups=GROUPS)


@pytest.fixture
def plan(app: Prowess) -> TurnPlan:
    return app.begin(request("m1", "hello"))


def offered(plan: TurnPlan) -> list[str]:
    return [item.name.removeprefix("tool.") for item in plan.tools if item.skill_id is not None]


def equip(app: Prowess, plan: TurnPlan, *groups: str) -> Any:
    outcome = app.call(plan, RESET, {"groups": list(groups)})
    assert outcome.status == "succeeded", outcome
    return outcome.output


def status(app: Prowess, plan: TurnPlan, name: str) -> str:
    return app.call(plan, f"tool.{name}", {"text": "x"}).status


# --- groups ----------------------------------------------------------------------------------------------------------


def test_t11_groups_are_inactive_at_first_and_ungrouped_tools_always_active(app: Prowess, plan: TurnPlan) -> None:
    # recall is built in, a tool of no declared group
    assert offered(plan) == ["agent-memory.search", "automations.propose", "daily-report.compose", "ready", "single"]
    assert [status(app, plan, name) for name in ("ready", "single", "ledger", "fixed")] == [
        "succeeded",
        "succeeded",
        "denied",
        "denied",
    ]


def test_t11_the_argument_is_the_final_list(app: Prowess, plan: TurnPlan) -> None:
    assert equip(app, plan, "books", "books").equipped.count("books") == 1
    assert offered(plan) == [
        "agent-memory.search",
        "automations.propose",
        "daily-report.compose",
        "ledger",
        "shared",
        "single",
    ]  # ready was put away
    equip(app, plan, "maps")
    assert offered(plan) == [
        "agent-memory.search",
        "automations.propose",
        "daily-report.compose",
        "atlas",
        "shared",
        "single",
    ]
    equip(app, plan, "maps")  # again is fine
    equip(app, plan)
    assert offered(plan) == ["agent-memory.search", "automations.propose", "daily-report.compose", "single"]


def test_t11_a_call_to_an_inactive_group_is_an_error_result(app: Prowess, plan: TurnPlan) -> None:
    refused = app.call(plan, "tool.ledger", {"text": "x"})
    assert (refused.status, refused.decision and refused.decision.reason) == ("denied", "not_active")
    assert "equip" in (refused.message or "")
    assert app.finish(plan, "done").reply == "done"


def test_t11_a_tool_of_several_groups_is_active_with_any(app: Prowess, plan: TurnPlan) -> None:
    for group in ("books", "maps"):
        equip(app, plan, group)
        assert status(app, plan, "shared") == "succeeded"
    equip(app, plan)
    assert status(app, plan, "shared") == "denied"


def test_t11_deactivated_between_two_calls_the_second_is_refused(app: Prowess, plan: TurnPlan) -> None:
    equip(app, plan, "books")
    assert status(app, plan, "ledger") == "succeeded"
    other = app.begin(request("m2", "hello"))
    equip(app, other)
    assert status(app, plan, "ledger") == "denied"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"groups": None},
        {"groups": "books"},
        {"groups": [1]},
        {"tools": []},
        {"groups": [], "x": 1},
        [],
        "[]",
        None,
        7,
    ],
)
def test_t11_wrong_arguments_change_nothing(app: Prowess, plan: TurnPlan, arguments: Any) -> None:
    equip(app, plan, "books")
    outcome = app.call(plan, RESET, arguments)
    assert (outcome.status, outcome.output) == ("invalid_input", None)
    assert status(app, plan, "ledger") == "succeeded"


@pytest.mark.parametrize("name", ["absent", "fixed", "bound", "single_skill_tools", "", "tool.ledger"])
def test_t11_unknown_and_unmanageable_answer_alike_and_change_nothing(
    app: Prowess, plan: TurnPlan, name: str, url: str
) -> None:
    equip(app, plan, "books")
    outcome = app.call(plan, RESET, {"groups": ["maps", name]})
    assert (outcome.status, outcome.message) == ("not_found", f"There is no {name}.")
    assert status(app, plan, "ledger") == "succeeded"
    assert "absent" not in rows(url, "SELECT groups FROM equipped_groups")[0]["groups"]


def test_t11_the_schema_names_manageable_groups_and_none_where_there_are_none(open_app: OpenApp) -> None:
    def items(app: Prowess) -> Any:
        plan = app.begin(request("m1", "hello"))
        (reset,) = [item for item in plan.tools if item.name == RESET]
        return reset.input_schema["properties"]["groups"]["items"]

    assert items(open_app(*SKILLS, groups=GROUPS)) == {"type": "string", "enum": ["books", "maps", "ready"]}
    assert items(open_app(*SKILLS)) == {"type": "string"}


def test_g12_a_narrow_call_leaves_what_it_does_not_see_as_it_was(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, groups=GROUPS)
    wide = app.begin(request("m1", "hello"))
    equip(app, wide, "books", "maps")
    narrow = app.begin(request("m2", "hello"), surface=CapabilitySurface(groups=["maps"]))
    assert offered(narrow) == ["atlas", "shared"]
    equip(app, narrow)
    assert offered(narrow) == []
    assert offered(app.begin(request("m3", "hello"))) == [
        "agent-memory.search",
        "automations.propose",
        "daily-report.compose",
        "ledger",
        "shared",
        "single",
    ]


def test_u2_what_one_user_equips_is_not_equipped_for_another(app: Prowess) -> None:
    mine = app.begin(request("m1", "hello", user="u1", group="g"))
    theirs = app.begin(request("m2", "hello", user="u2", group="g"))
    for skill in ("ledger", "shared"):
        assert skill not in offered(theirs)
    # tool skills serve conversations only unless they say otherwise, so look at the groups themselves
    assert equip(app, mine, "books").equipped == ["books", *_always(app)]
    assert equip(app, theirs).equipped == _always(app)
    assert "books" in equip(app, mine, "books").equipped


def _always(app: Prowess) -> list[str]:
    return sorted(
        {
            "daily-report_skill_tools",
            "memory-recall_skill_tools",
            "propose-automation_skill_tools",
            "single_skill_tools",
        }
    )


def test_t11_what_is_equipped_outlives_the_process(open_app: OpenApp) -> None:
    first = open_app(*SKILLS, groups=GROUPS)
    equip(first, first.begin(request("m1", "hello")), "books")
    second = open_app(*SKILLS, groups=GROUPS)
    assert "ledger" in offered(second.begin(request("m2", "hello")))
    changed = open_app(*SKILLS, groups=[ToolGroup(name="other", tools=("tool.ledger",))])
    assert "ledger" not in offered(changed.begin(request("m3", "hello")))  # an unknown name activates nothing


@pytest.mark.parametrize(
    "group",
    [
        ToolGroup(name="a_skill_tools", tools=("x",)),
        ToolGroup(name="", tools=("x",)),
        ToolGroup(name="a b", tools=("x",)),
        ToolGroup(name="a", tools=()),
        ToolGroup(name="a", tools=(LOAD,)),
        ToolGroup(name="a", tools=("x y",)),
    ],
)
def test_g11_a_group_that_cannot_be_is_refused_at_start(open_app: OpenApp, group: ToolGroup) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_app(groups=[group])
    assert caught.value.code == "tool_group"


def test_g11_two_groups_of_one_name_are_refused(open_app: OpenApp) -> None:
    with pytest.raises(Conflict):
        open_app(groups=[ToolGroup(name="a", tools=("x",)), ToolGroup(name="a", tools=("y",))])


def test_g10_a_tool_skill_cannot_take_the_name_of_a_meta_tool() -> None:
    with pytest.raises(InvalidInput) as caught:
        tool("sly", tool_id=LOAD)
    assert (caught.value.code, caught.value.detail["field"]) == ("tool_bounds", "tool_id")


# --- loading ---------------------------------------------------------------------------------------------------------


def test_t11_g7_loading_a_skill_shows_its_manual_and_activates_its_groups(app: Prowess, plan: TurnPlan) -> None:
    loaded = app.call(plan, LOAD, {"skill_id": "sailing", "path": "SKILL.md"})
    assert loaded.output is not None
    assert loaded.output.model_dump() == {
        "skill_id": "sailing",
        "path": "SKILL.md",
        "content": "# Sailing\n\nMind the wind.",
        "cut": False,
        "equipped": ["bound", *sorted([*_always(app), "ready"])],
    }
    assert "bound" in offered(plan)
    assert status(app, plan, "bound") == "succeeded"
    assert app.call(plan, LOAD, {"skill_id": "rowing"}).status == "succeeded"
    assert "bound" in offered(plan)  # loading B keeps A
    assert [event.type for event in app.audit(user=USER)][:2] == ["skill.loaded", "tool.finished"]


def test_t11_loading_one_skill_leaves_the_others_inactive(app: Prowess, plan: TurnPlan) -> None:
    assert app.call(plan, LOAD, {"skill_id": "rowing"}).status == "succeeded"
    assert status(app, plan, "bound") == "denied"


def test_g7_the_skill_that_serves_the_turn_is_loaded_for_it(app: Prowess) -> None:
    served = app.begin(request("m1", "/sailing now"))
    assert "bound" in offered(served)
    assert status(app, served, "bound") == "succeeded"
    assert "bound" not in offered(app.begin(request("m2", "hello")))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"skill_id": ""},
        {"skill_id": "   "},
        {"skill_id": None},
        {"skill_id": 3},
        {"skill_id": "sailing", "path": ""},
        {"skill_id": "sailing", "path": " "},
        {"skill_id": "sailing", "path": None},
        {"skill_id": "sailing", "more": 1},
        {"path": "SKILL.md"},
        "sailing",
        None,
    ],
)
def test_t11_missing_empty_and_blank_arguments_are_errors(app: Prowess, plan: TurnPlan, arguments: Any) -> None:
    outcome = app.call(plan, LOAD, arguments)
    assert (outcome.status, outcome.output) == ("invalid_input", None)
    assert "bound" not in offered(plan)


@pytest.fixture
def installed(open_app: OpenApp, tmp_path: Path) -> Prowess:
    folder = tmp_path / "sailing-far"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: sailing-far\ndescription: Far out.\n---\n# Far\n")
    (folder / "references" / "winds.md").write_text("Trade winds. " * 10_000)
    (folder / "references" / "short.md").write_text("短\r\n")
    (folder / "assets.bin").write_bytes(b"\xff\xfe\x00")
    app = open_app(*SKILLS, groups=[ToolGroup(name="far", tools=("tool.bound",), activate_on_skill="sailing-far")])
    app.add_skill(folder)
    return app


def test_t11_a_resource_is_loaded_and_activates_the_skill_too(installed: Prowess) -> None:
    plan = installed.begin(request("m1", "hello"))
    loaded = installed.call(plan, LOAD, {"skill_id": "Sailing_Far", "path": "references/short.md"})
    assert loaded.output is not None
    assert loaded.output.model_dump()["content"] == "短\r\n"
    assert "bound" in offered(plan)
    long = installed.call(plan, LOAD, {"skill_id": "sailing-far", "path": "references/winds.md"})
    assert long.output is not None
    assert (len(long.output.model_dump()["content"]), long.output.model_dump()["cut"]) == (100_000, True)


@pytest.mark.parametrize(
    "path",
    ["absent.md", "../SKILL.md", "/etc/passwd", "references/../SKILL.md", "skill.md", "references/", "./SKILL.md"],
)
def test_t11_an_invalid_path_lists_what_there_is_and_activates_nothing(installed: Prowess, path: str) -> None:
    plan = installed.begin(request("m1", "hello"))
    outcome = installed.call(plan, LOAD, {"skill_id": "sailing-far", "path": path})
    assert (outcome.status, outcome.error_code) == ("failed", "path_not_found")
    assert (outcome.message or "").endswith("SKILL.md, assets.bin, references/short.md, references/winds.md")
    assert "bound" not in offered(plan)


def test_t11_a_file_that_is_no_text_is_said_to_be_none(installed: Prowess) -> None:
    plan = installed.begin(request("m1", "hello"))
    outcome = installed.call(plan, LOAD, {"skill_id": "sailing-far", "path": "assets.bin"})
    assert (outcome.status, outcome.error_code) == ("failed", "not_text")
    assert "bound" not in offered(plan)


def test_t11_a_voice_reaches_tools_through_its_box_alone(open_app: OpenApp) -> None:
    voice = ScriptedVoice()
    app = open_app(*SKILLS, groups=GROUPS, voice=voice)
    turn(app, "m1", "hello")
    box = voice.prompts[0].toolbox
    assert box is not None
    assert box.call("tool.single", {"text": "x"}) == {"status": "ok", "output": {"text": "answer to x"}}
    assert box.call("tool.single", "{not json")["error"] == "invalid_input"
    assert box.call("tool.single", {"text": 5})["detail"] == [{"place": "text", "fault": "string_type"}]
    assert box.call("tool.absent", {}) == {
        "status": "not_found",
        "error": "not_found",
        "message": "There is no tool tool.absent.",
    }
    assert box.call("tool.ledger", {"text": "x"})["message"].startswith("Not done: the tool is not equipped.")
    assert [item.name for item in box.tools()][:2] == [LOAD, RESET]
    assert app.candidates(user=USER, agent=AGENT) != []
