"""``prowess jobs``, and what the doctor says of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Call = Callable[..., Any]

SKILL, CODE = "goal-check-in-reminder", "proactive_message:write"


@pytest.fixture
def consent(document: Call) -> None:
    document("permissions", "grant", "--skill", SKILL, "--code", CODE)


@pytest.mark.usefixtures("consent")
def test_b4_a_job_is_added_shown_listed_and_cancelled(document: Call, run: Run, error: Call) -> None:
    job = document("jobs", "add", "--agent", "mira", "--in", "2h", "--note", "tea")
    assert (job["status"], job["task"], job["skill"]) == ("scheduled", "skill", {"id": SKILL, "version": "1.0.0"})
    assert set(job) == {
        "id", "tenant", "user", "agent", "conversation", "task", "skill", "status", "planned_at", "next_attempt_at",
        "attempts", "max_attempts", "error_code", "result", "trigger", "created_at", "started_at", "finished_at",
    }  # fmt: skip
    assert document("jobs", "show", job["id"]) == job
    assert document("jobs", "list") == {"jobs": [job]}
    assert document("jobs", "list", "--status", "failed") == {"jobs": []}
    assert job["id"] in run("jobs", "list").stdout
    assert f"{SKILL}@1.0.0" in run("jobs", "show", job["id"]).stdout
    assert "tea" not in run("jobs", "show", job["id"]).stdout
    assert document("jobs", "cancel", job["id"], "--user", "me")["status"] == "cancelled"
    assert error("jobs", "cancel", job["id"])["code"] == "job_finished"
    assert error("jobs", "show", "job-of-nobody")["code"] == "job_not_found"
    assert error("jobs", "list", "--status", "lost")["code"] == "bad_choice"


@pytest.mark.usefixtures("consent")
def test_b9_times_are_checked(run: Run, error: Call) -> None:
    assert error("jobs", "add", "--agent", "mira", "--in", "30s")["code"] == "time_too_early"
    assert error("jobs", "add", "--agent", "mira", "--in", "400d")["code"] == "time_too_late"
    assert error("jobs", "add", "--agent", "mira", "--in", "soon")["code"] == "bad_span"
    assert error("jobs", "add", "--agent", "mira", "--in", "999999999d")["code"] == "bad_span"
    assert error("jobs", "add", "--agent", "mira", "--at", "2030-01-01T09:00")["code"] == "bad_instant"
    assert run("jobs", "add", "--agent", "mira").exit_code == 2
    assert run("jobs", "add", "--agent", "mira", "--in", "2h", "--at", "2030-01-01T09:00Z").exit_code == 2


def test_g4_without_consent_nothing_is_scheduled(error: Call, document: Call) -> None:
    refused = error("jobs", "add", "--agent", "mira", "--in", "2h")
    assert (refused["code"], refused["detail"]["missing"]) == ("job_denied", [CODE])
    assert document("jobs", "list") == {"jobs": []}


@pytest.mark.usefixtures("consent")
def test_the_doctor_says_when_nobody_runs_what_is_due(document: Call, tmp_path: Path) -> None:
    def told() -> dict[str, Any]:
        (row,) = (row for row in document("doctor")["checks"] if row["check"] == "jobs")
        return dict(row)

    document("jobs", "add", "--agent", "mira", "--in", "2h")
    assert told() == {"check": "jobs", "state": "ok", "detail": "embedded", "remedy": ""}
    with sqlite3.connect(tmp_path / "cli.db") as connection:
        connection.execute("UPDATE skill_background_jobs SET next_attempt_at = 1")
    assert told()["state"] == "warn"
    assert "prowess worker" in told()["remedy"]
