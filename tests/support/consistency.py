"""What must be true of a database whatever happened to the processes that used it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.kit import everything, rows


def assert_consistent(url: str) -> dict[str, Any]:
    """Check that messages, turns, sessions, runs and events tell one story; returns every table."""
    if url.startswith("sqlite"):
        assert rows(url, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
    tables = everything(url)
    _check_turns(tables)
    _check_chats(tables)
    _check_sessions(tables)
    _check_runs(tables)
    _check_events(tables)
    return tables


def _chat(row: dict[str, Any], kind: str = "chat_kind", id: str = "chat_id") -> tuple[str, str, str]:
    return row["tenant"], row[kind], row[id]


def _check_turns(tables: dict[str, Any]) -> None:
    messages = {(_chat(row), row["id"]): row for row in tables["messages"]}
    assert len(messages) == len(tables["messages"])
    for turn in tables["turns"]:
        asked = messages[_chat(turn), turn["message_id"]]
        assert (asked["author_kind"], asked["author"]) == ("user", turn["user_id"])
        assert (turn["reply_id"] is None) == (turn["finished_at"] is None)
        if turn["reply_id"] is not None:
            reply = messages[_chat(turn), turn["reply_id"]]
            assert (reply["author"], reply["reply_to"]) == (turn["agent_id"], turn["message_id"])
            assert (reply["run_id"], reply["session_id"]) == (turn["run_id"], turn["session_id"])
    replies = {(_chat(row), row["id"]) for row in tables["messages"] if row["author_kind"] == "agent"}
    assert replies == {(_chat(turn), turn["reply_id"]) for turn in tables["turns"] if turn["reply_id"] is not None}
    asked_ids = {(_chat(row), row["id"]) for row in tables["messages"] if row["author_kind"] == "user"}
    assert asked_ids == {(_chat(turn), turn["message_id"]) for turn in tables["turns"]}


def _check_chats(tables: dict[str, Any]) -> None:
    said = Counter(_chat(row) for row in tables["messages"])
    assert {_chat(row, "kind", "id"): row["message_count"] for row in tables["conversations"]} == said


def _check_sessions(tables: dict[str, Any]) -> None:
    live = [
        (row["tenant"], row["user_id"], row["scope_type"], row["scope_id"])
        for row in tables["skill_sessions"]
        if row["status"] in ("active", "waiting_user") and row["parked_at"] is None
    ]
    assert len(live) == len(set(live))
    for session in tables["skill_sessions"]:
        turns = [turn["session_revision"] for turn in tables["turns"] if turn["session_id"] == session["id"]]
        assert len(turns) == len(set(turns))
        assert set(turns) <= set(range(1, session["revision"] + 1))
        assert 1 in turns


def _check_runs(tables: dict[str, Any]) -> None:
    turns = {turn["run_id"]: turn for turn in tables["turns"] if turn["run_id"] is not None}
    runs = {run["id"]: run for run in tables["skill_runs"]}
    assert runs.keys() >= turns.keys()
    for run_id, turn in turns.items():
        run = runs[run_id]
        assert (run["message_id"], run["session_id"]) == (turn["message_id"], turn["session_id"])
        if turn["reply_id"] is not None:
            assert run["status"] != "running"
    for run_id in runs.keys() - turns.keys():
        assert runs[run_id]["status"] == "cancelled"  # by the API, without a turn
    used = Counter(
        (row["tenant"], row["message_id"], row["tool_id"], row["ordinal"]) for row in tables["skill_tool_executions"]
    )
    assert used.total() == len({row["idempotency_key"] for row in tables["skill_tool_executions"]})


def _check_events(tables: dict[str, Any]) -> None:
    seqs = [event["seq"] for event in tables["events"]]
    assert len(seqs) == len(set(seqs))
    counts = Counter(event["type"] for event in tables["events"])
    assert counts["turn.started"] == len(tables["turns"])
    assert counts["turn.completed"] == sum(turn["reply_id"] is not None for turn in tables["turns"])
    assert counts["run.recorded"] == sum(turn["run_id"] is not None for turn in tables["turns"])
    assert counts["session.created"] == len(tables["skill_sessions"])
    assert counts["tool.finished"] >= sum(row["status"] != "running" for row in tables["skill_tool_executions"])
