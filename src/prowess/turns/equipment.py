"""What is equipped in a conversation: stored as asked, cut to what is granted when it is seen (ruling 12.20).

One set a user, agent and chat, so that nobody's choice shows in another's call (conformance B).
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import Column, Connection, Table, Text, bindparam, select

from prowess.access.surface import GroupId
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.kernel.canonical import compact_json
from prowess.turns.request import TurnRequest

equipped_groups = Table(
    "equipped_groups",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("chat_kind", Text, primary_key=True),
    Column("chat_id", Text, primary_key=True),
    Column("groups", Text, nullable=False),
    instant("updated_at"),
)

_KEY = {
    "of_tenant": equipped_groups.c.tenant,
    "of_user": equipped_groups.c.user_id,
    "of_agent": equipped_groups.c.agent_id,
    "of_kind": equipped_groups.c.chat_kind,
    "of_chat": equipped_groups.c.chat_id,
}
_FIND = Statement(select(equipped_groups.c.groups).where(*(column == bindparam(name) for name, column in _KEY.items())))


def find_equipped(connection: Connection, request: TurnRequest) -> frozenset[GroupId] | None:
    """The groups as stored; null where nothing was ever equipped or put away here."""
    row = _FIND.first(connection, dict(zip(_KEY, _values(request), strict=True)))
    if row is None:
        return None
    return frozenset(GroupId(kind, name) for kind, name in json.loads(row.groups))


def store_equipped(connection: Connection, request: TurnRequest, groups: Iterable[GroupId], at_ms: int) -> None:
    """Store the whole set."""
    changed = {"groups": compact_json(sorted(map(list, groups))), "updated_at": at_ms}
    key = {column.name: value for column, value in zip(_KEY.values(), _values(request), strict=True)}
    stored = upsert(connection, equipped_groups).values(**key, **changed)
    connection.execute(stored.on_conflict_do_update(index_elements=list(_KEY.values()), set_=changed))


def _values(request: TurnRequest) -> tuple[str, ...]:
    return (request.tenant, request.user, request.agent, request.chat.kind, request.chat.id)
