"""Models of script tools judge as ``skills.parameters`` does (S4, X2)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from prowess.skills.manifest import ParameterSpec, ReturnSpec
from prowess.skills.parameters import boundary_arguments, compile_parameters
from prowess.turns.runners.tool import input_faults
from prowess.turns.scripts.schemas import input_model, output_model

INNER = ParameterSpec(type="integer", default=1)
SPECS = (
    ParameterSpec(name="text", type="string", required=True, min_length=1, max_length=50),
    ParameterSpec(name="n-x", type="integer", default=3, max=9),
    ParameterSpec(name="kind", type="enum", enum=("a", "b")),
    ParameterSpec(name="options", type="object", properties={"deep": INNER}),
    ParameterSpec(name="items", type="array", items=ParameterSpec(type="integer"), max_length=2),
)


def test_s4_x2_the_schema_is_the_compiled_one() -> None:
    assert input_model("a", SPECS).model_json_schema() == compile_parameters(SPECS)


def test_s4_x2_bounds_are_judged_alike() -> None:
    model = input_model("a", SPECS)
    for case in boundary_arguments(SPECS):
        try:
            model.model_validate(case.value)
        except ValidationError:
            assert not case.valid, case.label
        else:
            assert case.valid, case.label


def test_x2_defaults_and_types_are_applied_at_every_depth() -> None:
    given = {"text": "a", "options": {}, "items": [1.0, 2]}
    settled = input_model("a", SPECS).model_validate(given).model_dump(mode="json")
    assert settled == {"text": "a", "n-x": 3, "options": {"deep": 1}, "items": [1, 2]}
    assert type(settled["items"][0]) is int


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, ("text", "missing")),
        ({"text": ""}, ("text", "parameter_misfit")),
        ({"text": "a", "other": 1}, ("other", "extra_forbidden")),
        ({"text": "a", "n-x": True}, ("n-x", "parameter_misfit")),
    ],
)
def test_x2_a_fault_has_its_place_and_not_its_value(given: dict[str, Any], fault: tuple[str, str]) -> None:
    with pytest.raises(ValidationError) as refused:
        input_model("a", SPECS).model_validate(given)
    assert [(item["place"], item["fault"]) for item in input_faults(refused.value)] == [fault]


@pytest.mark.parametrize(
    ("returns", "value", "fits"),
    [
        (None, {"any": ["thing", None]}, True),
        (None, float("nan"), False),
        (None, "\ud800", False),
        (ReturnSpec(type="null"), None, True),
        (ReturnSpec(type="null"), 0, False),
        (ReturnSpec(type="integer"), 2.0, True),
        (ReturnSpec(type="integer"), True, False),
        (ReturnSpec(type="enum"), "word", True),
        (ReturnSpec(type="object", properties={"a": INNER}), {"a": 1}, True),
        (ReturnSpec(type="object", properties={"a": INNER}), {"b": 1}, False),
    ],
)
def test_x2_what_a_tool_may_return(returns: ReturnSpec | None, value: Any, fits: bool) -> None:
    model = output_model("a", returns)
    if fits:
        assert model.model_validate(value, from_attributes=True).model_dump(mode="json") == value
    else:
        with pytest.raises(ValidationError):
            model.model_validate(value, from_attributes=True)
