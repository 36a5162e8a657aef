"""Notices, the inbox entries made of them, and the webhooks that they go out by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from prowess.chat.model import ChatRef
from prowess.kernel.clock import iso
from prowess.messages import render

OPERATORS = ""
"""The inbox of the tenant's operators. No user has this id: an id has a character at least."""


class Severity(StrEnum):
    """How much it matters; an alert always reaches the operators too (U7)."""

    INFO = "info"
    WARNING = "warning"
    ALERT = "alert"


class HookStatus(StrEnum):
    """Whether a webhook is used: ``failing`` still is, ``paused`` is not until a test of it succeeds."""

    ACTIVE = "active"
    PAUSED = "paused"
    FAILING = "failing"


class Subject(NamedTuple):
    """What a notice is about: ids and one code alone, never words of anybody (R3)."""

    user: str | None = None
    agent: str | None = None
    skill: str | None = None
    chat: ChatRef | None = None
    approval: str | None = None
    job: str | None = None
    trigger: str | None = None
    hook: str | None = None
    code: str | None = None
    """an error code or an outcome, such as ``permission_timeout``"""

    def to_json(self) -> dict[str, Any]:
        """The subject's fields; a chat as ``{"kind", "id"}``."""
        chat = None if self.chat is None else {"kind": self.chat.kind, "id": self.chat.id}
        return {**self._asdict(), "chat": chat}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One reader is to be told of one event."""

    tenant: str
    reader: str
    """a user, or ``OPERATORS``"""
    kind: str
    severity: Severity
    seq: int
    """sequence number of the event"""
    at: datetime
    """when it happened"""
    subject: Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An entry of an inbox. ``created_at`` is the instant of the event; ``read_at`` null: unread."""

    id: str
    notice: Notice
    read_at: datetime | None = None

    def text(self, language: str = "en") -> str:
        """The notice in words, made of its kind and ids when it is read."""
        fields = {name: "-" if value is None else value for name, value in self.notice.subject._asdict().items()}
        return render(f"notice.{self.notice.kind}", language, fields)

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """The shape of ``prowess notifications list``; ``user`` null: the operators' inbox."""
        notice = self.notice
        return {
            "id": self.id,
            "kind": notice.kind,
            "severity": str(notice.severity),
            "user": notice.reader or None,
            "event": notice.seq,
            "about": notice.subject.to_json(),
            "text": self.text(language),
            "created_at": iso(notice.at),
            "read_at": iso(self.read_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A webhook. ``user`` null: it takes the tenant's alerts, and its secret is the tenant's."""

    id: str
    tenant: str
    user: str | None
    url: str
    kinds: frozenset[str] | None
    """which kinds it takes; null: every one"""
    secret: str
    """name of the slot that holds what its messages are signed with"""
    status: HookStatus
    created_at: datetime
    created_by: str

    @property
    def reader(self) -> str:
        """Whose notices it takes."""
        return self.user or OPERATORS

    def takes(self, notice: Notice) -> bool:
        """Whether a notice goes out by it."""
        mine = (self.tenant, self.reader) == (notice.tenant, notice.reader)
        return mine and (self.kinds is None or notice.kind in self.kinds)

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess notifications hooks list``."""
        return {
            "id": self.id,
            "user": self.user,
            "url": self.url,
            "kinds": None if self.kinds is None else sorted(self.kinds),
            "secret": self.secret,
            "status": str(self.status),
            "created_at": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message on its way out. Repeats have the same ``id``, so that receivers can tell."""

    id: str
    sent_at: datetime
    body: str
