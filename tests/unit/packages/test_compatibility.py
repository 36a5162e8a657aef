"""What may change in a patch, a minor and a major version, and which Prowess a skill needs (ruling 8)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.packages.changes import asked_by, changes_between
from prowess.packages.compatibility import agent_too_old, breaks, next_version, too_small
from prowess.skills.manifest import SkillManifest


def manifest(version: str = "1.2.3", **more: Any) -> SkillManifest:
    return SkillManifest.model_validate({"id": "x", "version": version, "description": "x", **more})


def tool(*parameters: dict[str, Any], name: str = "go", **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "parameters": list(parameters), **more}]}


A = {"name": "a", "type": "string", "required": True}
B = {"name": "b", "type": "integer", "required": False}
NET = {"permissions": {"network": {"allowed": True, "domains": ["a.example"]}}}
ASK = {"requirements": [{"code": "memory:read", "risk": "L1"}]}


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ({}, NET, "minor"),
        ({}, ASK, "minor"),
        ({}, {"dependencies": {"skills": ["y"]}}, "minor"),
        ({}, {"allowed_tools": ["Bash"]}, "minor"),
        (NET, {}, None),
        (ASK, {"requirements": [{"code": "memory:read", "risk": "L2"}]}, "minor"),
        (tool(A), tool(A, B), "minor"),
        (tool(A), tool(A, {**B, "required": True}), "major"),
        (tool(A, B), tool(A), "major"),
        (tool(A), tool({**A, "type": "integer"}), "major"),
        (tool(A), tool({**A, "required": False}), None),
        (tool(B), tool({**B, "required": True}), "major"),
        (tool(A), tool({**A, "max_length": 9}), None),
        (tool(A), tool(A, name="run"), "major"),
        (tool(A), {"tools": [*tool(A)["tools"], {"name": "other"}]}, "minor"),
        (tool(A), tool(A, returns={"type": "string"}), "major"),
        ({}, {"kind": "tool"}, "major"),
        ({}, {"description": "y", "tags": ["z"]}, None),
    ],
)
def test_u11_each_change_needs_its_step(old: dict[str, Any], new: dict[str, Any], step: str | None) -> None:
    found = breaks(manifest(**old), manifest(**new))
    assert (found[0].step if found else None) == step
    needed = {None: "1.2.4", "minor": "1.3.0", "major": "2.0.0"}[step]
    assert next_version(manifest(**old), manifest(**new)).text == needed
    assert too_small(manifest(**old), manifest(needed, **new)) is None
    assert too_small(manifest(**old), manifest("2.0.0", **new)) is None
    refused = too_small(manifest(**old), manifest("1.2.4", **new))
    assert (refused is None) == (step is None)
    if refused is not None:
        assert refused[1].text == needed
    assert (too_small(manifest(**old), manifest("1.3.0", **new)) is None) == (step != "major")


def test_u11_below_1_0_the_middle_number_is_the_first() -> None:
    assert too_small(manifest("0.1.0", **tool(A)), manifest("0.2.0")) is None
    refused = too_small(manifest("0.1.0", **tool(A)), manifest("0.1.1"))
    assert refused is not None
    assert refused[1].text == "0.2.0"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, None), ("0.1.0", None), (">=0.1", None), ("v0", None), ("0.1.1", "0.1.1"), ("2.0", "2.0.0"),
        ("soon", "soon"), ("1.0.0-rc.1", "1.0.0-rc.1"),
    ],
)  # fmt: skip
def test_u11_what_needs_a_newer_prowess_says_so(wanted: str | None, found: str | None) -> None:
    assert agent_too_old(manifest(dependencies={"min_agent_version": wanted}), "0.1.0") == found


def test_u11_wider_is_whatever_lets_more_happen_with_less_asking() -> None:
    everything = {
        "permissions": {
            "filesystem": {"read": ["a/*"], "write": ["b"], "delete": ["c"]},
            "network": {"allowed": True},
            "shell": {"allowed": True, "commands": ["git"]},
            "memory": {"read_layers": ["L2"], "write_layers": ["L1"]},
            "env_vars": {"read": ["A"], "write": ["B"]},
        },
        "constraints": {"schedule": {"type": "cron", "expression": "0 9 * * *", "timezone": "Asia/Shanghai"}},
        "dependencies": {"packages": [{"pip": "requests"}], "skills": ["other"]},
        "allowed_tools": ["Read"],
        **ASK,
    }
    assert asked_by(manifest(**everything), ["scripts/a.py"]) == {
        ("fs:read", "a/*"), ("fs:write", "b"), ("fs:delete", "c"), ("network", "any host"), ("shell", "git"),
        ("memory:read", "L2"), ("memory:write", "L1"), ("env:read", "A"), ("env:write", "B"),
        ("schedule", "cron 0 9 * * * Asia/Shanghai"), ("package", "pip:requests"), ("skill", "other"),
        ("allowed-tool", "Read"), ("requirement", "memory:read L1 persistent"), ("scripts", "brings scripts"),
    }  # fmt: skip
    changes = changes_between((manifest(**everything), {"scripts/a.py": "1"}), (manifest(), {"scripts/a.py": "2"}))
    assert changes.wider == (("allowed-tool", "any tool"),)
    assert changes.scripts == (("changed", "scripts/a.py"),)
    assert len(changes.narrower) == 14
    assert type(changes).from_json(changes.to_json()) == changes
