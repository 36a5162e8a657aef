"""What a ``permissions`` section asks of the user (G1, X6)."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.skills.manifest import RequirementSpec, ResourcePermissions
from prowess.skills.requirements import implied_requirements, merged_requirements


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, []),
        ({"filesystem": {"read": ["/srv/a/**"]}}, [("fs:read", "L1", "persistent")]),
        ({"filesystem": {"write": ["/srv/a/**"]}}, [("fs:write", "L2", "persistent")]),
        ({"filesystem": {"delete": ["/srv/a/**"]}}, [("fs:delete", "L3", "per_operation")]),
        ({"network": {"allowed": True, "domains": ["a.example"]}}, [("network:host", "L2", "persistent")]),
        ({"network": {"allowed": False, "domains": ["a.example"]}}, []),
        ({"shell": {"allowed": True, "commands": ["jq"]}}, [("shell:run", "L3", "per_operation")]),
        ({"env_vars": {"read": ["A"]}}, [("env:read", "L1", "persistent")]),
        ({"env_vars": {"write": ["A"]}}, []),
        (
            {"memory": {"read_layers": ["L3"], "write_layers": ["L2"]}},
            [("memory:read", "L1", "persistent"), ("memory:write", "L2", "persistent")],
        ),
    ],
)
def test_g1_x6_resources_amount_to_codes(asked: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    found = implied_requirements(ResourcePermissions.model_validate(asked))
    assert [(item.code, item.risk, item.approval) for item in found] == expected


def test_g1_the_stricter_of_two_holds() -> None:
    declared = [
        RequirementSpec(code="fs:read", risk="L3", approval="per_operation"),  # type: ignore[arg-type]
        RequirementSpec(code="shell:run", risk="L1", approval="persistent"),  # type: ignore[arg-type]
        RequirementSpec(code="mail:send", risk="L2", approval="persistent"),  # type: ignore[arg-type]
    ]
    asked = {"filesystem": {"read": ["/srv/a/**"]}, "shell": {"allowed": True, "commands": ["jq"]}}
    merged = merged_requirements(declared, implied_requirements(ResourcePermissions.model_validate(asked)))
    assert [(item.code, item.risk, item.approval) for item in merged] == [
        ("fs:read", "L3", "per_operation"),
        ("shell:run", "L3", "per_operation"),
        ("mail:send", "L2", "persistent"),
    ]
