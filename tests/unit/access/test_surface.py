"""What a surface names: three dimensions, entries, typed ids (G6, G11, rulings 12.18 and 12.21)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.access.surface import MAX_ENTRIES, MAX_NAME, CapabilitySurface, GroupId, SkillEntry, SkillKey
from prowess.errors import InvalidInput

KEY = SkillKey("fill-form", "1.2.0", "market")


def test_g6_an_entry_in_any_set_dimension_allows() -> None:
    surface = CapabilitySurface(skills=["fill-form"], groups=["files"], tools=["read_file"])
    assert surface.names_skill(KEY)
    assert surface.names_group(GroupId("declared", "files"))
    assert surface.names_tool("read_file")
    assert not surface.names_tool("write_file")


def test_g6_no_dimension_allows_all_and_all_empty_allows_nothing() -> None:
    assert CapabilitySurface() == CapabilitySurface.ALLOW_ALL
    assert CapabilitySurface.ALLOW_ALL.allows_all
    assert CapabilitySurface((), (), ()) == CapabilitySurface.DENY_ALL
    assert not CapabilitySurface.DENY_ALL.allows_all
    assert not CapabilitySurface.DENY_ALL.names_skill(KEY)


def test_g6_null_and_the_empty_set_decide_alike_once_another_dimension_is_set_but_read_differently() -> None:
    null, empty = CapabilitySurface(tools=["t"]), CapabilitySurface(skills=(), groups=(), tools=["t"])
    for surface in (null, empty):
        assert not surface.names_skill(KEY)
        assert not surface.names_group(GroupId("declared", "files"))
        assert surface.names_tool("t")
    assert (null.skills, null.groups) == (None, None)
    assert (empty.skills, empty.groups) == (frozenset(), frozenset())
    assert null != empty
    assert null.to_json() == {"skills": None, "groups": None, "tools": ["t"]}
    assert empty.to_json() == {"skills": [], "groups": [], "tools": ["t"]}


def test_g11_typed_ids_do_not_collide() -> None:
    """Case C1: (``a_b``, ``c``) and (``a``, ``b_c``) would be one when joined."""
    assert SkillEntry("c", None, "a_b") != SkillEntry("b_c", None, "a")
    granted = CapabilitySurface(skills=[("a_b", "c")])
    assert granted.names_skill(SkillKey("c", "1", "a_b"))
    assert not granted.names_skill(SkillKey("b-c", "1", "a"))
    assert GroupId.of_skill("x") != GroupId("declared", "x")
    assert not CapabilitySurface(groups=["x"]).names_group(GroupId.of_skill("x"))
    assert CapabilitySurface(groups=["x_skill_tools"]).names_group(GroupId.of_skill("x"))


@pytest.mark.parametrize("written", ["fill_form", "fill-form", "Fill_Form", " fill-form "])
def test_g6_skill_names_are_read_like_ids(written: str) -> None:
    assert CapabilitySurface(skills=[written]).names_skill(KEY)


def test_g6_tool_and_group_names_are_exact() -> None:
    surface = CapabilitySurface(groups=["My_Files"], tools=["files/read_file"])
    assert surface.names_tool("files/read_file")
    assert not surface.names_tool("files/read-file")
    assert not surface.names_tool("read_file")
    assert not surface.names_group(GroupId("declared", "my-files"))


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("fill-form", True),
        ("fill-form@1.2.0", True),
        ("fill-form@1.2.1", False),
        ("fill-form@1.2", False),
        (("market", "fill-form"), True),
        (("other", "fill-form"), False),
        (("market", "fill_form@1.2.0"), True),
        (("market", "fill-form@2.0.0"), False),
        (("other", "fill-form@1.2.0"), False),
        (["market", "fill-form"], True),
        (SkillEntry("fill-form", "1.2.0"), True),
        ("fill", False),
        ("fill-form-2", False),
    ],
)
def test_g6_g11_an_entry_is_an_id_an_id_at_a_version_or_an_id_from_a_source(entry: Any, named: bool) -> None:
    surface = CapabilitySurface(skills=[entry])
    assert surface.names_skill(KEY) is named
    assert (surface.entry_for(KEY) is not None) is named
    assert CapabilitySurface(**surface.to_json()) == surface


def test_g6_a_skill_whose_version_is_not_known_is_not_named_by_a_version() -> None:
    assert not CapabilitySurface(skills=["fill-form@1.2.0"]).names_skill(SkillKey("fill-form"))
    assert not CapabilitySurface(skills=[("market", "fill-form")]).names_skill(SkillKey("fill-form", "1.2.0"))


@pytest.mark.parametrize("field", ["skills", "groups", "tools"])
@pytest.mark.parametrize("given", ["name", b"bytes", {"a": 1}, 5, [""], [" "], [None], [5], ["x" * (MAX_NAME + 1)]])
def test_g6_what_is_no_list_of_names_is_refused(field: str, given: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        CapabilitySurface(**{field: given})
    assert (refused.value.code, refused.value.detail["field"]) == ("surface_entry", field)


@pytest.mark.parametrize("entry", ["@1.0.0", "a@", "a@ ", ("", "a"), ("s", ""), ("s", "a", "b"), ("s",)])
def test_g6_half_an_entry_is_refused(entry: Any) -> None:
    with pytest.raises(InvalidInput, match="surface_entry"):
        CapabilitySurface(skills=[entry])


def test_g6_a_surface_has_a_size() -> None:
    assert len(CapabilitySurface(tools=map(str, range(MAX_ENTRIES))).tools or ()) == MAX_ENTRIES
    with pytest.raises(InvalidInput, match="surface_too_large"):
        CapabilitySurface(tools=map(str, range(MAX_ENTRIES + 1)))


def test_g9_a_surface_is_frozen() -> None:
    given = ["a"]
    surface: Any = CapabilitySurface(skills=given)
    given.append("b")
    assert not surface.names_skill(SkillKey("b"))
    with pytest.raises(AttributeError):
        surface.skills = None
    assert hash(surface) == hash(CapabilitySurface(skills=["a"]))


def test_u3_the_union_allows_what_either_allows() -> None:
    one, other = CapabilitySurface(skills=["a"]), CapabilitySurface(tools=["t"])
    assert one.union(other) == CapabilitySurface(skills=["a"], tools=["t"])
    assert one.union(CapabilitySurface.DENY_ALL) == CapabilitySurface(["a"], (), ())
    assert one.union(CapabilitySurface.ALLOW_ALL).allows_all


def test_g14_a_surface_less_its_last_entry_grants_nothing_rather_than_everything() -> None:
    assert CapabilitySurface(tools=["t"]).without("t") == CapabilitySurface(tools=())
    assert not CapabilitySurface(skills=["a"]).without(SkillEntry("a")).allows_all
    assert not CapabilitySurface(groups=["g"]).without(GroupId("declared", "g")).allows_all
