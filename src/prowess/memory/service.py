"""What a person can do with what is remembered: see, add, correct, export, delete (M4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from prowess.errors import Conflict, InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.clock import to_ms
from prowess.kernel.ids import IdSource, check_id
from prowess.kernel.text import check_text
from prowess.memory.model import Memory, MemoryHit, MemoryLayer
from prowess.memory.store import (
    delete_memories,
    expired_memories,
    find_by_terms,
    find_memory,
    find_most_important,
    insert_memory,
    list_memories,
    rewrite_memory,
)
from prowess.memory.terms import query_terms, terms_of

MAX_MEMORY_TEXT = 2_000
SHORT_TERM = timedelta(days=7)
"""How long an L2 memory lasts unless told otherwise (M1: hours to days)."""


class MemoryService:
    """The use cases of memory, one transaction each."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def add(
        self,
        *,
        actor: Actor,
        tenant: str,
        user: str,
        agent: str,
        text: str,
        importance: float = 0.5,
        layer: MemoryLayer | str = MemoryLayer.L3,
        keep: timedelta | None = None,
        skill: tuple[str, str] | None = None,
        admit: Callable[[Transaction], None] | None = None,
    ) -> Memory:
        """Remember ``text`` (1 to 2,000 characters). L2 is kept for ``keep`` or seven days, L3 until deleted.

        ``skill``: id and version of the skill that wrote it. ``admit`` is asked first in the transaction that stores
        it; what it raises keeps it from being stored.

        Raises ``InvalidInput`` (``text_empty``, ``text_too_long``, ``control_character``, ``bad_importance``,
        ``bad_layer``, ``bad_keep``, ``bad_id``).
        """
        check_id(user, "user")
        check_id(agent, "agent")
        check_text(text, "text", limit=MAX_MEMORY_TEXT)
        _check_importance(importance)
        if layer not in (MemoryLayer.L2, MemoryLayer.L3):
            raise InvalidInput("bad_layer", field="layer", layer=str(layer)[:40])
        layer = MemoryLayer(layer)
        if keep is not None and keep <= timedelta(0):
            raise InvalidInput("bad_keep", field="keep")
        with self._log.transaction(tenant) as transaction:
            if admit is not None:
                admit(transaction)
            text = transaction.redact(text)  # before its search terms are made
            expires = transaction.now + (SHORT_TERM if keep is None else keep) if layer is MemoryLayer.L2 else None
            memory = Memory(
                id=self._ids.new("mem"),
                tenant=tenant,
                user=user,
                agent=agent,
                layer=layer,
                text=text,
                importance=float(importance),
                created_at=transaction.now,
                updated_at=transaction.now,
                expires_at=expires,
                revision=1,
            )
            insert_memory(transaction.connection, memory)
            transaction.emit(
                "memory.added",
                tenant=tenant,
                actor=actor,
                user=user,
                agent=agent,
                skill=skill,
                target=memory.id,
                layer=str(layer),
            )
            return memory

    def list(self, tenant: str, user: str, agent: str | None = None, *, limit: int | None = None) -> list[Memory]:
        """Active memories, newest first."""
        with self._log.database.read() as connection:
            now_ms = to_ms(self._log.clock.now())
            return list_memories(connection, tenant, user, agent, now_ms=now_ms, limit=limit)

    def correct(
        self, *, actor: Actor, tenant: str, user: str, memory_id: str, text: str, importance: float | None = None
    ) -> Memory:
        """Replace the text; the old one is gone.

        Raises ``NotFound('memory_not_found')``, ``Conflict('memory_changed')`` where somebody else was faster.
        """
        check_text(text, "text", limit=MAX_MEMORY_TEXT)
        if importance is not None:
            _check_importance(importance)
        with self._log.transaction(tenant) as transaction:
            old = find_memory(transaction.connection, tenant, user, memory_id)
            if old is None or (old.expires_at is not None and old.expires_at <= transaction.now):
                raise NotFound("memory_not_found", memory=memory_id)
            new = replace(
                old,
                text=transaction.redact(text),
                importance=old.importance if importance is None else float(importance),
                updated_at=transaction.now,
                revision=old.revision + 1,
            )
            if not rewrite_memory(transaction.connection, new, expected_revision=old.revision):
                raise Conflict("memory_changed", memory=memory_id)
            transaction.emit(
                "memory.corrected", tenant=tenant, actor=actor, user=user, agent=old.agent, target=memory_id
            )
            return new

    def delete(self, *, actor: Actor, tenant: str, user: str, memory_id: str) -> None:
        """Delete for good. Raises ``NotFound('memory_not_found')``."""
        with self._log.transaction(tenant) as transaction:
            memory = find_memory(transaction.connection, tenant, user, memory_id)
            if memory is None:
                raise NotFound("memory_not_found", memory=memory_id)
            delete_memories(transaction.connection, [memory_id])
            transaction.emit(
                "memory.deleted", tenant=tenant, actor=actor, user=user, agent=memory.agent, target=memory_id
            )

    def export(self, *, actor: Actor, tenant: str, user: str, agent: str | None = None) -> Sequence[Memory]:
        """Everything that is remembered of the user, and an audit event that it was taken out."""
        with self._log.transaction(tenant) as transaction:
            found = list_memories(transaction.connection, tenant, user, agent, now_ms=transaction.now_ms, limit=None)
            transaction.emit("memory.exported", tenant=tenant, actor=actor, user=user, agent=agent, count=len(found))
            return found

    def forget_expired(self, *, limit: int = 1000) -> int:
        """Delete short-term memories whose time has passed; returns how many. Recall never shows them meanwhile."""
        with self._log.transaction(None) as transaction:
            ids = expired_memories(transaction.connection, transaction.now_ms, limit)
            if ids:
                delete_memories(transaction.connection, ids)
            return len(ids)

    def reader(self, tenant: str, user: str, agent: str, layers: frozenset[str]) -> ScopedMemories:
        """A reader that cannot see beyond this user, agent and these layers (M2, X5)."""
        return ScopedMemories(self._log, tenant, user, agent, layers)


class ScopedMemories:
    """The ``MemoryReader`` that a tool handler gets."""

    def __init__(self, log: EventLog, tenant: str, user: str, agent: str, layers: frozenset[str]) -> None:
        self._log = log
        self._owner = (tenant, user, agent)
        self._layers = layers

    def recall(self, query: str, limit: int) -> tuple[MemoryHit, ...]:
        """At most ``limit`` active memories that share a term with the query, best first.

        A query of common words alone ("what do you remember about me") asks for the most important ones; one without
        any word asks for nothing.
        """
        return self._found(query_terms(query), limit) if terms_of(query) else ()

    def most_important(self, limit: int) -> tuple[MemoryHit, ...]:
        """At most ``limit`` active memories, the most important first."""
        return self._found(frozenset(), limit)

    def _found(self, terms: frozenset[str], limit: int) -> tuple[MemoryHit, ...]:
        find = find_by_terms if terms else find_most_important
        now_ms = to_ms(self._log.clock.now())
        with self._log.database.read() as connection:
            return tuple(find(connection, *self._owner, terms, layers=self._layers, now_ms=now_ms, limit=limit))


def _check_importance(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput("bad_importance", field="importance")
