"""The append-only log, committed with the state it describes (R1).

``EventLog.transaction()`` is the only way to write: state changes go through its connection, events through ``emit``,
and both commit together or not at all. Events are buffered and inserted last, so that on PostgreSQL the lock that makes
sequence numbers follow commit order is held for one insert and the commit. A follower can then trust ``seq > cursor``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Row,
    Table,
    Text,
    bindparam,
    select,
)

from prowess.db.engine import Database
from prowess.db.metadata import BigIntKey, instant, metadata
from prowess.db.statements import Many
from prowess.errors import InvalidInput
from prowess.events.model import EVENT_TYPES, Actor, Event
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import Clock, from_ms, to_ms
from prowess.kernel.redaction import NO_REDACTION, Redactor

_APPEND_LOCK = 0x50524F57  # "PROW": one advisory lock for one log

events = Table(
    "events",
    metadata,
    Column("seq", BigIntKey, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("type", Text, nullable=False),
    instant("at"),
    Column("actor_kind", Text, nullable=False),
    Column("actor_id", Text, nullable=False),
    Column("user_id", Text),
    Column("agent_id", Text),
    Column("chat_kind", Text),
    Column("chat_id", Text),
    Column("message_id", Text),
    Column("skill_id", Text),
    Column("skill_version", Text),
    Column("session_id", Text),
    Column("run_id", Text),
    Column("target", Text),
    Column("decision", Text),
    Column("data", Text, nullable=False),
    Column("audit", Boolean, nullable=False),
    Index("ix_events_tenant", "tenant", "seq"),
)

# Audit rows are events too; the view ``skill_audit_events`` over this table keeps the name that auditors know.
_AUDIT_ROWS = events.c.audit.is_(True)
Index("ix_events_audit", events.c.tenant, events.c.seq, sqlite_where=_AUDIT_ROWS, postgresql_where=_AUDIT_ROWS)

followers = Table(
    "event_followers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cursor", BigInteger, nullable=False),
    instant("updated_at"),
)

_COLUMNS = tuple(column.name for column in events.columns if column.name != "seq")
_INSERT = Many.insert(events, _COLUMNS)
_AFTER = (
    select(events)
    .where(events.c.seq > bindparam("after"), events.c.tenant == bindparam("tenant"))
    .order_by(events.c.seq)
    .limit(bindparam("count"))
)


class Subject(NamedTuple):
    """What an event is about."""

    user: str | None = None
    agent: str | None = None
    chat: tuple[str, str] | None = None
    skill: tuple[str, str] | None = None
    target: str | None = None
    message_id: str | None = None
    session_id: str | None = None
    run_id: str | None = None


class Transaction:
    """A write in progress: a connection for state, ``emit`` for events, one instant for both."""

    def __init__(
        self, connection: Connection, tenant: str | None, now: datetime, redactor: Redactor = NO_REDACTION
    ) -> None:
        self.connection = connection
        self.tenant = tenant
        self.now = now
        self.now_ms = to_ms(now)
        self.redact = redactor.redact
        """(text) → the text as this transaction stores it: without the tenant's secrets"""
        self._redactor = redactor
        self._rows: list[tuple[Any, ...]] = []
        self.emitted: list[str] = []

    def emit(
        self,
        kind: str,
        *,
        tenant: str,
        actor: Actor,
        user: str | None = None,
        agent: str | None = None,
        chat: tuple[str, str] | None = None,
        message_id: str | None = None,
        skill: tuple[str, str] | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
        target: str | None = None,
        decision: str | None = None,
        **data: Any,
    ) -> None:
        """Append an event when this transaction commits. ``kind`` must be in ``EVENT_TYPES`` (``KeyError``).

        Raises ``InvalidInput('id_holds_secret')`` where an id holds a secret of the tenant: redacted, two ids would be
        one, and what belongs to one person would be another's.
        """
        about = Subject(user, agent, chat, skill, target, message_id, session_id, run_id)
        self.emit_each(kind, (about,), tenant=tenant, actor=actor, decision=decision, data=data)

    def emit_each(
        self,
        kind: str,
        subjects: Iterable[Subject],
        *,
        tenant: str,
        actor: Actor,
        decision: str | None = None,
        data: Mapping[str, Any],
    ) -> None:
        """An event for each of ``subjects`` that says the same of it. Raises as ``emit``."""
        audit, said = EVENT_TYPES[kind].audit, compact_json(data) if data else "{}"
        at, actor_kind, actor_id = self.now_ms, actor.kind, actor.id
        for user, agent, chat, skill, target, message_id, session_id, run_id in subjects:
            chat_kind, chat_id = chat or (None, None)
            skill_id, version = skill or (None, None)
            if self._redactor:
                ids = {"tenant": tenant, "actor": actor_id, "user": user, "agent": agent, "message_id": message_id}
                self._refuse_secret_ids({**ids, "chat": chat_id, "skill": skill_id})
            # In the order of ``_COLUMNS``.
            self._rows.append(
                (
                    tenant, kind, at, actor_kind, actor_id, user, agent, chat_kind, chat_id, message_id,
                    skill_id, version, session_id, run_id, target, decision, said, audit,
                )
            )  # fmt: skip
            self.emitted.append(kind)

    def _refuse_secret_ids(self, ids: Mapping[str, str | None]) -> None:
        for field, value in ids.items():
            if value is not None and self.redact(value) != value:
                raise InvalidInput("id_holds_secret", field=field)

    def flush(self, dialect: str) -> None:
        """Insert the buffered events; called once, just before the commit."""
        if not self._rows:
            return
        if dialect == "postgresql":
            self.connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_APPEND_LOCK})")
        _INSERT.run(self.connection, self._rows)


