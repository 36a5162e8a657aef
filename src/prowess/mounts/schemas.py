"""JSON Schemas of a stranger: checked when they come in, and applied with a bounded number of steps (X2, X7).

Nothing is fetched for a ``$ref``, and a ``pattern`` is not run: a regular expression can be made to take for ever. The
server checks its own patterns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from prowess.kernel.canonical import canonical_json
from prowess.mounts.cleaning import depth_of

MAX_STEPS = 10_000
"""keywords looked at for one value"""
MAX_NESTED = 60
"""keywords inside one another: far from where the interpreter, and the library's own code below it, give up"""
MAX_ARGUMENTS = 200_000
"""bytes of canonical JSON"""
MAX_VALUE_DEPTH = 64
MAX_FAULTS = 8
# ``uniqueItems`` compares each with each within one step.
_NOT_RUN = frozenset(
    ("pattern", "patternProperties", "propertyNames", "format", "uniqueItems", "$dynamicRef", "$recursiveRef")
)

_steps = threading.local()


class TooManySteps(Exception):
    """A schema that takes more work than anybody may ask for."""


def schema_fault(schema: Mapping[str, Any], *, arguments: bool = False) -> bool:
    """Whether a schema cannot be used: it is none, refers outside itself, or is not for an object of arguments."""
    if arguments and schema.get("type") != "object":
        return True
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
        faults({}, schema)
    except (SchemaError, TooManySteps, RecursionError):
        return True
    except Exception:  # a reference that leads nowhere is an error of one of several libraries
        return True
    return not all(map(_inside, _references(schema)))


def faults(value: Any, schema: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Where and by which keyword ``value`` breaks ``schema``: at most eight, without any value (R3).

    Raises ``TooManySteps``, and what the library raises for a reference that leads nowhere.
    """
    from itertools import islice

    from referencing import Registry

    _steps.left, _steps.depth = MAX_STEPS, 0
    validator = _validator()(_own_dialect(schema), registry=Registry())
    found = islice(validator.iter_errors(value), MAX_FAULTS)
    return [(tuple(error.absolute_path), str(error.validator)) for error in found]


def arguments_model(tool_id: str, schema: Mapping[str, Any]) -> type[BaseModel]:
    """A model that takes what ``schema`` allows, for ``ToolSkill.input_schema``."""
    shown = dict(schema)

    class Arguments(RootModel[dict[str, Any]]):
        """Arguments of one mounted tool."""

        @classmethod
        def model_validate(cls, obj: Any, **_options: Any) -> Any:
            made = super().model_validate(obj)
            _check(tool_id, made.root, shown)
            return made

        @classmethod
        def model_json_schema(cls, *_args: Any, **_options: Any) -> dict[str, Any]:
            return shown

    return Arguments


def _check(tool_id: str, value: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Raises ``ValidationError``, with a place and a keyword for each fault."""
    if depth_of(value, MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH or len(canonical_json(value)) > MAX_ARGUMENTS:
        found: list[tuple[tuple[str | int, ...], str]] = [((), "too_large")]
    else:
        try:
            found = faults(value, schema)
        except (TooManySteps, RecursionError):
            found = [((), "too_many_steps")]
    if found:
        details = [
            InitErrorDetails(type=PydanticCustomError(f"schema_{keyword}", "schema"), loc=place, input=None)
            for place, keyword in found
        ]
        raise ValidationError.from_exception_data(tool_id, details)


@cache
def _validator() -> Callable[..., Any]:
    """The draft of the protocol, with every keyword counted and those that are not run left out."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import create

    draft = Draft202012Validator
    keywords = {name: _counted(keyword) for name, keyword in draft.VALIDATORS.items() if name not in _NOT_RUN}
    made: Callable[..., Any] = create(draft.META_SCHEMA, keywords, type_checker=draft.TYPE_CHECKER)
    return made


def _own_dialect(value: Any) -> Any:
    """The schema without ``$schema``: below one the library takes a validator of its own, which counts no steps."""
    if isinstance(value, Mapping):
        return {key: _own_dialect(item) for key, item in value.items() if key != "$schema" or isinstance(item, Mapping)}
    return [_own_dialect(item) for item in value] if isinstance(value, list) else value


def _counted(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _steps.left -= 1
        _steps.depth += 1
        try:
            if _steps.left < 0 or _steps.depth > MAX_NESTED:
                raise TooManySteps
            yield from keyword(validator, value, instance, schema) or ()
        finally:
            _steps.depth -= 1

    return check


def _references(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema") and not isinstance(item, Mapping):
                yield (key, item)
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _inside(reference: tuple[str, Any]) -> bool:
    """Whether it points into its own document; a name for the document itself is needed by nobody here."""
    key, target = reference
    if key == "$id":
        return False
    return key == "$schema" or (isinstance(target, str) and target.startswith("#"))
