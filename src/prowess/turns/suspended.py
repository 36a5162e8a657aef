"""Suspended turns: what lets a turn go on in any process once its approvals have an outcome (G13, U6)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, Text, delete, insert, select, update

from prowess.access.approvals.model import TurnKey
from prowess.access.model import Mode
from prowess.db.metadata import instant, metadata
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

SUSPENSION_LIFETIME = timedelta(days=7)
"""far beyond any approval: what nobody continues until then is forgotten"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedTurn:
    """A turn that waits. ``revision`` is compared when it goes on, so that it does so once."""

    turn: TurnKey
    user: str
    origin: str
    language: str
    state: str | None
    """what the voice handed out; null: the outcomes become an instruction for whichever voice speaks"""
    approvals: tuple[str, ...]
    """what it waits for"""
    mode: Mode
    unattended: frozenset[str] | None
    above: tuple[str, ...]
    """agents that delegated the turn"""
    revision: int
    expires_at: datetime


suspended_turns = Table(
    "suspended_turns",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("chat_kind", Text, primary_key=True),
    Column("chat_id", Text, primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("state", Text),
    Column("approvals", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("unattended", Text),
    Column("above", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    instant("created_at"),
    instant("expires_at"),
)


def find_suspended(connection: Connection, turn: TurnKey, now: datetime) -> SuspendedTurn | None:
    """The suspended turn, or none."""
    query = select(suspended_turns).where(*_of(turn), suspended_turns.c.expires_at > to_ms(now))
    row = connection.execute(query).first()
    if row is None:
        return None
    return SuspendedTurn(
        turn=turn,
        user=row.user_id,
        origin=row.origin,
        language=row.language,
        state=row.state,
        approvals=tuple(json.loads(row.approvals)),
        mode=Mode(row.mode),
        unattended=None if row.unattended is None else frozenset(json.loads(row.unattended)),
        above=tuple(json.loads(row.above)),
        revision=row.revision,
        expires_at=from_ms(row.expires_at),
    )


def suspend(connection: Connection, suspended: SuspendedTurn, at_ms: int) -> None:
    """Store a turn that stops to wait; raises ``IntegrityError`` where it waits already."""
    turn = suspended.turn
    row = {
        "tenant": turn.tenant,
        "chat_kind": turn.chat[0],
        "chat_id": turn.chat[1],
        "message_id": turn.message_id,
        "agent_id": turn.agent,
        "user_id": suspended.user,
        "origin": suspended.origin,
        "created_at": at_ms,
        **_changing(suspended),
    }
    connection.execute(insert(suspended_turns).inline(), row)


def suspend_again(connection: Connection, suspended: SuspendedTurn) -> bool:
    """Store that a turn went on and stopped again; false where somebody else was faster."""
    of = (*_of(suspended.turn), suspended_turns.c.revision == suspended.revision - 1)
    return connection.execute(update(suspended_turns).where(*of).values(**_changing(suspended))).rowcount == 1


def release(connection: Connection, turn: TurnKey, revision: int) -> bool:
    """The turn has gone on to its end; false where somebody else was faster."""
    of = (*_of(turn), suspended_turns.c.revision == revision)
    return connection.execute(delete(suspended_turns).where(*of)).rowcount == 1


def drop_suspended(connection: Connection, turn: TurnKey) -> bool:
    """The turn does not go on; false where it did not wait."""
    return bool(connection.execute(delete(suspended_turns).where(*_of(turn))).rowcount)


def forget_suspended(connection: Connection, now: datetime) -> int:
    """Forget what nobody continued; returns how many."""
    over = suspended_turns.c.expires_at <= to_ms(now)
    return int(connection.execute(delete(suspended_turns).where(over)).rowcount)


def _changing(suspended: SuspendedTurn) -> dict[str, Any]:
    unattended = suspended.unattended
    return {
        "language": suspended.language,
        "state": suspended.state,
        "approvals": compact_json(suspended.approvals),
        "mode": str(suspended.mode),
        "unattended": None if unattended is None else compact_json(sorted(unattended)),
        "above": compact_json(suspended.above),
        "revision": suspended.revision,
        "expires_at": to_ms(suspended.expires_at),
    }


def _of(turn: TurnKey) -> tuple[Any, ...]:
    table = suspended_turns.c
    return (
        table.tenant == turn.tenant,
        table.chat_kind == turn.chat[0],
        table.chat_id == turn.chat[1],
        table.message_id == turn.message_id,
        table.agent_id == turn.agent,
    )
