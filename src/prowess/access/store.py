"""Table and queries of permission grants (G2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from sys import intern
from typing import Any, cast

from sqlalchemy import Column, Connection, Index, Row, Table, Text, bindparam, insert, literal_column, select, update
from sqlalchemy.exc import DBAPIError

from prowess.access.model import Grant, GrantScope, GrantStatus
from prowess.db.engine import REDACTOR
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, among
from prowess.kernel.clock import from_ms, to_ms

grants = Table(
    "skill_permission_grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("skill_version", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("granted_by", Text, nullable=False),
    instant("granted_at"),
    instant("updated_at"),
    instant("expires_at", nullable=True),
    instant("revoked_at", nullable=True),
    Index("ix_skill_permission_grants_key", "tenant", "user_id", "skill_id", "status"),
)
# One active grant a key. No agent and no resource are stored as '', which no id can be, so that uniqueness sees them.
Index(
    "uq_skill_permission_grants_active",
    *(grants.c[name] for name in ("tenant", "user_id", "skill_id", "code", "scope", "agent_id", "resource")),
    unique=True,
    sqlite_where=grants.c.status == "active",
    postgresql_where=grants.c.status == "active",
)

_ACTIVE = GrantStatus.ACTIVE
_EPOCH, _MILLISECOND = from_ms(0), from_ms(1) - from_ms(0)
_SCOPES = {str(scope): scope for scope in GrantScope}
_TOLD = ("id", "skill_version", "code", "scope", "agent_id", "resource", "granted_by", "granted_at", "expires_at")
"""the columns that ``active_grants`` reads: it knows the others, having asked for them"""
# The status is a literal: with a parameter SQLite plans the query anew at each execution, because the partial index
# might serve for some values of it; that costs ten times what the query itself does.
_ACTIVE_FOR_SKILL = Statement(
    select(*(grants.c[name] for name in _TOLD)).where(
        grants.c.tenant == bindparam("tenant"),
        grants.c.user_id == bindparam("user"),
        grants.c.skill_id == bindparam("skill"),
        grants.c.status == literal_column("'active'"),
    )
)
_ACTIVE_OF_USERS = Statement(
    select(grants.c.user_id, *(grants.c[name] for name in _TOLD)).where(
        grants.c.tenant == bindparam("tenant"),
        among(grants.c.user_id, "users"),
        grants.c.skill_id == bindparam("skill"),
        grants.c.status == literal_column("'active'"),
    )
)
_SQL = (
    f"SELECT {', '.join(_TOLD)} FROM skill_permission_grants"
    " WHERE tenant = ? AND user_id = ? AND skill_id = ? AND status = 'active'"
)
"""the same for SQLite's driver, in order of the parameters"""
_INSERT = Statement(insert(grants).inline())
_REVOKE = Statement(
    update(grants)
    .where(grants.c.id == bindparam("grant"), grants.c.status == "active")
    .values(status="revoked", revoked_at=bindparam("at"), updated_at=bindparam("at"))
)


def active_grants(connection: Connection, tenant: str, user: str, skill: str) -> tuple[Grant, ...]:
    """Every active grant of the user to the skill, expired ones included: the gate judges time."""
    driver = connection.connection
    rows: Iterable[Any]
    if connection.dialect.name == "sqlite" and REDACTOR not in driver.info:
        try:  # straight from the driver: the gate asks before every tool call
            rows = cast(Any, driver.dbapi_connection).execute(_SQL, (tenant, user, skill)).fetchall()
        except sqlite3.Error as error:
            raise DBAPIError(_SQL, None, error) from error
    else:
        rows = _ACTIVE_FOR_SKILL.all(connection, {"tenant": tenant, "user": user, "skill": skill})
    return tuple(_active(tenant, user, skill, row) for row in rows)


def active_grants_of(
    connection: Connection, tenant: str, users: Iterable[str], skill: str
) -> dict[str, tuple[Grant, ...]]:
    """By user, every active grant to the skill: one query for a batch of jobs. Users without any are left out."""
    found: dict[str, tuple[Grant, ...]] = {}
    for user, *told in _ACTIVE_OF_USERS.all(
        connection, {"tenant": tenant, "users": sorted(set(users)), "skill": skill}
    ):
        found[user] = (*found.get(user, ()), _active(tenant, user, skill, told))
    return found


def _active(tenant: str, user: str, skill: str, row: Sequence[Any]) -> Grant:
    row_id, version, code, scope, agent, resource, by, at, expires = row
    return Grant(
        row_id,
        tenant,
        user,
        skill,
        intern(version),
        intern(code),
        _SCOPES[scope],
        agent or None,
        resource or None,
        _ACTIVE,
        _EPOCH + at * _MILLISECOND,
        user if by == user else by,
        None if expires is None else from_ms(expires),
    )


def list_grants(connection: Connection, tenant: str, user: str, *, with_revoked: bool = False) -> list[Grant]:
    """The user's grants, newest first."""
    query = select(grants).where(grants.c.tenant == tenant, grants.c.user_id == user)
    if not with_revoked:
        query = query.where(grants.c.status == "active")
    return [_to_grant(row) for row in connection.execute(query.order_by(grants.c.granted_at.desc(), grants.c.id))]


def insert_grant(connection: Connection, grant: Grant) -> None:
    """Store a new active grant."""
    at = to_ms(grant.granted_at)
    row = {
        "id": grant.id,
        "tenant": grant.tenant,
        "user_id": grant.user,
        "skill_id": grant.skill_id,
        "skill_version": grant.skill_version,
        "code": grant.code,
        "scope": str(grant.scope),
        "agent_id": grant.agent or "",
        "resource": grant.resource or "",
        "status": "active",
        "granted_by": grant.granted_by,
        "granted_at": at,
        "updated_at": at,
        "expires_at": None if grant.expires_at is None else to_ms(grant.expires_at),
    }
    _INSERT.run(connection, row)


def revoke_grant(connection: Connection, grant_id: str, at_ms: int) -> bool:
    """Mark a grant revoked; false where it no longer was active."""
    return _REVOKE.run(connection, {"grant": grant_id, "at": at_ms}) == 1


def _to_grant(row: Row[Any]) -> Grant:
    return Grant(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        skill_id=row.skill_id,
        skill_version=row.skill_version,
        code=row.code,
        scope=GrantScope(row.scope),
        agent=row.agent_id or None,
        resource=row.resource or None,
        status=GrantStatus(row.status),
        granted_at=from_ms(row.granted_at),
        granted_by=row.granted_by,
        expires_at=None if row.expires_at is None else from_ms(row.expires_at),
        revoked_at=None if row.revoked_at is None else from_ms(row.revoked_at),
    )
