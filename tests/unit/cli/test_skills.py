"""``prowess skills``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Call = Callable[..., Any]


@pytest.fixture
def tea(tmp_path: Path) -> Path:
    folder = tmp_path / "tea-guide"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tea-guide\ndescription: How to brew tea.\n---\nBrew it.\n")
    return folder


def test_the_index_has_what_s6_names(document: Call) -> None:
    listed = {item["id"]: item for item in document("skills", "list")["skills"]}
    assert sorted(listed) == [
        "daily-planning", "daily-report", "goal-check-in-reminder", "long-term-goal-planning", "meeting-minutes",
        "memory-recall", "propose-automation",
    ]  # fmt: skip
    recall = listed["memory-recall"]
    assert set(recall) == {
        "id", "name", "display_name", "version", "kind", "status", "category", "tags", "scopes", "source", "digest",
        "trust", "signer", "summary", "requirements", "notes", "last_call", "calls_30d",
    }  # fmt: skip
    assert recall["requirements"] == [{"code": "memory:read", "risk": "L1", "approval": "persistent"}]
    assert (recall["status"], recall["kind"], recall["source"]) == ("active", "tool", "built-in")


def test_a_choice_shows_for_whom_it_was_made(document: Call, tea: Path) -> None:
    document("skills", "add", str(tea))

    def status(*who: str) -> str:
        listed = {item["id"]: item for item in document("skills", "list", *who)["skills"]}
        found: str = listed["tea-guide"]["status"]
        return found

    assert document("skills", "disable", "tea-guide", "--agent", "mira")["target"] == {"kind": "agent", "id": "mira"}
    assert (status(), status("--agent", "mira"), status("--agent", "other")) == ("active", "disabled", "enabled")
    document("skills", "enable", "tea-guide", "--agent", "mira")
    assert document("skills", "disable", "tea-guide")["target"] == {"kind": "user", "id": "me"}
    assert (status("--user", "me"), status("--user", "u2")) == ("disabled", "enabled")
    assert document("skills", "pin", "tea-guide", "0.1.0")["pinned_version"] == "0.1.0"
    assert document("skills", "unpin", "tea-guide")["pinned_version"] is None


def test_people_read_choices_as_sentences(run: Run) -> None:
    assert run("skills", "disable", "memory-recall").stdout == "memory-recall: disabled (user me)\n"
    chinese = run("skills", "pin", "memory-recall", "1.0.0", "--agent", "mira", "--lang", "zh")
    assert chinese.stdout == "memory-recall：已启用 · 固定在 1.0.0（智能体 mira）\n"


def test_what_cannot_be_added_says_file_and_line(run: Run, error: Call, tmp_path: Path) -> None:
    folder = tmp_path / "loud"
    folder.mkdir()
    (folder / "SKILL.md").write_text('---\nname: loud\ndescription: "x \\e[31m"\n---\nBody\n')
    found = error("skills", "add", str(folder))
    assert (found["code"], found["detail"]["line"]) == ("yaml_control", 3)
    assert "loud/SKILL.md:3: " in run("skills", "add", str(folder)).stderr


def test_a_manual_cannot_steer_the_terminal(run: Run, tea: Path) -> None:
    (tea / "SKILL.md").write_text("---\nname: tea-guide\ndescription: Tea.\n---\nBrew \x1b[2Jit.\n")
    assert run("skills", "add", str(tea)).exit_code == 0
    assert r"Brew \x1b[2Jit." in run("skills", "show", "tea-guide").stdout


def test_checking_speaks_for_machines_and_for_people(run: Run, tmp_path: Path, tea: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("no front matter")
    result = run("skills", "check", str(tmp_path), "--json", "--level", "syntax")
    reports = [json.loads(line) for line in result.stdout.splitlines()]
    assert {Path(report["path"]).name: report["verdict"] for report in reports} == {
        "broken": "reject",
        "tea-guide": "pass",
    }
    assert result.exit_code == 1
    told = run("skills", "check", str(tmp_path))
    assert "broken/SKILL.md:1: error front_matter_missing: " in told.stdout
    assert told.stdout.endswith("2 skills checked, 1 rejected.\n")
    assert told.exit_code == 1
    assert run("skills", "check", str(tea)).exit_code == 0
    assert "错误 front_matter_missing：" in run("skills", "check", str(broken), "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("code", "args"),
    {
        "skill_not_found": ("show", "nope"),
        "version_not_found": ("pin", "memory-recall", "9.9.9"),
        "skill_built_in": ("remove", "memory-recall"),
        "path_missing": ("add", "/nonexistent"),
        "bad_choice": ("export", "memory-recall", "--form", "odd"),
        "target_missing": ("enable", "memory-recall", "--user", "u1", "--agent", "mira"),
        "level_unavailable": ("check", ".", "--level", "nonsense"),
        "not_readable": ("check", "/nonexistent"),
    }.items(),
)
def test_what_is_refused_says_why(error: Call, code: str, args: tuple[str, ...]) -> None:
    assert error("skills", *args)["code"] == code


@pytest.mark.parametrize("name", ["x" * 5000, "nul\0byte"], ids=["long", "nul"])
def test_names_that_no_file_can_have_are_not_readable(error: Call, name: str) -> None:
    assert error("skills", "check", name)["code"] == "not_readable"


def test_showing_exporting_and_removing_a_skill(
    run: Run, document: Call, error: Call, tea: Path, tmp_path: Path
) -> None:
    (tea / "scripts").mkdir()
    (tea / "scripts" / "brew.py").write_text("print('tea')\n")
    added = document("skills", "add", str(tea))
    assert [note["code"] for note in added["notes"]] == ["scripts_not_run"]
    shown = document("skills", "show", "tea-guide")
    assert (shown["versions"], shown["body"].strip()) == (["0.1.0"], "Brew it.")
    assert run("skills", "show", "tea-guide").stdout.endswith("\nBrew it.\n")
    assert "asks for memory:read (L1, persistent)" in run("skills", "show", "memory-recall").stdout
    exported = document("skills", "export", "tea-guide", str(tmp_path / "out"), "--form", "rich")
    assert (Path(exported["path"]) / "SKILL.md").is_file()
    assert (Path(exported["path"]) / "scripts" / "brew.py").read_text() == "print('tea')\n"
    assert document("skills", "remove", "tea-guide")["removed"] == 1
    assert error("skills", "show", "tea-guide")["code"] == "skill_not_found"
    assert run("skills", "add", str(tea)).stdout.startswith("Restored tea-guide 0.1.0.\n")
