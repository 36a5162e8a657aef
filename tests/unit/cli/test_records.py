"""Permissions, memories, sessions, runs, audit and agents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from typer.testing import Result

from prowess.cli import permissions, records
from prowess.events.model import DecisionWord

Run = Callable[..., Result]
Call = Callable[..., Any]
RECALL = ("--skill", "memory-recall", "--code", "memory:read")


def asked_by_recall(listed: dict[str, Any]) -> dict[str, Any]:
    """What ``memory-recall`` asks for, among all that asks."""
    [found] = [request for request in listed["requests"] if request["skill"] == "memory-recall"]
    return found


def test_what_skills_ask_for_stands_beside_what_was_granted(document: Call) -> None:
    asked = {"skill": "memory-recall", "code": "memory:read", "risk": "L1", "approval": "persistent"}
    listed = document("permissions", "list")
    assert (listed["grants"], asked_by_recall(listed)) == ([], asked | {"granted": False})
    assert not any(request["granted"] for request in listed["requests"])
    made = document("permissions", "grant", *RECALL)
    listed = document("permissions", "list")
    assert (listed["grants"], asked_by_recall(listed)) == ([made], asked | {"granted": True})
    assert [request["skill"] for request in listed["requests"] if request["granted"]] == ["memory-recall"]
    assert document("permissions", "revoke", *RECALL)["revoked"] == 1
    assert asked_by_recall(document("permissions", "list")) == asked | {"granted": False}
    assert document("permissions", "list", "--all")["grants"][0]["status"] == "revoked"


def test_a_grant_whose_time_is_over_is_shown_as_expired(
    run: Run, document: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    document("permissions", "grant", *RECALL, "--expires", "2999-01-01T00:00:00Z")
    assert asked_by_recall(document("permissions", "list"))["granted"] is True
    monkeypatch.setattr(permissions, "_now", lambda: datetime(2999, 1, 1, tzinfo=UTC))
    listed = document("permissions", "list")
    assert listed["grants"][0]["status"] == "expired"
    assert asked_by_recall(listed)["granted"] is False
    assert "已到期" in run("permissions", "list", "--lang", "zh").stdout


@pytest.mark.parametrize(
    ("code", "args"),
    {
        "skill_not_found": ("permissions", "grant", "--skill", "nope", "--code", "memory:read"),
        "code_not_declared": ("permissions", "grant", "--skill", "memory-recall", "--code", "fs:read"),
        "grant_not_found": ("permissions", "revoke", *RECALL),
        "agent_not_found": ("permissions", "grant", *RECALL, "--agent", "x"),
        "expiry_in_past": ("permissions", "grant", *RECALL, "--expires", "2020-01-01T00:00:00Z"),
        "bad_instant": ("permissions", "grant", *RECALL, "--expires", "tomorrow"),
        "memory_not_found": ("memory", "delete", "nope"),
        "bad_importance": ("memory", "add", "--text", "x", "--importance", "nan"),
        "bad_layer": ("memory", "add", "--text", "x", "--layer", "L9"),
        "text_empty": ("memory", "add", "--text", ""),
        "session_not_found": ("sessions", "cancel", "nope"),
        "unknown_language": ("agents", "create", "a", "--language", "fr"),
        "bad_choice": ("audit", "list", "--decision", "maybe"),
    }.items(),
)
def test_unknown_ids_and_wrong_values_are_refused_and_nothing_is_stored(
    document: Call, error: Call, code: str, args: tuple[str, ...]
) -> None:
    assert error(*args)["code"] == code
    assert document("audit", "list")["events"] == []


def test_the_words_of_decisions_are_those_of_the_log() -> None:
    assert get_args(DecisionWord) == records.DECISIONS


def test_memories_are_added_corrected_exported_and_deleted(run: Run, document: Call) -> None:
    made = document("memory", "add", "--text", "I like tea", "--importance", "0.9")
    assert document("memory", "correct", made["id"], "--text", "I like [bold]coffee[/bold]")["text"].endswith("[/bold]")
    assert "[bold]coffee[/bold]" in run("memory", "list").stdout
    exported = document("memory", "export")
    assert [memory["id"] for memory in exported["memories"]] == [made["id"]]
    assert document("memory", "delete", made["id"]) == {"deleted": made["id"]}
    assert document("memory", "list") == {"memories": []}
    assert "Nothing is remembered yet" in run("memory", "list").stdout


def test_sessions_and_runs_are_listed_and_cancelled(run: Run, document: Call, error: Call) -> None:
    session = document("turn", "--text", "Help me plan my goals for the next three months")["session"]
    assert [item["id"] for item in document("sessions", "list", "--active")["sessions"]] == [session["id"]]
    assert "long-term-goal-planning" in run("sessions", "list").stdout
    assert run("sessions", "cancel", session["id"]).stdout == f"Cancelled {session['id']}.\n"
    assert document("sessions", "list", "--active") == {"sessions": []}
    assert error("sessions", "cancel", session["id"])["code"] == "session_not_live"
    statuses = {item["status"] for item in document("runs", "list", "--skill", "long-term-goal-planning")["runs"]}
    assert "cancelled" in statuses
    assert document("runs", "list", "--skill", "memory-recall") == {"runs": []}


def test_the_audit_is_filtered(run: Run, document: Call) -> None:
    document("turn", "--text", "/memory-recall tea", "--user", "u1")
    denied = document("audit", "list", "--decision", "denied", "--user", "u1", "--skill", "memory-recall")["events"]
    assert denied[0]["type"] == "tool.decided"
    assert document("audit", "list", "--user", "u2") == {"events": []}
    assert document("audit", "list", "--since", "2999-01-01T00:00:00Z") == {"events": []}
    assert len(document("audit", "list", "--limit", "1")["events"]) == 1
    assert "consent_missing" in run("audit", "list").stdout


def test_agents_are_made_once(run: Run, document: Call, error: Call) -> None:
    everything = {"kind": "all", "names": []}
    made = document("agents", "create", "sol", "--name", "Sol", "--language", "zh")
    roles: dict[str, list[str]] = {"good_at": [], "not_for": []}
    assert made == {"id": "sol", "name": "Sol", "language": "zh", "owner": None, "skill_filter": everything, **roles}
    assert document("agents", "list") == {"agents": [made]}
    assert error("agents", "create", "sol")["code"] == "agent_exists"
    assert run("agents", "create", "lua").stdout == "Made agent lua.\n"
