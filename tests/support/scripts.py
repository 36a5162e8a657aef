"""Skill folders with a script, written for a test."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from prowess import Prowess
from prowess.runtime.facade.base import OPERATOR
from prowess.skills.service import Added, Vouched
from prowess.skills.skill_md import read_skill_folder

FORMAT_JSON = """
import json


def format_json(text, indent=2):
    return {"text": json.dumps(json.loads(text), indent=indent, sort_keys=True)}
"""


def write_skill(
    folder: Path,
    script: str,
    *,
    name: str = "worker",
    tool: str | None = None,
    parameters: Sequence[Mapping[str, Any]] = (),
    returns: Mapping[str, Any] | None = None,
    permissions: Mapping[str, Any] | None = None,
    cases: Sequence[Mapping[str, Any]] = (),
    version: str = "1.0.0",
    files: Mapping[str, str] | None = None,
    allowed_tools: Sequence[str] | None = None,
    errors: Sequence[str] = (),
    **more: Any,
) -> Path:
    """A skill folder below ``folder`` whose one tool is ``script``. Returns the skill's own folder."""
    home = folder / name
    tool = tool or name.replace("-", "_")
    (home / "scripts").mkdir(parents=True, exist_ok=True)
    allowed = "" if allowed_tools is None else f"allowed-tools: {' '.join(allowed_tools)}\n"
    head = f"---\nname: {name}\ndescription: Does as {name} says.\n{allowed}---\n"
    (home / "SKILL.md").write_text(f"{head}\n# {name}\n\nCall the tool.\n", encoding="utf-8")
    declared: dict[str, Any] = {"name": tool, "description": f"Does {tool}.", "parameters": list(map(dict, parameters))}
    if errors:
        declared["errors"] = [{"code": code} for code in errors]
    if returns is not None:
        declared["returns"] = dict(returns)
    rich: dict[str, Any] = {"version": version, "kind": "tool", "tools": [declared], **more}
    if permissions is not None:
        rich["permissions"] = dict(permissions)
    (home / "prowess.yaml").write_text(yaml.safe_dump(rich, sort_keys=False, allow_unicode=True), encoding="utf-8")
    (home / "scripts" / f"{tool}.py").write_text(textwrap.dedent(script), encoding="utf-8")
    if cases:
        (home / "tests").mkdir(exist_ok=True)
        lines = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
        (home / "tests" / "cases.jsonl").write_text(lines, encoding="utf-8")
    for path, text in (files or {}).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text, encoding="utf-8")
    return home


TEXT = {"name": "text", "type": "string", "required": True}
INDENT = {"name": "indent", "type": "integer", "default": 2, "min": 0, "max": 8}


def format_json_skill(folder: Path, **changed: Any) -> Path:
    """The skill of the pages: formats a JSON text."""
    returns = {"type": "object", "properties": {"text": {"type": "string", "required": True}}}
    given: dict[str, Any] = {"name": "format-json", "parameters": [TEXT, INDENT], "returns": returns}
    given |= {"errors": ["JSONDecodeError"], **changed}
    return write_skill(folder, given.pop("script", FORMAT_JSON), **given)


def enter_unproven(app: Prowess, folder: Path) -> Added:
    """Put a skill into the catalog past validation, which would refuse what some tests have to see at run time."""
    skill, parts = read_skill_folder(folder), app._parts
    parts.skills.try_out(skill, "test")
    with parts.log.transaction("default") as transaction:
        return parts.skills.enter(transaction, actor=OPERATOR, tenant="default", skill=skill, vouched=Vouched("test"))
