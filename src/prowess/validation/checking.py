"""The levels of checking a skill, put together: which are asked for, in what order (V1, V3, V4)."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from prowess.errors import InvalidInput
from prowess.validation.report import Report
from prowess.validation.syntax import check_skill

LEVELS = ("syntax", "security", "all")
"""what can be asked for"""
REPORT_FILE = "report.json"


def check_folder(path: str, level: str) -> Report:
    """Check one skill folder on one level, or on all of them. Raises ``InvalidInput`` for a broken list of advisories.

    What is not well formed goes through level 3 too: a harmful skill need not be well formed to do harm.
    """
    if level == "syntax":
        return check_skill(path)
    security = _security(path)
    return security if level == "security" else check_skill(path).merged(security)


def _security(path: str) -> Report:
    from prowess.validation.security.check import check_security

    return check_security(path)


def keep_report(report: Report, level: str, now: datetime, language: str = "en") -> Path:
    """Write a report to ``validation/report.json`` of the skill's folder, whole or not at all; the path (V4, S1).

    The folder is no part of the skill's content and never staged. Raises ``InvalidInput`` where it cannot be written.
    """
    content = {**report.to_json(language), "level": level, "created_at": now.isoformat(timespec="milliseconds")}
    if level != "syntax":
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
