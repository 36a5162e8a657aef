"""The evaluations that ship with Prowess: selection, workflow transitions, tool payloads.

Each suite is a JSONL file in ``builtin/evaluations``, a case a line. Running them needs no network, no database and no
model, so ``prowess doctor`` and a page can show them anywhere. How a case is written stands with the function that
judges it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from prowess.builtin import builtin_skills
from prowess.errors import InvalidInput, NotFound
from prowess.kernel.text import language_of
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition, ToolSkill, ToolTurn, WorkflowSkill, WorkflowTurn
from prowess.turns.selectors import select

Case = Mapping[str, Any]

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""every evaluated workflow turn happens at this instant, so that results never depend on the day"""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that came out otherwise."""

    case: str
    expected: Any
    got: Any

    def to_json(self) -> dict[str, Any]:
        """``{"case", "expected", "got"}``."""
        return {"case": self.case, "expected": self.expected, "got": self.got}


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """The outcome of one suite."""

    name: str
    total: int
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> int:
        """Cases that came out as written."""
        return self.total - len(self.failures)

    def to_json(self) -> dict[str, Any]:
        """``{"name", "total", "passed", "failures"}``."""
        failures = [failure.to_json() for failure in self.failures]
        return {"name": self.name, "total": self.total, "passed": self.passed, "failures": failures}


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The outcome of all suites that were asked for."""

    suites: tuple[SuiteReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every case passed."""
        return not any(suite.failures for suite in self.suites)

    def to_json(self) -> dict[str, Any]:
        """``{"ok", "suites": [...]}``."""
        return {"ok": self.ok, "suites": [suite.to_json() for suite in self.suites]}


def evaluate(suites: Iterable[str] | None = None) -> EvaluationReport:
    """Run the named suites, or all.

    Raises ``InvalidInput('unknown_suite')`` for a name that is none of ``suite_names()``.
    """
    names = suite_names() if suites is None else tuple(dict.fromkeys(suites))
    for name in names:
        if name not in _JUDGES:
            raise InvalidInput("unknown_suite", suite=name, known=", ".join(suite_names()))
    return EvaluationReport(tuple(_run(name) for name in names))


def suite_names() -> tuple[str, ...]:
    """The suites that ship with this version."""
    return tuple(_JUDGES)


def cases(suite: str) -> tuple[Case, ...]:
    """The cases of one suite, in the order of the file."""
    text = files("prowess.builtin").joinpath("evaluations", f"{suite}.jsonl").read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines() if line.strip())


def _run(name: str) -> SuiteReport:
    judge = _JUDGES[name]
    written = cases(name)
    failures = []
    for case in written:
        try:
            expected, got = judge(case)
        except Exception as error:  # a skill that breaks fails its case, not the whole report
            expected, got = case["expect"], {"raised": type(error).__name__}
        if expected != got:
            failures.append(Failure(case["id"], expected, got))
    return SuiteReport(name, len(written), tuple(failures))


@cache
def _skills() -> Mapping[str, SkillDefinition]:
    return MappingProxyType({skill.manifest.id: skill for skill in builtin_skills()})


def _judge_selection(case: Case) -> tuple[Any, Any]:
    """Which skill a message selects.

    ``text``, ``scope`` (``single_chat`` by default), ``bound`` (ids; all built-in skills by default) and ``expect``:
    null, ``{"skill", "trigger"}``, or ``{"error"}``.
    """
    bound = case.get("bound")
    candidates = [skill for id_, skill in _skills().items() if bound is None or id_ in bound]
    expected = case["expect"]
    try:
        selection = select(case["text"], candidates, ChatScope(case.get("scope", ChatScope.SINGLE)))
    except NotFound as error:
        return expected, {"error": error.code}
    if selection is None:
        return expected, None
    return expected, {"skill": selection.skill_id, "trigger": selection.trigger}


def _judge_workflow(case: Case) -> tuple[Any, Any]:
    """How a workflow goes from state to state.

    ``skill``, ``turns`` (the user's messages) and ``expect``, a mapping for each turn: ``step``, ``status``, and the
    fields of the state that matter. A case with ``stored`` instead of ``turns`` says whether that state is taken:
    ``expect`` is ``accepted`` or ``refused``.
    """
    skill = _skills()[case["skill"]]
    assert isinstance(skill, WorkflowSkill)
    if "stored" in case:
        return case["expect"], _stored(skill, case["stored"])
    got = [_only(after, wanted) for after, wanted in zip(_talk(skill, case["turns"]), case["expect"], strict=True)]
    return case["expect"], got


def _stored(skill: WorkflowSkill, state: Any) -> str:
    try:
        skill.parse_state(state)
    except ValueError:
        return "refused"
    return "accepted"


def _talk(skill: WorkflowSkill, messages: Iterable[str]) -> Iterator[dict[str, Any]]:
    state, step = skill.create_initial_state(), skill.initial_step
    for index, text in enumerate(messages):
        turn = WorkflowTurn(skill.parse_state(state), step, text, language_of(text), index == 0, _NOW)
        advance = skill.run_turn(turn)
        state, step = advance.state, advance.step
        asks = advance.pending_question is not None
        yield {**state, "step": step, "status": advance.status, "asks": asks, "language": advance.instruction.language}


def _only(after: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {key: after.get(key) for key in wanted}


def _judge_tool(case: Case) -> tuple[Any, Any]:
    """When a tool is selected and what input it takes.

    With ``text`` and no ``skill``: a selection case as above. With ``skill`` and ``text``: the input that the message
    becomes, and whether it is valid. With ``skill`` and ``input``: whether that input is valid. ``expect`` is
    ``{"valid"}`` and, where it matters, ``input`` with the fields after defaults.
    """
    if "skill" not in case:
        return _judge_selection(case)
    tool = _skills()[case["skill"]]
    assert isinstance(tool, ToolSkill)
    text = case.get("text")
    arguments = case["input"] if text is None else tool.build_input(ToolTurn(text, language_of(text)))
    try:
        accepted = tool.input_schema.model_validate(arguments).model_dump()
    except ValidationError:
        return case["expect"], {"valid": False}
    got: dict[str, Any] = {"valid": True}
    if "input" in case["expect"]:
        got["input"] = accepted
    return case["expect"], got


_JUDGES: Mapping[str, Callable[[Case], tuple[Any, Any]]] = MappingProxyType(
    {"selector": _judge_selection, "workflow": _judge_workflow, "tool": _judge_tool}
)
