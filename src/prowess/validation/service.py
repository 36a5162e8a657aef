"""Validation reports that are kept (V4); level 3 is answered from them while content and rules stay (C72)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prowess.db.engine import Database
from prowess.errors import SkillFileError
from prowess.kernel.canonical import digest
from prowess.kernel.clock import Clock, to_ms
from prowess.kernel.ids import IdSource
from prowess.skills.skill_md import Draft, inspect_skill_folder
from prowess.validation.report import Issue, Level, LevelResult, Report
from prowess.validation.store import add_report, find_report, reports_of

MAX_LISTED = 200


class ValidationService:
    """Checks skill folders on level 3 and keeps what came of it; ``rules`` gives the version of the rules in force."""

    def __init__(self, database: Database, clock: Clock, ids: IdSource, rules: Callable[[], str] | None = None) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids
        self._rules = rules

    def check(self, path: str | os.PathLike[str], *, tenant: str, trust: str | None = None) -> Report:
        """The report on level 3 of a folder: the kept one of the same bytes, trust and rules, or a new one, kept.

        Raises ``InvalidInput`` for a broken list of advisories, ``StorageError``.
        """
        report, row = self.judge(path, tenant=tenant, trust=trust)
        self.keep(row)
        return report

    def judge(
        self, path: str | os.PathLike[str], *, tenant: str, trust: str | None = None, expected: str | None = None
    ) -> tuple[Report, dict[str, Any] | None]:
        """The same with nothing kept: the report, and the row for ``keep``; null where there is nothing new to keep.

        ``expected`` is the digest that the caller has read; another content raises ``SkillFileError('file_changed')``.
        """
        draft = inspect_skill_folder(path)
        content = _digest(draft)
        if expected is not None and content != expected:
            raise SkillFileError("file_changed", file=draft.file, line=1)
        key = {
            "tenant": tenant,
            "digest": content or "",
            "level": "security",
            "trust": trust or "",
            "rules_version": self._version(),
        }
        if content is not None:
            with self._database.read() as connection:
                row = find_report(connection, key)
            if row is not None:
                return _report_of(row, draft), None
        from prowess.validation.security.check import check_security

        report = check_security(draft, trust=trust)
        return report, None if content is None else self._row(report, key, draft)

    def keep(self, row: dict[str, Any] | None) -> None:
        """Keep what ``judge`` gave, in a transaction of its own. Raises ``StorageError``."""
        if row is not None:
            with self._database.write() as connection:
                add_report(connection, row)

    def reports(self, skill: str, *, tenant: str, limit: int = 20) -> list[dict[str, Any]]:
        """The latest kept reports on a skill, newest first: the columns of ``validation_reports``, issues as a list."""
        with self._database.read() as connection:
            rows = reports_of(connection, tenant, skill, max(1, min(limit, MAX_LISTED)))
        return [{**row, "passed": bool(row["passed"]), "issues": json.loads(row["issues"])} for row in rows]

    def _version(self) -> str:
        if self._rules is not None:
            return self._rules()
        from prowess.validation.security.version import rules_version

        return rules_version()

    def _row(self, report: Report, key: dict[str, str], draft: Draft) -> dict[str, Any]:
        result = report.levels["security"]
        version = draft.fields.declared_version if draft.fields is not None else None
        return {
            **key,
            "id": self._ids.new("validation"),
            "skill_id": report.id,
            "version": version,
            "passed": int(result.verdict != "reject"),
            "verdict": result.verdict,
            "duration_ms": result.duration_ms,
            "checks": result.checks,
            "issues": json.dumps([_to_row(issue, report.path) for issue in report.issues], ensure_ascii=False),
            "created_at": to_ms(self._clock.now()),
        }


def _digest(draft: Draft) -> str | None:
    """The identity of what was read (S7), or ``None`` where a file could not be."""
    parts = []
    for found in draft.found:
        data = draft.contents.get(found.path)
        try:
            data = data if data is not None else Path(found.location).read_bytes()
        except OSError:
            return None
        draft.contents[found.path] = data  # what is judged is what was hashed
        parts.append([found.path, hashlib.sha256(data).hexdigest()])
    return digest(sorted(parts)) if parts and not draft.errors else None


def _to_row(issue: Issue, folder: str) -> dict[str, Any]:
    file = issue.file.removeprefix(folder).lstrip("/\\")
    return {
        "severity": issue.severity,
        "code": issue.code,
        "file": file,
        "line": issue.line,
        "detail": dict(issue.detail),
    }


def _report_of(row: dict[str, Any], draft: Draft) -> Report:
    level: Level = "security"
    issues = tuple(
        Issue(
            level,
            item["severity"],
            item["code"],
            str(Path(draft.folder, item["file"])),
            item["line"],
            item["detail"],
        )
        for item in json.loads(row["issues"])
    )
    return Report(
        draft.folder, draft.id, {level: LevelResult(row["verdict"], row["checks"], row["duration_ms"])}, issues
    )
