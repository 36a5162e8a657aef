"""What checking a skill came to: issues with file, line and remedy, by level, and a verdict (V1, V4).

The JSON is that of ``docs/contracts.md``, ``prowess skills check``. Each level adds its result and its issues; the
verdict is the worst of the levels'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prowess.messages import render
from prowess.skills.front_matter import Diagnostic, Severity

Level = Literal["syntax", "behavior", "security"]
Verdict = Literal["pass", "review", "reject"]

_ORDER: tuple[Verdict, ...] = ("pass", "review", "reject")


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding: level, severity, stable code, file, 1-based line, and the fields of its sentences."""

    level: Level
    severity: Severity
    code: str
    file: str
    line: int
    detail: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, note: Diagnostic, level: Level = "syntax") -> Issue:
        """The issue that a diagnostic of reading amounts to."""
        return cls(level, note.severity, note.code, note.file, note.line, note.detail)

    def message(self, language: str = "en") -> str:
        """One sentence saying what is wrong, in ``en`` or ``zh``."""
        return render(f"error.{self.code}", language, self.detail)

    def remedy(self, language: str = "en") -> str:
        """One sentence saying what to do about it."""
        return render(f"remedy.{self.code}", language, self.detail)

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """``{"level", "severity", "code", "file", "line", "message", "remedy"}``."""
        return {
            "level": self.level,
            "severity": self.severity,
            "code": self.code,
            "file": self.file,
            "line": self.line,
            "message": self.message(language),
            "remedy": self.remedy(language),
        }


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One run under test: whether it did what it should, milliseconds and mebibytes; 0 where nothing ran."""

    name: str
    passed: bool
    ms: float
    mb: float

    def to_json(self) -> dict[str, Any]:
        """``{"name", "passed", "ms", "mb"}``."""
        return {"name": self.name, "passed": self.passed, "ms": round(self.ms, 1), "mb": round(self.mb, 1)}


@dataclass(frozen=True, slots=True)
class LevelResult:
    """One level's outcome: its verdict, how many checks were made, and how long they took in milliseconds."""

    verdict: Verdict
    checks: int
    duration_ms: float
    cases: tuple[CaseResult, ...] = ()
    """of level 2: each run"""


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of checking one skill folder; ``id`` is ``None`` where the name could not be read."""

    path: str
    id: str | None
    levels: Mapping[Level, LevelResult]
    issues: tuple[Issue, ...]
    tools: bool = False
    """whether it declares tools"""

    @property
    def verdict(self) -> Verdict:
        """The worst of the levels'."""
        return max((result.verdict for result in self.levels.values()), key=_ORDER.index, default="pass")

    @property
    def ok(self) -> bool:
        """Whether the skill may be used as far as these levels can tell: it is not rejected."""
        return self.verdict != "reject"

    def merged(self, other: Report) -> Report:
        """This report with another level's result and issues added."""
        levels, tools = {**self.levels, **other.levels}, self.tools or other.tools
        return Report(self.path, self.id or other.id, levels, self.issues + other.issues, tools)

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """``{"path", "id", "ok", "verdict", "levels", "issues"}``."""
        return {
            "path": self.path,
            "id": self.id,
            "ok": self.ok,
            "verdict": self.verdict,
            "levels": {level: self._level_json(level, result) for level, result in self.levels.items()},
            "issues": [issue.to_json(language) for issue in self.issues],
        }

    def _level_json(self, level: Level, result: LevelResult) -> dict[str, Any]:
        severities = [issue.severity for issue in self.issues if issue.level == level]
        return {
            "passed": result.verdict != "reject",
            "verdict": result.verdict,
            "checks": result.checks,
            "errors": severities.count("error"),
            "warnings": severities.count("warning"),
            "duration_ms": round(result.duration_ms, 3),
            **({"cases": [case.to_json() for case in result.cases]} if result.cases else {}),
        }


def level_report(path: str, skill_id: str | None, level: Level, issues: list[Issue], checks: int, ms: float) -> Report:
    """The report of one level: rejected where an issue is an error, else passed; in the order of severity and place."""
    rank = {"error": 0, "warning": 1, "info": 2}
    ordered = tuple(sorted(issues, key=lambda issue: (rank[issue.severity], issue.file, issue.line)))
    verdict: Verdict = "reject" if any(issue.severity == "error" for issue in ordered) else "pass"
    return Report(path, skill_id, {level: LevelResult(verdict, checks, ms)}, ordered)
