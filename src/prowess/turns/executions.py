"""Tool executions: idempotency, status and duration of each call; never its input or output (X3, X4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, Table, Text, bindparam, insert, select, update

from prowess.access.approvals.model import TurnKey
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.canonical import digest


class ExecutionStatus(StrEnum):
    """How far a tool call came."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Execution:
    """What is stored of one call."""

    id: str
    status: ExecutionStatus
    error_code: str | None
    input_digest: str


executions = Table(
    "skill_tool_executions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("scope_type", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("tool_id", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("skill_version", Text, nullable=False),
    Column("run_id", Text),
    Column("idempotency_key", Text, nullable=False, unique=True),
    Column("input_digest", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error_code", Text),
    instant("started_at"),
    Column("duration_ms", BigInteger),
    Index("ix_skill_tool_executions_user", "tenant", "user_id", "started_at"),
    Index("ix_skill_tool_executions_turn", "tenant", "scope_id", "message_id"),
)

_BY_KEY = Statement(
    select(executions.c.id, executions.c.status, executions.c.error_code, executions.c.input_digest).where(
        executions.c.idempotency_key == bindparam("key")
    )
)
_INSERT = Statement(insert(executions).inline())
_FINISH = Statement(
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.status == "running")
    .values(status=bindparam("new_status"), error_code=bindparam("new_error"), duration_ms=bindparam("new_duration"))
)


def idempotency_key(
    tenant: str, user: str, agent: str, chat: tuple[str, str], tool: str, message_id: str, ordinal: int
) -> str:
    """The key of one call (X4, ruling 12.26), as the digest of its parts: parts cannot run into each other (G11)."""
    return digest([tenant, user, agent, list(chat), tool, message_id, ordinal])


def find_execution(connection: Connection, key: str) -> Execution | None:
    """The recorded call, or none."""
    row = _BY_KEY.first(connection, {"key": key})
    if row is None:
        return None
    return Execution(row.id, ExecutionStatus(row.status), row.error_code, row.input_digest)


def ordinals_of(
    connection: Connection, tenant: str, user: str, agent: str, chat: tuple[str, str], message_id: str
) -> list[tuple[str, int]]:
    """(tool, ordinal) of each recorded call of a turn."""
    query = select(executions.c.tool_id, executions.c.ordinal).where(
        executions.c.tenant == tenant,
        executions.c.user_id == user,
        executions.c.agent_id == agent,
        executions.c.scope_type == chat[0],
        executions.c.scope_id == chat[1],
        executions.c.message_id == message_id,
    )
    return [(row.tool_id, row.ordinal) for row in connection.execute(query)]


def running_of(connection: Connection, key: TurnKey) -> list[tuple[str, str]]:
    """(id, tool) of each call of a turn that runs at this moment, or whose process is gone."""
    query = select(executions.c.id, executions.c.tool_id).where(
        executions.c.tenant == key.tenant,
        executions.c.agent_id == key.agent,
        executions.c.scope_type == key.chat[0],
        executions.c.scope_id == key.chat[1],
        executions.c.message_id == key.message_id,
        executions.c.status == str(ExecutionStatus.RUNNING),
    )
    return [(row.id, row.tool_id) for row in connection.execute(query.order_by(executions.c.id))]


def insert_execution(connection: Connection, **row: Any) -> None:
    """Record a call that is about to run; raises ``IntegrityError`` where its key is taken."""
    _INSERT.run(connection, row | {"status": "running"})


def finish_execution(
    connection: Connection, execution_id: str, status: ExecutionStatus, error_code: str | None, duration_ms: int
) -> None:
    """Give a running call its outcome."""
    values = {
        "execution": execution_id,
        "new_status": str(status),
        "new_error": error_code,
        "new_duration": duration_ms,
    }
    _FINISH.run(connection, values)


def recorded_code(execution: Execution, input_digest: str | None) -> str | None:
    """Null where this very write is known to have succeeded (U7).

    A call that never finished has an unknown outcome; one that asked for something else has done nothing for this one.
    """
    if execution.input_digest != input_digest:
        return "input_differs"
    if execution.status is ExecutionStatus.RUNNING:
        return "outcome_unknown"
    return execution.error_code
