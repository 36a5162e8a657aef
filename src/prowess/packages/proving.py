"""What the levels of validation say of a skill in quarantine (V1 to V4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prowess.errors import SkillFileError
from prowess.skills.front_matter import diagnose
from prowess.skills.skill_md import LoadedSkill, read_skill_folder
from prowess.validation.report import Issue, Report, level_report

LevelCheck = Callable[[Path, str], Report]
"""One level: (a skill folder, the tenant that it comes to) → its report; it raises nothing"""


@dataclass(frozen=True, slots=True)
class Proof:
    """The reports together, with paths below the skill's folder, and the skill where it can be read."""

    report: Report
    skill: LoadedSkill | None


def prove(folder: Path, tenant: str, levels: Sequence[LevelCheck]) -> Proof:
    """Run the levels in their order; none runs after one that rejects, so that nothing of a bad skill is executed."""
    report = Report(str(folder), None, {}, ())
    for level in levels:
        report = report.merged(level(folder, tenant))
        if report.verdict == "reject":
            break
    skill = None
    try:
        skill = read_skill_folder(folder)
    except SkillFileError as error:
        if report.verdict != "reject":  # a level must have said so; where none did, this does
            issue = Issue.of(diagnose(error))
            report = report.merged(level_report(str(folder), report.id, "syntax", [issue], 1, 0.0))
    return Proof(_below(report, folder), skill)


def _below(report: Report, folder: Path) -> Report:
    """The same with the names of files as they are in the skill: where our copy stood is nobody's business."""
    prefix = str(folder)
    issues = tuple(replace(issue, file=_relative(issue.file, prefix)) for issue in report.issues)
    return replace(report, path=folder.name, issues=issues)


def _relative(file: str, prefix: str) -> str:
    return file.removeprefix(prefix).lstrip(os.sep) or "." if file.startswith(prefix) else file
