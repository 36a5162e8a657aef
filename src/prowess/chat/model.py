"""Agents, conversations and messages. A group chat is a conversation of another kind, with members."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from prowess.access.filters import EVERYTHING, SkillFilter


class ChatRef(NamedTuple):
    """A conversation or a group: a pair, never a joined string (G11). Session scopes are these pairs too (T7)."""

    kind: Literal["conversation", "group"]
    id: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A persona. ``owner`` null: it belongs to the tenant and every user of it may talk to it."""

    tenant: str
    id: str
    name: str
    persona: str
    language: str
    owner: str | None
    created_at: datetime
    skill_filter: SkillFilter = EVERYTHING
    """which skills it was designed with"""
    good_at: tuple[str, ...] = ()
    """tags of the tasks that are handed to it (B17)"""
    not_for: tuple[str, ...] = ()
    """tags of the tasks that never are"""

    def usable_by(self, user: str) -> bool:
        """Whether ``user`` may talk to it and scope grants to it (G5)."""
        return self.owner is None or self.owner == user


class Seat(NamedTuple):
    """A user's place in a chat; ``taken`` false: agent, chat or membership is made with the first turn."""

    agent: Agent
    taken: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """A thread. ``user`` and ``agent`` are null for a group."""

    tenant: str
    ref: ChatRef
    user: str | None
    agent: str | None
    title: str
    message_count: int
    last_message_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was said. ``run_id`` and ``session_id`` say which skill use it came from."""

    id: str
    chat: ChatRef
    author_kind: Literal["user", "agent", "trigger"]
    author: str
    text: str
    reply_to: str | None
    run_id: str | None
    session_id: str | None
    created_at: datetime
