"""Skill folders made for one test, and the malicious ones that are kept as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from prowess.validation.report import Report
from prowess.validation.security.check import check_security

DATA = Path(__file__).parents[3] / "data" / "malicious_skills"


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write the files below a folder."""
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("latin-1" if text.startswith("\x7fELF") else "utf-8"))
    return folder


def scan(folder: Path, **files: str) -> Report:
    """The report on a skill with these files; ``scripts__run_sh`` stands for ``scripts/run.sh``."""
    named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()}
    named.setdefault("SKILL.md", f"---\nname: {folder.name}\ndescription: Does a thing.\n---\n# Thing\nDo it.\n")
    return check_security(str(write(folder, named)))


def warned(report: Report) -> set[str]:
    """The codes that ask for a review or reject."""
    return {issue.code for issue in report.issues if issue.severity != "info"}


def kept(name: str) -> list[dict[str, Any]]:
    """The skills of one file of malicious skills."""
    return list(yaml.safe_load((DATA / name).read_text("utf-8")))
