"""``prowess notifications`` and ``prowess audit alerts``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.notices import emit
from tests.support.receiver import Receiver, receiver
from typer.testing import Result

from prowess.db.engine import Database

Run = Callable[..., Result]
KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()
AT = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


@pytest.fixture
def told(run: Run, tmp_path: Path) -> Database:
    """A database in which a job of mine failed and an automation was proposed to me."""
    assert run("migrate").exit_code == 0
    database = Database(f"sqlite:///{tmp_path / 'cli.db'}")
    emit(database, AT, "job.finished", user_id="me", target="job-1", decision="failed", data={"error_code": "timeout"})
    emit(database, AT, "automation.proposed", user_id="me", agent_id="mira", target="trigger-1")
    database.close()
    return database


def test_u7_an_inbox_is_shown_and_read(told: Database, run: Run, document: Callable[..., Any]) -> None:
    found = document("notifications", "list")
    assert found["unread"] == 2
    assert [item["kind"] for item in found["notifications"]] == ["automation.proposed", "job.failed"]
    assert found["notifications"][1]["text"] == "The job job-1 failed (timeout)."
    shown = run("notifications", "list", "--lang", "zh").stdout
    assert "作业 job-1 失败（timeout）。" in shown
    assert "警报" in shown

    first = found["notifications"][0]["id"]
    assert document("notifications", "read", first) == {"read": 1}
    assert document("notifications", "list", "--unread")["unread"] == 1
    assert "Marked as read: 1" in run("notifications", "read", "--all").stdout
    assert document("notifications", "list", "--unread") == {"notifications": [], "unread": 0}
    assert "Nothing to tell." in run("notifications", "list", "--unread").stdout
    assert document("notifications", "list", "--operators")["unread"] == 1
    assert run("notifications", "read").exit_code == run("notifications", "read", first, "--all").exit_code == 2


def test_r5_alerts_are_a_query(told: Database, run: Run, document: Callable[..., Any]) -> None:
    (alert,) = document("audit", "alerts")["alerts"]
    assert (alert["kind"], alert["severity"], alert["user"]) == ("job.failed", "alert", None)
    assert document("audit", "alerts", "--since", "2026-03-01T08:00:01Z") == {"alerts": []}
    assert "The job job-1 failed" in run("audit", "alerts").stdout
    assert "No alerts." in run("audit", "alerts", "--tenant", "other").stdout


def test_one_that_is_not_there_is_an_error(told: Database, error: Callable[..., dict[str, Any]]) -> None:
    assert error("notifications", "read", "nothing")["code"] == "notification_not_found"
    assert error("notifications", "hooks", "test", "nothing")["code"] == "hook_not_found"
    assert error("notifications", "hooks", "remove", "nothing")["code"] == "hook_not_found"


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def test_b15_webhooks(there: Receiver, run: Run, document: Callable[..., Any], error: Callable[..., Any]) -> None:
    allowed = {
        "PROWESS_OUTGOING_HOSTS": f"hooks.example.com, {there.host}",
        "PROWESS_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
    }
    assert run("secrets", "set", "HOOK_KEY", "--user", "me", "--stdin", stdin=KEY, **allowed).exit_code == 0
    add = ("notifications", "hooks", "add", there.url, "--secret", "HOOK_KEY")
    assert error(*add)["code"] == "host_not_allowed"
    assert error(*add, **(allowed | {"PROWESS_OUTGOING_HOSTS": "https://x"}))["code"] == "bad_outgoing_host"
    hook = document(*add, "--kind", "job.failed", "--kind", "turn.failed", **allowed)
    assert (hook["kinds"], hook["status"], hook["user"]) == (["job.failed", "turn.failed"], "active", "me")
    assert document("notifications", "hooks", "list") == {"hooks": [hook]}
    assert "active" in run("notifications", "hooks", "list").stdout
    assert document("notifications", "hooks", "list", "--operators") == {"hooks": []}
    assert document("notifications", "hooks", "test", hook["id"], **allowed) == hook
    assert run("notifications", "hooks", "test", hook["id"], **allowed).stdout == f"{hook['id']} took the test.\n"
    there.status = 500
    assert error("notifications", "hooks", "test", hook["id"], **allowed)["code"] == "delivery_rejected"
    assert len(there.received) == 3
    assert document("notifications", "hooks", "remove", hook["id"]) == {"removed": hook["id"]}
    assert "No webhooks." in run("notifications", "hooks", "list").stdout
