"""Table and queries of the ledger (B4, B5, B12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    Row,
    Table,
    Text,
    bindparam,
    func,
    insert,
    literal_column,
    null,
    select,
    text,
    update,
)

from prowess.automation.jobs.model import PENDING, TRANSITIONS, Job, JobStatus, Lease, Task
from prowess.chat.model import ChatRef
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, among
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

PENDING_ROWS = "status IN ('scheduled', 'retrying')"
"""in these very words, so that the partial indexes serve"""

jobs = Table(
    "skill_background_jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text),
    Column("chat_kind", Text),
    Column("chat_id", Text),
    Column("task", Text, nullable=False),
    Column("skill_id", Text),
    Column("skill_version", Text),
    Column("grant_id", Text),
    Column("payload", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("lane", Text, nullable=False),
    instant("planned_at"),
    instant("next_attempt_at"),
    Column("attempts", Integer, nullable=False),
    Column("max_attempts", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("lease_owner", Text),
    Column("lease_epoch", BigInteger, nullable=False),
    instant("lease_expires_at", nullable=True),
    Column("error_code", Text),
    Column("result", Text),
    Column("trigger_id", Text),
    Column("slot", Text),
    instant("created_at"),
    instant("started_at", nullable=True),
    instant("finished_at", nullable=True),
    Index("ix_skill_background_jobs_user", "tenant", "user_id", "created_at"),
)
# A lane is a tenant, or one of its triggers: a batch takes from every lane, so that none waits for another's backlog.
_DUE: dict[str, Any] = {"sqlite_where": text(PENDING_ROWS), "postgresql_where": text(PENDING_ROWS)}
Index("ix_skill_background_jobs_due", jobs.c.lane, jobs.c.next_attempt_at, jobs.c.id, **_DUE)
Index("ix_skill_background_jobs_next", jobs.c.next_attempt_at, **_DUE)
Index(
    "ix_skill_background_jobs_leases",
    jobs.c.lease_expires_at,
    sqlite_where=text("status = 'running'"),
    postgresql_where=text("status = 'running'"),
)
Index(
    "uq_skill_background_jobs_slot",
    jobs.c.trigger_id,
    jobs.c.slot,
    unique=True,
    sqlite_where=text("slot IS NOT NULL"),
    postgresql_where=text("slot IS NOT NULL"),
)

_INSERT = Statement(insert(jobs).inline())
_BY_ID = Statement(select(jobs).where(jobs.c.id == bindparam("job")))
_SLOT = Statement(
    select(jobs.c.id).where(jobs.c.trigger_id == bindparam("trigger"), jobs.c.slot == bindparam("wanted_slot"))
)
_TASKS = {str(task): task for task in Task}
_STATUSES = {str(status): status for status in JobStatus}
_IS_PENDING: ColumnElement[bool] = literal_column(PENDING_ROWS)
_IS_RUNNING: ColumnElement[bool] = literal_column("status = 'running'")

_NEXT = select(
    select(func.min(jobs.c.next_attempt_at)).where(_IS_PENDING).scalar_subquery().label("pending"),
    select(func.min(jobs.c.lease_expires_at)).where(_IS_RUNNING).scalar_subquery().label("leases"),
)
_EXPIRED = (
    select(jobs)
    .where(_IS_RUNNING, jobs.c.lease_expires_at <= bindparam("now"))
    .order_by(jobs.c.lease_expires_at)
    .limit(bindparam("count"))
)
# Sorted, so that two workers take the locks in the same order.
_LOCK = Statement(
    select(jobs.c.id, jobs.c.revision, jobs.c.status)
    .where(among(jobs.c.id, "ids"))
    .order_by(jobs.c.id)
    .with_for_update()
)
_SOME = Statement(select(jobs).where(among(jobs.c.id, "ids")).order_by(jobs.c.id))
_CLAIM = Statement(
    update(jobs)
    .where(among(jobs.c.id, "ids"))
    .values(
        status="running",
        revision=jobs.c.revision + 1,
        attempts=jobs.c.attempts + 1,
        lease_epoch=jobs.c.lease_epoch + 1,
        lease_owner=bindparam("owner"),
        lease_expires_at=bindparam("until"),
        started_at=bindparam("at"),
    )
)
_COMPLETE = Statement(
    update(jobs)
    .where(among(jobs.c.id, "ids"))
    .values(
        status="completed",
        revision=jobs.c.revision + 1,
        attempts=jobs.c.attempts + 1,
        lease_epoch=jobs.c.lease_epoch + 1,
        result=jobs.c.id,
        error_code=null(),
        started_at=bindparam("at"),
        finished_at=bindparam("at"),
    )
)
_CHANGE = Statement(
    update(jobs)
    .where(
        jobs.c.id == bindparam("job"),
        jobs.c.revision == bindparam("expected_revision"),
        jobs.c.status == bindparam("expected_status"),
        func.coalesce(jobs.c.lease_expires_at, 0) <= bindparam("before"),
    )
    .values(
        status=bindparam("new_status"),
        revision=jobs.c.revision + 1,
        next_attempt_at=bindparam("new_attempt"),
        attempts=bindparam("new_attempts"),
        error_code=bindparam("new_error"),
        result=bindparam("new_result"),
        lease_owner=bindparam("no_owner"),
        lease_expires_at=bindparam("no_lease"),
        finished_at=bindparam("new_finish"),
    )
)
_FOREVER = 2**62
_CORRUPTED = Statement(
    update(jobs)
    .where(jobs.c.id == bindparam("job"), literal_column("status IN ('scheduled', 'retrying', 'running')"))
    .values(status="failed", error_code="job_corrupted", finished_at=bindparam("at"), revision=jobs.c.revision + 1)
)
_HELD = [jobs.c.id == bindparam("job"), jobs.c.lease_epoch == bindparam("epoch"), _IS_RUNNING]
_RENEW = Statement(update(jobs).where(*_HELD).values(lease_expires_at=bindparam("until")))
_HOLDS = Statement(select(jobs.c.id).where(*_HELD))
_HOLDS_LOCKED = Statement(select(jobs.c.id).where(*_HELD).with_for_update())


def insert_job(connection: Connection, job: Job) -> None:
    """Store a new job; raises ``IntegrityError`` where its id is taken."""
    _INSERT.run(connection, to_row(job))


def to_row(job: Job) -> dict[str, Any]:
    """A job as the table holds it."""
    skill_id, version = job.skill or (None, None)
    return {
        "id": job.id,
        "tenant": job.tenant,
        "user_id": job.user,
        "agent_id": job.agent,
        "chat_kind": None if job.chat is None else job.chat.kind,
        "chat_id": None if job.chat is None else job.chat.id,
        "task": str(job.task),
        "skill_id": skill_id,
        "skill_version": version,
        "grant_id": job.grant_id,
        "payload": compact_json(job.payload),
        "status": str(job.status),
        "lane": job.tenant if job.trigger is None else compact_json([job.tenant, job.trigger]),
        "planned_at": to_ms(job.planned_at),
        "next_attempt_at": to_ms(job.next_attempt_at),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "revision": job.revision,
        "lease_epoch": job.epoch,
        "trigger_id": job.trigger,
        "slot": job.slot,
        "created_at": to_ms(job.created_at),
    }


def slot_taken(connection: Connection, trigger: str, slot: str) -> bool:
    """Whether this fire of the trigger has its job already (B12)."""
    return _SLOT.first(connection, {"trigger": trigger, "wanted_slot": slot}) is not None


def find_job(connection: Connection, job_id: str) -> Job | None:
    """One job, or none."""
    row = _BY_ID.first(connection, {"job": job_id})
    return None if row is None else to_job(row)


def job_rows(connection: Connection, ids: Sequence[str]) -> list[Row[Any]]:
    """The rows of these jobs, by id, unparsed: one that is corrupted must not hide the others."""
    return _SOME.all(connection, {"ids": ids})


def list_jobs(
    connection: Connection,
    tenant: str,
    *,
    user: str | None = None,
    status: JobStatus | None = None,
    trigger: str | None = None,
    limit: int = 100,
) -> list[Row[Any]]:
    """The rows of the tenant's jobs, the latest first."""
    query = select(jobs).where(jobs.c.tenant == tenant)
    if user is not None:
        query = query.where(jobs.c.user_id == user)
    if status is not None:
        query = query.where(jobs.c.status == str(status))
    if trigger is not None:
        query = query.where(jobs.c.trigger_id == trigger)
    return list(connection.execute(query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc()).limit(limit)))


