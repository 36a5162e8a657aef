"""What is remembered of a user by an agent (M1, layers L1 to L3)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from prowess.kernel.clock import iso


class MemoryLayer(StrEnum):
    """L1 working (this turn, never stored), L2 short term (hours to days), L3 long term (until deleted)."""

    L1 = "L1"
    L2 = "L2"
    L3 = "L3"


@dataclass(frozen=True, slots=True)
class Memory:
    """One thing remembered. ``importance`` is in [0, 1]."""

    id: str
    tenant: str
    user: str
    agent: str
    layer: MemoryLayer
    text: str
    importance: float
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    revision: int

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess memory list`` and of an export."""
        return {
            "id": self.id,
            "user": self.user,
            "agent": self.agent,
            "layer": str(self.layer),
            "text": self.text,
            "importance": self.importance,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "expires_at": iso(self.expires_at),
            "revision": self.revision,
        }


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that a query found, and how many of the query's terms it matched."""

    memory: Memory
    matches: int
