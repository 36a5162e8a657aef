"""Stopping a turn with all that came of it, and saying when all are down (U10)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from prowess.access.approvals.model import TurnKey
from prowess.access.approvals.store import approvals_of
from prowess.automation.delegation.model import OPEN, Delegation, Stopped, TaskStatus
from prowess.automation.delegation.service import end_task
from prowess.automation.delegation.store import delegations_of
from prowess.automation.jobs.ledger import emit_job, readable
from prowess.automation.jobs.model import PENDING, Job, JobStatus, Task
from prowess.automation.jobs.outcome import STOPPED, Outcome
from prowess.automation.jobs.store import change_job, open_jobs
from prowess.automation.tasks.turns import tell_automation
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.turns.executions import running_of
from prowess.turns.halting import TurnHalter
from prowess.turns.stopping import Stops

LIMIT_SECONDS = 10.0
_LOOK_SECONDS = 0.05


@dataclass
class _Count:
    """What was stopped so far."""

    keys: list[TurnKey] = field(default_factory=list)
    turns: int = 0
    delegates: int = 0
    tools: int = 0
    approvals: int = 0
    jobs: int = 0


class StopService:
    """Stops turns. One transaction stops the turn, its delegates at every depth, and what was to go on later."""

    def __init__(self, log: EventLog, halter: TurnHalter, stops: Stops) -> None:
        self._log = log
        self._halter = halter
        self._stops = stops

    def stop(self, key: TurnKey, *, actor: Actor, user: str | None = None, limit: float = LIMIT_SECONDS) -> Stopped:
        """Stop a turn, and wait until nothing of it runs, ``limit`` seconds at most.

        ``user``: only a turn of theirs. After the commit nothing of it has an effect in any process; tools that run are
        told at once here, elsewhere within a quarter of a second. Saying it again stops nothing more and waits again.
        Raises ``NotFound('turn_not_found')``.
        """
        count = _Count()
        with self._log.transaction(key.tenant) as transaction:
            self._halt(transaction, key, actor, user, count)
            for made in _below(transaction.connection, key):
                if made.status in OPEN:
                    end_task(transaction, made, TaskStatus.STOPPED, STOPPED)
                    count.delegates += 1
                    self._halt(transaction, made.child, actor, None, count)
                else:
                    count.keys.append(made.child)
        for stop in self._stops.known(count.keys):
            stop.stop()
        return Stopped(
            message_id=key.message_id,
            turns=count.turns,
            delegates=count.delegates,
            tools=count.tools,
            approvals=count.approvals,
            jobs=count.jobs,
            still_running=self._wait(count.keys, limit),
        )

    def _halt(self, transaction: Transaction, key: TurnKey, actor: Actor, user: str | None, count: _Count) -> None:
        approvals = tuple(item.id for item in approvals_of(transaction.connection, key))
        halted = self._halter.halt(transaction, key, actor, user)
        count.keys.append(key)
        count.turns += halted.new
        count.tools += len(halted.tools)
        count.approvals += len(halted.approvals)
        if halted.user is not None:
            count.jobs += _stop_jobs(transaction, key, halted.user, approvals, actor)

    def _wait(self, keys: Sequence[TurnKey], limit: float) -> tuple[str, ...]:
        """What of these turns still runs when nothing does any more, or the time is over."""
        until = time.monotonic() + limit
        while True:
            running = self._running(keys)
            left = until - time.monotonic()
            if not running or left <= 0:
                return running
            here = next((stop for stop in self._stops.known(keys) if stop.running()), None)
            if here is None:
                threading.Event().wait(min(_LOOK_SECONDS, left))  # it runs elsewhere: only the database tells
            else:
                here.wait(left)

    def _running(self, keys: Sequence[TurnKey]) -> tuple[str, ...]:
        here = {name for stop in self._stops.known(keys) for name in stop.running()}
        with self._log.database.read() as connection:
            for key in keys:
                here |= {f"{tool} ({call})" for call, tool in running_of(connection, key)}
                jobs = map(readable, open_jobs(connection, key.tenant, (JobStatus.RUNNING,), key.agent))
                here |= {f"job {job.id}" for job in jobs if job is not None and _is_of(job, key, ())}
        return tuple(sorted(here))


def _below(connection: Connection, key: TurnKey) -> Iterator[Delegation]:
    """All that was handed over below a turn. What is halted hands nothing more over, so each is read after that."""
    for made in delegations_of(connection, key):
        yield made
        yield from _below(connection, made.child)


def _stop_jobs(transaction: Transaction, key: TurnKey, user: str, approvals: Sequence[str], actor: Actor) -> int:
    """Cancel the turn's jobs that have not begun, and end the one that waits for it."""
    ended = 0
    for row in open_jobs(transaction.connection, key.tenant, (*PENDING, JobStatus.WAITING), key.agent):
        job = readable(row)
        if job is None or job.user != user or not _is_of(job, key, approvals):
            continue
        pending = job.status in PENDING
        status = JobStatus.CANCELLED if pending else JobStatus.FAILED
        if not change_job(transaction.connection, job, status, error_code=STOPPED, finished_ms=transaction.now_ms):
            continue
        ended += 1
        kind, decision = ("job.cancelled", "cancelled") if pending else ("job.finished", "failed")
        emit_job(transaction, kind, job, actor=actor, decision=decision, error_code=STOPPED, trigger=job.trigger)
        if not pending:
            tell_automation(transaction, job, Outcome("failed", STOPPED, job.id), status)
    return ended


def _is_of(job: Job, key: TurnKey, approvals: Sequence[str]) -> bool:
    """Whether a job begins the turn, runs an approved call of it, or goes on with it."""
    if job.chat is None or (job.chat, job.agent) != (key.chat, key.agent):
        return False
    match job.task:
        case Task.TURN:
            return job.id == key.message_id
        case Task.CALL:
            return str(job.payload.get("approval")) in approvals
        case Task.CONTINUE:
            return job.payload.get("message_id") == key.message_id
        case _:
            return False
