"""The state of a planning session: five keys, checked whenever it comes back from the database (W4, W10)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypedDict, cast, get_args

Field = Literal["goal", "horizon", "constraints", "success_criteria"]
Step = Literal["collect_goal", "collect_horizon", "collect_constraints", "collect_success_criteria", "build_plan"]

FIELDS: tuple[Field, ...] = get_args(Field)
"""in the order in which they are asked for"""
STEP_OF_FIELD: Mapping[Field, Step] = MappingProxyType({field: cast(Step, f"collect_{field}") for field in FIELDS})
FIELD_OF_STEP: Mapping[Step, Field] = MappingProxyType({step: field for field, step in STEP_OF_FIELD.items()})

INITIAL_STEP: Step = "collect_goal"


class PlanningState(TypedDict):
    """What is known so far, in the user's own words; null where it is still to be asked."""

    goal: str | None
    horizon: str | None
    constraints: str | None
    success_criteria: str | None
    current_step: Step


def initial_state() -> PlanningState:
    """Nothing known."""
    return PlanningState(goal=None, horizon=None, constraints=None, success_criteria=None, current_step=INITIAL_STEP)


def parse_state(value: Any) -> PlanningState:
    """Check a stored state and return a copy of it.

    Raises ``ValueError`` where keys are missing or unknown, a field is neither null nor text, the step is none, or
    a plan is due although a field is missing (W4).
    """
    if not isinstance(value, Mapping) or value.keys() != PlanningState.__annotations__.keys():
        raise ValueError(f"a planning state has exactly the keys {', '.join(PlanningState.__annotations__)}")
    for field in FIELDS:
        answer = value[field]
        if answer is not None and not (isinstance(answer, str) and answer.strip()):
            raise ValueError(f"{field} is neither null nor text")
    if value["current_step"] not in get_args(Step):
        raise ValueError("current_step is not a step of this workflow")
    if value["current_step"] == "build_plan" and any(value[field] is None for field in FIELDS):
        raise ValueError("a plan is due while a field is missing")
    return cast(PlanningState, dict(value))
