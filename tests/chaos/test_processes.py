"""Several processes on one database, and processes that die in the middle (R1, W5, X4, U7, U14)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.conftest import Worker
from tests.chaos.worker import skills
from tests.support.consistency import assert_consistent
from tests.support.kit import LIMIT, ScriptedVoice, everything, rows, turn

import prowess
from prowess import Prowess

Start = Callable[..., Worker]


def open_app(url: str, effects: Path | None = None) -> Prowess:
    return prowess.open(url, skills=skills(None if effects is None else str(effects)), voice=ScriptedVoice())


# --- eight at once ---------------------------------------------------------------------------------------------------

PROCESSES = 8


def eight(url: str, start: Start, tmp_path: Path, seconds: float) -> None:
    effects = tmp_path / "effects"
    with open_app(url) as app:
        turn(app, "begin", "/interview", conversation="shared")
    workers = [start(url=url, name=f"w{number}", seconds=seconds, effects=str(effects)) for number in range(PROCESSES)]
    for worker in workers:
        worker.ready()
    for worker in workers:
        worker.go()
    for worker in workers:
        assert worker.end(seconds + LIMIT) == 0, worker.errors()
        assert worker.errors() == ""
    reports = [json.loads(worker.lines[-1]) for worker in workers]
    done: Counter[str] = sum((Counter(report["done"]) for report in reports), Counter())
    assert min(report["done"]["own"] for report in reports) > 3
    assert max(report["longest"] for report in reports) < 10

    tables = assert_consistent(url)
    turns = 1 + done["own"] + done["shared"]
    assert len(tables["turns"]) == turns
    assert len(tables["messages"]) == 2 * turns
    assert len(tables["skill_runs"]) == turns
    assert sum(event["type"] == "turn.completed" for event in tables["events"]) == turns
    shared = next(row for row in tables["skill_sessions"] if row["scope_id"] == "shared")
    assert shared["revision"] == 1 + done["shared"]
    answers = json.loads(shared["state_json"])["answers"]
    assert len(answers) == len(set(answers)) == done["shared"]
    written = effects.read_text().splitlines()
    assert len(written) == len(set(written)) == len(tables["skill_tool_executions"])
    assert {row["status"] for row in tables["skill_tool_executions"]} == {"succeeded"}


def test_r1_eight_processes_lose_nothing_on_one_sqlite_file(start: Start, tmp_path: Path) -> None:
    eight(f"sqlite:///{tmp_path / 'prowess.db'}", start, tmp_path, seconds=4)


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_r1_eight_processes_lose_nothing_for_a_minute(database_url: str, start: Start, tmp_path: Path) -> None:
    eight(database_url, start, tmp_path, seconds=60)


# --- deaths ----------------------------------------------------------------------------------------------------------

DEATHS = {
    "before-the-events-of-the-beginning": {"die_at": "before events", "during": "turn.started"},
    "before-the-commit-of-the-beginning": {"die_at": "before commit", "during": "turn.started"},
    "while-the-voice-speaks": {"die_at": "voice"},
    "before-the-commit-of-the-reply": {"die_at": "before commit", "during": "turn.completed"},
    "after-the-last-commit": {"die_at": "after commit"},
}
ALL_IN_ONE = [("before-the-commit-of-the-beginning", True), ("after-the-last-commit", True)]
"""with a voice that waits for nothing one commit tells the whole turn"""


@pytest.mark.parametrize(("death", "instant"), [*((death, False) for death in DEATHS), *ALL_IN_ONE])
def test_w5_u14_a_turn_that_was_killed_is_finished_by_its_repetition(
    start: Start, tmp_path: Path, death: str, instant: bool
) -> None:
    die_and_repeat(f"sqlite:///{tmp_path / 'prowess.db'}", start, death, instant)


@pytest.mark.parametrize("death", ["while-the-voice-speaks", "before-the-commit-of-the-reply"])
def test_w5_u14_a_turn_that_was_killed_on_postgres_is_finished_by_its_repetition(
    new_database: Callable[[], Any], start: Start, death: str
) -> None:
    with new_database() as url:
        die_and_repeat(url, start, death, instant=False)


def die_and_repeat(database_url: str, start: Start, death: str, instant: bool) -> None:
    with open_app(database_url) as app:
        turn(app, "m1", "/interview")
        turn(app, "m2", "first answer")
    before = everything(database_url)
    worker = start(
        url=database_url, instant=instant, turn={"message_id": "m3", "words": "second answer"}, **DEATHS[death]
    )
    worker.ready().go()
    assert worker.end() == -9, worker.errors()
    after = assert_consistent(database_url)
    committed = len(after["turns"]) - len(before["turns"])
    nothing_yet = death in ("before-the-events-of-the-beginning", "before-the-commit-of-the-beginning") or (
        instant and death != "after-the-last-commit"
    )
    assert committed == (0 if nothing_yet else 1)

    with open_app(database_url) as app:
        result = turn(app, "m3", "second answer")
        assert result.reply == "interview question 3?"
        assert result.replayed is (committed == 1)
        (session,) = app.sessions(user="u1")
        assert (session.revision, session.state) == (3, {"answers": ["first answer", "second answer"]})
        assert len(app.runs(user="u1")) == 3
        assert [message.text for message in app.messages("c1")][-2:] == ["second answer", "interview question 3?"]
        assert len(app.messages("c1")) == 6
        assert turn(app, "m3", "second answer").replayed
    assert {row["status"] for row in assert_consistent(database_url)["skill_runs"]} == {"waiting_user"}


def test_x4_u7_a_write_that_was_killed_is_not_done_twice_nor_claimed(
    database_url: str, start: Start, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    worker = start(
        url=database_url,
        effects=str(effects),
        die_at="tool",
        turn={"message_id": "m1", "words": "/write the letter"},
    )
    worker.ready().go()
    assert worker.end() == -9, worker.errors()
    assert_consistent(database_url)
    with open_app(database_url, effects) as app:
        result = turn(app, "m1", "/write the letter")
        assert result.replayed
        assert (result.run and result.run.status, result.tool_calls[-1].status) == ("failed", "recorded")
        assert [run.error_code for run in app.runs(user="u1")] == ["outcome_unknown"]
    assert effects.read_text() == "the letter\n"
    assert rows(database_url, "SELECT status FROM skill_tool_executions") == [{"status": "running"}]
    assert_consistent(database_url)


KILLS = 2


def killed(url: str, start: Start, tmp_path: Path, kills: int) -> None:
    """Kill at whatever place a process happens to be, let the next one repeat its last message, again and again."""
    effects = tmp_path / "effects"
    with open_app(url, effects) as app:
        turn(app, "begin", "/interview", conversation="shared")
    for number in range(kills):
        worker = start(url=url, name=f"w{number}", seconds=2 * LIMIT, effects=str(effects)).ready()
        worker.kill_after(5 + 7 * number % 31)
        assert worker.process.returncode == -9
        assert_consistent(url)
        last = [line for line in worker.lines if line.startswith("start ")][-1]
        where, words = last.split("\t")
        _, chat, message_id = where.split(" ", 2)
        with open_app(url, effects) as app:
            result = turn(app, message_id, words, conversation=chat)
            assert turn(app, message_id, words, conversation=chat).reply == result.reply
        tables = assert_consistent(url)
        assert [row for row in tables["turns"] if row["reply_id"] is None] == []
    written = Counter(effects.read_text().splitlines())
    assert set(written.values()) == {1}


def test_u14_processes_killed_anywhere_leave_a_database_that_goes_on(
    database_url: str, start: Start, tmp_path: Path
) -> None:
    killed(database_url, start, tmp_path, KILLS)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_u14_processes_killed_many_times(database_url: str, start: Start, tmp_path: Path) -> None:
    killed(database_url, start, tmp_path, 30)


def test_u14_a_process_killed_while_it_migrates_leaves_a_database_that_opens(start: Start, tmp_path: Path) -> None:
    """Killed at the first sign of the file; the next process finds nothing, or all of it."""
    for number in range(2):
        file = tmp_path / f"{number}.db"
        worker = start(url=f"sqlite:///{file}", name="w", seconds=0)
        while not file.exists() and worker.process.poll() is None:
            os.sched_yield()
        worker.process.kill()
        worker.end()
        with open_app(f"sqlite:///{file}") as app:
            assert turn(app, "m1", "hello").reply == "plain"
        assert_consistent(f"sqlite:///{file}")


def test_the_lock_goes_with_the_process(start: Start, tmp_path: Path) -> None:
    """A process killed inside a write transaction does not hold up the others."""
    url = f"sqlite:///{tmp_path / 'prowess.db'}"
    asked: dict[str, Any] = {"message_id": "m1", "words": "/notes"}
    worker = start(url=url, turn=asked, die_at="before commit", during="turn.started")
    worker.ready().go()
    assert worker.end() == -9
    with open_app(url) as app:
        assert not turn(app, "m1", "/notes").replayed
    assert_consistent(url)
