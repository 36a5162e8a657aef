"""Who watches on a machine: one process at a time, so that one change of files is one fire (B12)."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Table, Text, bindparam, delete, or_, update

from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert

watchers = Table(
    "file_watchers",
    metadata,
    Column("host", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    instant("expires_at"),
)

_TAKE = Statement(
    update(watchers)
    .where(
        watchers.c.host == bindparam("of_host"),
        or_(watchers.c.owner == bindparam("wanted"), watchers.c.expires_at <= bindparam("now")),
    )
    .values(owner=bindparam("wanted"), expires_at=bindparam("until"))
)
_LEAVE = Statement(
    delete(watchers).where(watchers.c.host == bindparam("of_host"), watchers.c.owner == bindparam("mine"))
)


def take_watch(connection: Connection, host: str, owner: str, now_ms: int, until_ms: int) -> bool:
    """Take or keep the watch of a machine; false where another process has it."""
    if _TAKE.run(connection, {"of_host": host, "wanted": owner, "now": now_ms, "until": until_ms}) == 1:
        return True
    first = upsert(connection, watchers).values(host=host, owner=owner, expires_at=until_ms)
    return connection.execute(first.on_conflict_do_nothing().returning(watchers.c.host)).first() is not None


def leave_watch(connection: Connection, host: str, owner: str) -> None:
    """Let another process watch at once."""
    _LEAVE.run(connection, {"of_host": host, "mine": owner})
