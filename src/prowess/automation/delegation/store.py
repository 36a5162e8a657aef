"""Table and queries of tasks that were handed over (B17)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Index, Integer, Row, Table, Text, insert, select, update

from prowess.access.approvals.model import TurnKey
from prowess.automation.delegation.model import OPEN, Delegation, TaskStatus
from prowess.chat.model import ChatRef
from prowess.db.metadata import instant, metadata
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

_PARTS = ("chat_kind", "chat_id", "message_id", "agent_id")
_PLACES = ("parent", "child", "root")

delegations = Table(
    "delegations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    *(Column(f"{place}_{part}", Text, nullable=False) for place in _PLACES for part in _PARTS),
    Column("depth", Integer, nullable=False),
    Column("needs", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("error_code", Text),
    instant("created_at"),
    instant("finished_at", nullable=True),
    Index("ix_delegations_parent", "tenant", "parent_message_id"),
    Index("ix_delegations_child", "tenant", "child_message_id"),
    Index("ix_delegations_root", "tenant", "root_message_id"),
    Index("ix_delegations_user", "tenant", "user_id", "created_at"),
)


def insert_delegation(connection: Connection, made: Delegation) -> None:
    """Store a new one; raises ``IntegrityError`` where its id is taken."""
    row: dict[str, Any] = {
        "id": made.id,
        "tenant": made.child.tenant,
        "user_id": made.user,
        "depth": made.depth,
        "needs": compact_json(made.needs),
        "status": str(made.status),
        "error_code": made.error_code,
        "created_at": to_ms(made.created_at),
    }
    for place in _PLACES:
        key: TurnKey = getattr(made, place)
        values = (*key.chat, key.message_id, key.agent)
        row |= {f"{place}_{part}": value for part, value in zip(_PARTS, values, strict=True)}
    connection.execute(insert(delegations).inline(), row)


def find_delegation(connection: Connection, tenant: str, delegation_id: str) -> Delegation | None:
    """One of them, or none."""
    query = select(delegations).where(delegations.c.tenant == tenant, delegations.c.id == delegation_id)
    row = connection.execute(query).first()
    return None if row is None else _to_delegation(row)


def delegation_to(connection: Connection, child: TurnKey) -> Delegation | None:
    """By which a turn was handed its task; none for an outermost one."""
    row = connection.execute(select(delegations).where(_is("child", child))).first()
    return None if row is None else _to_delegation(row)


def root_of(connection: Connection, turn: TurnKey) -> TurnKey:
    """The outermost turn of the task that a turn belongs to: itself where nobody handed it over."""
    known = delegation_to(connection, turn)
    return turn if known is None else known.root


def delegations_of(connection: Connection, parent: TurnKey) -> list[Delegation]:
    """What a turn handed over, in order."""
    return _all(connection, _is("parent", parent))


def delegations_under(connection: Connection, root: TurnKey) -> list[Delegation]:
    """All that was handed over below an outermost turn, in order."""
    return _all(connection, _is("root", root))


def list_delegations(connection: Connection, tenant: str, *, user: str | None, limit: int) -> list[Delegation]:
    """The tenant's, the latest first; with ``user``, theirs."""
    query = select(delegations).where(delegations.c.tenant == tenant)
    if user is not None:
        query = query.where(delegations.c.user_id == user)
    ordered = query.order_by(delegations.c.created_at.desc(), delegations.c.id.desc()).limit(limit)
    return [_to_delegation(row) for row in connection.execute(ordered)]


def change_delegation(
    connection: Connection,
    delegation_id: str,
    status: TaskStatus,
    error_code: str | None,
    at_ms: int,
    *,
    before: Sequence[TaskStatus],
) -> bool:
    """Compare-and-set on the status; false where it is none of ``before``."""
    of = (delegations.c.id == delegation_id, delegations.c.status.in_([str(item) for item in before]))
    finished = None if status in OPEN else at_ms
    values = {"status": str(status), "error_code": error_code, "finished_at": finished}
    return connection.execute(update(delegations).where(*of).values(**values)).rowcount == 1


def _all(connection: Connection, condition: ColumnElement[bool]) -> list[Delegation]:
    query = select(delegations).where(condition).order_by(delegations.c.created_at, delegations.c.id)
    return [_to_delegation(row) for row in connection.execute(query)]


def _is(place: str, key: TurnKey) -> ColumnElement[bool]:
    condition = delegations.c.tenant == key.tenant
    for part, value in zip(_PARTS, (*key.chat, key.message_id, key.agent), strict=True):
        condition &= delegations.c[f"{place}_{part}"] == value
    return condition


def _to_delegation(row: Row[Any]) -> Delegation:
    fields = row._mapping

    def key(place: str) -> TurnKey:
        kind, chat, message, agent = (fields[f"{place}_{part}"] for part in _PARTS)
        return TurnKey(row.tenant, ChatRef(kind, chat), message, agent)

    return Delegation(
        id=row.id,
        user=row.user_id,
        parent=key("parent"),
        child=key("child"),
        root=key("root"),
        depth=row.depth,
        needs=tuple(json.loads(row.needs)),
        status=TaskStatus(row.status),
        error_code=row.error_code,
        created_at=from_ms(row.created_at),
        finished_at=None if row.finished_at is None else from_ms(row.finished_at),
    )
