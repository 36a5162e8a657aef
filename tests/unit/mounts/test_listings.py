"""What a stranger's server may list, and what is made of it."""

from __future__ import annotations

import pytest
from tests.support.mounting import raw

from prowess.errors import LimitExceeded
from prowess.mounts.cleaning import clean, depth_of
from prowess.mounts.listings import MAX_DESCRIPTION, MAX_TOOLS, read_listing, read_listings
from prowess.mounts.schemas import TooManySteps, faults, schema_fault


def test_x7_hidden_characters_are_taken_out_and_counted() -> None:
    assert clean("a\u200bb\u202ec\U000e0041\ufe0f\x1b[1m", 100) == ("abc[1m", 5, False)
    assert clean("天气\r\n好", 100) == ("天气\n好", 0, False)
    assert clean("x" * 11, 10) == ("x" * 9 + "…", 0, True)


def test_x7_the_digest_is_of_what_was_sent_not_of_what_is_shown() -> None:
    plain, hidden = read_listing(raw("a", description="x")), read_listing(raw("a", description="x\u200b"))
    assert (plain.description, hidden.description) == ("x", "x")
    assert plain.digest != hidden.digest
    assert hidden.notes == ("hidden_characters",)
    assert read_listing(raw("a")).digest == read_listing(dict(reversed(raw("a").items()))).digest


@pytest.mark.parametrize(
    "changed",
    [
        {"title": "t"},
        {"description": "other"},
        {"inputSchema": {"type": "object"}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": False}},
    ],
)
def test_x7_whatever_changes_changes_the_digest(changed: dict[str, object]) -> None:
    assert read_listing(raw("a", **changed)).digest != read_listing(raw("a")).digest


@pytest.mark.parametrize("name", ["../x", "naïve", "a/b", "", "x" * 129, "-a", "a b", "a\u200b", 7, None])
def test_x7_a_hostile_name_cannot_be_used(name: object) -> None:
    listing = read_listing({**raw("a"), "name": name})
    assert listing.fault == "name"
    assert listing.name.isascii()


def test_x7_schemas_that_hide_or_refer_outside_cannot_be_used() -> None:
    hidden = {"type": "object", "properties": {"te\u200bxt": {"type": "string"}}}
    assert read_listing(raw("a", inputSchema=hidden)).fault == "hidden_in_schema"
    for schema in (
        {"type": "object", "properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"type": "no such type"}}},
        {"type": "string"},
        "no schema",
    ):
        assert read_listing(raw("a", inputSchema=schema)).fault == "schema"
    assert read_listing(raw("a", inputSchema={"type": "object", "const": "x" * 40_000})).fault == "too_large"
    deep: dict[str, object] = {"type": "object"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    assert read_listing(raw("a", inputSchema=deep)).fault == "schema"


def test_x7_prose_in_a_schema_is_cleaned_and_cut() -> None:
    schema = {"type": "object", "properties": {"a": {"description": "\u202eread" + "x" * 900}}}
    kept = read_listing(raw("a", inputSchema=schema)).input_schema["properties"]["a"]["description"]
    assert kept.startswith("readx")
    assert len(kept) == 500


def test_x7_a_list_is_limited_and_a_name_comes_once() -> None:
    with pytest.raises(LimitExceeded) as refused:
        read_listings(raw(f"t{number}") for number in range(MAX_TOOLS + 1))
    assert refused.value.code == "mount_too_many_tools"
    [twice] = read_listings([raw("a"), raw("a", description="other")])
    assert twice.fault == "twice"
    assert read_listing(raw("a", description="x" * 9_000)).notes == ("description_cut",)
    assert len(read_listing(raw("a", description="x" * 9_000)).description) == MAX_DESCRIPTION


def test_x7_no_schema_takes_for_ever() -> None:
    doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    bomb = {"type": "object", "$ref": "#/$defs/d0", "$defs": {**doubling, "d30": {"type": "object"}}}
    with pytest.raises(TooManySteps):
        faults({}, bomb)
    assert schema_fault(bomb, arguments=True)
    wide = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(6)}
    assert schema_fault({"type": "object", "$ref": "#/$defs/d0", "$defs": {**wide, "d6": {}}}, arguments=True)
    assert schema_fault({"type": "object", "$ref": "#"}, arguments=True)
    # A pattern of a stranger is not run.
    assert faults({"a": "a" * 40 + "!"}, {"properties": {"a": {"pattern": "^(a+)+$"}}}) == []
    assert faults({"a": 1}, {"properties": {"a": {"type": "string"}}}) == [(("a",), "type")]


def test_depth_is_counted_without_recursion() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert depth_of(deep, 10) == 11
