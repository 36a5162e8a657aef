"""Messages of agents, many at a time: what a batch of background jobs leaves behind (B8)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from prowess.chat.model import ChatRef, Message
from prowess.chat.store import MESSAGE_COLUMNS, message_row, messages, recount
from prowess.db.statements import Many
from prowess.kernel.clock import to_ms

_INSERT_NEW = Many.insert(messages, MESSAGE_COLUMNS, ignore_known=True)
_COUNT_MANY = Many(
    "UPDATE conversations AS c SET message_count = c.message_count + said.added, last_message_at = said.at,"
    " last_reply_id = said.reply FROM {said} WHERE c.tenant = said.tenant AND c.kind = said.kind AND c.id = said.id",
    {"added": "bigint", "at": "bigint", "reply": "text", "tenant": "text", "kind": "text", "id": "text"},
)
# Sorted, so that two writers take the locks in the same order.
_LOCK_CHATS = (
    "SELECT c.id FROM conversations AS c JOIN unnest(%s::text[], %s::text[]) AS said(kind, id) USING (kind, id)"
    " WHERE c.tenant = %s ORDER BY c.kind, c.id FOR UPDATE OF c"
)


def insert_messages(connection: Connection, tenant: str, said: Sequence[Message]) -> int:
    """Store messages of agents that may be there already; returns how many were not (B8).

    Conversations are counted up by what is new. Where any message was there, their counters are counted anew, because
    whoever stored it may have died before counting.
    """
    by_chat: dict[ChatRef, list[Message]] = {}
    for message in said:
        by_chat.setdefault(message.chat, []).append(message)
    # Locked first, so that the order of its messages is the order of its last replies; SQLite has one writer anyway.
    if connection.dialect.name == "postgresql":
        kinds, ids = zip(*by_chat, strict=True)
        connection.exec_driver_sql(_LOCK_CHATS, (list(kinds), list(ids), tenant))
    new = _INSERT_NEW.run(connection, [message_row(tenant, message) for message in said])
    if new < len(said):
        for chat in by_chat:
            recount(connection, tenant, chat)
        return new
    last = [(len(group), group[-1]) for group in by_chat.values()]
    _COUNT_MANY.run(
        connection,
        [(count, to_ms(message.created_at), message.id, tenant, *message.chat) for count, message in last],
    )
    return new
