"""Jobs: what the ledger holds of one piece of background work, and how it may change (B4 to B7). No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from prowess.chat.model import ChatRef
from prowess.kernel.clock import iso

LEASE = timedelta(minutes=2)
"""How long a worker may be silent before its job is taken over (ruling 12.12)."""
MAX_ATTEMPTS = 3
MAX_PAYLOAD = 400_000
"""characters of JSON"""

_FIRST_DELAY, _LONGEST_DELAY = timedelta(minutes=5), timedelta(minutes=60)
_JITTER = 0.1


class Task(StrEnum):
    """What a job does."""

    SKILL = "skill"
    """runs a background skill"""
    TURN = "turn"
    """starts an ordinary turn, as a trigger asked for (B1)"""
    CALL = "call"
    """runs a tool call that a person has approved (G13)"""
    CONTINUE = "continue"
    """goes on with a turn whose approvals are settled"""
    DELIVERY = "delivery"
    """hands a notification to an outgoing webhook"""


class JobStatus(StrEnum):
    """The states of B4, and ``waiting``: parked until a person has answered (U6)."""

    SCHEDULED = "scheduled"
    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


PENDING = (JobStatus.SCHEDULED, JobStatus.RETRYING)
"""states in which a job can be claimed, or cancelled (B7)"""

_FROM_PENDING = frozenset(
    {JobStatus.RUNNING, JobStatus.COMPLETED, JobStatus.RETRYING, JobStatus.FAILED, JobStatus.CANCELLED}
)
TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.SCHEDULED: _FROM_PENDING,
    JobStatus.RUNNING: frozenset({JobStatus.COMPLETED, JobStatus.RETRYING, JobStatus.WAITING, JobStatus.FAILED}),
    JobStatus.WAITING: frozenset({JobStatus.COMPLETED, JobStatus.FAILED}),
    JobStatus.RETRYING: _FROM_PENDING,
    JobStatus.COMPLETED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}
"""A job whose whole effect is in the database goes from pending to its end, or to its next attempt, in one
transaction, without ever running visibly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to add. Everything in it was verified by the server (B3)."""

    tenant: str
    user: str
    task: Task
    payload: Mapping[str, Any]
    due: datetime
    agent: str | None = None
    chat: ChatRef | None = None
    skill: tuple[str, str] | None = None
    """id and version, pinned"""
    grant_id: str | None = None
    """the consent that held when it was created; at execution any current one serves (ruling 12.29)"""
    max_attempts: int = MAX_ATTEMPTS
    trigger: str | None = None
    slot: str | None = None
    """with ``trigger``: which of its fires this is; one job for each (B12)"""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Who runs a job, until when; the epoch grows with every claim and fences older holders (B5)."""

    owner: str
    epoch: int
    expires_at: datetime


class Job(NamedTuple):
    """One piece of durable background work.

    A tuple, because hundreds are read at a time, and a frozen dataclass takes several times as long to make.
    """

    id: str
    tenant: str
    user: str
    agent: str | None
    chat: ChatRef | None
    task: Task
    skill: tuple[str, str] | None
    grant_id: str | None
    payload: Mapping[str, Any]
    status: JobStatus
    planned_at: datetime
    next_attempt_at: datetime
    attempts: int
    """claims so far: one that killed its worker counts (B6)"""
    max_attempts: int
    revision: int
    epoch: int
    lease: Lease | None
    error_code: str | None
    result: str | None
    """what came of it: the id of a message, the status of a turn; never text (R3)"""
    trigger: str | None
    slot: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess jobs``: no payload, which may quote a person."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "user": self.user,
            "agent": self.agent,
            "conversation": None if self.chat is None else self.chat.id,
            "task": str(self.task),
            "skill": None if self.skill is None else {"id": self.skill[0], "version": self.skill[1]},
            "status": str(self.status),
            "planned_at": iso(self.planned_at),
            "next_attempt_at": iso(self.next_attempt_at) if self.status in PENDING else None,
            "attempts": self.attempts,
            "max_attempts": self.max_attempts,
            "error_code": self.error_code,
            "result": self.result,
            "trigger": self.trigger,
            "created_at": iso(self.created_at),
            "started_at": iso(self.started_at),
            "finished_at": iso(self.finished_at),
        }


def retry_delay(attempts: int, chance: float) -> timedelta:
    """How long to wait after the ``attempts``-th claim failed (B6).

    min(5·2^(n-1), 60) minutes, and up to a tenth more: ``chance`` in [0, 1) is drawn by the caller.
    """
    doublings: int = 2 ** min(max(attempts, 1) - 1, 10)
    return min(_FIRST_DELAY * doublings, _LONGEST_DELAY) * (1 + _JITTER * chance)
