"""``prowess approvals`` and ``prowess permissions open|close|opened``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import USER, request, tool
from typer.testing import Result

import prowess
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk

Run = Callable[..., Result]
Call = Callable[..., Any]
SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)


@pytest.fixture
def asked(run: Run, tmp_path: Path) -> list[str]:
    """Two approvals that wait, in the database of the command line."""
    sender = tool("sender", permissions=[SENDING], effect="write", max_calls_per_turn=4)
    with prowess.open(f"sqlite:///{tmp_path / 'cli.db'}", skills=[sender]) as app:
        app.grant(user=USER, skill="sender", code="mail:send")
        plan = app.begin(request("m1", "hello"))
        return [str(app.call(plan, "tool.sender", {"text": text}).approval) for text in ("\x1b[2Ja", "b")]


def test_g13_u8_what_waits_is_listed_shown_and_answered(
    run: Run, document: Call, error: Call, asked: list[str]
) -> None:
    first, second = asked
    listed = document("approvals", "list", "--user", USER)["approvals"]
    assert {item["id"] for item in listed} == {first, second}
    shown = document("approvals", "show", second, "--user", USER)
    assert (shown["tool"], shown["arguments"], shown["status"]) == (
        "tool.sender",
        {"text": "b", "number": 0.0},
        "pending",
    )
    assert document("approvals", "show", second, "--user", "guest")["arguments"] is None
    assert error("approvals", "approve", second, "--user", "guest")["code"] == "not_an_approver"
    assert document("approvals", "approve", second, "--user", USER)["status"] == "approved"
    assert document("approvals", "cancel", second, "--user", USER)["outcome"] == "cancelled"
    assert document("approvals", "deny", first, "--user", USER)["status"] == "denied"
    assert error("approvals", "approve", first, "--user", USER)["code"] == "approval_answered"
    assert error("approvals", "show", "absent")["code"] == "approval_not_found"
    assert error("approvals", "list", "--status", "maybe")["code"] == "bad_choice"
    assert document("approvals", "list", "--user", USER, "--status", "pending") == {"approvals": []}


def test_u8_the_table_shows_arguments_to_who_may_answer_and_obeys_nothing(run: Run, asked: list[str]) -> None:
    mine = run("approvals", "list", "--user", USER).stdout
    assert r"\u001b[2Ja" in mine
    assert "\x1b" not in mine
    assert run("approvals", "list", "--user", "guest").stdout == "Nothing waits for a yes.\n"
    everybody = run("approvals", "list", "--all").stdout
    assert everybody.count("(shown only to who may answer)") == 2
    said = run("approvals", "show", asked[1], "--user", USER).stdout
    assert said.startswith(f"{asked[1]}: waits\n")
    assert '{"text": "b", "number": 0.0}' in said


def test_u8_approvers_are_named_listed_and_removed(run: Run, document: Call, error: Call) -> None:
    assert run("approvals", "approvers", "list").stdout.startswith("Nobody is named")
    named = document("approvals", "approvers", "add", "boss", "--code", "mail:send")
    assert named == {"user": "boss", "code": "mail:send", "changed": True}
    assert run("approvals", "approvers", "add", "boss").stdout == "boss may answer for *.\n"
    assert document("approvals", "approvers", "list") == {
        "approvers": [{"user": "boss", "code": "*"}, {"user": "boss", "code": "mail:send"}]
    }
    assert error("approvals", "approvers", "add", "boss", "--code", "mail")["code"] == "bad_code"
    assert document("approvals", "approvers", "remove", "boss")["changed"] is True
    assert run("approvals", "approvers", "remove", "boss").stdout == "boss could not answer for *.\n"


def test_g1_irreversible_codes_are_opened_and_closed(run: Run, document: Call, error: Call) -> None:
    assert document("permissions", "opened") == {"opened": []}
    assert document("permissions", "open", "card:charge") == {"code": "card:charge", "changed": True}
    assert run("permissions", "open", "card:charge").stdout == "card:charge was open already.\n"
    assert document("permissions", "opened") == {"opened": ["card:charge"]}
    assert run("permissions", "close", "card:charge").stdout == "card:charge is closed.\n"
    assert document("permissions", "close", "card:charge")["changed"] is False
    assert error("permissions", "open", "*")["code"] == "bad_code"
