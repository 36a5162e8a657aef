"""Table and queries of standing approvals."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, Text, bindparam, insert, select, update

from prowess.access.model import EffectiveAction, StandingApproval
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.clock import from_ms, to_ms

standing_approvals = Table(
    "standing_approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("resource", Text, nullable=False),
    instant("created_at"),
    instant("revoked_at", nullable=True),
    Index("ix_standing_approvals_user", "tenant", "user_id", "skill_id"),
)

_CURRENT = Statement(
    select(standing_approvals)
    .where(
        standing_approvals.c.tenant == bindparam("of_tenant"),
        standing_approvals.c.user_id == bindparam("of_user"),
        standing_approvals.c.skill_id == bindparam("of_skill"),
        standing_approvals.c.revoked_at.is_(None),
    )
    .order_by(standing_approvals.c.id)
)


def current_standing(connection: Connection, tenant: str, user: str, skill: str) -> tuple[StandingApproval, ...]:
    """The user's unrevoked standing approvals for a skill's actions."""
    rows = _CURRENT.all(connection, {"of_tenant": tenant, "of_user": user, "of_skill": skill})
    return tuple(_to_standing(row) for row in rows)


def list_standing(connection: Connection, tenant: str, user: str, *, with_revoked: bool) -> list[StandingApproval]:
    """The user's standing approvals, newest first."""
    query = select(standing_approvals).where(
        standing_approvals.c.tenant == tenant, standing_approvals.c.user_id == user
    )
    if not with_revoked:
        query = query.where(standing_approvals.c.revoked_at.is_(None))
    ordered = query.order_by(standing_approvals.c.created_at.desc(), standing_approvals.c.id)
    return [_to_standing(row) for row in connection.execute(ordered)]


def insert_standing(connection: Connection, approval: StandingApproval) -> None:
    """Store a new one."""
    row = {
        "id": approval.id,
        "tenant": approval.tenant,
        "user_id": approval.user,
        "agent_id": approval.agent,
        "skill_id": approval.skill_id,
        "tool": approval.action.tool,
        "verb": approval.action.verb,
        "resource": approval.action.resource,
        "created_at": to_ms(approval.created_at),
    }
    connection.execute(insert(standing_approvals).inline(), row)


def revoke_standing(connection: Connection, tenant: str, user: str, approval_id: str, at_ms: int) -> bool:
    """Take one back; false where it is not the user's, or is taken back already."""
    statement = update(standing_approvals).where(
        standing_approvals.c.id == approval_id,
        standing_approvals.c.tenant == tenant,
        standing_approvals.c.user_id == user,
        standing_approvals.c.revoked_at.is_(None),
    )
    return connection.execute(statement.values(revoked_at=at_ms)).rowcount == 1


def _to_standing(row: Row[Any]) -> StandingApproval:
    return StandingApproval(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        agent=row.agent_id,
        skill_id=row.skill_id,
        action=EffectiveAction(row.tool, row.verb, row.resource),
        created_at=from_ms(row.created_at),
        revoked_at=None if row.revoked_at is None else from_ms(row.revoked_at),
    )
