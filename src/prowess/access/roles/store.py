"""Tables and queries of roles and their members."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Index, Row, Table, Text, bindparam, delete, select

from prowess.access.roles.model import Role
from prowess.access.surface import CapabilitySurface
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.kernel.canonical import compact_json

roles = Table(
    "roles",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("everything", Boolean, nullable=False),
    Column("capabilities", Text, nullable=False),
    instant("updated_at"),
)
role_members = Table(
    "role_members",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    instant("assigned_at"),
    Index("ix_role_members_role", "tenant", "role"),
)

_OF_USER = Statement(
    select(roles)
    .join(role_members, (role_members.c.tenant == roles.c.tenant) & (role_members.c.role == roles.c.name))
    .where(role_members.c.tenant == bindparam("of_tenant"), role_members.c.user_id == bindparam("of_user"))
    .order_by(roles.c.name)
)


def roles_of(connection: Connection, tenant: str, user: str) -> list[Role]:
    """The user's roles, by name."""
    return [_to_role(row) for row in _OF_USER.all(connection, {"of_tenant": tenant, "of_user": user})]


def list_roles(connection: Connection, tenant: str) -> list[Role]:
    """The tenant's roles, by name."""
    query = select(roles).where(roles.c.tenant == tenant).order_by(roles.c.name)
    return [_to_role(row) for row in connection.execute(query)]


def members_of(connection: Connection, tenant: str, role: str | None = None) -> list[tuple[str, str]]:
    """(role, user) of each membership, by role and user."""
    query = select(role_members.c.role, role_members.c.user_id).where(role_members.c.tenant == tenant)
    if role is not None:
        query = query.where(role_members.c.role == role)
    found = connection.execute(query.order_by(role_members.c.role, role_members.c.user_id))
    return [(row.role, row.user_id) for row in found]


def put_role(connection: Connection, tenant: str, role: Role, at_ms: int) -> None:
    """Store a role, new or changed."""
    changed = {
        "everything": role.everything,
        "capabilities": compact_json(role.surface.to_json()),
        "updated_at": at_ms,
    }
    stored = upsert(connection, roles).values(tenant=tenant, name=role.name, **changed)
    connection.execute(stored.on_conflict_do_update(index_elements=[roles.c.tenant, roles.c.name], set_=changed))


def delete_role(connection: Connection, tenant: str, name: str) -> bool:
    """Remove a role and its memberships; false where there is none."""
    connection.execute(delete(role_members).where(role_members.c.tenant == tenant, role_members.c.role == name))
    return connection.execute(delete(roles).where(roles.c.tenant == tenant, roles.c.name == name)).rowcount == 1


def put_member(connection: Connection, tenant: str, role: str, user: str, at_ms: int) -> bool:
    """Give the user the role; false where they have it."""
    row = {"tenant": tenant, "role": role, "user_id": user, "assigned_at": at_ms}
    stored = upsert(connection, role_members).values(**row).on_conflict_do_nothing()
    return connection.execute(stored, execution_options={"preserve_rowcount": True}).rowcount == 1


def delete_member(connection: Connection, tenant: str, role: str, user: str) -> bool:
    """Take the role back; false where they did not have it."""
    statement = delete(role_members).where(
        role_members.c.tenant == tenant, role_members.c.role == role, role_members.c.user_id == user
    )
    return bool(connection.execute(statement).rowcount)


def _to_role(row: Row[Any]) -> Role:
    return Role(row.name, CapabilitySurface(**json.loads(row.capabilities)), bool(row.everything))
