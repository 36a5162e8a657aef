"""What a server's own schema can make us do is bounded (X7)."""

from __future__ import annotations

import pytest

from prowess.mounts.schemas import TooManySteps, faults

DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}


def test_x7_a_dialect_of_its_own_does_not_escape_the_bounds() -> None:
    slow = {"type": "object", "properties": {"a": {**DRAFT, "pattern": "^(a+)+$"}}}
    assert faults({"a": "a" * 60 + "!"}, slow) == []
    links = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(17)} | {"d17": {}}
    chain = {"type": "object", "$defs": links, "properties": {"a": {**DRAFT, "$ref": "#/$defs/d0"}}}
    with pytest.raises(TooManySteps):
        faults({"a": 1}, chain)
    named = {"type": "object", "properties": {"$schema": {"type": "integer"}}}
    assert faults({"$schema": "x"}, named) == [(("$schema",), "type")]


def test_x7_values_are_not_compared_each_with_each() -> None:
    unique = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    assert faults({"a": [{"i": 1}, {"i": 1}] * 2_000}, unique) == []
