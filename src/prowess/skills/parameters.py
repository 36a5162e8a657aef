"""Parameters of tools (S4): a JSON Schema for models, a judgement on values, and boundary values for tests.

The three agree: a boundary case labelled valid fits its parameter and validates against the compiled schema, and one
labelled invalid does neither. A ``file`` is the path of a file, a text of at least one character. A pattern is searched
for (not anchored), as JSON Schema has it; patterns that could take more than about a second are not tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prowess.skills.manifest import ParameterSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LONG_TEXT = 10_000
"""Characters of the long text that every unbounded text parameter is tried with (V2)"""

_MAX_TEXT = 100_000
_MAX_ITEMS = 10_000
_MAX_CHOICES = 20
_MAX_STEPS = 10**8
_TEXTS = ("string", "file")
_NUMBERS = ("integer", "float")


class PatternTooCostly(ValueError):
    """A pattern and a text that together might take longer than is worth waiting for; nothing was tried."""


# compiling


def compile_parameters(specs: Sequence[ParameterSpec]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a tool's arguments: an object, nothing beyond the named properties."""
    return {"$schema": DIALECT, **_object_schema({spec.name: spec for spec in specs})}


def compile_parameter(spec: ParameterSpec) -> dict[str, Any]:
    """The JSON Schema of one parameter; ``default`` and ``description`` are annotations."""
    schema: dict[str, Any] = {}
    if spec.type in _TEXTS:
        limits = {"minLength": _min_length(spec), "maxLength": spec.max_length}
        schema = {"type": "string", **_some(pattern=spec.pattern, **limits)}
        if spec.type == "file":
            schema["format"] = "path"
    elif spec.type in _NUMBERS:
        kind = "integer" if spec.type == "integer" else "number"
        schema = {"type": kind, **_some(minimum=_plain(spec.min), maximum=_plain(spec.max))}
    elif spec.type == "boolean":
        schema = {"type": "boolean"}
    elif spec.type == "array":
        schema = {"type": "array", **_some(minItems=spec.min_length, maxItems=spec.max_length)}
        if spec.items is not None:
            schema["items"] = compile_parameter(spec.items)
    elif spec.type == "object":
        schema = {"type": "object"} if spec.properties is None else _object_schema(spec.properties)
    if spec.enum is not None or spec.type == "enum":
        schema["enum"] = list(spec.enum or ())
    return schema | _some(default=spec.default, description=spec.description or None)


def _object_schema(specs: Mapping[str, ParameterSpec]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: compile_parameter(spec) for name, spec in specs.items()},
        "required": [name for name, spec in specs.items() if spec.required],
        "additionalProperties": False,
    }


