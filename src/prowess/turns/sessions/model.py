"""A workflow session: the persisted state of one workflow skill in one chat (W2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from prowess.chat.model import ChatRef
from prowess.kernel.clock import iso
from prowess.skills.names import SkillRef


class SessionStatus(StrEnum):
    """Where a session stands."""

    ACTIVE = "active"
    WAITING_USER = "waiting_user"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"


LIVE = (SessionStatus.ACTIVE, SessionStatus.WAITING_USER)
"""The statuses that hold the one place of a chat (W3)."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session. ``parked_at`` set: it is on the chat's stack, not in its one active place (W9)."""

    id: str
    tenant: str
    user: str
    chat: ChatRef
    agent: str
    skill: SkillRef
    """pinned when the session was created (W4)"""
    state: Any
    state_version: int
    step: str
    status: SessionStatus
    pending_question: str | None
    revision: int
    last_message_id: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    completed_at: datetime | None = None
    cancelled_at: datetime | None = None
    parked_at: datetime | None = None

    @property
    def live(self) -> bool:
        """Whether it can still take an answer."""
        return self.status in LIVE

    def to_json(self) -> dict[str, Any]:
        """What faces may show: never state, user input or instruction (W12)."""
        return {
            "id": self.id,
            "skill_id": self.skill.id,
            "version": self.skill.version,
            "scope": {"kind": self.chat.kind, "id": self.chat.id},
            "agent": self.agent,
            "status": str(self.status),
            "step": self.step,
            "pending_question": self.pending_question,
            "revision": self.revision,
            "parked": self.live and self.parked_at is not None,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "expires_at": iso(self.expires_at),
            "completed_at": iso(self.completed_at),
            "cancelled_at": iso(self.cancelled_at),
        }
