"""The cases of a skill: ``tests/cases.jsonl``, one JSON object a line; and those that its schema gives (V2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prowess.skills.manifest import ParameterSpec
from prowess.skills.parameters import boundary_arguments
from prowess.validation.report import Issue

CASES = "tests/cases.jsonl"
MAX_BYTES = 1024 * 1024
MAX_CASES = 200
MAX_BOUNDARY = 200
_KEYS = frozenset({"name", "params", "calls", "output", "error"})
_CALL_KEYS = frozenset({"tool", "args", "output", "error"})
UNSAID = object()
"""an output that a case leaves open"""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool call that a script is expected to make, and what it is answered."""

    tool: str
    arguments: Mapping[str, Any]
    output: Any
    error: str | None = None
    """where the tool refuses: its code"""


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments and what is to come of them."""

    name: str
    params: Mapping[str, Any]
    calls: tuple[ToolAnswer, ...] = ()
    output: Any = UNSAID
    error: str | None = None
    """the code or the class of exception that is expected"""
    line: int = 1
    boundary: bool = False
    valid: bool = True
    """of a boundary case: whether the schema lets it through"""


def read_cases(data: bytes, file: str) -> tuple[list[Case], list[Issue]]:
    """The cases, and what is wrong with lines that are none."""
    if len(data) > MAX_BYTES:
        return [], [_issue("behavior_cases_large", file, 1, limit=MAX_BYTES)]
    cases: list[Case] = []
    issues: list[Issue] = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        if len(cases) == MAX_CASES:
            issues.append(_issue("behavior_cases_many", file, number, limit=MAX_CASES))
            break
        case = _case(line, number)
        if isinstance(case, Case):
            cases.append(case)
        else:
            issues.append(_issue("behavior_case", file, number, problem=case))
    return cases, issues


def boundary_of(specs: Sequence[ParameterSpec]) -> list[Case]:
    """A case for each value at, inside and outside a limit of the schema; the usual arguments first."""
    found = boundary_arguments(specs)[:MAX_BOUNDARY]
    return [Case(f"boundary: {item.label}", item.value, boundary=True, valid=item.valid) for item in found]


def _case(line: bytes, number: int) -> Case | str:
    """The case of a line, or what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return "no JSON"
    if not isinstance(found, dict) or not isinstance(found.get("params"), dict):
        return "params"
    unknown = sorted(found.keys() - _KEYS)
    if unknown:
        return str(unknown[0])[:60]
    name, calls, error = found.get("name", f"line {number}"), found.get("calls", []), found.get("error")
    if not isinstance(name, str) or not isinstance(error, str | None):
        return "name" if not isinstance(name, str) else "error"
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        return "calls"
    if error is not None and "output" in found:
        return "output"
    answers = tuple(ToolAnswer(item["tool"], item["args"], item.get("output"), item.get("error")) for item in calls)
    return Case(name[:200], found["params"], answers, found.get("output", UNSAID), error, number)


def _is_call(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.keys() <= _CALL_KEYS
        and isinstance(item.get("tool"), str)
        and isinstance(item.get("args"), dict)
        and isinstance(item.get("error"), str | None)
    )


def _issue(code: str, file: str, line: int, **detail: Any) -> Issue:
    return Issue("behavior", "error", code, file, line, detail)