def _some(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _plain(number: float | None) -> float | int | None:
    """A limit as a person would write it: 8, not 8.0."""
    return int(number) if number is not None and number.is_integer() else number


def _min_length(spec: ParameterSpec) -> int | None:
    return max(1, spec.min_length or 0) if spec.type == "file" else spec.min_length


# judging


def fits(spec: ParameterSpec, value: Any) -> bool:
    """Whether a JSON value is one that the parameter allows. Raises ``PatternTooCostly``."""
    if spec.enum is not None and not any(same_value(value, choice) for choice in spec.enum):
        return False
    return _JUDGES[spec.type](spec, value)


def _fits_text(spec: ParameterSpec, value: Any) -> bool:
    if not isinstance(value, str) or not _within(len(value), _min_length(spec), spec.max_length):
        return False
    return spec.pattern is None or _matches(spec.pattern, value)


def _fits_number(spec: ParameterSpec, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float) and (not math.isfinite(value) or (spec.type == "integer" and not value.is_integer())):
        return False
    return _within(value, spec.min, spec.max)


def _fits_array(spec: ParameterSpec, value: Any) -> bool:
    if not isinstance(value, list | tuple) or not _within(len(value), spec.min_length, spec.max_length):
        return False
    return spec.items is None or all(fits(spec.items, item) for item in value)


def _fits_object(spec: ParameterSpec, value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if spec.properties is None:
        return True
    if any(inner.required and name not in value for name, inner in spec.properties.items()):
        return False
    return all(name in spec.properties and fits(spec.properties[name], item) for name, item in value.items())


_JUDGES: dict[str, Callable[[ParameterSpec, Any], bool]] = {
    "string": _fits_text,
    "file": _fits_text,
    "integer": _fits_number,
    "float": _fits_number,
    "boolean": lambda _spec, value: isinstance(value, bool),
    "array": _fits_array,
    "object": _fits_object,
    "enum": lambda spec, _value: spec.enum is not None,
}


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are one: 1 is 1.0 and is not true; the order of names in an object is nothing."""
    return bool(_identity(one) == _identity(other))


def _identity(value: Any) -> Any:
    """A hashable stand-in by which JSON values are compared: 1 is 1.0 and is not true."""
    if isinstance(value, bool):
        return ("truth", value)
    if isinstance(value, Mapping):
        return ("object", frozenset((key, _identity(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(map(_identity, value)))
    return value


# patterns


def _matches(pattern: str, text: str) -> bool:
    repeats = _repeats(pattern)
    anchored = pattern.startswith(("^", "\\A"))
    if repeats is None or max(len(text), 2) ** (repeats + (not anchored)) > _MAX_STEPS:
        raise PatternTooCostly(pattern)
    return re.search(pattern, text) is not None


def is_costly(pattern: str) -> bool:
    """Whether the time of a pattern can grow exponentially with the text: a repeat within a repeat."""
    return _repeats(pattern) is None


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|\)|\||[*+?]|\{(\d*)(,?)(\d*)\}|.", re.DOTALL)
_FEW = 16


@lru_cache(maxsize=256)
def _repeats(pattern: str) -> int | None:
    """How many open-ended repeats stand in a pattern; ``None`` where one holds another, or an alternative."""
    total = 0
    groups = [False]
    closed = False
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            groups.append(False)
        elif text == "|":
            groups[-1] = True
        elif _is_open_ended(text, token):
            if closed:
                return None
            total += 1
            groups[-1] = True
        if text == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1] = groups[-1] or closed
        elif text != "?":
            closed = False
    return total


def _is_open_ended(text: str, token: re.Match[str]) -> bool:
    if text in ("*", "+"):
        return True
    if not text.startswith("{") or token[1] is None or not token[1] + token[3]:
        return False
    most = token[3] or ("" if token[2] else token[1])
    return not most or len(most) > 3 or int(most) > _FEW


# faults in a specification


@dataclass(frozen=True, slots=True)
class SpecFault:
    """Something wrong with a parameter: where in it (``("items", "min")``), a stable code, fields for the sentence."""

    path: tuple[str, ...]
    code: str
    detail: Mapping[str, Any]


def spec_faults(spec: ParameterSpec) -> Iterator[SpecFault]:
    """What is contradictory, impossible or idle in a parameter and what it holds (V1)."""
    for low, high in (("min", "max"), ("min_length", "max_length")):
        least, most = getattr(spec, low), getattr(spec, high)
        if least is not None and most is not None and least > most:
            yield SpecFault((low,), "parameter_range", {"low": low, "high": high, "least": least, "most": most})
    yield from _pattern_faults(spec)
    yield from _enum_faults(spec)
    yield from _idle_faults(spec)
    yield from _default_faults(spec)
    if spec.items is not None:
        yield from _within_path(spec.items, ("items",))
    for name, inner in (spec.properties or {}).items():
        yield from _within_path(inner, ("properties", name))


def _within_path(spec: ParameterSpec, prefix: tuple[str, ...]) -> Iterator[SpecFault]:
    for fault in spec_faults(spec):
        yield SpecFault(prefix + fault.path, fault.code, fault.detail)


def _pattern_faults(spec: ParameterSpec) -> Iterator[SpecFault]:
    if spec.pattern is None:
        return
    try:
        re.compile(spec.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        yield SpecFault(("pattern",), "parameter_pattern", {"problem": str(error)})
        return
    if is_costly(spec.pattern):
        yield SpecFault(("pattern",), "parameter_pattern_slow", {})


def _enum_faults(spec: ParameterSpec) -> Iterator[SpecFault]:
    if spec.enum is None:
        if spec.type == "enum":
            yield SpecFault((), "parameter_enum_missing", {})
        return
    if not spec.enum:
        yield SpecFault(("enum",), "parameter_enum_missing", {})
    seen = set()
    without = spec.model_copy(update={"enum": None})
    for choice in spec.enum:
        if _identity(choice) in seen:
            yield SpecFault(("enum",), "parameter_enum_twice", {"value": _show(choice)})
        elif spec.type != "enum" and not _judged(without, choice):
            yield SpecFault(("enum",), "parameter_enum_misfit", {"value": _show(choice), "type": spec.type})
        seen.add(_identity(choice))


_APPLIES: dict[str, tuple[str, ...]] = {
    "min": _NUMBERS,
    "max": _NUMBERS,
    "min_length": (*_TEXTS, "array"),
    "max_length": (*_TEXTS, "array"),
    "pattern": _TEXTS,
    "items": ("array",),
    "properties": ("object",),
}


def _idle_faults(spec: ParameterSpec) -> Iterator[SpecFault]:
    for name, types in _APPLIES.items():
        if getattr(spec, name) is not None and spec.type not in types:
            detail = {"constraint": name, "type": spec.type, "types": ", ".join(types)}
            yield SpecFault((name,), "parameter_constraint_idle", detail)


def _default_faults(spec: ParameterSpec) -> Iterator[SpecFault]:
    if spec.default is None:
        return
    if not _judged(spec, spec.default):
        yield SpecFault(("default",), "parameter_default_misfit", {"value": _show(spec.default), "type": spec.type})
    elif spec.required:
        yield SpecFault(("default",), "parameter_default_unused", {})


def _judged(spec: ParameterSpec, value: Any) -> bool:
    """Whether a value fits, a pattern that cannot be tried set aside."""
    try:
        return fits(spec, value)
    except (PatternTooCostly, re.error, RecursionError):
        return True


def _show(value: Any) -> str:
    return repr(value)[:60] if not isinstance(value, str) else value[:60]


# boundary values


@dataclass(frozen=True, slots=True)
class BoundaryCase:
    """A value at or beyond a limit: what it tries, the JSON value, and whether it is allowed."""

    label: str
    value: Any
    valid: bool


def boundary_cases(spec: ParameterSpec) -> tuple[BoundaryCase, ...]:
    """Values at, just inside and just outside each limit of one parameter (V2), the same in every run.

    Left out are texts over 100,000 characters, arrays of over 10,000 values, what a costly pattern forbids to judge.
    """
    cases: dict[Any, BoundaryCase] = {}
    for label, value in _candidates(spec):
        key = _identity(value)
        if key not in cases:
            with suppress(PatternTooCostly):
                cases[key] = BoundaryCase(label, value, fits(spec, value))
    return tuple(cases.values())


def boundary_arguments(specs: Sequence[ParameterSpec]) -> tuple[BoundaryCase, ...]:
    """Whole argument objects of a tool, each with one thing tried.

    They are: each parameter's cases within otherwise valid arguments, each parameter absent, and one unknown name.
    Empty where no valid arguments could be made.
    """
    base: dict[str, Any] = {}
    for spec in specs:
        valid = [case.value for case in boundary_cases(spec) if case.valid]
        if valid:
            base[spec.name] = valid[0]
        elif spec.required:
            return ()
    cases = [BoundaryCase("usual", base, True)]
    for spec in specs:
        for case in boundary_cases(spec):
            cases.append(BoundaryCase(f"{spec.name}: {case.label}", {**base, spec.name: case.value}, case.valid))
        rest = {name: value for name, value in base.items() if name != spec.name}
        cases.append(BoundaryCase(f"{spec.name}: absent", rest, not spec.required))
    unknown = "unknown"
    while unknown in base or any(spec.name == unknown for spec in specs):
        unknown += "_"
    return (*cases, BoundaryCase("unknown name", {**base, unknown: 0}, False))


def _candidates(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    if spec.default is not None:
        yield "default", spec.default
    choices = list(enumerate(spec.enum or (), start=1))
    for position, choice in choices[:_MAX_CHOICES] + choices[-1:]:
        yield f"choice {position}", choice
    if spec.enum is not None:
        yield "no choice", "no such choice"
    yield from _MAKERS[spec.type](spec)
    yield "null", None
    yield "other type", 0 if spec.type not in _NUMBERS else "0"


def _text_candidates(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    least, most = spec.min_length or 0, spec.max_length
    lengths = {"a letter": 1, "empty": 0, "shortest": least, "one too short": least - 1, "long": LONG_TEXT}
    if most is not None:
        lengths |= {"longest": most, "one too long": most + 1}
    for label, length in lengths.items():
        if 0 <= length <= _MAX_TEXT:
            yield label, "a" * length
            if spec.pattern is not None:
                yield f"{label}, digits", "1" * length
    yield "Chinese", "边界" * max(1, (least + 1) // 2) if least < LONG_TEXT else "边界"
    yield "line break", "a\nb"


def _number_candidates(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    if spec.min is not None:
        low = math.ceil(spec.min) if spec.type == "integer" else spec.min
        yield from (("least", _plain_number(low)), ("one below", _plain_number(low - 1)))
    if spec.max is not None:
        high = math.floor(spec.max) if spec.type == "integer" else spec.max
        yield from (("most", _plain_number(high)), ("one above", _plain_number(high + 1)))
    yield from (("zero", 0), ("minus one", -1), ("fraction", 0.5), ("huge", 2**53), ("true", True))


def _plain_number(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number


def _array_candidates(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    cases = boundary_cases(spec.items) if spec.items is not None else (BoundaryCase("", "a", True),)
    good = next((case.value for case in cases if case.valid), None)
    bad = next((case.value for case in cases if not case.valid), None)
    yield "empty", []
    if good is not None:
        least, most = spec.min_length or 1, spec.max_length
        lengths = {"fewest": least, "one too few": least - 1}
        if most is not None:
            lengths |= {"most": most, "one too many": most + 1}
        for label, length in lengths.items():
            if 0 <= length * _weight(good) <= _MAX_ITEMS:
                yield label, [good] * length
    if bad is not None and (spec.min_length or 1) * _weight(bad) <= _MAX_ITEMS:
        yield "bad item", [bad] * max(1, spec.min_length or 1)


def _weight(value: Any) -> int:
    """How many values there are in one."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_weight, value.values()))
    return 1 + sum(map(_weight, value)) if isinstance(value, list) else 1


def _object_candidates(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    yield "empty", {}
    named = [inner.model_copy(update={"name": name}) for name, inner in (spec.properties or {}).items()]
    for case in boundary_arguments(named):
        yield case.label, case.value


_MAKERS: dict[str, Callable[[ParameterSpec], Iterator[tuple[str, Any]]]] = {
    "string": _text_candidates,
    "file": _text_candidates,
    "integer": _number_candidates,
    "float": _number_candidates,
    "boolean": lambda _spec: iter([("true", True), ("false", False), ("text", "true")]),
    "array": _array_candidates,
    "object": _object_candidates,
    "enum": lambda _spec: iter(()),
}
