"""Arguments as the tool gets them: judged by its parameters, defaults and types applied (S4, ruling 12.27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prowess.skills.manifest import ParameterSpec, ReturnSpec
from prowess.skills.parameters import compile_parameter, fits


def settled(spec: ParameterSpec, value: Any) -> Any:
    """A value that fits, as its type has it: whole numbers as integers, defaults in objects filled in."""
    if spec.type == "integer" and isinstance(value, float):
        return int(value)
    if spec.type == "array" and spec.items is not None:
        return [settled(spec.items, item) for item in value]
    if spec.type == "object" and spec.properties is not None:
        return settled_object(spec.properties, value)
    return value


def settled_object(specs: Mapping[str, ParameterSpec], values: Mapping[str, Any]) -> dict[str, Any]:
    """The named values, in the order of their declaration; what is absent and has a default takes it."""
    found: dict[str, Any] = {}
    for name, spec in specs.items():
        if name in values:
            found[name] = settled(spec, values[name])
        elif spec.default is not None:
            found[name] = spec.default
    return found


def fits_return(spec: ReturnSpec | None, value: Any) -> bool:
    """Whether a tool may return a JSON value; without a declaration, any. Raises ``PatternTooCostly``."""
    if spec is None:
        return True
    if spec.type == "null":
        return value is None
    return fits(_parameter(spec), value)


def return_schema(spec: ReturnSpec | None) -> dict[str, Any]:
    """The JSON Schema of what a tool returns."""
    if spec is None:
        return {}
    return {"type": "null"} if spec.type == "null" else compile_parameter(_parameter(spec))


def _parameter(spec: ReturnSpec) -> ParameterSpec:
    """A return that names no choices is judged as a text where it says that it is one of some."""
    assert spec.type != "null"
    kind = "string" if spec.type == "enum" else spec.type
    return ParameterSpec(type=kind, items=spec.items, properties=spec.properties, description=spec.description)
