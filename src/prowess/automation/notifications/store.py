"""Tables and queries of inboxes, and of the denials that bursts are counted by."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Row,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)

from prowess.automation.notifications.model import OPERATORS, Notice, Notification, Severity, Subject
from prowess.automation.notifications.rules import Denials
from prowess.chat.model import ChatRef
from prowess.db.metadata import instant, metadata
from prowess.db.statements import upsert
from prowess.kernel.clock import from_ms, to_ms

notifications = Table(
    "notifications",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("event_seq", BigInteger, nullable=False),
    Column("about_user_id", Text),
    Column("agent_id", Text),
    Column("skill_id", Text),
    Column("chat_kind", Text),
    Column("chat_id", Text),
    Column("approval_id", Text),
    Column("job_id", Text),
    Column("trigger_id", Text),
    Column("hook_id", Text),
    Column("code", Text),
    instant("created_at"),
    instant("read_at", nullable=True),
    UniqueConstraint("tenant", "user_id", "event_seq", "kind"),
    Index("ix_notifications_inbox", "tenant", "user_id", "created_at"),
    Index("ix_notifications_read", "read_at"),
)

denial_bursts = Table(
    "denial_bursts",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("recent", Text, nullable=False),
    Column("told_at", BigInteger),
)

_NEWEST = (notifications.c.created_at.desc(), notifications.c.event_seq.desc(), notifications.c.id)


def insert_notification(connection: Connection, notification: Notification) -> bool:
    """Store one; false where this reader was told of this event in this way already."""
    notice = notification.notice
    subject = notice.subject
    row = {
        "id": notification.id,
        "tenant": notice.tenant,
        "user_id": notice.reader,
        "kind": notice.kind,
        "severity": str(notice.severity),
        "event_seq": notice.seq,
        "about_user_id": subject.user,
        "agent_id": subject.agent,
        "skill_id": subject.skill,
        "chat_kind": None if subject.chat is None else subject.chat.kind,
        "chat_id": None if subject.chat is None else subject.chat.id,
        "approval_id": subject.approval,
        "job_id": subject.job,
        "trigger_id": subject.trigger,
        "hook_id": subject.hook,
        "code": subject.code,
        "created_at": to_ms(notice.at),
        "read_at": None,
    }
    statement = upsert(connection, notifications).values(row).on_conflict_do_nothing()
    return connection.execute(statement.returning(notifications.c.id)).first() is not None


def find_notification(connection: Connection, tenant: str, notification_id: str) -> Notification | None:
    """One of the tenant's."""
    query = select(notifications).where(notifications.c.tenant == tenant, notifications.c.id == notification_id)
    row = connection.execute(query).first()
    return None if row is None else _to_notification(row)


def list_notifications(
    connection: Connection, tenant: str, reader: str, *, unread_only: bool, limit: int
) -> list[Notification]:
    """An inbox: unread ones first, then newest first."""
    query = select(notifications).where(notifications.c.tenant == tenant, notifications.c.user_id == reader)
    if unread_only:
        query = query.where(notifications.c.read_at.is_(None))
    ordered = query.order_by(notifications.c.read_at.is_not(None), *_NEWEST).limit(limit)
    return [_to_notification(row) for row in connection.execute(ordered)]


def list_alerts(connection: Connection, tenant: str, *, since_ms: int | None, limit: int) -> list[Notification]:
    """The tenant's alerts, newest first, each once: every alert is in the operators' inbox."""
    query = select(notifications).where(
        notifications.c.tenant == tenant,
        notifications.c.user_id == OPERATORS,
        notifications.c.severity == str(Severity.ALERT),
    )
    if since_ms is not None:
        query = query.where(notifications.c.created_at >= since_ms)
    return [_to_notification(row) for row in connection.execute(query.order_by(*_NEWEST).limit(limit))]


def count_unread(connection: Connection, tenant: str, reader: str) -> int:
    """How many of an inbox are unread."""
    query = select(func.count()).where(
        notifications.c.tenant == tenant, notifications.c.user_id == reader, notifications.c.read_at.is_(None)
    )
    return int(connection.execute(query).scalar_one())


def mark_read(connection: Connection, tenant: str, reader: str, notification_id: str | None, at_ms: int) -> int:
    """Mark one of an inbox read, or with null all of it; returns how many were not read before."""
    statement = update(notifications).where(
        notifications.c.tenant == tenant, notifications.c.user_id == reader, notifications.c.read_at.is_(None)
    )
    if notification_id is not None:
        statement = statement.where(notifications.c.id == notification_id)
    return connection.execute(statement.values(read_at=at_ms)).rowcount


def in_inbox(connection: Connection, tenant: str, reader: str, notification_id: str) -> bool:
    """Whether an inbox holds this notification."""
    found = find_notification(connection, tenant, notification_id)
    return found is not None and found.notice.reader == reader


def delete_read(connection: Connection, before_ms: int) -> int:
    """Delete what was read before an instant, of all tenants; returns how many."""
    return connection.execute(delete(notifications).where(notifications.c.read_at < before_ms)).rowcount


def denials_of(connection: Connection, tenant: str, user: str) -> Denials:
    """The latest denials of a user."""
    query = select(denial_bursts).where(denial_bursts.c.tenant == tenant, denial_bursts.c.user_id == user)
    row = connection.execute(query).first()
    return Denials() if row is None else Denials(tuple(json.loads(row.recent)), row.told_at)


def put_denials(connection: Connection, tenant: str, user: str, denials: Denials) -> None:
    """Keep the latest denials of a user."""
    values: dict[str, Any] = {"recent": json.dumps(denials.recent), "told_at": denials.told_at}
    statement = upsert(connection, denial_bursts).values(tenant=tenant, user_id=user, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "user_id"], set_=values))


def _to_notification(row: Row[Any]) -> Notification:
    notice = Notice(
        tenant=row.tenant,
        reader=row.user_id,
        kind=row.kind,
        severity=Severity(row.severity),
        seq=row.event_seq,
        at=from_ms(row.created_at),
        subject=Subject(
            user=row.about_user_id,
            agent=row.agent_id,
            skill=row.skill_id,
            chat=None if row.chat_id is None else ChatRef(row.chat_kind, row.chat_id),
            approval=row.approval_id,
            job=row.job_id,
            trigger=row.trigger_id,
            hook=row.hook_id,
            code=row.code,
        ),
    )
    read_at = None if row.read_at is None else from_ms(row.read_at)
    return Notification(id=row.id, notice=notice, read_at=read_at)
