"""The ledger's use cases beside running: adding, cancelling and looking at jobs (B4, B7, B12).

A job is added in the transaction of whatever asked for it, and cancelled by compare-and-set: whenever cancelling
answers that it never started, nothing happened and nothing will.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from prowess.automation.jobs.model import MAX_PAYLOAD, PENDING, TRANSITIONS, Job, JobStatus, NewJob
from prowess.automation.jobs.store import change_job, find_job, insert_job, list_jobs, slot_taken, to_job
from prowess.errors import Conflict, InvalidInput, NotFound
from prowess.events.log import EventLog, Subject, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.canonical import compact_json
from prowess.kernel.ids import IdSource

logger = logging.getLogger(__name__)

Wake = Callable[[list[tuple[str, datetime]]], None]
"""(ids and due instants of jobs that were committed) → nothing; never raises"""


class JobLedger:
    """Jobs of one database."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids
        self.wake: Wake = _nobody
        """told of jobs whose transaction has committed; set by whoever runs an engine"""

    def add(self, transaction: Transaction, new: NewJob, *, actor: Actor = SYSTEM) -> Job | None:
        """A new job in this transaction; null where this fire of its trigger has one already (B12).

        The engine is told by ``announce``, after the commit. Raises ``InvalidInput('payload_too_large')``.
        """
        if len(compact_json(new.payload)) > MAX_PAYLOAD:
            raise InvalidInput("payload_too_large", field="payload", limit=MAX_PAYLOAD)
        connection = transaction.connection
        if new.trigger is not None and new.slot is not None and slot_taken(connection, new.trigger, new.slot):
            return None
        job = _scheduled(new, new.id or self._ids.new("job"), transaction.now)
        insert_job(connection, job)
        emit_job(transaction, "job.created", job, actor=actor, task=str(job.task), trigger=job.trigger)
        return job

    def announce(self, jobs: Iterable[Job | None]) -> None:
        """Tell the engine of jobs that are committed now. What it is not told, its sweep finds."""
        told = [(job.id, job.next_attempt_at) for job in jobs if job is not None]
        if told:
            self.wake(told)

    def cancel(self, tenant: str, job_id: str, *, user: str | None = None, actor: Actor) -> Job:
        """Cancel a job that has not started, or has failed and waits to be tried again.

        Where ``attempts`` of the result is 0 nothing happened, and nothing will; else it is not tried again.
        ``user``: only a job of theirs. Raises ``NotFound('job_not_found')``, ``Conflict``: ``job_running`` for one that
        runs or waits for a person, which is stopped with its turn; ``job_finished`` for one that has ended (B7).
        """
        for _ in range(10):
            with self._log.transaction(tenant) as transaction:
                job = require_job(transaction.connection, tenant, job_id, user)
                if JobStatus.CANCELLED not in TRANSITIONS[job.status]:
                    code = "job_running" if TRANSITIONS[job.status] else "job_finished"
                    raise Conflict(code, job=job_id, status=str(job.status))
                done = change_job(transaction.connection, job, JobStatus.CANCELLED, finished_ms=transaction.now_ms)
                if done:
                    emit_job(transaction, "job.cancelled", job, actor=actor, decision="cancelled")
                    return require_job(transaction.connection, tenant, job_id, user)
        raise Conflict("job_running", job=job_id, status=str(JobStatus.RUNNING))

    def get(self, tenant: str, job_id: str, *, user: str | None = None) -> Job:
        """One job. Raises ``NotFound('job_not_found')``."""
        with self._log.database.read() as connection:
            return require_job(connection, tenant, job_id, user)

    def list(
        self,
        tenant: str,
        *,
        user: str | None = None,
        status: JobStatus | None = None,
        trigger: str | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """The latest first; a row that cannot be read is logged and left out."""
        with self._log.database.read() as connection:
            rows = list_jobs(connection, tenant, user=user, status=status, trigger=trigger, limit=limit)
        return [job for job in map(readable, rows) if job is not None]


def require_job(connection: Connection, tenant: str, job_id: str, user: str | None = None) -> Job:
    """A job of the tenant, and of the user where one is given. Raises ``NotFound('job_not_found')``."""
    job = find_job(connection, job_id)
    if job is None or job.tenant != tenant or (user is not None and job.user != user):
        raise NotFound("job_not_found", job=job_id[:80])
    return job


def readable(row: Row[Any]) -> Job | None:
    """The job in a row; null for one that is corrupted, which is logged."""
    try:
        return to_job(row)
    except (ValueError, TypeError) as error:
        logger.warning("job %s cannot be read: %s", row.id, type(error).__name__)
        return None


def emit_job(
    transaction: Transaction, kind: str, job: Job, *, actor: Actor = SYSTEM, decision: str | None = None, **data: Any
) -> None:
    """An event of a job: whose it is and where, said once."""
    said = {name: value for name, value in data.items() if value is not None}
    transaction.emit_each(kind, (_subject(job),), tenant=job.tenant, actor=actor, decision=decision, data=said)


def emit_completed(transaction: Transaction, jobs: Sequence[Job]) -> None:
    """``job.finished`` of pending jobs of one tenant that were claimed and done in this transaction."""
    by_attempts: dict[int, list[Job]] = {}
    for job in jobs:
        by_attempts.setdefault(job.attempts + 1, []).append(job)
    for attempts, group in by_attempts.items():
        transaction.emit_each(
            "job.finished",
            map(_subject, group),
            tenant=group[0].tenant,
            actor=SYSTEM,
            decision="succeeded",
            data={"attempts": attempts},
        )


def _subject(job: Job) -> Subject:
    return Subject(job.user, job.agent, job.chat, job.skill, job.id)


def _scheduled(new: NewJob, job_id: str, now: datetime) -> Job:
    return Job(
        id=job_id,
        tenant=new.tenant,
        user=new.user,
        agent=new.agent,
        chat=new.chat,
        task=new.task,
        skill=new.skill,
        grant_id=new.grant_id,
        payload=new.payload,
        status=PENDING[0],
        planned_at=new.due,
        next_attempt_at=new.due,
        attempts=0,
        max_attempts=new.max_attempts,
        revision=1,
        epoch=0,
        lease=None,
        error_code=None,
        result=None,
        trigger=new.trigger,
        slot=new.slot,
        created_at=now,
        started_at=None,
        finished_at=None,
    )


def _nobody(_jobs: list[tuple[str, datetime]]) -> None:
    return None
