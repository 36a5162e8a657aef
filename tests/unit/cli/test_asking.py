"""Asking the law: explain, simulate, test, check-policy, why; and what is always allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Call = Callable[..., Any]
TOOL = "agent-memory.search"
RECALL = ("--skill", "memory-recall", "--code", "memory:read")
TEA = ("--tool", TOOL, "--arguments", '{"query": "tea"}')
ASK = {
    "version": 1,
    "rules": [
        {"id": "ask-first", "effect": "ask", "tools": ["agent-memory.*"], "match": [{"user": "me", "tool": TOOL}]}
    ],
}


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "ask.json"
    file.write_text(json.dumps(ASK))
    return str(file)


def test_an_explanation_names_the_layer_and_what_it_hangs_on(run: Run, document: Call, error: Call) -> None:
    denied = document("permissions", "explain", "--tool", TOOL)
    assert (denied["decision"]["layer"], denied["decision"]["missing"]) == ("consent", ["memory:read"])
    made = document("permissions", "grant", *RECALL)
    allowed = document("permissions", "explain", *TEA)
    assert (allowed["decision"]["effect"], allowed["decisive"]) == ("allow", [made["id"]])
    assert made["id"] in run("permissions", "explain", *TEA).stdout
    assert document("permissions", "explain", "--skill", "memory-recall")["decision"]["effect"] == "allow"
    absent = document("permissions", "explain", "--skill", "nope")
    assert (absent["decision"]["layer"], absent["decision"]["reason"]) == ("catalog", "not_found")
    assert "not allowed: not_found" in run("permissions", "explain", "--tool", "nope").stdout
    assert error("permissions", "explain")["code"] == "nothing_to_explain"
    assert error("permissions", "explain", "--tool", TOOL, "--arguments", '{"q": 1}')["code"] == "tool_arguments"
    for text in ("[]", "{", '{"query": "a", "query": "b"}'):
        assert error("permissions", "explain", "--tool", TOOL, "--arguments", text)["code"] == "bad_json_option"


def test_a_simulation_says_who_gains_and_who_loses(run: Run, document: Call, error: Call, policy: str) -> None:
    document("turn", "--text", "hello")
    document("permissions", "grant", *RECALL)
    stricter = document("permissions", "simulate", "--policy", policy)
    (change,) = stricter["changes"]
    assert (stricter["gains"], stricter["losses"]) == (0, 1)
    assert (change["name"], change["before"], change["after"], change["reason"]) == (TOOL, "allow", "ask", "ask-first")
    assert "0 gained, 1 lost." in run("permissions", "simulate", "--policy", policy).stdout
    assert document("permissions", "simulate", "--policy", policy, "--user", "nobody")["changes"] == []
    assert "Nobody gains" in run("permissions", "simulate", "--policy", policy, "--agent", "nobody").stdout
    document("roles", "set", "reader", "--skill", "daily-planning", PROWESS_RESOLVER="roles")
    document("roles", "assign", "reader", "--user", "me", PROWESS_RESOLVER="roles")
    wider = document(
        "permissions", "simulate", "--role", 'reader={"everything": true}', "--user", "me", PROWESS_RESOLVER="roles"
    )
    assert (wider["gains"] > 0, wider["losses"]) == (True, 0)
    for text, code in (
        ("reader", "bad_role_option"),
        ("reader={", "bad_json_option"),
        ('reader={"skill": []}', "unknown_keys"),
        ('reader={"everything": "no"}', "wrong_type"),
        ('reader={"skills": "all"}', "surface_entry"),
    ):
        assert error("permissions", "simulate", "--role", text)["code"] == code
    assert error("permissions", "simulate", "--policy", "/nonexistent")["code"] == "policy_unreadable"
    assert run("permissions", "simulate").exit_code == 2


def line(**changed: Any) -> str:
    asked = {"agent": {"skills": {"form": ["form.fill"]}}, "surface": {"skills": []}}
    return json.dumps(asked | {"ask": {"kind": "tool", "name": "form.fill"}} | changed)


def test_table_tests_answer_each_line_and_name_those_that_differ(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tests.jsonl"
    file.write_text("\n".join([line(expect=False), "", line(surface={}), line(expect=True), "no", line(ask={})]))
    result = run("permissions", "test", "--input", str(file))
    answers = [json.loads(answer) for answer in result.stdout.splitlines()]
    denied = {"allowed": False, "layer": "entitlement", "reason": "not_granted"}
    assert answers[:3] == [denied, {"allowed": True, "layer": None, "reason": "unrestricted"}, denied]
    assert [(a["error"]["code"], a["error"]["detail"]["line"]) for a in answers[3:]] == [
        ("bad_json_line", 5),
        ("table_test", 6),
    ]
    assert result.stderr == "line 4: expected true\n"
    assert result.exit_code == 1
    assert not list(tmp_path.glob("*.db"))
    held = run("permissions", "test", "--input", "-", stdin=line(expect={"layer": "entitlement"}))
    assert (held.exit_code, held.stderr) == (0, "")
    assert run("permissions", "test", "--input", "/nonexistent").exit_code == 1


def test_policy_files_are_checked_together(run: Run, document: Call, error: Call, policy: str, tmp_path: Path) -> None:
    assert document("permissions", "check-policy", policy) == {"files": [policy], "rules": 1, "mode": None}
    assert run("permissions", "check-policy", policy).stdout == "1 rules hold, with every example.\n"
    assert error("permissions", "check-policy", policy, policy)["code"] == "policy_rule_twice"
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(ASK | {"rules": [ASK["rules"][0] | {"match": [{"tool": "other"}]}]}))  # type: ignore[index]
    found = error("permissions", "check-policy", str(wrong))
    assert (found["code"], found["detail"]["cause"]) == ("policy_invalid", "match example 1 does not match")
    wrong.write_text(json.dumps(ASK | {"mode": "explore"}))
    assert "mode: explore" in run("permissions", "check-policy", str(wrong)).stdout


def test_policies_and_mode_of_the_environment_hold_for_every_command(
    run: Run, document: Call, error: Call, policy: str
) -> None:
    document("permissions", "grant", *RECALL)
    asked = document("turn", "--text", "/memory-recall tea", PROWESS_POLICIES=policy)
    assert (asked["decision"]["effect"], asked["decision"]["layer"]) == ("ask", "approval")
    bypassed = document("turn", "--text", "/memory-recall tea", PROWESS_POLICIES=policy, PROWESS_MODE="bypass")
    assert bypassed["decision"]["effect"] == "allow"
    stricter = document("turn", "--text", "/memory-recall tea", "--mode", "dont_ask", PROWESS_POLICIES=policy)
    assert stricter["decision"]["reason"] == "nobody_to_ask"
    said = run("chat", "--json", "--mode", "dont_ask", stdin="/memory-recall tea\n", PROWESS_POLICIES=policy)
    assert json.loads(said.stdout)["decision"]["reason"] == "nobody_to_ask"
    for name, value, code in (
        ("PROWESS_RESOLVER", "rolls", "bad_setting"),
        ("PROWESS_MODE", "wild", "bad_setting"),
        ("PROWESS_POLICIES", "/nonexistent", "policy_unreadable"),
    ):
        assert error("skills", "list", **{name: value})["code"] == code
        doctor = run("doctor", "--json", **{name: value})
        assert doctor.exit_code == 1
        assert "missing" in [row["state"] for row in json.loads(doctor.stdout)["checks"]]


def test_a_surface_narrows_one_turn(document: Call, error: Call) -> None:
    text = ("turn", "--text", "/daily-planning")
    assert document(*text, "--surface", '{"skills": ["daily-planning"]}')["selection"]["skill_id"] == "daily-planning"
    assert document(*text, "--surface", '{"skills": null, "groups": []}')["selection"] is None
    assert document(*text, "--surface", "{}")["selection"]["skill_id"] == "daily-planning"
    for given, code in (
        ('{"skill": []}', "unknown_keys"),
        ("no", "bad_json_option"),
        ('{"tools": 1}', "surface_entry"),
    ):
        assert error(*text, "--surface", given)["code"] == code
    assert error(*text, "--mode", "wild")["code"] == "bad_mode"
    assert error("chat", "--mode", "wild")["code"] == "bad_mode"


def test_an_action_is_always_allowed_and_forgotten(run: Run, document: Call, error: Call, policy: str) -> None:
    document("permissions", "grant", *RECALL)
    preview = document("permissions", "always-allow", *TEA, "--preview")
    assert (preview["tool"], preview["verb"]) == (TOOL, "read")
    assert document("permissions", "standing") == {"standing": []}
    made = document("permissions", "always-allow", *TEA)
    assert made["resource"] == preview["resource"]
    assert document("permissions", "standing") == {"standing": [made]}
    assert made["id"] in run("permissions", "standing").stdout
    for query, effect in (("tea", "allow"), ("coffee", "ask")):
        given = json.dumps({"query": query})
        found = document("permissions", "explain", "--tool", TOOL, "--arguments", given, PROWESS_POLICIES=policy)
        assert found["decision"]["effect"] == effect
    assert document("permissions", "forget", made["id"]) == {"forgotten": made["id"]}
    assert error("permissions", "forget", made["id"])["code"] == "standing_not_found"
    (revoked,) = document("permissions", "standing", "--all")["standing"]
    assert revoked["revoked_at"] is not None
    assert error("permissions", "always-allow", "--tool", "nope", "--arguments", "{}")["code"] == "tool_not_found"


def test_a_grant_for_one_resource(document: Call, error: Call) -> None:
    made = document("permissions", "grant", *RECALL, "--resource", "https://example.org/docs")
    assert made["resource"] == "https://example.org/docs"
    assert error("permissions", "grant", *RECALL, "--resource", "https://u:p@example.org")["code"] == "bad_resource"


def test_why_each_skill_would_or_would_not_serve(run: Run, document: Call, error: Call) -> None:
    text = ("skills", "why", "--text", "Help me plan my day tomorrow")
    found = {item["skill_id"]: item["reason"] for item in document(*text)["skills"]}
    assert found["daily-planning"] == "chosen"
    assert found["memory-recall"] == "no_match"
    assert "chosen" in run(*text).stdout
    group = {item["skill_id"]: item["reason"] for item in document(*text, "--scope", "group_chat")["skills"]}
    assert group["memory-recall"] == "scope"
    assert error(*text, "--scope", "moon")["code"] == "bad_scope"


def test_the_use_of_skills_is_counted(run: Run, document: Call, error: Call) -> None:
    assert document("skills", "usage") == {"usage": []}
    document("turn", "--text", "/memory-recall tea")
    (used,) = document("skills", "usage")["usage"]
    assert (used["skill_id"], used["user"], used["uses"], used["denied"]) == ("memory-recall", "me", 1, 1)
    assert document("skills", "usage", "--since", "2999-01-01T00:00:00Z") == {"usage": []}
    assert "memory-recall" in run("skills", "usage").stdout
    assert error("skills", "usage", "--since", "yesterday")["code"] == "bad_instant"


def test_an_agent_is_designed_with_some_skills(document: Call) -> None:
    document("agents", "create", "sol")
    made = document("agents", "design", "sol", "--only", "daily_planning")
    roles: dict[str, list[str]] = {"good_at": [], "not_for": []}
    assert made == {"id": "sol", "skill_filter": {"kind": "only", "names": ["daily-planning"]}, **roles}
    assert document("turn", "--agent", "sol", "--text", "/meeting-minutes")["selection"] is None
    assert document("agents", "list")["agents"][0]["skill_filter"] == made["skill_filter"]


def test_a_design_is_one_of_four(run: Run, error: Call) -> None:
    for args in ((), ("--all", "--none"), ("--only", "a", "--except", "b")):
        assert run("agents", "design", "sol", *args).exit_code == 2
    assert error("agents", "design", "nobody", "--none")["code"] == "agent_not_found"
    assert error("agents", "design", "nobody", "--only", " ")["code"] == "bad_filter"
