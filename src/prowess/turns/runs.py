"""Runs: one row for each use of a skill in a turn (T8). No text of any kind (R3)."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Row,
    Table,
    Text,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from prowess.access.approvals.model import TurnKey
from prowess.chat.model import ChatRef
from prowess.db.engine import undone_alone
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.clock import from_ms, iso, to_ms
from prowess.turns.request import Selection

logger = logging.getLogger(__name__)


class RunStatus(StrEnum):
    """How a use of a skill went. ``running`` until the turn is finished."""

    RUNNING = "running"
    WAITING_USER = "waiting_user"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Run:
    """One use of one skill."""

    id: str
    tenant: str
    user: str
    agent: str
    chat: ChatRef
    message_id: str
    selection: Selection
    session_id: str | None
    status: RunStatus
    error_code: str | None
    started_at: datetime
    duration_ms: int | None

    def to_json(self) -> dict[str, Any]:
        """The shape of ``app.runs`` and later of the console."""
        return {
            "id": self.id,
            "user": self.user,
            "agent": self.agent,
            "scope": {"kind": self.chat.kind, "id": self.chat.id},
            "message_id": self.message_id,
            "skill_id": self.selection.skill_id,
            "version": self.selection.version,
            "skill_kind": self.selection.kind,
            "trigger": self.selection.trigger,
            "score": self.selection.score,
            "session_id": self.session_id,
            "status": str(self.status),
            "error_code": self.error_code,
            "started_at": iso(self.started_at),
            "duration_ms": self.duration_ms,
        }


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """How one user used one skill: counts of runs by how they ended; those still going on are in ``uses`` alone."""

    skill_id: str
    user: str
    uses: int
    completed: int
    failed: int
    denied: int
    last_used_at: datetime

    def to_json(self) -> dict[str, Any]:
        """The fields by name; the instant in ISO 8601."""
        return asdict(self) | {"last_used_at": iso(self.last_used_at)}


runs = Table(
    "skill_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("scope_type", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("skill_version", Text, nullable=False),
    Column("skill_kind", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("reason", Text, nullable=False),
    Column("session_id", Text),
    Column("status", Text, nullable=False),
    Column("error_code", Text),
    instant("started_at"),
    Column("duration_ms", BigInteger),
    Index("ix_skill_runs_user", "tenant", "user_id", "started_at"),
    sqlite_with_rowid=False,
)

_INSERT = Statement(insert(runs).inline())
_FINISH = Statement(
    update(runs)
    .where(
        runs.c.id == bindparam("run"),
        # A literal list: what failed may be repeated, what waits for a yes goes on.
        runs.c.status.in_([literal_column(f"'{status}'") for status in ("running", "failed", "waiting_user")]),
    )
    .values(status=bindparam("new_status"), error_code=bindparam("new_error"), duration_ms=bindparam("new_duration"))
)


def record_run(connection: Connection, run: Run) -> bool:
    """Store a run inside the turn's transaction; a failure is logged, undone alone, and never breaks the turn (T8)."""
    row = {
        "id": run.id,
        "tenant": run.tenant,
        "user_id": run.user,
        "agent_id": run.agent,
        "scope_type": run.chat.kind,
        "scope_id": run.chat.id,
        "message_id": run.message_id,
        "skill_id": run.selection.skill_id,
        "skill_version": run.selection.version,
        "skill_kind": run.selection.kind,
        "trigger": run.selection.trigger,
        "score": run.selection.score,
        "reason": run.selection.reason,
        "session_id": run.session_id,
        "status": str(run.status),
        "error_code": run.error_code,
        "started_at": to_ms(run.started_at),
        "duration_ms": run.duration_ms,
    }
    return _guarded(connection, _INSERT, row, run.id)


def finish_run(
    connection: Connection, run_id: str, status: RunStatus, error_code: str | None, duration_ms: int | None
) -> bool:
    """Give a run its outcome; one that failed may still succeed when its message is sent again.

    A failure to write is logged and never breaks the turn.
    """
    values = {"run": run_id, "new_status": str(status), "new_error": error_code, "new_duration": duration_ms}
    return _guarded(connection, _FINISH, values, run_id)


def list_runs(connection: Connection, tenant: str, user: str, *, skill: str | None = None, limit: int) -> list[Run]:
    """The user's runs, newest first."""
    query = select(runs).where(runs.c.tenant == tenant, runs.c.user_id == user)
    if skill is not None:
        query = query.where(runs.c.skill_id == skill)
    rows = connection.execute(query.order_by(runs.c.started_at.desc(), runs.c.id.desc()).limit(limit))
    return [_to_run(row) for row in rows]


def runs_of_turn(connection: Connection, turn: TurnKey) -> list[tuple[RunStatus, str | None]]:
    """(status, error code) of each use of a skill in a turn."""
    query = select(runs.c.status, runs.c.error_code).where(
        runs.c.tenant == turn.tenant,
        runs.c.agent_id == turn.agent,
        runs.c.scope_type == turn.chat[0],
        runs.c.scope_id == turn.chat[1],
        runs.c.message_id == turn.message_id,
    )
    return [(RunStatus(row.status), row.error_code) for row in connection.execute(query)]


def skill_usage(connection: Connection, tenant: str, since: datetime | None) -> list[SkillUsage]:
    """Uses by skill and user, most used first."""
    ended = {status: func.sum(case((runs.c.status == str(status), 1), else_=0)) for status in RunStatus}
    query = (
        select(
            runs.c.skill_id,
            runs.c.user_id,
            func.count().label("uses"),
            ended[RunStatus.COMPLETED].label("completed"),
            ended[RunStatus.FAILED].label("failed"),
            ended[RunStatus.DENIED].label("denied"),
            func.max(runs.c.started_at).label("last_used_at"),
        )
        .where(runs.c.tenant == tenant)
        .group_by(runs.c.skill_id, runs.c.user_id)
        .order_by(func.count().desc(), runs.c.skill_id, runs.c.user_id)
    )
    if since is not None:
        query = query.where(runs.c.started_at >= to_ms(since))
    return [
        SkillUsage(
            row.skill_id,
            row.user_id,
            row.uses,
            int(row.completed),
            int(row.failed),
            int(row.denied),
            from_ms(row.last_used_at),
        )
        for row in connection.execute(query)
    ]


def _guarded(connection: Connection, statement: Statement, values: dict[str, Any], run_id: str) -> bool:
    try:
        with undone_alone(connection):
            statement.run(connection, values)
    except DBAPIError as error:
        logger.error("run %s was not recorded: %s", run_id, type(error.orig).__name__)
        return False
    return True


def _to_run(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        agent=row.agent_id,
        chat=ChatRef(row.scope_type, row.scope_id),
        message_id=row.message_id,
        selection=Selection(row.skill_id, row.skill_version, row.skill_kind, row.trigger, row.score, row.reason),
        session_id=row.session_id,
        status=RunStatus(row.status),
        error_code=row.error_code,
        started_at=from_ms(row.started_at),
        duration_ms=row.duration_ms,
    )
