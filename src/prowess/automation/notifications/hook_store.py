"""Tables and queries of webhooks and of the jobs that deliver by them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Index, Row, Table, Text, delete, insert, select, update

from prowess.automation.notifications.model import Hook, HookStatus
from prowess.db.metadata import instant, metadata
from prowess.kernel.clock import from_ms, to_ms

notification_hooks = Table(
    "notification_hooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text),
    Column("url", Text, nullable=False),
    Column("kinds", Text),
    Column("secret", Text, nullable=False),
    Column("status", Text, nullable=False),
    instant("created_at"),
    Column("created_by", Text, nullable=False),
    Index("ix_notification_hooks_reader", "tenant", "user_id"),
)

# Which job carries which notification; a row goes when its job has ended.
notification_deliveries = Table(
    "notification_deliveries",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("notification_id", Text, nullable=False),
    Column("hook_id", Text, nullable=False),
)


class Delivery(NamedTuple):
    """A job that delivers a notification by a webhook."""

    job: str
    notification: str
    hook: str


def insert_hook(connection: Connection, hook: Hook) -> None:
    """Store a new one."""
    row = {
        "id": hook.id,
        "tenant": hook.tenant,
        "user_id": hook.user,
        "url": hook.url,
        "kinds": None if hook.kinds is None else json.dumps(sorted(hook.kinds)),
        "secret": hook.secret,
        "status": str(hook.status),
        "created_at": to_ms(hook.created_at),
        "created_by": hook.created_by,
    }
    connection.execute(insert(notification_hooks).inline(), row)


def find_hook(connection: Connection, hook_id: str) -> Hook | None:
    """Any tenant's webhook."""
    row = connection.execute(select(notification_hooks).where(notification_hooks.c.id == hook_id)).first()
    return None if row is None else _to_hook(row)


def list_hooks(connection: Connection, tenant: str, user: str | None) -> list[Hook]:
    """The webhooks of a user, or with null those of the tenant's alerts; oldest first."""
    query = select(notification_hooks).where(
        notification_hooks.c.tenant == tenant, notification_hooks.c.user_id.is_not_distinct_from(user)
    )
    ordered = query.order_by(notification_hooks.c.created_at, notification_hooks.c.id)
    return [_to_hook(row) for row in connection.execute(ordered)]


def hooks_in_use(connection: Connection, tenants: Collection[str]) -> list[Hook]:
    """The webhooks of some tenants that are not paused."""
    query = select(notification_hooks).where(
        notification_hooks.c.tenant.in_(sorted(tenants)), notification_hooks.c.status != str(HookStatus.PAUSED)
    )
    return [_to_hook(row) for row in connection.execute(query.order_by(notification_hooks.c.id))]


def turn_hook(connection: Connection, hook_id: str, before: Collection[HookStatus], after: HookStatus) -> bool:
    """Change a status; false where it was none of ``before``."""
    statement = update(notification_hooks).where(
        notification_hooks.c.id == hook_id, notification_hooks.c.status.in_([str(status) for status in before])
    )
    return connection.execute(statement.values(status=str(after))).rowcount == 1


def delete_hook(connection: Connection, tenant: str, user: str | None, hook_id: str) -> bool:
    """Delete one; false where it is not this owner's."""
    statement = delete(notification_hooks).where(
        notification_hooks.c.id == hook_id,
        notification_hooks.c.tenant == tenant,
        notification_hooks.c.user_id.is_not_distinct_from(user),
    )
    return connection.execute(statement).rowcount == 1


def insert_delivery(connection: Connection, delivery: Delivery) -> None:
    """Note which job carries what."""
    row = {"job_id": delivery.job, "notification_id": delivery.notification, "hook_id": delivery.hook}
    connection.execute(insert(notification_deliveries).inline(), row)


def deliveries_of(connection: Connection, jobs: Iterable[str]) -> Mapping[str, Delivery]:
    """Those of some jobs that deliver, by job."""
    wanted = sorted(set(jobs))
    if not wanted:
        return {}
    query = select(notification_deliveries).where(notification_deliveries.c.job_id.in_(wanted))
    found = (Delivery(row.job_id, row.notification_id, row.hook_id) for row in connection.execute(query))
    return {delivery.job: delivery for delivery in found}


def delete_delivery(connection: Connection, job: str) -> None:
    """Forget a job that has ended."""
    connection.execute(delete(notification_deliveries).where(notification_deliveries.c.job_id == job))


def _to_hook(row: Row[Any]) -> Hook:
    return Hook(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        url=row.url,
        kinds=None if row.kinds is None else frozenset(json.loads(row.kinds)),
        secret=row.secret,
        status=HookStatus(row.status),
        created_at=from_ms(row.created_at),
        created_by=row.created_by,
    )
