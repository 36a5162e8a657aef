"""``prowess tasks``, ``prowess stop``, and what agents are good at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

import prowess
from prowess import TurnRequest

Call = Callable[..., Any]
Run = Callable[..., Result]


def test_b17_tasks_are_listed_and_shown(run: Run, document: Call, error: Call, tmp_path: Path) -> None:
    document("agents", "create", "bo", "--good-at", "law", "--not-for", "tax")
    with prowess.open(f"sqlite:///{tmp_path / 'cli.db'}") as app:
        plan = app.begin(TurnRequest("default", "me", "mira", "hello", "m1", "main"))
        made = app.delegate(plan, "x", needs=["law"])
    (listed,) = document("tasks", "list")["tasks"]
    assert (listed["id"], listed["from"]["agent"], listed["to"]["agent"], listed["needs"], listed["status"]) == (
        made.id,
        "mira",
        "bo",
        ["law"],
        "completed",
    )
    assert document("tasks", "list", "--user", "u2") == {"tasks": []}
    graph = document("tasks", "show", "m1")
    assert [node["id"] for node in graph["nodes"]] == ["m1", made.id]
    assert graph["edges"] == [{"from": "m1", "to": made.id, "kind": "delegated"}]
    assert made.id in run("tasks", "show", "m1", "--conversation", "main").stdout
    assert "completed" in run("tasks", "list").stdout
    assert error("tasks", "show", "m9")["code"] == "turn_not_found"


def test_u10_a_turn_is_stopped_from_the_command_line(run: Run, document: Call, error: Call, tmp_path: Path) -> None:
    with prowess.open(f"sqlite:///{tmp_path / 'cli.db'}") as app:
        app.begin(TurnRequest("default", "me", "mira", "hello", "m1", "main"))
        app.begin(TurnRequest("default", "me", "mira", "hello", "m2", "main"))
    assert error("stop", "m1", "--user", "u2")["code"] == "turn_not_found"
    assert document("stop", "m1", "--user", "me") == {
        "message_id": "m1", "turns": 1, "delegates": 0, "tools": 0, "approvals": 0, "jobs": 0, "still_running": [],
        "all_down": True,
    }  # fmt: skip
    assert run("stop", "m2").stdout.endswith("All are down.\n")
    assert error("stop", "m2", "--limit", "1000")["code"] == "bad_stop_limit"


def test_b17_an_agent_is_told_what_it_is_good_at(run: Run, document: Call, error: Call) -> None:
    made = document("agents", "create", "sol", "--good-at", "Law", "--good-at", "tax")
    assert (made["good_at"], made["not_for"]) == (["law", "tax"], [])
    assert document("agents", "design", "sol", "--not-for", "cooking")["not_for"] == ["cooking"]
    assert document("agents", "list")["agents"][0]["good_at"] == ["law", "tax"]
    assert error("agents", "design", "sol", "--not-for", "law")["code"] == "tag_in_both"
    assert "Good at: law tax" in run("agents", "design", "sol", "--all").stdout
    assert run("agents", "design", "sol").exit_code == 2
