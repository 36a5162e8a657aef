"""Turns that were stopped, by whom and when (U10). Whoever has an effect for a turn looks here, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Table, Text, bindparam, select

from prowess.access.approvals.model import TurnKey
from prowess.chat.model import ChatRef
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.errors import Conflict
from prowess.turns.store import turns

stopped_turns = Table(
    "stopped_turns",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("chat_kind", Text, primary_key=True),
    Column("chat_id", Text, primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("stopped_by", Text, nullable=False),
    instant("stopped_at"),
)

_NAMES = ("tenant", "chat_kind", "chat_id", "message_id", "agent_id")
_FIND = Statement(
    select(stopped_turns.c.message_id).where(*(stopped_turns.c[name] == bindparam(f"of_{name}") for name in _NAMES))
)
_TURN = select(turns.c.message_id).where(*(turns.c[name] == bindparam(f"of_{name}") for name in _NAMES))
_SHARE, _LOCK = Statement(_TURN.with_for_update(read=True)), Statement(_TURN.with_for_update())
_MESSAGES = select(*(stopped_turns.c[name] for name in _NAMES))


def is_stopped(connection: Connection, key: TurnKey) -> bool:
    """Whether somebody has stopped the turn."""
    return _FIND.first(connection, _of(key)) is not None


def hold_unstopped(connection: Connection, key: TurnKey, *, alone: bool = False) -> None:
    """Keep the turn from being stopped until this transaction ends.

    ``alone``: whoever changes the turn's own row, or two of them would wait for each other. Raises
    ``Conflict('turn_stopped')`` where it was.
    """
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway, so that is a look for nothing
        (_LOCK if alone else _SHARE).first(connection, _of(key))
    if is_stopped(connection, key):
        raise Conflict("turn_stopped", message_id=key.message_id)


def lock_against_effects(connection: Connection, key: TurnKey) -> None:
    """Wait for whoever has an effect for the turn; until this transaction ends nobody has another."""
    _LOCK.first(connection, _of(key))


def mark_stopped(connection: Connection, key: TurnKey, by: str, at_ms: int) -> bool:
    """Store that the turn is stopped; false where it was already."""
    if is_stopped(connection, key):
        return False
    row = {name.removeprefix("of_"): value for name, value in _of(key).items()}
    statement = upsert(connection, stopped_turns).values(**row, stopped_by=by, stopped_at=at_ms)
    connection.execute(statement.on_conflict_do_nothing())
    return True


def stopped_among(connection: Connection, keys: Sequence[TurnKey]) -> list[TurnKey]:
    """Those of these turns that were stopped."""
    messages = sorted({key.message_id for key in keys})
    tenants = {key.tenant for key in keys}
    of = (stopped_turns.c.tenant.in_(tenants), stopped_turns.c.message_id.in_(messages))
    rows = connection.execute(_MESSAGES.where(*of))
    found = {TurnKey(row.tenant, (row.chat_kind, row.chat_id), row.message_id, row.agent_id) for row in rows}
    return [key for key in keys if key in found]


def chat_of(key: TurnKey) -> ChatRef:
    """The chat of a turn as a typed pair."""
    return ChatRef(*key.chat)  # type: ignore[arg-type]


def _of(key: TurnKey) -> dict[str, Any]:
    return {
        "of_tenant": key.tenant,
        "of_chat_kind": key.chat[0],
        "of_chat_id": key.chat[1],
        "of_message_id": key.message_id,
        "of_agent_id": key.agent,
    }
