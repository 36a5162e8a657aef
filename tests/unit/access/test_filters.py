"""What an agent was designed with: filters and overlays (conformance B)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.access.filters import EVERYTHING, MAX_FILTER_NAMES, NOTHING, SkillFilter, stored_filter
from prowess.errors import InvalidInput


def let_through(given: SkillFilter) -> set[str]:
    return {name for name in ("a", "b", "c") if given.allows(name)}


@pytest.mark.parametrize(
    ("kind", "names", "through"),
    [
        ("all", (), {"a", "b", "c"}),
        ("none", (), set()),
        ("only", ("a", "b"), {"a", "b"}),
        ("except", ("a",), {"b", "c"}),
        ("enable", ("a",), {"a"}),
        ("disable", ("a",), {"b", "c"}),
    ],
)
def test_t11_a_filter_standing_alone(kind: str, names: tuple[str, ...], through: set[str]) -> None:
    assert let_through(SkillFilter.of(kind, names)) == through


def test_t11_an_overlay_narrows_or_readmits_but_never_beyond_the_base() -> None:
    base = SkillFilter.of("only", ["a", "b"])
    narrowed = base.overlaid(SkillFilter.of("disable", ["a"]))
    assert let_through(narrowed) == {"b"}
    assert let_through(narrowed.overlaid(SkillFilter.of("enable", ["a"]))) == {"a", "b"}
    assert let_through(base.overlaid(SkillFilter.of("enable", ["c"]))) == {"a", "b"}
    assert let_through(narrowed.overlaid(SkillFilter.of("enable", ["c"]))) == {"b"}


def test_t11_any_other_filter_replaces_the_base_and_null_leaves_it() -> None:
    base = SkillFilter.of("only", ["a"])
    assert let_through(base.overlaid(SkillFilter.of("except", ["a"]))) == {"b", "c"}
    assert let_through(base.overlaid(NOTHING)) == set()
    assert base.overlaid(None) is base


def test_t11_names_are_read_like_ids() -> None:
    assert SkillFilter.of("only", ["Fill_Form"]).allows("fill-form")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("some", ()), ("", ()), ("all", ("a",)), ("none", ("a",)), ("only", ()), ("except", ()), ("disable", ()),
        ("only", "a"), ("only", ("",)), ("only", (" ",)), ("only", (None,)), ("only", (1,)),
        ("only", tuple(map(str, range(MAX_FILTER_NAMES + 1)))),
    ],
)  # fmt: skip
def test_t11_what_is_no_filter_is_refused(kind: str, names: Any) -> None:
    with pytest.raises(InvalidInput, match="bad_filter"):
        SkillFilter.of(kind, names)


@pytest.mark.parametrize(
    "stored",
    [
        {}, [], "all", 0, {"kind": "all"}, {"names": []}, {"kind": "all", "names": None}, {"kind": None, "names": []},
        {"kind": "only", "names": []}, {"kind": "only", "names": [1]}, {"kind": "sieve", "names": []},
        {"kind": ["all"], "names": []},
    ],
    ids=repr,
)  # fmt: skip
def test_g8_c39_a_stored_filter_that_cannot_be_read_lets_nothing_through(stored: Any) -> None:
    """Case C2: it must not mean "show everything"."""
    assert stored_filter(stored) == NOTHING


def test_t11_a_stored_filter_comes_back_as_it_was() -> None:
    assert stored_filter(None) is EVERYTHING
    for made in (EVERYTHING, NOTHING, SkillFilter.of("only", ["b", "a"]), SkillFilter.of("except", ["c"])):
        assert stored_filter(made.to_json()) == made
