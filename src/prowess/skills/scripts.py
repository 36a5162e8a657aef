"""Which installed skills are tools made of a script, and which file is the tool (X6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from prowess.skills.manifest import SkillKind, SkillManifest, ToolSpec
from prowess.skills.store import StoredSkill

SCRIPTS = "scripts/"
_NO_NAME = re.compile(r"[^a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ScriptTool(NamedTuple):
    """The one tool of a skill, and the Python file that does it."""

    spec: ToolSpec
    path: str
    entry: str
    """the function that the file is asked for first"""


def script_name(tool: str) -> str:
    """The tool's name in snake_case, as its file and its function are called: ``format.JSON`` is ``format_json``."""
    return _NO_NAME.sub("_", _HUMP.sub("_", tool).lower()).strip("_")


def python_scripts(paths: Iterable[str]) -> tuple[str, ...]:
    """The Python files in ``scripts/``, sorted."""
    return tuple(sorted(path for path in paths if path.startswith(SCRIPTS) and path.endswith(".py")))


def script_tool(manifest: SkillManifest, paths: Iterable[str]) -> ScriptTool | None:
    """The tool that a skill of kind ``tool`` is, where it declares exactly one and brings a script for it.

    The script is ``scripts/<tool>.py``, or the only Python file in ``scripts/``. Null: it is no such skill.
    """
    if manifest.kind is not SkillKind.TOOL or len(manifest.tools) != 1:
        return None
    spec = manifest.tools[0]
    name = script_name(spec.name)
    found = python_scripts(paths)
    named = f"{SCRIPTS}{name}.py"
    if named not in found and len(found) != 1:
        return None
    return ScriptTool(spec, named if named in found else found[0], name)


def runnable_script(stored: StoredSkill) -> ScriptTool | None:
    """The script tool of an installed version, where its scripts may run at all; null where they may not.

    The one place that decides about trust (ruling 12.8): whoever may not is served as a prompt skill.
    """
    return script_tool(stored.manifest, stored.scripts)
