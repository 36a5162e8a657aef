from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.kernel.names import MAX_NAME_LENGTH, is_skill_name, normalise_skill_name
from prowess.skills.names import SkillRef, Version

# Semantic Versioning 2.0.0, section 11, written as one rising list.
RISING = [
    "0.0.1",
    "0.1.0",
    "0.10.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0-0",
    "2.0.0-1",
    "2.0.0-1.a",
    "2.0.0--",
    "2.0.0-A",
    "2.0.0-a",
    "2.0.0",
    "2.1.0",
    "2.1.1",
]

# The two lists beside the standard's suggested regular expression, and our own bounds.
VALID = """
0.0.4 1.2.3 10.20.30 1.1.2-prerelease+meta 1.1.2+meta 1.1.2+meta-valid 1.0.0-alpha 1.0.0-beta 1.0.0-alpha.beta
1.0.0-alpha.beta.1 1.0.0-alpha.1 1.0.0-alpha0.valid 1.0.0-alpha.0valid
1.0.0-alpha-a.b-c-somethinglong+build.1-aef.1-its-okay 1.0.0-rc.1+build.1 2.0.0-rc.1+build.123 1.2.3-beta
10.2.3-DEV-SNAPSHOT 1.2.3-SNAPSHOT-123 1.0.0 2.0.0 1.1.7 2.0.0+build.1848 2.0.1-alpha.1227 1.0.0-alpha+beta
1.2.3----RC-SNAPSHOT.12.9.1--.12+788 1.2.3----R-S.12.9.1--.12+meta 1.2.3----RC-SNAPSHOT.12.9.1--.12
1.0.0+0.build.1-rc.10000aaa-kk-0.1 1.0.0-0A.is.legal 999999999.999999999.999999999
""".split()
INVALID = """
1 1.2 1.2.3-0123 1.2.3-0123.0123 1.1.2+.123 +invalid -invalid -invalid+invalid -invalid.01 alpha alpha.beta alpha.1
alpha+beta alpha_beta alpha. alpha.. beta 1.0.0-alpha_beta -alpha. 1.0.0-alpha.. 1.0.0-alpha..1 1.0.0-alpha...1
01.1.1 1.01.1 1.1.01 1.2.3.DEV 1.2-SNAPSHOT 1.2.31.2.3----RC-SNAPSHOT.12.09.1--..12+788 1.2-RC-SNAPSHOT
-1.0.3-gamma+b7718 +justmeta 9.8.7+meta+meta 9.8.7-whatever+meta+meta v1.2.3 1.2.3- 1.2.3+ ١.٢.٣ 1000000000.0.0
""".split()


@pytest.mark.parametrize("text", VALID)
def test_versions_of_the_standard_are_taken(text: str) -> None:
    assert Version(text).text == text


@pytest.mark.parametrize("text", [*INVALID, "", " 1.2.3", "1.2.3\n", "1.2.3 ", "1.2.3-" + "a" * 59])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a semantic version such as 1\\.2\\.0"):
        Version(text)


def test_s7_order_is_that_of_the_standard() -> None:
    versions = [Version(text) for text in RISING]
    for lower, higher in pairwise(versions):
        assert lower < higher
        assert higher > lower
        assert lower != higher
    assert [version.text for version in sorted(reversed(versions))] == RISING


def test_build_metadata_takes_no_part_in_the_order() -> None:
    one, other = Version("1.0.0+a"), Version("1.0.0+b")
    assert one == other
    assert hash(one) == hash(other)
    assert one <= other <= one
    assert Version("1.0.0-rc.1+z") < one
    foreign: Any = "1.0.0+a"
    assert one != foreign


@given(st.lists(st.sampled_from(VALID[:-1]), min_size=2, max_size=8))
def test_order_is_total_and_steady(texts: list[str]) -> None:
    versions = [Version(text) for text in texts]
    assert sorted(sorted(versions, reverse=True)) == sorted(versions)
    for one in versions:
        for other in versions:
            assert (one < other) + (one == other) + (one > other) == 1


def test_stable_and_next_patch() -> None:
    assert Version("1.2.3+build").stable
    assert not Version("1.2.3-rc.1").stable
    assert Version("1.2.3").next_patch().text == "1.2.4"
    assert Version("1.2.3-rc.1+b").next_patch().text == "1.2.4"
    assert repr(Version("1.2.3")) == "Version('1.2.3')"


@pytest.mark.parametrize("name", ["a", "deploy", "format-json", "a-b-c", "3d-print", "x" * MAX_NAME_LENGTH])
def test_canonical_names(name: str) -> None:
    assert is_skill_name(name)
    assert normalise_skill_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-a",
        "a-",
        "a--b",
        "A",
        "a_b",
        "a b",
        "a/b",
        "../a",
        "a\x00",
        "a\n",
        "文档",
        "é",
        "ａ",
        "x" * (MAX_NAME_LENGTH + 1),
    ],
    ids=ascii,
)
def test_names_that_are_not_canonical(name: str) -> None:
    assert not is_skill_name(name)


@pytest.mark.parametrize(
    ("given_name", "canonical"),
    [
        ("format_json", "format-json"),
        ("Format_JSON", "format-json"),
        (" Deploy ", "deploy"),
        ("a_b-c", "a-b-c"),
        ("a__b", "a--b"),
    ],
)
def test_snake_case_maps_to_kebab_case(given_name: str, canonical: str) -> None:
    """Ruling 12.1: ``a_b`` and ``a-b`` are one id."""
    assert normalise_skill_name(given_name) == canonical


def test_g11_a_reference_is_a_pair() -> None:
    assert SkillRef("a", "1.0.0-b") != SkillRef("a-1.0.0", "b")
    assert SkillRef("deploy", "1.0.0") == ("deploy", "1.0.0")
