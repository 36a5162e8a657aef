"""The tour, above all where a step fails. That all succeed is shown in tests/e2e."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from prowess.cli import tour
from prowess.errors import NotFound

Run = Callable[..., Result]
Call = Callable[..., Any]


def differs(_tour: tour.Tour) -> str:
    tour.expect("status", "waiting_user", "completed")
    return "never"


def refused(_tour: tour.Tour) -> str:
    raise NotFound("skill_not_found", skill="x")


def breaks(_tour: tour.Tour) -> str:
    raise ZeroDivisionError("by nothing")


def fine(_tour: tour.Tour) -> str:
    return "seen"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (("plan-goal", differs), ("recall-denied", refused), ("recall-granted", breaks), ("recall-revoked", fine))
    monkeypatch.setattr(tour, "STEPS", steps)


@pytest.mark.usefixtures("failing")
def test_a_failing_step_says_what_was_expected_and_the_others_still_run(document: Call, run: Run) -> None:
    told = document("tour")
    assert told["ok"] is False
    assert [(step["ok"], step["shows"]) for step in told["steps"]] == [
        (False, "status: wanted 'completed', got 'waiting_user'"),
        (False, "skill_not_found: There is no skill x here."),
        (False, "ZeroDivisionError: by nothing"),
        (True, "seen"),
    ]
    shown = run("tour")
    assert shown.exit_code == 1
    assert "  ✗ status: wanted 'completed', got 'waiting_user'\n" in shown.stdout
    assert "  ✓ seen\n" in shown.stdout
    assert "1 of 4 steps" in shown.stdout


def test_the_story_is_told_in_chinese(run: Run) -> None:
    told = run("tour", "--lang", "zh")
    assert told.exit_code == 0
    assert "── recall-denied：没有授权，什么也不读" in told.stdout
    assert "lin 允许 memory-recall 使用 memory:read" in told.stdout
    assert "13 步中 13 步成功" in told.stdout
    assert told.stderr == ""
