"""``prowess roles``, and what each command shows of a skill that a role does not give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import prowess

Run = Callable[..., Result]
Call = Callable[..., Any]
ROLES = {"PROWESS_RESOLVER": "roles"}
HIDDEN, ABSENT = "memory-recall", "no-such-skill"


@pytest.fixture
def reader(document: Call) -> None:
    """``ana`` may use daily-planning alone, ``root`` everything, and nobody else anything."""
    document("roles", "set", "reader", "--skill", "daily_planning", **ROLES)
    document("roles", "set", "admin", "--everything", **ROLES)
    document("roles", "assign", "reader", "--user", "ana", **ROLES)
    document("roles", "assign", "admin", "--user", "root", **ROLES)


def ids(listed: dict[str, Any]) -> list[str]:
    return [item["id"] for item in listed["skills"]]


def test_a_role_is_made_given_shown_taken_back_and_removed(run: Run, document: Call, error: Call) -> None:
    made = document(
        "roles", "set", "reader", "--skill", "daily-planning", "--skill", "tea@1.0.0", "--group", "web", "--tool", "a.b",
        **ROLES,
    )  # fmt: skip
    assert made == {
        "name": "reader",
        "everything": False,
        "skills": ["daily-planning", "tea@1.0.0"],
        "groups": ["web"],
        "tools": ["a.b"],
    }
    assert document("roles", "list") == {"roles": [made]}
    assert document("roles", "assign", "reader", "--user", "ana", **ROLES) == {
        "role": "reader",
        "user": "ana",
        "changed": True,
    }
    assert document("roles", "assign", "reader", "--user", "ana", **ROLES)["changed"] is False
    assert document("roles", "show", "reader") == made | {"members": ["ana"]}
    assert document("roles", "members") == {"members": [{"role": "reader", "user": "ana"}]}
    assert document("roles", "list", "--user", "bo") == {"roles": []}
    shown = run("roles", "show", "reader").stdout
    assert "skills: daily-planning, tea@1.0.0" in shown
    assert "ana" in shown
    assert document("roles", "unassign", "reader", "--user", "ana")["changed"] is True
    assert document("roles", "unassign", "reader", "--user", "ana")["changed"] is False
    assert document("roles", "remove", "reader") == {"removed": "reader"}
    assert error("roles", "remove", "reader")["code"] == "role_not_found"
    assert "No roles yet" in run("roles", "list").stdout


@pytest.mark.parametrize(
    ("code", "args"),
    {
        "role_not_found": ("show", "nope"),
        "role_not_found ": ("assign", "nope", "--user", "ana"),
        "bad_id": ("set", " ", "--everything"),
        "surface_entry": ("set", "r", "--skill", "@1"),
    }.items(),
)
def test_what_cannot_be_a_role_is_refused(error: Call, code: str, args: tuple[str, ...]) -> None:
    assert error("roles", *args)["code"] == code.strip()


def test_everything_stands_alone(run: Run) -> None:
    result = run("roles", "set", "r", "--everything", "--skill", "a")
    assert (result.exit_code, result.stdout) == (2, "")


def test_roles_that_nobody_asks_for_are_remarked_upon_beside_the_json(run: Run) -> None:
    for args in (("set", "reader"), ("assign", "reader", "--user", "ana")):
        inert = run("roles", *args, "--json")
        assert inert.exit_code == 0
        assert "PROWESS_RESOLVER=roles" in inert.stderr
        assert run("roles", *args, **ROLES).stderr == ""
    assert "PROWESS_RESOLVER=roles" in run("roles", "set", "reader", "--lang", "zh").stderr


@pytest.mark.usefixtures("reader")
def test_a_list_for_a_user_holds_what_exists_for_them(document: Call) -> None:
    assert ids(document("skills", "list", "--user", "ana", **ROLES)) == ["daily-planning"]
    assert HIDDEN in ids(document("skills", "list", "--user", "root", **ROLES))
    assert document("skills", "list", "--user", "nobody", **ROLES) == {"skills": []}
    assert HIDDEN in ids(document("skills", "list", **ROLES))  # the operator's own list
    document("skills", "disable", "daily-planning", "--user", "ana", **ROLES)
    (mine,) = document("skills", "list", "--user", "ana", "--agent", "mira", **ROLES)["skills"]
    assert (mine["id"], mine["status"]) == ("daily-planning", "disabled")


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "args",
    [
        ("skills", "show", "{}", "--user", "ana"),
        ("skills", "show", "{}", "--user", "ana", "--version", "1.0.0"),
        ("skills", "show", "{}", "--user", "ana", "--json"),
        ("skills", "enable", "{}", "--user", "ana", "--json"),
        ("skills", "disable", "{}", "--user", "ana"),
        ("skills", "pin", "{}", "9.9.9", "--user", "ana"),
        ("permissions", "grant", "--skill", "{}", "--code", "memory:read", "--user", "ana", "--json"),
        ("permissions", "revoke", "--skill", "{}", "--code", "memory:read", "--user", "ana", "--json"),
        ("turn", "--text", "/{}", "--user", "ana", "--message-id", "m1"),
        ("turn", "--text", "/skill {} now", "--user", "ana", "--message-id", "m1"),
    ],
    ids=" ".join,
)
def test_a_hidden_skill_and_an_absent_one_are_answered_byte_for_byte_alike(run: Run, args: tuple[str, ...]) -> None:
    run("turn", "--text", "hello", "--user", "ana", "--message-id", "m0", **ROLES)
    answers = []
    for name in (HIDDEN, ABSENT):
        given = [arg.replace("{}", name).replace("m1", f"m-{name}") for arg in args]
        result = run(*given, **ROLES)
        answers.append(
            (result.exit_code, result.stdout.replace(name, "…"), result.stderr.replace(name, "…")),
        )
    assert answers[0] == answers[1]
    assert answers[0][0] == (0 if args[0] == "turn" else 1)


@pytest.mark.usefixtures("reader")
def test_a_version_that_is_not_granted_is_answered_like_an_absent_one(run: Run, document: Call, error: Call) -> None:
    assert document("skills", "show", "daily-planning", "--user", "ana", **ROLES)["versions"] == ["1.0.0"]
    found = error("skills", "show", "daily-planning", "--user", "ana", "--version", "9.9.9", **ROLES)
    assert found["code"] == "version_not_found"


@pytest.mark.usefixtures("reader")
def test_a_hidden_tool_and_an_absent_one_are_answered_alike(error: Call) -> None:
    answers = []
    for name in ("agent-memory.search", "no-such.tool"):
        for preview in ((), ("--preview",)):
            given = ("--tool", name, "--arguments", '{"query": "tea"}', "--user", "ana")
            found = error("permissions", "always-allow", *given, *preview, **ROLES)
            answers.append(json.dumps(found).replace(name, "…"))
    assert len(set(answers)) == 1
    assert json.loads(answers[0])["code"] == "tool_not_found"


@pytest.mark.usefixtures("reader")
def test_the_chat_shows_what_exists_for_the_user(run: Run) -> None:
    said = run("chat", "--json", "--user", "ana", stdin="/skills\n/help\n", **ROLES)
    skills, listed = map(json.loads, said.stdout.splitlines())
    assert [item["command"] for item in skills["skills"]] == ["/daily-planning"]
    assert f"/{HIDDEN}" not in said.stdout
    assert "/daily-planning" in [item["command"] for item in listed["commands"]]


def folder(tmp_path: Path, version: str) -> str:
    made = tmp_path / version / "tea"
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text(f"---\nname: tea\ndescription: Tea.\n---\nVersion {version}.\n")
    (made / "prowess.yaml").write_text(f"version: {version}\n")
    return str(made)


def test_the_version_that_serves_the_user_is_the_one_that_is_shown(document: Call, error: Call, tmp_path: Path) -> None:
    document("skills", "add", folder(tmp_path, "1.0.0"))
    document("skills", "pin", "tea", "1.0.0", "--user", "ana")
    document("skills", "add", folder(tmp_path, "2.0.0"))
    document("roles", "set", "old", "--skill", "tea@1.0.0", **ROLES)
    document("roles", "assign", "old", "--user", "ana", **ROLES)
    (listed,) = document("skills", "list", "--user", "ana", **ROLES)["skills"]
    assert (listed["version"], listed["status"]) == ("1.0.0", "enabled")
    shown = document("skills", "show", "tea", "--user", "ana", **ROLES)
    assert (shown["version"], shown["versions"], shown["body"].strip()) == ("1.0.0", ["1.0.0"], "Version 1.0.0.")
    assert error("skills", "show", "tea", "--user", "ana", "--version", "2.0.0", **ROLES)["code"] == "version_not_found"
    assert document("skills", "show", "tea", "--user", "bo")["versions"] == ["2.0.0", "1.0.0"]


def test_a_draft_does_not_exist_for_whom_it_does_not_serve(document: Call, error: Call, tmp_path: Path) -> None:
    document("skills", "add", folder(tmp_path, "1.0.0"))
    with prowess.open(f"sqlite:///{tmp_path / 'cli.db'}") as app:
        app.roll_out_skill("tea", "1.0.0", 0)
    assert "tea" not in ids(document("skills", "list", "--user", "ana"))
    assert error("skills", "show", "tea", "--user", "ana")["code"] == "skill_not_found"
    assert document("skills", "show", "tea")["id"] == "tea"  # to the operator


@pytest.mark.usefixtures("reader")
def test_permissions_show_only_skills_that_exist_for_the_user(document: Call) -> None:
    assert document("permissions", "list", "--user", "ana", **ROLES) == {"grants": [], "requests": []}
    asking = [r["skill"] for r in document("permissions", "list", "--user", "root", **ROLES)["requests"]]
    assert HIDDEN in asking
    assert document("permissions", "surface", "--user", "ana", **ROLES) == {
        "skills": ["daily-planning"],
        "groups": [],
        "tools": [],
    }


@pytest.mark.usefixtures("reader")
def test_a_surface_is_readable(run: Run) -> None:
    shown = run("permissions", "surface", "--user", "ana", **ROLES).stdout
    assert "daily-planning" in shown
    assert "nothing" in shown
    assert run("permissions", "surface", "--user", "root", **ROLES).stdout == "everything that the agent has\n"
