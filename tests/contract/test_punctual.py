"""From due to start with a thousand jobs waiting, in real time, on the real ledger (B10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.test_jobs import Payload, worker_skill
from tests.support.kit import AGENT, CHAT, LIMIT, USER, OpenApp, rows
from tests.support.serving import News, served

from prowess import BackgroundContext, Prowess
from prowess.adapters.engines.embedded import POLL
from prowess.adapters.engines.pgqueuer import PGQueuerSettings
from prowess.automation.jobs.model import Job, NewJob, Task
from prowess.builtin.goal_check_in_reminder import CODE, SKILL_ID
from prowess.chat.model import ChatRef
from prowess.kernel.clock import SystemClock
from prowess.kernel.ids import RandomIds

WAITING = 1_000
ALLOWED_MS = 1_500
"""beyond the engine's own interval"""
INTERVALS = {"embedded": POLL, "pgqueuer": timedelta(seconds=PGQueuerSettings().poll)}
PAYLOAD = {"agent_id": AGENT, "agent_name": "Mira", "conversation_id": CHAT, "note": "x"}

SERVED = [("sqlite", "embedded"), ("postgres", "embedded"), ("postgres", "pgqueuer")]
OpenReal = Callable[..., Prowess]


@pytest.fixture
def open_real(open_app: OpenApp) -> OpenReal:
    """Opens the runtime with a clock that runs."""

    def open_one(*skills: Any, engine: str = "embedded") -> Prowess:
        clock = SystemClock()
        app = open_app(*skills, clock=clock, ids=RandomIds(clock), engine=engine)
        app.grant(user=USER, skill=SKILL_ID, code=CODE)
        return app

    return open_one


def plan(app: Prowess, skill: str, count: int, ahead: timedelta = timedelta(0)) -> list[Job]:
    """Jobs that are all due at one moment, committed together, and told to the engine."""
    parts, chat = app._parts, ChatRef("conversation", CHAT)
    with parts.log.transaction("default") as transaction:
        parts.chat.take_seat(transaction, "default", chat, USER, AGENT)
        new = NewJob(
            tenant="default",
            user=USER,
            agent=AGENT,
            chat=chat,
            task=Task.SKILL,
            skill=(skill, "1.0.0"),
            payload=PAYLOAD,
            due=transaction.now + ahead,
        )
        added = [parts.ledger.add(transaction, new) for _ in range(count)]
    parts.ledger.announce(added)
    return [job for job in added if job is not None]


def reminders(url: str) -> list[dict[str, Any]]:
    query = "SELECT status, started_at - planned_at AS late FROM skill_background_jobs WHERE skill_id = :skill"
    return rows(url, query, skill=SKILL_ID)


def lateness(url: str, news: News, count: int) -> list[int]:
    """From due to start of so many reminders, once they are done; in ms, sorted."""
    news.until(lambda: [row["status"] for row in reminders(url)].count("completed") == count)
    return sorted(row["late"] for row in reminders(url))


def shown(engine: str, late: list[int]) -> str:
    at = {f"p{share}": late[int(len(late) * share / 100)] for share in (1, 10, 50, 90, 99)}
    return f"{engine}: ms from due to start {at}, max {late[-1]}"


@pytest.mark.parametrize(("url", "engine"), SERVED, indirect=["url"])
def test_b10_a_thousand_jobs_that_are_due_at_one_moment_start_in_time(
    engine: str, url: str, open_real: OpenReal
) -> None:
    app, news = open_real(engine=engine), News()
    with served(app, news):
        plan(app, SKILL_ID, WAITING, timedelta(seconds=2))
        late = lateness(url, news, WAITING)
    print(shown(engine, late))
    assert late[0] >= 0
    assert late[int(WAITING * 0.99)] <= ALLOWED_MS + INTERVALS[engine] / timedelta(milliseconds=1), shown(engine, late)
    assert len(app.messages(CHAT, user=USER, limit=2 * WAITING)) == WAITING


@pytest.mark.parametrize(("url", "engine"), SERVED, indirect=["url"])
def test_b10_slow_jobs_that_wait_keep_no_reminder_waiting(engine: str, url: str, open_real: OpenReal) -> None:
    news, release = News(), threading.Event()
    begun: list[str] = []

    def wait(context: BackgroundContext, _payload: Payload) -> None:
        begun.append(context.job_id)
        news.tell()
        release.wait(LIMIT)

    app = open_real(worker_skill("slow-work", wait), engine=engine)
    app.grant(user=USER, skill="slow-work", code=CODE)
    try:
        with served(app, news):
            plan(app, "slow-work", WAITING)
            news.until(lambda: len(begun) >= 8)
            plan(app, SKILL_ID, 20)
            late = lateness(url, news, 20)
            assert len(begun) < 20, "all that can run at once are busy, and the rest still waits"
            app._parts.worker.close()
            release.set()
    finally:
        release.set()
    print(shown(engine, late))
    assert late[-1] <= ALLOWED_MS + INTERVALS[engine] / timedelta(milliseconds=1), shown(engine, late)
