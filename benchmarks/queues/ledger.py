"""Our ledger with reminders: each job is claimed under the gate, leaves one message, counts it, and is audited.

On PostgreSQL through the engine ``pgqueuer``, on SQLite (``synchronous=FULL``) through the embedded one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

import prowess
from prowess import Prowess
from prowess.adapters.engines.embedded import EmbeddedEngine
from prowess.adapters.engines.pgqueuer import PGQueuerEngine
from prowess.adapters.engines.pgqueuer_tables import install
from prowess.automation.jobs.model import NewJob, Task
from prowess.automation.jobs.worker import Worker
from prowess.builtin.goal_check_in_reminder import CODE, SKILL_ID
from prowess.chat.model import ChatRef
from queues.meter import Meter

TENANT, AGENT, USERS = "bench", "mira", 500
STEP = 500


def open_app(url: str) -> Prowess:
    return prowess.open(url)


def engine_of(app: Prowess, url: str) -> PGQueuerEngine | EmbeddedEngine:
    clock = app._parts.clock
    return EmbeddedEngine(clock) if url.startswith("sqlite") else PGQueuerEngine(url, clock=clock)


def prepare(url: str) -> None:
    """Users with a conversation each, who all consented."""
    with open_app(url) as app:
        parts = app._parts
        for number in range(USERS):
            user = f"u{number}"
            with parts.log.transaction(TENANT) as transaction:
                parts.chat.take_seat(transaction, TENANT, ChatRef("conversation", f"c{number}"), user, AGENT)
            app.grant(user=user, skill=SKILL_ID, code=CODE, tenant=TENANT)
    if not url.startswith("sqlite"):
        asyncio.run(install(make_url(url)))


def add(url: str, name: str, count: int, due: datetime) -> None:
    with open_app(url) as app:
        engine = engine_of(app, url)
        app._parts.ledger.wake = engine.wake
        for start in range(0, count, STEP):
            with app._parts.log.transaction(TENANT) as transaction:
                added = [
                    app._parts.ledger.add(transaction, _reminder(name, number, due))
                    for number in range(start, min(start + STEP, count))
                ]
            app._parts.ledger.announce(added)
        if isinstance(engine, PGQueuerEngine):
            engine.close()


def _reminder(name: str, number: int, due: datetime) -> NewJob:
    user = number % USERS
    chat = ChatRef("conversation", f"c{user}")
    payload = {"agent_id": AGENT, "agent_name": "Mira", "conversation_id": chat.id, "note": "English, twenty minutes"}
    return NewJob(
        id=f"{name}-{number}",
        tenant=TENANT,
        user=f"u{user}",
        task=Task.SKILL,
        payload=payload,
        due=due,
        agent=AGENT,
        chat=chat,
        skill=(SKILL_ID, "1.0.0"),
    )


def _count(app: Prowess, statement: str, **values: Any) -> int:
    with app._parts.database.read() as connection:
        return int(connection.execute(text(statement), values).scalar_one() or 0)


def left(url: str, _name: str) -> int:
    """By a plain connection: to open the runtime five times a second would take from those who work."""
    statement = "SELECT count(*) FROM skill_background_jobs WHERE status <> 'completed'"
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return int(connection.exec_driver_sql(statement).scalar_one())
    finally:
        engine.dispose()


def totals(url: str) -> dict[str, int]:
    """What must be equal in the end."""
    with open_app(url) as app:
        return {
            "completed": _count(app, "SELECT count(*) FROM skill_background_jobs WHERE status = 'completed'"),
            "messages": _count(app, "SELECT count(*) FROM messages"),
            "counters": _count(app, "SELECT sum(message_count) FROM conversations"),
        }


class Server:
    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter

    def begin(self, name: str) -> None:
        """Nothing: it serves all the time."""

    def report(self) -> dict[str, Any]:
        return self._meter.report()

    def serve(self, stop: threading.Event, ready: threading.Event) -> None:
        with open_app(self._url) as app:
            work = _Metered(app._parts.worker, self._meter)
            asyncio.run(self._serve(engine_of(app, self._url), work, stop, ready))

    async def _serve(self, engine: Any, work: Any, stop: threading.Event, ready: threading.Event) -> None:
        stopping = asyncio.Event()
        serving = asyncio.create_task(engine.serve(work, stopping))
        ready.set()
        await asyncio.to_thread(stop.wait)
        stopping.set()
        await serving


class _Metered:
    def __init__(self, worker: Worker, meter: Meter) -> None:
        self._worker = worker
        self._meter = meter
        self.sweep = worker.sweep
        self.due = worker.due

    def run(self, ids: Sequence[str]) -> None:
        self._meter.started(len(ids))
        self._worker.run(ids)
        self._meter.ended()
