"""The levels of checking a skill, put together: which are asked for, in what order (V1–V4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.errors import InvalidInput
from prowess.validation.report import Report
from prowess.validation.syntax import check_skill

if TYPE_CHECKING:
    from prowess.sandbox.ports import Sandbox

LEVELS = ("syntax", "behavior", "security", "all")
"""what can be asked for"""
REPORT_FILE = "report.json"


def check_folder(path: str, level: str, sandbox: Callable[[], Sandbox]) -> Report:
    """Check one skill folder on one level, or on all of them. Raises ``InvalidInput`` for a broken list of advisories.

    What is not well formed goes through level 3 too: a harmful skill need not be well formed to do harm. Its scripts
    are tried last, and only where neither other level rejects it. ``sandbox`` is asked only for a script to prove.
    """
    if level == "security":
        return _security(path)
    syntax = check_skill(path)
    if level == "syntax":
        return syntax
    if level == "behavior":
        return _behaviour(syntax, path, sandbox) if syntax.ok else syntax
    known = syntax.merged(_security(path))
    return known.merged(_behaviour(syntax, path, sandbox)) if known.ok else known


def _security(path: str) -> Report:
    from prowess.validation.security.check import check_security

    return check_security(path)


def _behaviour(syntax: Report, path: str, sandbox: Callable[[], Sandbox]) -> Report:
    """Level 2. What has no tools has nothing to prove, and is not read again."""
    from prowess.validation.report import LevelResult

    nothing = Report(syntax.path, syntax.id, {"behavior": LevelResult("pass", 0, 0.0)}, ())
    if not syntax.tools:
        return nothing
    from prowess.errors import SkillFileError
    from prowess.skills.skill_md import read_skill_folder
    from prowess.validation.behaviour.checking import check_behaviour

    try:
        return check_behaviour(read_skill_folder(path), sandbox, syntax.path)
    except SkillFileError:  # it changed since
        return check_skill(path)


def keep_report(report: Report, level: str, language: str, now: datetime) -> Path:
    """Write a report to ``validation/report.json`` of the skill's folder, whole or not at all; the path (V4, S1).

    The folder is no part of the skill's content and never staged. Raises ``InvalidInput`` where it cannot be written.
    """
    content = {**report.to_json(language), "level": level, "created_at": now.isoformat(timespec="milliseconds")}
    if "security" in report.levels:
        from prowess.validation.security.version import rules_version

        content["rules_version"] = rules_version()
    folder = Path(report.path, "validation")
    place = folder / REPORT_FILE
    try:
        folder.mkdir(exist_ok=True)
        part = folder / f".{REPORT_FILE}.part"
        part.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        part.replace(place)
    except OSError as error:
        raise InvalidInput("report_not_written", file=str(place), cause=error.strerror or str(error)) from None
    return place
