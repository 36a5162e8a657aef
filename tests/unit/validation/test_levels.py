"""Permission levels and caps (V6, L10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.validation.security.kit import scan

from prowess.skills.manifest import SkillManifest
from prowess.validation.levels import SOURCE_CAPS, TRUST_CAPS, cap_for, permission_level


def level(permissions: dict[str, Any], requirements: list[dict[str, str]] | None = None) -> int:
    fields = {"id": "demo", "version": "1.0.0", "description": "d", "permissions": permissions}
    return permission_level(SkillManifest.model_validate({**fields, "requirements": requirements or []}))[0]


TABLE = [
    ({}, 0),
    ({"memory": {"read_layers": ["L1"]}}, 0),
    ({"filesystem": {"read": ["/data/**"]}}, 1),
    ({"memory": {"read_layers": ["L1", "L2", "L3"], "write_layers": ["L1"]}}, 1),
    ({"env_vars": {"read": ["LANG"]}}, 1),
    ({"filesystem": {"write": ["/out/*.json"]}}, 2),
    ({"filesystem": {"delete": ["/out/*.json"]}}, 2),
    ({"network": {"allowed": True, "domains": ["api.example"]}}, 2),
    ({"shell": {"allowed": True, "commands": ["ls", "wc"]}}, 2),
    ({"memory": {"write_layers": ["L2"]}}, 2),
    ({"shell": {"allowed": True, "commands": ["bash"]}}, 3),
    ({"filesystem": {"read": ["/etc/**"]}}, 3),
    ({"memory": {"write_layers": ["L3"]}}, 3),
    ({"memory": {"read_layers": ["L4"]}}, 3),
    ({"memory": {"write_layers": ["L4"]}}, 4),
    ({"memory": {"read_layers": ["L5"]}}, 4),
    ({"shell": {"allowed": True, "commands": ["/usr/bin/sudo"]}}, 4),
]


@pytest.mark.parametrize(("permissions", "expected"), TABLE)
def test_v6_the_table_of_levels(permissions: dict[str, Any], expected: int) -> None:
    assert level(permissions) == expected


def test_v6_requirements_count_too() -> None:
    assert level({}, [{"code": "memory:read", "risk": "L1"}]) == 1
    assert level({}, [{"code": "mail:send", "risk": "L3", "approval": "per_operation"}]) == 3
    assert level({}, [{"code": "skills:write", "risk": "L2"}]) == 4


def test_v6_l10_caps() -> None:
    assert SOURCE_CAPS == {"frequency": 2, "self_heal": 2, "user_correction": 1, "manual": 4}
    assert TRUST_CAPS == {"built_in": 4, "verified": 3, "community": 2, "generated": 2}
    assert [cap_for(None), cap_for("manual"), cap_for("stranger"), cap_for("manual", "stranger")] == [4, 4, 1, 1]
    assert [cap_for("manual", "community"), cap_for("user_correction", "generated")] == [2, 1]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from([item for item, _ in TABLE]), st.sampled_from([item for item, _ in TABLE]))
def test_v6_more_permissions_are_never_a_lower_level(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert level({**one, **other}) >= level(other)


@pytest.mark.parametrize(
    ("source", "asked", "verdict"),
    [("frequency", "L2", "pass"), ("frequency", "L3", "reject"), ("manual", "L3", "pass")],
)
def test_v3_v6_over_the_cap_of_its_source_is_refused_with_its_line(
    tmp_path: Path, source: str, asked: str, verdict: str
) -> None:
    text = f"trigger_source: {source}\npermissions:\n  memory:\n    write_layers: [{asked}]\n"
    report = scan(tmp_path / "learnt", **{"prowess.yaml": text})
    assert report.verdict == verdict
    if verdict == "reject":
        issue = report.issues[0]
        assert (issue.code, Path(issue.file).name, issue.line) == ("sec_level_over_cap", "prowess.yaml", 4)
        assert (issue.detail["level"], issue.detail["cap"]) == (3, 2)


def test_l10_only_a_person_writes_a_skill_with_a_shell(tmp_path: Path) -> None:
    text = "trigger_source: self_heal\npermissions:\n  shell: {allowed: true, commands: [ls]}\n"
    report = scan(tmp_path / "learnt", **{"prowess.yaml": text})
    assert [(issue.code, issue.line) for issue in report.issues] == [("sec_shell_by_source", 3)]


@pytest.mark.parametrize(
    ("permissions", "script", "refused"),
    [
        (
            "network: {allowed: true, domains: [api.example]}",
            "import requests\nrequests.get('https://api.example/x')\n",
            None,
        ),
        (
            "network: {allowed: true, domains: [api.example]}",
            "import requests\nrequests.get('https://other.example/x')\n",
            "other.example",
        ),
        ("filesystem: {read: ['/data/**']}", "open('/data/a/b.txt').read()\n", None),
        ("filesystem: {read: ['/data/**']}", "open('/data/../etc/hosts').read()\n", "/data/../etc/hosts"),
        ("filesystem: {read: ['/data/**']}", "open('/data/a.txt', 'w').write('x')\n", "/data/a.txt"),
        ("env_vars: {read: [MAIL_USER]}", "import os\nos.environ['MAIL_USER']\n", None),
        ("env_vars: {read: [MAIL_USER]}", "import os\nos.getenv('OTHER')\n", "OTHER"),
        ("shell: {allowed: true, commands: [ls]}", "import subprocess\nsubprocess.run(['/bin/ls', '/out'])\n", None),
        ("shell: {allowed: true, commands: [ls]}", "import os as o\ngetattr(o, 'po' + 'pen')('git pull')\n", "git"),
    ],
)
def test_v3_a_skill_that_declares_less_than_it_does_is_refused_with_the_line(
    tmp_path: Path, permissions: str, script: str, refused: str | None
) -> None:
    report = scan(
        tmp_path / "tool", **{"prowess.yaml": f"kind: tool\npermissions:\n  {permissions}\n", "scripts/run.py": script}
    )
    found = [(issue.detail["what"], issue.line) for issue in report.issues if issue.code == "sec_undeclared"]
    assert found == (
        []
        if refused is None
        else [(refused, script[: script.index(refused.partition("/..")[0].rpartition("/")[2][:3])].count("\n") + 1)]
    )


def test_v3_a_public_skill_without_permissions_gets_its_uses_listed(tmp_path: Path) -> None:
    report = scan(tmp_path / "public", **{"scripts/run.py": "import requests\nrequests.get('https://api.example/x')\n"})
    assert report.verdict == "pass"
    assert [(issue.code, issue.detail["what"]) for issue in report.issues] == [("sec_use", "api.example")]