def open_jobs(connection: Connection, tenant: str, statuses: Sequence[JobStatus], agent: str) -> list[Row[Any]]:
    """The rows of an agent's jobs in these states, oldest first."""
    query = select(jobs).where(
        jobs.c.tenant == tenant, jobs.c.agent_id == agent, jobs.c.status.in_([str(status) for status in statuses])
    )
    return list(connection.execute(query.order_by(jobs.c.created_at, jobs.c.id)))


def count_pending(connection: Connection, tenant: str, user: str) -> int:
    """How many jobs of the user wait to be run."""
    query = select(func.count()).where(jobs.c.tenant == tenant, jobs.c.user_id == user, _IS_PENDING)
    return connection.execute(query).scalar_one()


def count_overdue(connection: Connection, before_ms: int) -> int:
    """How many pending jobs were due before that."""
    query = select(func.count()).where(_IS_PENDING, jobs.c.next_attempt_at < before_ms)
    return connection.execute(query).scalar_one()


def next_due(connection: Connection) -> int | None:
    """When a job or a lease is next due, in ms; null where nothing is pending or running."""
    row = connection.execute(_NEXT).one()
    return min((value for value in row if value is not None), default=None)


def expired_leases(connection: Connection, now_ms: int, limit: int) -> list[Row[Any]]:
    """Running jobs whose holder has been silent for too long."""
    return list(connection.execute(_EXPIRED, {"now": now_ms, "count": limit}))


