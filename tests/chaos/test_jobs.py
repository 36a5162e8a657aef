"""Workers that are killed, stopped and many at once: no job lost, no message twice (B5, B8, C55 to C57)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.conftest import ROOT
from tests.chaos.job_workers import CODE, skills
from tests.support.kit import LIMIT, USER, add_jobs, rows

import prowess
from prowess import Prowess
from prowess.automation.jobs.model import Job, JobStatus

POINTS = ("after_claim", "before_effect", "after_effect", "before_finish")
KINDS = ("composer", "speaker")
LEASE = 0.3
SWEEP = 1.0
"""seconds: how often a worker looks for what nobody reports"""
SLACK = 20.0
"""seconds that a busy machine may add"""


class Workers:
    """The process that forks workers."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors
        self._pids: list[int] = []
        with errors.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.job_workers"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
            )

    def start(self, *plans: dict[str, Any]) -> list[int]:
        """Fork one worker for each plan; returns their process ids."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plans) + "\n")
        self._process.stdin.flush()
        self._pids = self._line()["pids"]
        return self._pids

    def ends(self) -> list[int]:
        """Wait for all of them; their exit codes, negative for a signal."""
        codes: list[int] = self._line()["codes"]
        self._pids = []
        return codes

    def run(self, *plans: dict[str, Any]) -> list[int]:
        self.start(*plans)
        return self.ends()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.errors.read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pid in self._pids:  # of a test that failed
            os.kill(pid, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(LIMIT)
        self._process.stdout.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path / "errors")
    yield made
    made.close()
    assert made.errors.read_text() == ""


@pytest.fixture
def app(database_url: str) -> Iterator[Prowess]:
    with prowess.open(database_url, skills=skills()) as opened:
        for skill in ("composer", "speaker", "staller", "killer"):
            opened.grant(user=USER, skill=skill, code=CODE)
        yield opened


def settled(app: Prowess, url: str, jobs: list[Job], attempts: set[int]) -> None:
    """Every job done, one message each, counters that equal what is stored."""
    states = {job.id: app.job(job.id) for job in jobs}
    assert {job.status for job in states.values()} == {JobStatus.COMPLETED}
    assert {job.attempts for job in states.values()} <= attempts
    assert jobs[0].chat is not None
    wanted = sorted(job.id for job in jobs)
    said = rows(url, "SELECT id FROM messages WHERE chat_id = :chat", chat=jobs[0].chat.id)
    assert sorted(row["id"] for row in said if row["id"] in states) == wanted
    counters = rows(
        url,
        "SELECT message_count, last_reply_id, (SELECT count(*) FROM messages m WHERE m.chat_id = c.id) AS stored, "
        "(SELECT id FROM messages m WHERE m.chat_id = c.id ORDER BY seq DESC LIMIT 1) AS last FROM conversations c",
    )
    assert [(row["message_count"], row["last_reply_id"]) for row in counters] == [
        (row["stored"], row["last"]) for row in counters
    ]
    finished = rows(url, "SELECT target FROM events WHERE type = 'job.finished'")
    assert sorted(row["target"] for row in finished if row["target"] in states) == wanted


def kill_again_and_again(app: Prowess, url: str, workers: Workers, kind: str, point: str, times: int) -> None:
    for _ in range(times):
        jobs = add_jobs(app, kind, 3)
        killed = workers.run({"url": url, "lease": LEASE, "die_at": point, "once": True})
        assert killed == [-signal.SIGKILL]
        died = time.monotonic()
        stop = Path(workers.errors.parent / f"stop-{jobs[0].id}")
        workers.start({"url": url, "lease": LEASE, "stop_file": str(stop)})
        wait_for(lambda jobs=jobs: all(app.job(job.id).status is JobStatus.COMPLETED for job in jobs))
        assert time.monotonic() - died < LEASE + SWEEP + SLACK
        stop.touch()
        assert workers.ends() == [0]
        settled(app, url, jobs, {1, 2})


def wait_for(holds: Any) -> None:
    """Look until it holds, within the limit."""
    pause, deadline = threading.Event(), time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.02)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_c55_b5_a_worker_killed_at_any_point_loses_and_repeats_nothing(
    app: Prowess, database_url: str, workers: Workers, kind: str, point: str
) -> None:
    kill_again_and_again(app, database_url, workers, kind, point, 10)


@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", KINDS)
def test_c55_b5_a_worker_killed_two_hundred_times_at_each_point(
    app: Prowess, database_url: str, workers: Workers, kind: str, point: str
) -> None:
    kill_again_and_again(app, database_url, workers, kind, point, 200)


def test_c57_a_job_that_kills_every_worker_is_started_three_times(
    app: Prowess, database_url: str, workers: Workers, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    (job,) = add_jobs(app, "killer", 1, note=str(starts))
    others = add_jobs(app, "composer", 3)
    for _ in range(3):
        assert workers.run({"url": database_url, "lease": LEASE, "once": True}) == [-signal.SIGKILL]
        wait_for(lambda: rows(database_url, "SELECT 1 FROM skill_background_jobs WHERE status = 'running'"))
        threading.Event().wait(LEASE)  # nothing tells that a dead worker's time has run out
    wait_for(lambda: workers.run({"url": database_url, "lease": LEASE, "once": True}) == [0])
    failed = app.job(job.id)
    assert (failed.status, failed.error_code) == (JobStatus.FAILED, "worker_lost")
    assert starts.read_text().split() == ["1", "2", "3"]
    settled(app, database_url, others, {1})


def test_c56_a_worker_that_was_stopped_wakes_after_the_takeover_and_is_fenced(
    app: Prowess, database_url: str, workers: Workers, tmp_path: Path
) -> None:
    """SIGSTOP, takeover by another worker, SIGCONT: the first is kept from its effect."""
    (job,) = add_jobs(app, "staller", 1, note=str(tmp_path))
    stop = tmp_path / "stop"
    plan = {"url": database_url, "lease": LEASE, "stop_file": str(stop)}
    (held,) = workers.start(plan)
    wait_for((tmp_path / "begun-1").exists)
    os.kill(held, signal.SIGSTOP)
    try:
        app_of_another = prowess.open(database_url, skills=skills(), lease=timedelta(seconds=LEASE))
        with app_of_another as other:
            wait_for(lambda: other.work() or other.job(job.id).status is JobStatus.COMPLETED)
            wait_for(lambda: other.work() or other.job(job.id).status is JobStatus.COMPLETED)
        (tmp_path / "go").touch()
    finally:
        os.kill(held, signal.SIGCONT)
    fenced = "SELECT target FROM events WHERE type = 'job.fenced'"
    wait_for(lambda: rows(database_url, fenced) == [{"target": job.id}])
    stop.touch()
    assert workers.ends() == [0]
    done = app.job(job.id)
    assert (done.status, done.attempts) == (JobStatus.COMPLETED, 2)
    texts = rows(database_url, "SELECT text FROM messages WHERE author_kind = 'agent'")
    assert texts == [{"text": "stalled in attempt 2"}]


def many_workers(app: Prowess, url: str, workers: Workers, count: int, number: int) -> None:
    jobs = add_jobs(app, "composer", count)
    codes = workers.run(*[{"url": url, "lease": 60, "once": True} for _ in range(number)])
    assert codes == [0] * number
    done = rows(url, "SELECT status, attempts, count(*) AS n FROM skill_background_jobs GROUP BY status, attempts")
    assert done == [{"status": "completed", "attempts": 1, "n": count}]
    assert jobs[0].chat is not None
    said = rows(url, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM messages WHERE author_kind = 'agent'")
    assert said == [{"n": count, "ids": count}]
    assert rows(url, "SELECT message_count FROM conversations") == [{"message_count": count}]


@pytest.mark.parametrize("number", [2, 4])
def test_b12_b8_many_workers_send_a_thousand_messages_once_each(
    app: Prowess, database_url: str, workers: Workers, number: int
) -> None:
    many_workers(app, database_url, workers, 1_000, number)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [2, 4])
def test_b12_b8_many_workers_send_ten_thousand_messages_once_each(
    app: Prowess, database_url: str, workers: Workers, number: int
) -> None:
    many_workers(app, database_url, workers, 10_000, number)
