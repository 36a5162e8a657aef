"""Evaluations as data files: selection, workflow steps and tool payloads of the built-in skills.

No database, network or model: the same definitions that serve turns are asked directly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from prowess.builtin import builtin_skills
from prowess.errors import NotFound
from prowess.kernel.text import language_of
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition, ToolSkill, ToolTurn, WorkflowSkill, WorkflowTurn
from prowess.turns.runners.tool import validate_input
from prowess.turns.selectors import select

Case = Mapping[str, Any]
_NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that came out otherwise."""

    id: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """One data file."""

    name: str
    total: int
    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Every suite that ran."""

    suites: tuple[SuiteReport, ...]

    @property
    def ok(self) -> bool:
        """Whether no case failed."""
        return not any(suite.failures for suite in self.suites)

    def to_json(self) -> dict[str, Any]:
        """``{"ok", "suites": [{"name", "total", "passed", "failures": [{"id", "expected", "got"}]}]}``."""
        return {
            "ok": self.ok,
            "suites": [
                {
                    "name": suite.name,
                    "total": suite.total,
                    "passed": suite.total - len(suite.failures),
                    "failures": [
                        {"id": failure.id, "expected": failure.expected, "got": failure.got}
                        for failure in suite.failures
                    ],
                }
                for suite in self.suites
            ],
        }


def evaluate(suites: tuple[str, ...] | None = None) -> EvaluationReport:
    """Run the named suites, or all. Raises ``NotFound('suite_not_found')``."""
    skills = {skill.manifest.id: skill for skill in builtin_skills()}
    reports = []
    for name in suites if suites is not None else tuple(SUITES):
        if name not in SUITES:
            raise NotFound("suite_not_found", name=name[:80], known=sorted(SUITES))
        cases = list(load_cases(name))
        outcomes = ((case, *SUITES[name](case, skills)) for case in cases)
        failures = tuple(Failure(case["id"], expected, got) for case, expected, got in outcomes if expected != got)
        reports.append(SuiteReport(name, len(cases), failures))
    return EvaluationReport(tuple(reports))


def load_cases(name: str) -> Iterator[Case]:
    """The cases of one suite."""
    text = files("prowess.builtin.evaluations").joinpath(f"{name}.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        yield json.loads(line)


def _selector(case: Case, skills: Mapping[str, SkillDefinition]) -> tuple[Any, Any]:
    """Which skill, or ``unknown`` for a command that names nothing; with the trigger where the case says one."""
    bound = [skills[skill_id] for skill_id in case.get("bound", skills)]
    try:
        selection = select(case["text"], bound, ChatScope(case.get("scope", "single_chat")))
    except NotFound:
        return case["expect"], "unknown"
    if selection is None:
        return case["expect"], None
    if "trigger" in case:
        return [case["expect"], case["trigger"]], [selection.skill_id, selection.trigger]
    return case["expect"], selection.skill_id


def _workflow(case: Case, skills: Mapping[str, SkillDefinition]) -> tuple[Any, Any]:
    """Step, status and the named state fields after the last message; one question exactly while it waits."""
    skill = skills[case["skill"]]
    assert isinstance(skill, WorkflowSkill)
    state, step = skill.create_initial_state(), skill.initial_step
    status, question = "", None
    for index, text in enumerate(case["turns"]):
        turn = WorkflowTurn(skill.parse_state(state), step, text, language_of(text, "en"), index == 0, _NOW)
        advance = skill.run_turn(turn)
        state, step, status, question = advance.state, advance.step, advance.status, advance.pending_question
    wanted = case.get("state", {})
    expected = {"step": case["step"], "status": case["status"], "state": wanted, "asks": case["status"] != "completed"}
    got = {"step": step, "status": status, "state": {key: state[key] for key in wanted}, "asks": question is not None}
    return expected, got


def _tool(case: Case, skills: Mapping[str, SkillDefinition]) -> tuple[Any, Any]:
    """Whether the arguments, given or built from a message, fit the tool's input schema."""
    skill = skills[case["skill"]]
    assert isinstance(skill, ToolSkill)
    arguments = case.get("arguments")
    if arguments is None:
        arguments = skill.build_input(ToolTurn(case["text"], language_of(case["text"])))
    try:
        validate_input(skill, arguments)
    except ValidationError:
        return case["valid"], False
    return case["valid"], True


SUITES: Mapping[str, Callable[[Case, Mapping[str, SkillDefinition]], tuple[Any, Any]]] = {
    "selector": _selector,
    "workflow": _workflow,
    "tool": _tool,
}