class EventLog:
    """The log of one database. ``redactors`` gives the redactor of a tenant; it may be set later."""

    def __init__(self, database: Database, clock: Clock, redactors: Callable[[str], Redactor] | None = None) -> None:
        self.database = database
        self.clock = clock
        self.redactors = redactors

    def redactor(self, tenant: str) -> Redactor:
        """What redacts the tenant's secrets. Not to be asked inside a write."""
        return NO_REDACTION if self.redactors is None else self.redactors(tenant)

    @contextmanager
    def transaction(self, tenant: str | None, *, redacted: bool = True) -> Iterator[Transaction]:
        """State and events of one tenant, together or not at all; null: upkeep over all of them, which adds no text.

        The tenant's secrets are redacted in all that is written, unless ``redacted`` is false: for writes that hold
        nothing but ids and names.
        """
        redactor = NO_REDACTION
        if redacted and tenant is not None:
            redactor = self.redactor(tenant)  # before the write: it may have to read
        with self.database.write(redactor) as connection:
            transaction = Transaction(connection, tenant, self.clock.now(), redactor)
            yield transaction
            transaction.flush(self.database.dialect)

    def hold_appends(self, connection: Connection) -> None:
        """Until this transaction ends nobody else appends, so that what is read of the log is all of it so far."""
        if self.database.dialect == "postgresql":  # SQLite has one writer anyway
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_APPEND_LOCK})")

    def after(self, tenant: str, seq: int = 0, limit: int = 1000) -> list[Event]:
        """Events of a tenant with a greater sequence number, oldest first."""
        with self.database.read() as connection:
            rows = connection.execute(_AFTER, {"tenant": tenant, "after": seq, "count": limit})
            return [to_event(row) for row in rows]

    def audit(
        self,
        tenant: str,
        *,
        user: str | None = None,
        skill: str | None = None,
        decision: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[Event]:
        """Audit events, newest first."""
        query = select(events).where(events.c.tenant == tenant, _AUDIT_ROWS)
        if user is not None:
            query = query.where(events.c.user_id == user)
        if skill is not None:
            query = query.where(events.c.skill_id == skill)
        if decision is not None:
            query = query.where(events.c.decision == decision)
        if since is not None:
            query = query.where(events.c.at >= to_ms(since))
        with self.database.read() as connection:
            return [to_event(row) for row in connection.execute(query.order_by(events.c.seq.desc()).limit(limit))]


def to_event(row: Row[Any]) -> Event:
    """A row of the table as a record."""
    return Event(
        seq=row.seq,
        tenant=row.tenant,
        type=row.type,
        at=from_ms(row.at),
        actor=Actor(row.actor_kind, row.actor_id),
        user=row.user_id,
        agent=row.agent_id,
        chat_kind=row.chat_kind,
        chat_id=row.chat_id,
        message_id=row.message_id,
        skill_id=row.skill_id,
        skill_version=row.skill_version,
        session_id=row.session_id,
        run_id=row.run_id,
        target=row.target,
        decision=row.decision,
        data=json.loads(row.data),
    )
