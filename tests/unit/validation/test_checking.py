"""The levels put together, and reports as files (V4)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.validation.security.kit import write

from prowess.sandbox.ports import Sandbox
from prowess.validation.checking import check_folder, keep_report


def no_sandbox() -> Sandbox:
    raise AssertionError("nothing is to be tried")


def test_v4_all_levels_are_one_report_and_it_is_kept_beside_the_skill(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "demo", {"SKILL.md": "---\nname: demo\ndescription: d\n---\n# D\nDo.\n", "a.py": "eval(input())\n"}
    )
    report = check_folder(str(folder), "all", no_sandbox)
    assert {level: result.verdict for level, result in report.levels.items()} == {
        "syntax": "pass",
        "security": "review",
        "behavior": "pass",
    }
    place = keep_report(report, "all", "en", datetime(2026, 12, 1, tzinfo=UTC))
    kept = json.loads(place.read_text("utf-8"))
    assert place == folder / "validation" / "report.json"
    assert (kept["verdict"], kept["level"], kept["created_at"]) == ("review", "all", "2026-12-01T00:00:00.000+00:00")
    assert kept["issues"][0]["code"] == "sec_dynamic_code"
    assert len(kept["rules_version"]) == 16
    assert check_folder(str(folder), "security", no_sandbox).issues == report.issues
