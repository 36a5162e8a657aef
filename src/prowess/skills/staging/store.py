"""The list of what is staged where: what has to be taken away survives the process that laid it out (G12)."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Index, Table, Text, delete, insert, or_, select, update

from prowess.db.metadata import instant, metadata

staged_calls = Table(
    "staged_calls",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("workspace", Text, nullable=False),
    instant("started_at"),
    instant("expires_at"),
    instant("released_at", nullable=True),
    Index("ix_staged_calls_workspace", "workspace"),
)


def insert_staged(connection: Connection, call: str, tenant: str, workspace: str, at_ms: int, until_ms: int) -> None:
    """Note a call before its folder is made: a folder without a row is nobody's."""
    row = {"id": call, "tenant": tenant, "workspace": workspace, "started_at": at_ms, "expires_at": until_ms}
    connection.execute(insert(staged_calls).inline(), row)


def renew_staged(connection: Connection, call: str, until_ms: int) -> bool:
    """Keep a running call's files; false where they were released or taken away."""
    running = (staged_calls.c.id == call) & staged_calls.c.released_at.is_(None)
    return connection.execute(update(staged_calls).where(running).values(expires_at=until_ms)).rowcount == 1


def release_staged(connection: Connection, call: str, at_ms: int) -> None:
    """The call is over: whoever cleans next takes its files away."""
    connection.execute(update(staged_calls).where(staged_calls.c.id == call).values(released_at=at_ms))


def over_in(connection: Connection, workspace: str, now_ms: int) -> list[str]:
    """The calls of a workspace that are over, or whose time has passed."""
    over = or_(staged_calls.c.released_at.is_not(None), staged_calls.c.expires_at <= now_ms)
    query = select(staged_calls.c.id).where(staged_calls.c.workspace == workspace, over)
    return [row.id for row in connection.execute(query)]


def known_in(connection: Connection, workspace: str) -> set[str]:
    """Every call of a workspace that has a row."""
    query = select(staged_calls.c.id).where(staged_calls.c.workspace == workspace)
    return {row.id for row in connection.execute(query)}


def take_over(connection: Connection, call: str, now_ms: int) -> bool:
    """Claim the cleaning of a call that is over; one cleaner gets it, whatever the number of instances."""
    over = or_(staged_calls.c.released_at.is_not(None), staged_calls.c.expires_at <= now_ms)
    return connection.execute(delete(staged_calls).where(staged_calls.c.id == call, over)).rowcount == 1
