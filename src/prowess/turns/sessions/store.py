"""Table and queries of workflow sessions. Every change is a compare-and-set on revision and live status (W6)."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    Row,
    Table,
    Text,
    bindparam,
    insert,
    literal_column,
    select,
    update,
)

from prowess.chat.model import ChatRef
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms
from prowess.skills.names import SkillRef
from prowess.turns.sessions.model import LIVE, Session, SessionStatus

sessions = Table(
    "skill_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("scope_type", Text, nullable=False),
    Column("scope_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("skill_version", Text, nullable=False),
    Column("state_json", Text, nullable=False),
    Column("state_version", Integer, nullable=False),
    Column("step", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("pending_question", Text),
    Column("revision", Integer, nullable=False),
    Column("last_message_id", Text, nullable=False),
    instant("created_at"),
    instant("updated_at"),
    instant("expires_at"),
    instant("completed_at", nullable=True),
    instant("cancelled_at", nullable=True),
    instant("parked_at", nullable=True),
    sqlite_with_rowid=False,
)
_LIVE_WORDS: list[ColumnElement[str]] = [literal_column(f"'{status}'") for status in LIVE]
_IN_PLACE = sessions.c.status.in_(_LIVE_WORDS) & sessions.c.parked_at.is_(None)
Index(
    "uq_skill_sessions_live",
    sessions.c.tenant,
    sessions.c.user_id,
    sessions.c.scope_type,
    sessions.c.scope_id,
    unique=True,
    sqlite_where=_IN_PLACE,
    postgresql_where=_IN_PLACE,
)
Index("ix_skill_sessions_owner", sessions.c.tenant, sessions.c.user_id)

_LIVE_IN_CHAT = Statement(
    select(sessions)
    .where(
        sessions.c.tenant == bindparam("tenant"),
        sessions.c.user_id == bindparam("user"),
        sessions.c.scope_type == bindparam("kind"),
        sessions.c.scope_id == bindparam("chat"),
        sessions.c.status.in_(_LIVE_WORDS),
    )
    .order_by(sessions.c.parked_at.desc(), sessions.c.id)
)
_INSERT = Statement(insert(sessions).inline())
_CHANGE = Statement(
    update(sessions)
    .where(
        sessions.c.id == bindparam("session"),
        sessions.c.user_id == bindparam("owner"),
        sessions.c.revision == bindparam("expected"),
        sessions.c.status.in_(_LIVE_WORDS),
    )
    .values(
        state_json=bindparam("new_state_json"),
        state_version=bindparam("new_state_version"),
        step=bindparam("new_step"),
        status=bindparam("new_status"),
        pending_question=bindparam("new_pending_question"),
        revision=bindparam("new_revision"),
        last_message_id=bindparam("new_last_message_id"),
        updated_at=bindparam("new_updated_at"),
        expires_at=bindparam("new_expires_at"),
        completed_at=bindparam("new_completed_at"),
        cancelled_at=bindparam("new_cancelled_at"),
        parked_at=bindparam("new_parked_at"),
    )
)


def live_sessions(connection: Connection, tenant: str, user: str, chat: ChatRef) -> list[Session]:
    """Live sessions of the user in a chat, the parked ones with the latest parked first; expired ones included."""
    values = {"tenant": tenant, "user": user, "kind": chat.kind, "chat": chat.id}
    return [_to_session(row) for row in _LIVE_IN_CHAT.all(connection, values)]


def find_session(connection: Connection, tenant: str, user: str, session_id: str) -> Session | None:
    """A session of this user, or none."""
    query = select(sessions).where(sessions.c.tenant == tenant, sessions.c.user_id == user, sessions.c.id == session_id)
    row = connection.execute(query).first()
    return None if row is None else _to_session(row)


def overdue_sessions(connection: Connection, tenant: str, user: str, now_ms: int) -> list[Session]:
    """Live sessions of the user whose time has passed (W7)."""
    query = select(sessions).where(
        sessions.c.tenant == tenant,
        sessions.c.user_id == user,
        sessions.c.status.in_(_LIVE_WORDS),
        sessions.c.expires_at <= now_ms,
    )
    return [_to_session(row) for row in connection.execute(query)]


def list_sessions(connection: Connection, tenant: str, user: str, *, live_only: bool, limit: int) -> list[Session]:
    """Sessions of the user, the latest change first."""
    query = select(sessions).where(sessions.c.tenant == tenant, sessions.c.user_id == user)
    if live_only:
        query = query.where(sessions.c.status.in_(_LIVE_WORDS))
    query = query.order_by(sessions.c.updated_at.desc(), sessions.c.id).limit(limit)
    return [_to_session(row) for row in connection.execute(query)]


def insert_session(connection: Connection, session: Session) -> None:
    """Store a new session; raises ``IntegrityError`` where the chat's one place is taken (W3)."""
    row = {
        "id": session.id,
        "tenant": session.tenant,
        "user_id": session.user,
        "scope_type": session.chat.kind,
        "scope_id": session.chat.id,
        "agent_id": session.agent,
        "skill_id": session.skill.id,
        "skill_version": session.skill.version,
        "created_at": to_ms(session.created_at),
        **_changing(session),
    }
    _INSERT.run(connection, row)


def change_session(connection: Connection, session: Session, *, expected_revision: int) -> bool:
    """Write the new form of a live session; false where its revision has moved on or it is live no more."""
    values: dict[str, Any] = {f"new_{name}": value for name, value in _changing(session).items()}
    values |= {"session": session.id, "owner": session.user, "expected": expected_revision}
    return _CHANGE.run(connection, values) == 1


def _changing(session: Session) -> dict[str, Any]:
    return {
        "state_json": compact_json(session.state),
        "state_version": session.state_version,
        "step": session.step,
        "status": str(session.status),
        "pending_question": session.pending_question,
        "revision": session.revision,
        "last_message_id": session.last_message_id,
        "updated_at": to_ms(session.updated_at),
        "expires_at": to_ms(session.expires_at),
        "completed_at": None if session.completed_at is None else to_ms(session.completed_at),
        "cancelled_at": None if session.cancelled_at is None else to_ms(session.cancelled_at),
        "parked_at": None if session.parked_at is None else to_ms(session.parked_at),
    }


def _to_session(row: Row[Any]) -> Session:
    return Session(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        chat=ChatRef(row.scope_type, row.scope_id),
        agent=row.agent_id,
        skill=SkillRef(row.skill_id, row.skill_version),
        state=_state(row.state_json),
        state_version=row.state_version,
        step=row.step,
        status=SessionStatus(row.status),
        pending_question=row.pending_question,
        revision=row.revision,
        last_message_id=row.last_message_id,
        created_at=from_ms(row.created_at),
        updated_at=from_ms(row.updated_at),
        expires_at=from_ms(row.expires_at),
        completed_at=None if row.completed_at is None else from_ms(row.completed_at),
        cancelled_at=None if row.cancelled_at is None else from_ms(row.cancelled_at),
        parked_at=None if row.parked_at is None else from_ms(row.parked_at),
    )


def _state(text: str) -> Any:
    """The stored state, or null where the text is broken: ``parse_state`` refuses that and the session fails (W4)."""
    try:
        return json.loads(text)
    except ValueError:
        return None
