"""Which file is the tool of a skill (X6)."""

from __future__ import annotations

import pytest

from prowess.skills.manifest import SkillManifest
from prowess.skills.scripts import script_name, script_tool


def manifest(*tools: str, kind: str = "tool") -> SkillManifest:
    return SkillManifest.model_validate(
        {"id": "a", "version": "1.0.0", "kind": kind, "description": "A.", "tools": [{"name": name} for name in tools]}
    )


@pytest.mark.parametrize(
    ("tool", "name"),
    [("format_json", "format_json"), ("formatJson", "format_json"), ("format.JSON", "format_json"), ("A-b", "a_b")],
)
def test_x6_a_tool_is_done_by_the_file_of_its_name(tool: str, name: str) -> None:
    assert script_name(tool) == name
    found = script_tool(manifest(tool), [f"scripts/{name}.py", "scripts/other.py"])
    assert found is not None
    assert (found.path, found.entry) == (f"scripts/{name}.py", name)


@pytest.mark.parametrize(
    ("tools", "kind", "paths", "path"),
    [
        (["a"], "tool", ["scripts/only.py"], "scripts/only.py"),
        (["a"], "tool", ["scripts/one.py", "scripts/two.py"], None),
        (["a"], "tool", ["other/a.py", "scripts/a.sh"], None),
        (["a", "b"], "tool", ["scripts/a.py"], None),
        ([], "tool", ["scripts/a.py"], None),
        (["a"], "prompt", ["scripts/a.py"], None),
    ],
)
def test_x6_what_is_no_script_tool_serves_as_before(
    tools: list[str], kind: str, paths: list[str], path: str | None
) -> None:
    found = script_tool(manifest(*tools, kind=kind), paths)
    assert (found and found.path) == path
