"""Parameters: schema, judgement and boundary values agree; contradictions are found."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.skills.manifest import ParameterSpec
from prowess.skills.parameters import (
    LONG_TEXT,
    PatternTooCostly,
    boundary_arguments,
    boundary_cases,
    compile_parameter,
    compile_parameters,
    fits,
    is_costly,
    spec_faults,
)


def spec(kind: str, **fields: Any) -> ParameterSpec:
    return ParameterSpec(type=kind, **{"name": "p", **fields})  # type: ignore[arg-type]


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def conforms(schema: dict[str, Any], value: Any) -> bool:
    """JSON Schema as far as the compiler uses it, written from the standard and not from the compiler."""
    kinds = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int | float) and not isinstance(value, bool) and value == int(value),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    rules = [kinds[schema["type"]] if "type" in schema else True]
    if "enum" in schema:
        rules.append(any(equal(value, choice) for choice in schema["enum"]))
    if isinstance(value, str):
        rules += [len(value) >= schema.get("minLength", 0), len(value) <= schema.get("maxLength", len(value))]
        rules.append("pattern" not in schema or re.search(schema["pattern"], value) is not None)
    if kinds["number"]:
        rules += [value >= schema.get("minimum", value), value <= schema.get("maximum", value)]
    if isinstance(value, list):
        rules += [len(value) >= schema.get("minItems", 0), len(value) <= schema.get("maxItems", len(value))]
        rules += [conforms(schema["items"], item) for item in value] if "items" in schema else []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        rules += [name in value for name in schema.get("required", [])]
        rules += [conforms(known[name], item) for name, item in value.items() if name in known]
        rules.append(schema.get("additionalProperties", True) or value.keys() <= known.keys())
    return all(rules)


limits = st.one_of(st.none(), st.integers(-20, 20).map(float), st.sampled_from([0.5, -1.5]))
lengths = st.one_of(st.none(), st.integers(0, 12))
PATTERNS = [None, "^[a-z]+$", "a", "^[0-9]{2,4}$", "(x|y)z", "^$"]
leaves = st.one_of(
    st.builds(
        ParameterSpec,
        type=st.sampled_from(["string", "file"]),
        pattern=st.sampled_from(PATTERNS),
        min_length=lengths,
        max_length=lengths,
        required=st.booleans(),
    ),
    st.builds(
        ParameterSpec, type=st.sampled_from(["integer", "float"]), min=limits, max=limits, required=st.booleans()
    ),
    st.builds(ParameterSpec, type=st.just("boolean"), required=st.booleans()),
    st.builds(
        ParameterSpec,
        type=st.just("enum"),
        enum=st.lists(st.sampled_from(["a", "b", 1, True, None, 0.5]), max_size=4).map(tuple),
    ),
)
names = st.sampled_from(["one", "two", "three", "unknown"])
specs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            ParameterSpec,
            type=st.just("array"),
            items=st.none() | inner,
            min_length=lengths,
            max_length=lengths,
            required=st.booleans(),
        ),
        st.builds(ParameterSpec, type=st.just("object"), properties=st.none() | st.dictionaries(names, inner)),
    ),
    max_leaves=6,
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-30, 30), st.floats(-30, 30), st.text("abxyz019", max_size=14)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(specs)
def test_s4_every_boundary_case_is_labelled_as_the_schema_judges_it(one: ParameterSpec) -> None:
    schema = compile_parameter(one)
    cases = boundary_cases(one)
    assert cases
    assert [case for case in cases if conforms(schema, case.value) != case.valid] == []
    assert boundary_cases(one) == cases


@given(specs, json_values)
def test_s4_judgement_and_schema_agree_on_any_value(one: ParameterSpec, value: Any) -> None:
    assert fits(one, value) == conforms(compile_parameter(one), value)


@given(st.dictionaries(names, specs, max_size=3))
def test_s4_whole_arguments_are_labelled_as_the_schema_judges_them(parts: dict[str, ParameterSpec]) -> None:
    tool = [part.model_copy(update={"name": name}) for name, part in parts.items()]
    schema = compile_parameters(tool)
    cases = boundary_arguments(tool)
    assert [case for case in cases if conforms(schema, case.value) != case.valid] == []
    assert not cases or (cases[0].valid, cases[-1].valid) == (True, False)


def test_s4_schema_of_every_type() -> None:
    tool = [
        spec("string", name="text", required=True, pattern="^a", min_length=1, max_length=9, description="d"),
        spec("integer", name="whole", min=0, max=8, default=2),
        spec("float", name="real", min=0.5),
        spec("boolean", name="flag", default=False),
        spec("array", name="list", items=spec("enum", enum=("a", 1)), max_length=3),
        spec("object", name="map", properties={"in": spec("string", required=True)}),
        spec("object", name="free"),
        spec("file", name="path", required=True),
        spec("enum", name="choice", enum=("x", "y"), default="x"),
        spec("string", name="word", enum=("x", "y")),
    ]
    assert compile_parameters(tool) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "text": {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9, "description": "d"},
            "whole": {"type": "integer", "minimum": 0, "maximum": 8, "default": 2},
            "real": {"type": "number", "minimum": 0.5},
            "flag": {"type": "boolean", "default": False},
            "list": {"type": "array", "maxItems": 3, "items": {"enum": ["a", 1]}},
            "map": {
                "type": "object",
                "properties": {"in": {"type": "string"}},
                "required": ["in"],
                "additionalProperties": False,
            },
            "free": {"type": "object"},
            "path": {"type": "string", "minLength": 1, "format": "path"},
            "choice": {"enum": ["x", "y"], "default": "x"},
            "word": {"type": "string", "enum": ["x", "y"]},
        },
        "required": ["text", "path"],
        "additionalProperties": False,
    }


def test_v2_limits_of_a_whole_number() -> None:
    cases = {case.label: (case.value, case.valid) for case in boundary_cases(spec("integer", min=0, max=8, default=2))}
    assert cases == {
        "default": (2, True),
        "least": (0, True),
        "one below": (-1, False),
        "most": (8, True),
        "one above": (9, False),
        "fraction": (0.5, False),
        "huge": (2**53, False),
        "true": (True, False),
        "null": (None, False),
        "other type": ("0", False),
    }


def test_v2_limits_of_a_text() -> None:
    cases = {
        case.label: (case.value, case.valid) for case in boundary_cases(spec("string", min_length=2, max_length=4))
    }
    assert (cases["shortest"], cases["a letter"], cases["empty"]) == (("aa", True), ("a", False), ("", False))
    assert (cases["longest"], cases["one too long"]) == (("aaaa", True), ("aaaaa", False))
    assert cases["long"] == ("a" * LONG_TEXT, False)
    open_ended = {case.label: case.valid for case in boundary_cases(spec("string"))}
    assert (open_ended["empty"], open_ended["long"]) == (True, True)


def test_v2_whole_arguments_try_one_thing_at_a_time() -> None:
    tool = [spec("boolean", name="flag", required=True), spec("integer", name="size")]
    cases = boundary_arguments(tool)
    assert (cases[0].label, cases[0].value) == ("usual", {"flag": True, "size": 0})
    found = {case.label: case.valid for case in cases}
    assert (found["flag: absent"], found["size: absent"], found["unknown name"]) == (False, True, False)


def test_v2_huge_limits_make_no_huge_values() -> None:
    deep = spec("array", min_length=9_000, items=spec("array", min_length=9_000, items=spec("string")))
    assert max(len(str(case.value)) for case in boundary_cases(deep)) < 100_000
    text = spec("string", min_length=10**9, max_length=10**12)
    assert max(len(str(case.value)) for case in boundary_cases(text)) <= LONG_TEXT


@pytest.mark.parametrize(
    ("pattern", "costly"),
    [
        ("^[a-z]+$", False),
        (r"\(a+\)*", False),
        ("[(+*]+x", False),
        ("^(ab|cd)$", False),
        ("(a+)+$", True),
        ("(a|aa)*b", True),
        ("(a{1,50}){30}", True),
        ("(?:(a*)b)*", True),
    ],
)
def test_v1_patterns_that_could_take_for_ever_are_known(pattern: str, costly: bool) -> None:
    assert is_costly(pattern) is costly


def test_v1_costly_patterns_are_not_tried() -> None:
    trap = spec("string", pattern="^(a+)+$", default="a" * 60 + "!")
    started = time.process_time()
    with pytest.raises(PatternTooCostly):
        fits(trap, "a" * 60 + "!")
    assert [fault.code for fault in spec_faults(trap)] == ["parameter_pattern_slow"]
    assert all(not isinstance(case.value, str) for case in boundary_cases(trap))
    many = spec("string", pattern=".*.*.*.*=x", default="a" * 5_000)
    assert list(spec_faults(many)) == []
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("one", "faults"),
    [
        (spec("integer", min=3, max=1), [((("min",)), "parameter_range")]),
        (spec("string", min_length=3, max_length=1), [(("min_length",), "parameter_range")]),
        (spec("string", pattern="("), [(("pattern",), "parameter_pattern")]),
        (spec("string", pattern="(", default="a"), [(("pattern",), "parameter_pattern")]),
        (spec("enum"), [((), "parameter_enum_missing")]),
        (spec("enum", enum=()), [(("enum",), "parameter_enum_missing")]),
        (spec("enum", enum=("a", "a")), [(("enum",), "parameter_enum_twice")]),
        (spec("enum", enum=(1, True, "1")), []),
        (spec("integer", enum=(1, "b"), max=3), [(("enum",), "parameter_enum_misfit")]),
        (spec("string", min=1), [(("min",), "parameter_constraint_idle")]),
        (spec("boolean", max_length=1), [(("max_length",), "parameter_constraint_idle")]),
        (spec("string", items=spec("string")), [(("items",), "parameter_constraint_idle")]),
        (spec("integer", default=9, max=8), [(("default",), "parameter_default_misfit")]),
        (spec("boolean", default="yes"), [(("default",), "parameter_default_misfit")]),
        (spec("integer", default=True), [(("default",), "parameter_default_misfit")]),
        (spec("enum", enum=("a",), default="b"), [(("default",), "parameter_default_misfit")]),
        (spec("array", items=spec("integer"), default=[1, "b"]), [(("default",), "parameter_default_misfit")]),
        (
            spec("object", properties={"a": spec("integer")}, default={"b": 1}),
            [(("default",), "parameter_default_misfit")],
        ),
        (spec("integer", default=1, required=True), [(("default",), "parameter_default_unused")]),
        (spec("array", items=spec("integer", min=2, max=1)), [(("items", "min"), "parameter_range")]),
        (spec("object", properties={"a": spec("enum")}), [(("properties", "a"), "parameter_enum_missing")]),
    ],
)
def test_v1_contradictions_are_found(one: ParameterSpec, faults: list[tuple[tuple[str, ...], str]]) -> None:
    assert [(fault.path, fault.code) for fault in spec_faults(one)] == faults
