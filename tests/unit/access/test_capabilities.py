"""What one call sees of an agent: filter ∩ entitlement ∩ activation, edge by edge (G6–G10, rulings 12.18–12.20)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.access.capabilities import (
    LOAD_SKILL,
    META_TOOLS,
    NOT_ACTIVE,
    NOT_FOUND,
    NOT_GRANTED,
    RESET_TOOLS,
    SYSTEM,
    UNRESTRICTED,
    CallSurface,
    Capabilities,
    GroupCapability,
    SkillCapability,
)
from prowess.access.surface import CapabilitySurface, GroupId, SkillKey

DENY_ALL, ALLOW_ALL = CapabilitySurface.DENY_ALL, CapabilitySurface.ALLOW_ALL
FORM, FORM_TOOLS, FILES, WEB = SkillKey("form", "1.0.0", "x"), GroupId.of_skill("form"), "files", "web"


def group(name: str, *tools: str, bound: str | None = None, **fields: Any) -> GroupCapability:
    return GroupCapability(name, frozenset(tools), bound, **fields)


def declared(*names: str) -> frozenset[GroupId]:
    return frozenset(GroupId("declared", name) for name in names)


def agent(**changed: Any) -> Capabilities:
    parts: dict[str, Any] = {
        "skills": [SkillCapability(FORM, frozenset({"fill", "send"})), SkillCapability(SkillKey("note"))],
        "groups": [group(FILES, "read", "both"), group(WEB, "get", "both"), group("bound", "stamp", bound="form")],
        "tools": ["clock"],
    }
    return Capabilities(**{**parts, **changed})


def call(surface: CapabilitySurface, equipped: frozenset[GroupId] = frozenset(), **changed: Any) -> CallSurface:
    return CallSurface(agent(**changed), (surface,), equipped)


EVERY_GROUP = declared(FILES, WEB, "bound") | {FORM_TOOLS}


# --- granting --------------------------------------------------------------------------------------------------------


def test_g7_a_granted_tool_does_not_widen_to_its_group() -> None:
    seen = call(CapabilitySurface(tools=["read"]), EVERY_GROUP)
    assert seen.tool("read").by == ("tool", "read")
    assert seen.tool("both") == NOT_GRANTED
    assert seen.group(GroupId("declared", FILES)) == NOT_GRANTED


def test_g7_a_granted_group_grants_all_its_tools() -> None:
    seen = call(CapabilitySurface(groups=[FILES]), EVERY_GROUP)
    assert {name for name in ("read", "both", "get", "fill", "clock") if seen.tool(name).allowed} == {"read", "both"}
    assert seen.tool("read").by == ("group", FILES)


def test_g7_a_granted_skill_grants_manual_tool_group_and_bound_groups() -> None:
    seen = call(CapabilitySurface(skills=["form"]), EVERY_GROUP)
    assert seen.skill("form").by == ("skill", "form")
    assert seen.group(FORM_TOOLS).allowed
    assert seen.group(GroupId("declared", "bound")).allowed
    assert {name for name in ("fill", "send", "stamp", "read", "get") if seen.execute(name).allowed} == {
        "fill", "send", "stamp",
    }  # fmt: skip


def test_g7_a_granted_tool_group_of_a_skill_does_not_grant_its_manual() -> None:
    seen = call(CapabilitySurface(groups=["form_skill_tools"]), EVERY_GROUP)
    assert seen.execute("fill").allowed
    assert seen.skill("form") == NOT_GRANTED


def test_g7_a_tool_in_a_granted_and_an_ungranted_group_is_reached_through_the_granted_one() -> None:
    """Case C5."""
    surface = CapabilitySurface(groups=[WEB])
    assert call(surface, declared(WEB)).execute("both").allowed
    assert call(surface, declared(FILES)).execute("both") == NOT_ACTIVE
    assert call(surface, declared(FILES, WEB)).execute("read") == NOT_GRANTED


def test_g6_an_entry_for_what_the_agent_lacks_means_nothing() -> None:
    seen = call(CapabilitySurface(skills=["ghost"], groups=["spirits"], tools=["boo"]), declared("spirits"))
    assert (seen.skill("ghost"), seen.tool("boo")) == (NOT_FOUND, NOT_FOUND)
    assert seen.group(GroupId("declared", "spirits")) == NOT_FOUND
    assert set(seen.tools()) == META_TOOLS


def test_g7_a_granted_skill_that_the_agent_lacks_grants_nothing() -> None:
    seen = call(
        CapabilitySurface(skills=["ghost"]), declared("haunted"), groups=[group("haunted", "boo", bound="ghost")]
    )
    assert seen.group(GroupId("declared", "haunted")) == NOT_GRANTED
    assert seen.execute("boo") == NOT_GRANTED


def test_g6_a_version_or_source_that_differs_grants_nothing_of_the_skill() -> None:
    for entry in ("form@2.0.0", ("other", "form")):
        seen = call(CapabilitySurface(skills=[entry]), EVERY_GROUP)
        assert seen.skill("form") == NOT_GRANTED
        assert seen.execute("fill") == NOT_GRANTED
        assert seen.execute("stamp") == NOT_GRANTED


def test_g6_deny_all_leaves_the_meta_tools() -> None:
    seen = call(DENY_ALL, EVERY_GROUP)
    assert list(seen.tools()) == sorted(META_TOOLS)
    assert seen.manageable_groups() == ()
    assert seen.active_groups() == frozenset()
    assert seen.skill("note") == NOT_GRANTED


def test_g6_allow_all_leaves_all_that_is_active() -> None:
    seen = call(ALLOW_ALL, declared(FILES))
    assert set(seen.tools()) == {"read", "both", "clock", *META_TOOLS}
    assert seen.skill("note") == UNRESTRICTED


# --- activation ------------------------------------------------------------------------------------------------------


def test_t11_a_tool_of_an_inactive_group_is_not_there_until_the_group_is_active() -> None:
    surface = CapabilitySurface(groups=[FILES])
    assert call(surface).execute("read") == NOT_ACTIVE
    assert "read" not in call(surface).tools()
    assert call(surface, declared(FILES)).execute("read").allowed
    assert call(surface, declared(WEB)).execute("read") == NOT_ACTIVE


def test_t11_a_tool_without_a_group_is_always_active() -> None:
    assert call(ALLOW_ALL).execute("clock") == UNRESTRICTED
    assert call(CapabilitySurface(tools=["clock"])).execute("clock").allowed
    assert call(DENY_ALL).execute("clock") == NOT_GRANTED


def test_t11_an_unknown_group_or_tool_is_not_active() -> None:
    seen = call(ALLOW_ALL, declared("unknown"))
    assert seen.active_groups() == frozenset()
    assert not seen.active("unknown")
    assert seen.execute("unknown") == NOT_FOUND


def test_g7_a_tool_granted_by_name_is_active_while_none_of_its_groups_is_granted() -> None:
    assert call(CapabilitySurface(tools=["read"])).execute("read").allowed
    both = CapabilitySurface(groups=[FILES], tools=["read"])
    assert call(both).execute("read") == NOT_ACTIVE
    assert call(both, declared(FILES)).execute("read").allowed


def test_g7_loading_a_skill_activates_its_group_and_those_bound_to_it_alone() -> None:
    before = call(CapabilitySurface(skills=["form"]))
    after = before.with_loaded("form")
    assert before.execute("fill") == NOT_ACTIVE
    assert (after.execute("fill").allowed, after.execute("stamp").allowed) == (True, True)
    assert before.with_loaded("note").active_groups() == frozenset()
    assert after.with_loaded("note").active_groups() == after.active_groups()
    assert before.execute("fill") == NOT_ACTIVE  # what was asked before is no other call's answer


def test_g8_loading_what_is_not_granted_activates_nothing_that_is_seen() -> None:
    assert call(DENY_ALL).with_loaded("form").active_groups() == frozenset()


def test_g8_what_is_equipped_but_not_granted_is_not_seen_and_not_lost() -> None:
    """Ruling 12.20: a narrow call never rewrites what was asked for."""
    narrow = call(CapabilitySurface(groups=[WEB]), EVERY_GROUP)
    assert narrow.active_groups() == declared(WEB)
    assert narrow.equipped == EVERY_GROUP


def test_g8_only_granted_groups_that_are_declared_manageable_can_be_named() -> None:
    groups = [group(FILES, "read"), group(WEB, "get"), group("fixed", "fix", manageable=False)]
    seen = call(CapabilitySurface(groups=[FILES, "fixed"], skills=["form"]), groups=groups)
    assert seen.manageable_groups() == (GroupId("declared", FILES),)
    assert FORM_TOOLS not in seen.manageable_groups()


def test_g7_a_skill_without_tools_has_no_tool_group() -> None:
    assert GroupId.of_skill("note") not in agent().groups
    assert call(ALLOW_ALL).group(GroupId.of_skill("note")) == NOT_FOUND


def test_t11_groups_that_are_equipped_at_first() -> None:
    made = agent(
        skills=[SkillCapability(FORM, frozenset({"fill"}), equipped=True)],
        groups=[group(FILES, "read", equipped=True), group(WEB, "get")],
    )
    assert made.equipped_at_first == {FORM_TOOLS, GroupId("declared", FILES)}


# --- system marks ----------------------------------------------------------------------------------------------------


def test_g10_a_system_tool_is_exempt_and_its_group_is_not() -> None:
    seen = call(DENY_ALL, declared(FILES), system_tools=["clock", "read"])
    assert seen.execute("clock") == SYSTEM
    assert seen.tool("read") == SYSTEM
    assert seen.execute("read") == NOT_ACTIVE  # ruling 12.19: a mark never lifts activation
    assert seen.tool("both") == NOT_GRANTED
    assert seen.group(GroupId("declared", FILES)) == NOT_GRANTED


def test_g10_a_system_group_is_exempt_and_its_tools_are_not() -> None:
    seen = call(DENY_ALL, declared(FILES), groups=[group(FILES, "read", system=True)])
    assert seen.group(GroupId("declared", FILES)) == SYSTEM
    assert seen.active_groups() == declared(FILES)
    assert seen.manageable_groups() == (GroupId("declared", FILES),)
    assert seen.execute("read") == NOT_GRANTED


def test_g10_a_system_tool_of_an_active_system_group_is_there() -> None:
    groups = [group(FILES, "read", system=True)]
    assert call(DENY_ALL, declared(FILES), groups=groups, system_tools=["read"]).execute("read") == SYSTEM
    assert call(DENY_ALL, groups=groups, system_tools=["read"]).execute("read") == NOT_ACTIVE


def test_g10_a_system_skill_shows_its_manual_and_not_its_scripts() -> None:
    seen = call(DENY_ALL, EVERY_GROUP, skills=[SkillCapability(FORM, frozenset({"fill"}), system=True)])
    assert seen.skill("form") == SYSTEM
    assert seen.group(FORM_TOOLS) == NOT_GRANTED
    assert seen.execute("fill") == NOT_GRANTED
    assert seen.group(GroupId("declared", "bound")) == NOT_GRANTED


def test_g10_a_mark_does_not_conjure_up_what_the_agent_lacks() -> None:
    assert call(ALLOW_ALL, system_tools=["ghost"]).execute("ghost") == NOT_FOUND


def test_g10_t11_the_meta_tools_are_system_and_always_there() -> None:
    for name in (LOAD_SKILL, RESET_TOOLS):
        assert call(DENY_ALL, skills=[], groups=[], tools=[]).execute(name) == SYSTEM


# --- names -----------------------------------------------------------------------------------------------------------


def test_g11_a_skills_group_and_a_declared_group_of_one_name_are_two() -> None:
    groups = [group("form", "other")]
    assert call(CapabilitySurface(groups=["form"]), EVERY_GROUP, groups=groups).tool("fill") == NOT_GRANTED
    seen = call(CapabilitySurface(groups=["form_skill_tools"]), EVERY_GROUP, groups=groups)
    assert seen.tool("fill").allowed
    assert seen.tool("other") == NOT_GRANTED
    assert str(FORM_TOOLS) == "form_skill_tools"
    assert GroupId.parse("form_skill_tools") == FORM_TOOLS
    assert GroupId.parse("_skill_tools") == GroupId("declared", "_skill_tools")


def test_g8_denied_and_absent_differ_for_the_auditor_alone() -> None:
    """Case C6: both are refusals; what the asker is told is the same by contract tests."""
    assert not NOT_GRANTED.allowed
    assert not NOT_FOUND.allowed
    assert (NOT_FOUND.reason, NOT_GRANTED.reason) == ("not_found", "not_granted")


# --- chains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [ALLOW_ALL, CapabilitySurface(groups=[FILES, WEB]), DENY_ALL])
def test_g9_a_delegate_has_at_most_what_its_parent_has(own: CapabilitySurface) -> None:
    parent = CallSurface(agent(), (CapabilitySurface(groups=[FILES]),), EVERY_GROUP)
    child = CallSurface(agent(), (*parent.layers, own), EVERY_GROUP)
    assert set(child.tools()) <= set(parent.tools())
    assert child.active_groups() <= parent.active_groups()


def test_g9_a_delegate_without_a_surface_of_its_own_has_its_parents() -> None:
    """A tool that the parent has by name, of a group that it has not, stays callable for the delegate."""
    parent = call(CapabilitySurface(tools=["read"]))
    child = CallSurface(parent.capabilities, (*parent.layers, ALLOW_ALL), frozenset())
    assert list(child.tools()) == list(parent.tools()) == sorted({"read", *META_TOOLS})


def test_g9_an_unrestricted_parent_does_not_make_a_delegates_inactive_tool_active() -> None:
    child = CallSurface(agent(), (ALLOW_ALL, CapabilitySurface(tools=["read"])), frozenset())
    assert not call(ALLOW_ALL).execute("read").allowed
    assert not child.execute("read").allowed


def test_g9_without_any_surface_nothing_is_cut() -> None:
    seen = CallSurface(agent(), (), declared(FILES))
    assert seen.execute("read") == UNRESTRICTED
    assert seen.execute("get") == NOT_ACTIVE
