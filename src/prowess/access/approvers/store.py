"""Tables and queries of approvers and of opened codes."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Table, Text, bindparam, delete, insert, select

from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement

approvers = Table(
    "approvers",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("code", Text, primary_key=True),
    instant("added_at"),
)

opened_risks = Table(
    "opened_risks",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("code", Text, primary_key=True),
    instant("opened_at"),
)

_CODES = Statement(
    select(approvers.c.code).where(
        approvers.c.tenant == bindparam("of_tenant"), approvers.c.user_id == bindparam("of_user")
    )
)
_OPENED = Statement(
    select(opened_risks.c.code).where(opened_risks.c.tenant == bindparam("of_tenant")).order_by(opened_risks.c.code)
)


def codes_of(connection: Connection, tenant: str, user: str) -> frozenset[str]:
    """The codes that a user is an approver for; ``*`` among them: all."""
    return frozenset(row.code for row in _CODES.all(connection, {"of_tenant": tenant, "of_user": user}))


def list_approvers(connection: Connection, tenant: str) -> list[tuple[str, str]]:
    """(user, code) of each approver."""
    query = select(approvers.c.user_id, approvers.c.code).where(approvers.c.tenant == tenant)
    return [
        (row.user_id, row.code) for row in connection.execute(query.order_by(approvers.c.user_id, approvers.c.code))
    ]


def insert_approver(connection: Connection, tenant: str, user: str, code: str, at_ms: int) -> None:
    """Store one; raises ``IntegrityError`` where it is there."""
    connection.execute(insert(approvers).values(tenant=tenant, user_id=user, code=code, added_at=at_ms))


def delete_approver(connection: Connection, tenant: str, user: str, code: str) -> bool:
    """Remove one; false where there is none."""
    of = (approvers.c.tenant == tenant, approvers.c.user_id == user, approvers.c.code == code)
    return connection.execute(delete(approvers).where(*of)).rowcount == 1


def opened_codes(connection: Connection, tenant: str) -> tuple[str, ...]:
    """The irreversible codes that the tenant opened."""
    return tuple(row.code for row in _OPENED.all(connection, {"of_tenant": tenant}))


def insert_opened(connection: Connection, tenant: str, code: str, at_ms: int) -> None:
    """Open a code; raises ``IntegrityError`` where it is open."""
    connection.execute(insert(opened_risks).values(tenant=tenant, code=code, opened_at=at_ms))


def delete_opened(connection: Connection, tenant: str, code: str) -> bool:
    """Close a code; false where it was not open."""
    of = (opened_risks.c.tenant == tenant, opened_risks.c.code == code)
    return connection.execute(delete(opened_risks).where(*of)).rowcount == 1