def lock_pending(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """Revision by id of those that are still pending; no other worker changes them before this transaction ends."""
    # Not by the statement: SQLite would then look through all that is pending.
    rows = _LOCK.all(connection, {"ids": sorted(ids)})
    return {job_id: revision for job_id, revision, status in rows if status in PENDING}


def claim(connection: Connection, ids: Sequence[str], owner: str, at_ms: int, until_ms: int) -> None:
    """Give locked jobs to a worker; the claim counts as an attempt and raises the epoch."""
    if ids:
        _CLAIM.run(connection, {"ids": ids, "owner": owner, "at": at_ms, "until": until_ms})


def complete(connection: Connection, ids: Sequence[str], at_ms: int) -> None:
    """End locked pending jobs whose whole effect is in this transaction; the message that each left has its id."""
    if ids:
        _COMPLETE.run(connection, {"ids": ids, "at": at_ms})


def change_job(
    connection: Connection,
    job: Job,
    status: JobStatus,
    *,
    next_attempt: datetime | None = None,
    attempts: int | None = None,
    error_code: str | None = None,
    result: str | None = None,
    finished_ms: int | None = None,
    lease_before: int | None = None,
) -> bool:
    """Compare-and-set on id, revision and status; false where the job has moved on. Obeys the table of transitions.

    ``lease_before``: only where its lease has run out by then: one that was renewed meanwhile is not taken away.
    """
    if status not in TRANSITIONS[job.status]:
        raise ValueError(f"a job cannot go from {job.status} to {status}")
    values: Mapping[str, Any] = {
        "job": job.id,
        "expected_revision": job.revision,
        "expected_status": str(job.status),
        "new_status": str(status),
        "new_attempt": to_ms(next_attempt or job.next_attempt_at),
        "new_attempts": job.attempts if attempts is None else attempts,
        "new_error": error_code,
        "new_result": result,
        "no_owner": None,
        "no_lease": None,
        "new_finish": finished_ms,
        "before": _FOREVER if lease_before is None else lease_before,
    }
    return _CHANGE.run(connection, values) == 1


def fail_corrupted(connection: Connection, job_id: str, at_ms: int) -> bool:
    """End a job whose row cannot be read; false where it had ended."""
    return _CORRUPTED.run(connection, {"job": job_id, "at": at_ms}) == 1


def renew_lease(connection: Connection, job_id: str, epoch: int, until_ms: int) -> bool:
    """Keep a running job; false where another holder has it, or nobody any more."""
    return _RENEW.run(connection, {"job": job_id, "epoch": epoch, "until": until_ms}) == 1


def holds_lease(connection: Connection, job_id: str, epoch: int, *, lock: bool = False) -> bool:
    """Whether this holder's claim still stands; with ``lock`` it stands until the transaction ends."""
    return (_HOLDS_LOCKED if lock else _HOLDS).first(connection, {"job": job_id, "epoch": epoch}) is not None


def to_job(row: Sequence[Any]) -> Job:
    """A row as a record. Raises ``ValueError`` for one that is corrupted."""
    # Unpacked in the order of the table: a hundred rows at a time come by here.
    (
        job_id, tenant, user, agent, chat_kind, chat_id, task, skill_id, version, grant, payload, status, _lane,
        planned, attempt_at, attempts, max_attempts, revision, owner, epoch, until, error_code, result,
        trigger, slot, created, started, finished,
    ) = row  # fmt: skip
    content = from_json(payload)
    if not isinstance(content, dict):
        raise ValueError("the payload of a job is an object")
    chat = None if chat_kind is None else ChatRef(chat_kind, chat_id)
    skill = None if skill_id is None else (skill_id, version)
    lease = None if owner is None else Lease(owner, epoch, from_ms(until or 0))
    # In the order of the record: names would take as long again.
    return Job(
        job_id, tenant, user, agent, chat, _TASKS.get(task) or Task(task), skill, grant, content,
        _STATUSES.get(status) or JobStatus(status), from_ms(planned), from_ms(attempt_at), attempts, max_attempts,
        revision, epoch, lease, error_code, result, trigger, slot, from_ms(created),
        None if started is None else from_ms(started), None if finished is None else from_ms(finished),
    )  # fmt: skip
