"""Tables and queries of quotas and their counts."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    Row,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from prowess.access.quotas.model import NAMES, Held, Quota, Resource, Usage, Window, window_end
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.kernel.clock import from_ms, to_ms

quotas = Table(
    "quotas",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("window", Text, nullable=False),
    Column("most", BigInteger, nullable=False),
    Column("user_id", Text),
    Column("agent_id", Text),
    Column("skill_id", Text),
    Column("trigger_id", Text),
    Column("job_id", Text),
    Column("set_by", Text, nullable=False),
    instant("set_at"),
    Index("ix_quotas_tenant", "tenant"),
)

quota_usage = Table(
    "quota_usage",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("quota_id", Text, primary_key=True),
    Column("counter", Text, primary_key=True),
    Column("started_at", BigInteger, primary_key=True, autoincrement=False),
    Column("used", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("told", Integer, nullable=False),
)

_KEY = (quota_usage.c.tenant, quota_usage.c.quota_id, quota_usage.c.counter, quota_usage.c.started_at)
_OF_TENANT = Statement(select(quotas).where(quotas.c.tenant == bindparam("tenant")).order_by(quotas.c.id))


def quotas_of(connection: Connection, tenant: str) -> list[Quota]:
    """The tenant's quotas by id: the order in which counts are locked."""
    return [_to_quota(row) for row in _OF_TENANT.all(connection, {"tenant": tenant})]


def insert_quota(connection: Connection, quota: Quota) -> None:
    """Store a new one."""
    assert quota.set_at is not None
    row = {
        "id": quota.id,
        "tenant": quota.tenant,
        "resource": str(quota.resource),
        "window": str(quota.window),
        "most": quota.limit,
        **{f"{name}_id": getattr(quota, name) for name in NAMES},
        "set_by": quota.set_by,
        "set_at": to_ms(quota.set_at),
    }
    connection.execute(insert(quotas).inline(), row)


def change_limit(connection: Connection, quota: Quota) -> None:
    """Store another limit; what was counted stays."""
    assert quota.set_at is not None
    changed = {"most": quota.limit, "set_by": quota.set_by, "set_at": to_ms(quota.set_at)}
    connection.execute(update(quotas).where(quotas.c.id == quota.id).values(changed))


def delete_quota(connection: Connection, tenant: str, quota_id: str) -> bool:
    """Take a quota away with its counts; false where there is none of this id."""
    connection.execute(delete(quota_usage).where(quota_usage.c.tenant == tenant, quota_usage.c.quota_id == quota_id))
    return connection.execute(delete(quotas).where(quotas.c.tenant == tenant, quotas.c.id == quota_id)).rowcount == 1


def taken(connection: Connection, quota: Quota, counter: str, start_ms: int) -> tuple[int, int]:
    """What is used and what is reserved on one count."""
    wanted = select(quota_usage.c.used, quota_usage.c.reserved)
    row = connection.execute(wanted.where(*_at(quota, counter, start_ms))).first()
    return (0, 0) if row is None else (row.used, row.reserved)


def take(connection: Connection, held: Held) -> bool:
    """Reserve, where it still fits: one statement, so that whoever comes at the same moment sees it."""
    if held.amount > held.quota.limit:
        return False
    key = dict(zip((column.name for column in _KEY), _values(held), strict=True))
    row = upsert(connection, quota_usage).values({**key, "used": 0, "reserved": held.amount, "told": 0})
    fits = quota_usage.c.used + quota_usage.c.reserved + held.amount <= held.quota.limit
    more = {"reserved": quota_usage.c.reserved + held.amount}
    taking = row.on_conflict_do_update(index_elements=list(_KEY), set_=more, where=fits)
    return connection.execute(taking.returning(quota_usage.c.told)).first() is not None


def settle(connection: Connection, held: Held, used: int) -> None:
    """Count what was really used in the place of what was reserved."""
    statement = update(quota_usage).where(*_at(held.quota, held.counter, held.start_ms))
    changed = {"reserved": quota_usage.c.reserved - held.amount, "used": quota_usage.c.used + used}
    connection.execute(statement.values(changed))


def mark_told(connection: Connection, quota: Quota, counter: str, start_ms: int, told: int) -> bool:
    """Note that a count's owner was told of this much; false where that was done before."""
    key = dict(zip((column.name for column in _KEY), (quota.tenant, quota.id, counter, start_ms), strict=True))
    row = upsert(connection, quota_usage).values({**key, "used": 0, "reserved": 0, "told": told})
    fresh = row.on_conflict_do_update(index_elements=list(_KEY), set_={"told": told}, where=quota_usage.c.told < told)
    return connection.execute(fresh.returning(quota_usage.c.told)).first() is not None


def usage_of(connection: Connection, tenant: str, known: dict[str, Quota], since_ms: dict[Window, int]) -> list[Usage]:
    """What is counted in the windows of this moment, by quota and count."""
    rows = connection.execute(
        select(quota_usage)
        .where(quota_usage.c.tenant == tenant, quota_usage.c.started_at.in_(set(since_ms.values())))
        .order_by(quota_usage.c.quota_id, quota_usage.c.counter)
    )
    return [
        _to_usage(row, known[row.quota_id])
        for row in rows
        if row.quota_id in known and row.started_at == since_ms[known[row.quota_id].window]
    ]


def sweep_usage(connection: Connection, before_ms: int) -> int:
    """Forget counts whose window ended long ago; returns how many."""
    old = (quota_usage.c.started_at > 0) & (quota_usage.c.started_at < before_ms)
    return connection.execute(delete(quota_usage).where(old)).rowcount


def _at(quota: Quota, counter: str, start_ms: int) -> list[Any]:
    values = (quota.tenant, quota.id, counter, start_ms)
    return [column == value for column, value in zip(_KEY, values, strict=True)]


def _values(held: Held) -> tuple[Any, ...]:
    return held.quota.tenant, held.quota.id, held.counter, held.start_ms


def _to_quota(row: Any) -> Quota:
    return Quota(
        id=row.id,
        tenant=row.tenant,
        resource=Resource(row.resource),
        window=Window(row.window),
        limit=row.most,
        user=row.user_id,
        agent=row.agent_id,
        skill=row.skill_id,
        trigger=row.trigger_id,
        job=row.job_id,
        set_by=row.set_by,
        set_at=from_ms(row.set_at),
    )


def _to_usage(row: Row[Any], quota: Quota) -> Usage:
    end = window_end(quota.window, row.started_at)
    return Usage(
        quota=quota,
        counter=tuple(json.loads(row.counter)),
        used=row.used,
        reserved=row.reserved,
        since=None if end is None else from_ms(row.started_at),
        until=None if end is None else from_ms(end),
    )
