"""The engine of many machines with the real ledger: two processes, one effect for each job (B5, B10, B18)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.contract.test_punctual import plan
from tests.support.kit import LIMIT, USER, rows
from tests.support.serving import News

import prowess
from prowess import Prowess
from prowess.builtin.goal_check_in_reminder import CODE, SKILL_ID

JOBS = 1_000


@pytest.fixture
def postgres(copy_of_postgres_template: Callable[[str], str], request: pytest.FixtureRequest) -> str:
    return copy_of_postgres_template(f"ledger_{abs(hash(request.node.name))}")


class Process:
    """A runtime of its own, which tells of each call that its engine made."""

    def __init__(self, url: str, news: News) -> None:
        command = [sys.executable, "-m", "tests.support.serving", url, "pgqueuer"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = threading.Event()
        self.calls: list[int] = []
        self._news = news
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                self.ready.set()
            else:
                self.calls.append(int(line))
                self._news.tell()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(LIMIT) == 0
        self._reader.join(LIMIT)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def processes(url: str, news: News, count: int) -> Iterator[list[Process]]:
    started = [Process(url, news) for _ in range(count)]
    try:
        for process in started:
            assert process.ready.wait(LIMIT)
        yield started
    finally:
        for process in started:
            process.close()


@contextmanager
def runtime(url: str, engine: str) -> Iterator[Prowess]:
    with prowess.open(url, engine=engine) as app:
        app.grant(user=USER, skill=SKILL_ID, code=CODE)
        yield app


def completed(url: str) -> bool:
    found = rows(url, "SELECT count(*) AS n FROM skill_background_jobs WHERE status = 'completed'")
    return bool(found[0]["n"] == JOBS)


def once_each(url: str) -> None:
    """One message for each job, counted once, with one decision and one end."""
    jobs = {row["id"] for row in rows(url, "SELECT id FROM skill_background_jobs WHERE attempts = 1")}
    assert len(jobs) == JOBS
    messages = Counter(row["id"] for row in rows(url, "SELECT id FROM messages"))
    assert (set(messages), set(messages.values())) == (jobs, {1})
    assert rows(url, "SELECT message_count FROM conversations") == [{"message_count": JOBS}]
    for kind in ("job.decided", "job.finished"):
        told = Counter(row["target"] for row in rows(url, "SELECT target FROM events WHERE type = :kind", kind=kind))
        assert (set(told), set(told.values())) == (jobs, {1}), kind


def test_b5_two_processes_do_a_thousand_jobs_once_each(postgres: str) -> None:
    news = News()
    with runtime(postgres, "pgqueuer") as app, processes(postgres, news, 2) as both:
        plan(app, SKILL_ID, JOBS)
        news.until(lambda: completed(postgres))
    assert sum(map(sum, (process.calls for process in both))) >= JOBS
    once_each(postgres)


def test_b10_a_wake_that_is_lost_is_made_good_by_the_sweep(postgres: str) -> None:
    news = News()
    # The embedded engine of this runtime serves nobody: what it is told reaches no other process.
    with runtime(postgres, "embedded") as app, processes(postgres, news, 2):
        plan(app, SKILL_ID, JOBS)
        news.until(lambda: completed(postgres))
    once_each(postgres)
