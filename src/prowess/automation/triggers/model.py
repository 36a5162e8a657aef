"""Triggers and their fires. No reading, no writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from prowess.access.model import Mode
from prowess.events.model import Actor
from prowess.kernel.clock import iso


class Kind(StrEnum):
    """What makes a trigger fire (B2)."""

    ONCE = "once"
    CRON = "cron"
    INTERVAL = "interval"
    WEBHOOK = "webhook"
    FILE = "file"
    REACTION = "reaction"


TIMED = frozenset({Kind.ONCE, Kind.CRON, Kind.INTERVAL})
"""Kinds that have a next fire."""


class Status(StrEnum):
    """Only ``active`` ones fire."""

    PROPOSED = "proposed"
    """an agent would like it; its owner has not said yes (B15)"""
    ACTIVE = "active"
    PAUSED = "paused"
    FINISHED = "finished"
    """it has no further fire"""
    BROKEN = "broken"
    """its row cannot be read or its zone is gone; ``reason`` says which (C54)"""
    REMOVED = "removed"
    """kept for its history"""


class Misfire(StrEnum):
    """What becomes of fires whose time passed while nobody was there (B11)."""

    SKIP = "skip"
    ONE = "one"
    """the latest, once"""
    ALL = "all"
    """the latest of them, up to ``misfire_bound``"""


class FireStatus(StrEnum):
    """What came of one fire. How its job ended is in the ledger."""

    FIRED = "fired"
    MISSED = "missed"
    """passed unnoticed; one row stands for ``missed`` of them (U7)"""
    RATE_LIMITED = "rate_limited"
    REFUSED = "refused"
    """the owner may no longer use the agent (C31)"""


Source = Literal["schedule", "manual", "webhook", "file", "event"]


class RateLimit(NamedTuple):
    """At most ``fires`` within any ``seconds``."""

    fires: int
    seconds: int


DEFAULT_RATES: Mapping[Kind, RateLimit] = {
    Kind.ONCE: RateLimit(20, 3_600),
    Kind.CRON: RateLimit(120, 3_600),
    Kind.INTERVAL: RateLimit(720, 3_600),
    Kind.WEBHOOK: RateLimit(60, 60),
    Kind.FILE: RateLimit(60, 3_600),
    Kind.REACTION: RateLimit(60, 3_600),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What starts an automation, whose it is, and how far it may go."""

    id: str
    tenant: str
    user: str
    """the owner: each fire is a turn of theirs"""
    agent: str
    name: str
    kind: Kind
    spec: Mapping[str, Any]
    """by kind; see ``specs``"""
    skill: str | None
    """canonical id (ruling 12.1); the turn then begins with its slash command"""
    prompt: str
    conversation: str | None
    """null: a new one for each fire"""
    preapproved: tuple[str, ...]
    """codes that need no further yes; they only read (B14)"""
    mode: Mode | None
    """null: that of the runtime"""
    rate: RateLimit
    max_attempts: int
    misfire: Misfire
    misfire_bound: int
    status: Status
    reason: str | None
    """why it is broken or finished"""
    next_fire_at: datetime | None
    anchor: datetime
    """what an interval is counted from"""
    active_since: datetime
    """events from before are none of its business"""
    revision: int
    created_by: Actor
    created_at: datetime
    changed_at: datetime
    zone_data: str
    """version of the zone data that ``next_fire_at`` was found with"""

    @property
    def text(self) -> str:
        """What the turn is asked; it alone selects the skill."""
        return self.prompt if self.skill is None else f"/{self.skill} {self.prompt}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess automations``."""
        return {
            "id": self.id,
            "user": self.user,
            "agent": self.agent,
            "name": self.name,
            "kind": str(self.kind),
            "spec": dict(self.spec),
            "skill": self.skill,
            "prompt": self.prompt,
            "conversation": self.conversation,
            "preapproved": list(self.preapproved),
            "mode": None if self.mode is None else str(self.mode),
            "rate": {"fires": self.rate.fires, "seconds": self.rate.seconds},
            "max_attempts": self.max_attempts,
            "misfire": str(self.misfire),
            "misfire_bound": self.misfire_bound,
            "status": str(self.status),
            "reason": self.reason,
            "next_fire_at": iso(self.next_fire_at),
            "revision": self.revision,
            "created_by": {"kind": self.created_by.kind, "id": self.created_by.id},
            "created_at": iso(self.created_at),
            "changed_at": iso(self.changed_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """One row of a trigger's history."""

    id: str
    tenant: str
    trigger: str
    slot: str
    """unique for the trigger (B12); of a time, the instant"""
    source: Source
    status: FireStatus
    at: datetime
    planned: datetime | None
    late_ms: int | None
    """how late it was, of a time (U7)"""
    missed: int
    """how many fires a row of status ``missed`` stands for"""
    missed_from: datetime | None
    note: str
    """words: ``after_gap``, ``first_pass``, ``second_pass`` as of cron; ``catch_up``; ``at_least``: more than could be
    counted were missed; ``loop``; ``agent_not_usable``"""
    job_id: str | None
    depth: int
    """how many triggers led to it"""

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess automations history``."""
        return {
            "id": self.id,
            "trigger": self.trigger,
            "slot": self.slot,
            "source": self.source,
            "status": str(self.status),
            "at": iso(self.at),
            "planned": iso(self.planned),
            "late_ms": self.late_ms,
            "missed": self.missed,
            "missed_from": iso(self.missed_from),
            "note": self.note,
            "job_id": self.job_id,
        }


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a fire would send; nothing of it is stored."""

    text: str
    agent: str
    conversation: str
    mode: str | None
    preapproved: tuple[str, ...]
    blocked: str | None
    """why it would not run now, or null"""
    next_fires: tuple[Mapping[str, Any], ...]
    """``{"utc", "note"}`` of the next five, of a time"""
