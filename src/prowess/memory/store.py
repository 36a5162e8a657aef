"""Tables and queries of memories and of the terms that find them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    Index,
    Integer,
    Row,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from prowess.db.metadata import instant, metadata
from prowess.kernel.clock import from_ms, to_ms
from prowess.memory.model import Memory, MemoryHit, MemoryLayer
from prowess.memory.terms import terms_of

memories = Table(
    "memories",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("layer", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("importance", Float, nullable=False),
    instant("created_at"),
    instant("updated_at"),
    instant("expires_at", nullable=True),
    Column("revision", Integer, nullable=False),
    Index("ix_memories_owner", "tenant", "user_id", "agent_id", "updated_at"),
)

memory_terms = Table(
    "memory_terms",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("term", Text, primary_key=True),
    Column("memory_id", Text, primary_key=True),
    Index("ix_memory_terms_memory", "memory_id"),
)

_INSERT_TERM = insert(memory_terms).inline()
_MATCHES = func.count().label("matches")


def insert_memory(connection: Connection, memory: Memory) -> None:
    """Store a memory and its terms."""
    row = {
        "id": memory.id,
        "tenant": memory.tenant,
        "user_id": memory.user,
        "agent_id": memory.agent,
        "layer": str(memory.layer),
        "text": memory.text,
        "importance": memory.importance,
        "created_at": to_ms(memory.created_at),
        "updated_at": to_ms(memory.updated_at),
        "expires_at": None if memory.expires_at is None else to_ms(memory.expires_at),
        "revision": memory.revision,
    }
    connection.execute(insert(memories).inline(), row)
    _insert_terms(connection, memory)


def find_memory(connection: Connection, tenant: str, user: str, memory_id: str) -> Memory | None:
    """A memory of this user, or none."""
    query = select(memories).where(memories.c.tenant == tenant, memories.c.user_id == user, memories.c.id == memory_id)
    row = connection.execute(query).first()
    return None if row is None else _to_memory(row)


def list_memories(
    connection: Connection, tenant: str, user: str, agent: str | None, *, now_ms: int, limit: int | None
) -> list[Memory]:
    """Active memories of the user, newest first; of one agent where given."""
    query = select(memories).where(memories.c.tenant == tenant, memories.c.user_id == user, _active(now_ms))
    if agent is not None:
        query = query.where(memories.c.agent_id == agent)
    query = query.order_by(memories.c.updated_at.desc(), memories.c.id).limit(limit)
    return [_to_memory(row) for row in connection.execute(query)]


def rewrite_memory(connection: Connection, memory: Memory, *, expected_revision: int) -> bool:
    """Replace text, importance and terms; false where the revision has moved on."""
    changed = connection.execute(
        update(memories)
        .where(memories.c.id == memory.id, memories.c.revision == expected_revision)
        .values(
            text=memory.text,
            importance=memory.importance,
            updated_at=to_ms(memory.updated_at),
            revision=memory.revision,
        )
    ).rowcount
    if changed != 1:
        return False
    connection.execute(delete(memory_terms).where(memory_terms.c.memory_id == memory.id))
    _insert_terms(connection, memory)
    return True


def delete_memories(connection: Connection, ids: Collection[str]) -> None:
    """Remove memories and their terms for good: deletion is meant (M4)."""
    connection.execute(
        delete(memory_terms).where(memory_terms.c.memory_id == bindparam("id")), [{"id": i} for i in ids]
    )
    connection.execute(delete(memories).where(memories.c.id == bindparam("memory")), [{"memory": i} for i in ids])


def expired_memories(connection: Connection, now_ms: int, limit: int) -> list[str]:
    """Ids of short-term memories whose time has passed."""
    return list(connection.execute(select(memories.c.id).where(memories.c.expires_at <= now_ms).limit(limit)).scalars())


def find_by_terms(
    connection: Connection,
    tenant: str,
    user: str,
    agent: str,
    terms: Collection[str],
    *,
    layers: Collection[str],
    now_ms: int,
    limit: int,
) -> list[MemoryHit]:
    """Active memories that share a term, by matches, importance, recency (X5); ties by id."""
    if not terms or not layers:
        return []
    found = (
        select(memory_terms.c.memory_id, _MATCHES)
        .where(
            memory_terms.c.tenant == tenant,
            memory_terms.c.user_id == user,
            memory_terms.c.agent_id == agent,
            memory_terms.c.term.in_(sorted(terms)),
        )
        .group_by(memory_terms.c.memory_id)
        .subquery()
    )
    query = (
        select(memories, found.c.matches)
        .join(found, found.c.memory_id == memories.c.id)
        .where(memories.c.layer.in_(sorted(layers)), _active(now_ms))
        .order_by(found.c.matches.desc(), memories.c.importance.desc(), memories.c.updated_at.desc(), memories.c.id)
        .limit(limit)
    )
    return [MemoryHit(_to_memory(row), row.matches) for row in connection.execute(query)]


def find_most_important(
    connection: Connection,
    tenant: str,
    user: str,
    agent: str,
    _terms: Collection[str],
    *,
    layers: Collection[str],
    now_ms: int,
    limit: int,
) -> list[MemoryHit]:
    """Active memories by importance and recency, for a question that names nothing; ties by id."""
    query = (
        select(memories)
        .where(
            memories.c.tenant == tenant,
            memories.c.user_id == user,
            memories.c.agent_id == agent,
            memories.c.layer.in_(sorted(layers)),
            _active(now_ms),
        )
        .order_by(memories.c.importance.desc(), memories.c.updated_at.desc(), memories.c.id)
        .limit(limit)
    )
    return [MemoryHit(_to_memory(row), 0) for row in connection.execute(query)]


def _active(now_ms: int) -> Any:
    return or_(memories.c.expires_at.is_(None), memories.c.expires_at > now_ms)


def _insert_terms(connection: Connection, memory: Memory) -> None:
    owner = {"tenant": memory.tenant, "user_id": memory.user, "agent_id": memory.agent, "memory_id": memory.id}
    rows = [owner | {"term": term} for term in sorted(terms_of(memory.text))]
    if rows:
        connection.execute(_INSERT_TERM, rows)


def _to_memory(row: Row[Any]) -> Memory:
    return Memory(
        id=row.id,
        tenant=row.tenant,
        user=row.user_id,
        agent=row.agent_id,
        layer=MemoryLayer(row.layer),
        text=row.text,
        importance=row.importance,
        created_at=from_ms(row.created_at),
        updated_at=from_ms(row.updated_at),
        expires_at=None if row.expires_at is None else from_ms(row.expires_at),
        revision=row.revision,
    )
