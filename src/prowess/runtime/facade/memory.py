"""What is remembered of a user (M4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.memory.model import Memory, MemoryLayer
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT


class Memories(Facade):
    """What is remembered of a user (M4)."""

    def add_memory(
        self,
        user: str,
        agent: str,
        text: str,
        importance: float = 0.5,
        *,
        layer: MemoryLayer | str = MemoryLayer.L3,
        keep: timedelta | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Memory:
        """Remember something of the user for the agent. See ``MemoryService.add``."""
        return self._parts.memory.add(
            actor=Actor("user", user),
            tenant=tenant,
            user=user,
            agent=agent,
            text=text,
            importance=importance,
            layer=_layer(layer),
            keep=keep,
        )

    def memories(
        self, *, user: str, agent: str | None = None, limit: int | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[Memory]:
        """What is remembered of the user, newest first."""
        return self._parts.memory.list(tenant, user, agent, limit=limit)

    def correct_memory(
        self, *, user: str, memory_id: str, text: str, importance: float | None = None, tenant: str = DEFAULT_TENANT
    ) -> Memory:
        """Replace what is remembered. Raises ``NotFound('memory_not_found')``."""
        return self._parts.memory.correct(
            actor=Actor("user", user), tenant=tenant, user=user, memory_id=memory_id, text=text, importance=importance
        )

    def delete_memory(self, *, user: str, memory_id: str, tenant: str = DEFAULT_TENANT) -> None:
        """Delete for good. Raises ``NotFound('memory_not_found')``."""
        self._parts.memory.delete(actor=Actor("user", user), tenant=tenant, user=user, memory_id=memory_id)

    def export_memories(
        self, *, user: str, agent: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[dict[str, Any]]:
        """All that is remembered of the user, as JSON objects."""
        found = self._parts.memory.export(actor=Actor("user", user), tenant=tenant, user=user, agent=agent)
        return [memory.to_json() for memory in found]


def _layer(name: MemoryLayer | str) -> MemoryLayer:
    try:
        return MemoryLayer(name)
    except ValueError:
        raise InvalidInput("bad_layer", field="layer", layer=str(name)[:20]) from None
