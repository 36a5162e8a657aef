"""An approval, what it is bound to, and who may answer it. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from prowess.access.approvers.model import ANY_CODE
from prowess.access.model import CallApproval, Verb
from prowess.errors import InvalidInput
from prowess.kernel.clock import iso

APPROVAL_LIFETIME = timedelta(minutes=30)
MAX_ARGUMENTS = 100_000
"""characters of the arguments as JSON: what is longer cannot wait"""
MAX_RESULT = 1_000_000
"""characters of a result that is kept until its turn goes on"""
RESULT_LIFETIME = timedelta(days=1)
RUNNING_LIMIT = timedelta(minutes=2)
"""A call ends within its timeout, of 30 seconds at most: one that has no outcome after this has lost its process."""


class ApprovalStatus(StrEnum):
    """Where an approval stands. ``approved`` says nothing of whether the call ran: ``outcome`` does."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class TurnKey(NamedTuple):
    """The turn that made a call."""

    tenant: str
    chat: tuple[str, str]
    message_id: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """The one call that an approval is for. ``call_key`` is the idempotency key of its execution (ruling 12.26)."""

    call_key: str
    call_id: str
    tenant: str
    user: str
    agent: str
    chat: tuple[str, str]
    message_id: str
    ordinal: int
    tool: str
    skill_id: str
    skill_version: str
    verb: Verb
    resource: str | None
    codes: tuple[str, ...]
    """of protected things that the tool touches"""
    input_digest: str
    """RFC 8785 digest of the validated arguments (ruling 12.27)"""
    arguments: str | None
    """those arguments as JSON; null when the approval has ended, and for whoever may not answer"""
    rule: str | None
    """the policy rule or guard that asked"""
    risk: str
    destructive: bool
    origin: str
    run_id: str | None
    language: str
    above: tuple[str, ...] = ()
    """agents that delegated the turn, outermost first"""

    @property
    def turn(self) -> TurnKey:
        """The turn that made the call."""
        return TurnKey(self.tenant, self.chat, self.message_id, self.agent)


class Seat(NamedTuple):
    """One person's answer."""

    number: int
    by: str
    approved: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Approval:
    """One question to people, and what became of it."""

    id: str
    call: AskedCall
    seats: int
    """how many different people must approve: 2 for an irreversible operation (ruling 12.28)"""
    status: ApprovalStatus
    created_at: datetime
    expires_at: datetime
    """of the question; a yes lives as long again"""
    used_at: datetime | None
    outcome: str | None
    """null while it waits or runs; ``succeeded``, ``failed``, ``timeout``, ``denied``, ``permission_timeout``,
    ``approval_unused``, ``outcome_unknown``, ``cancelled``, or why the gate refused the approved call"""
    result: str | None
    """the tool's answer as JSON, kept until its turn goes on"""
    answers: tuple[Seat, ...] = ()

    def overdue(self, now: datetime) -> bool:
        """Whether its time is over while nothing came of it (ruling 12.29: ``now >= expires_at``)."""
        waiting = self.status in (ApprovalStatus.PENDING, ApprovalStatus.APPROVED) and self.used_at is None
        return waiting and now >= self.expires_at

    def as_fact(self) -> CallApproval:
        """What the gate is shown."""
        call = self.call
        return CallApproval(
            id=self.id,
            tenant=call.tenant,
            user=call.user,
            agent=call.agent,
            skill_id=call.skill_id,
            skill_version=call.skill_version,
            action=f"tool:{call.tool}",
            input_digest=call.input_digest,
            approved=self.status is ApprovalStatus.APPROVED,
            used=self.used_at is not None,
            expires_at=self.expires_at,
        )

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess approvals list``; ``arguments`` null for whoever may not answer."""
        call = self.call
        plain = ("user", "agent", "message_id", "ordinal", "tool", "skill_id", "skill_version", "verb", "resource")
        more = ("risk", "destructive", "rule", "origin")
        return {
            "id": self.id,
            "status": str(self.status),
            "outcome": self.outcome,
            **{name: getattr(call, name) for name in plain},
            "chat": {"kind": call.chat[0], "id": call.chat[1]},
            "arguments": None if call.arguments is None else json.loads(call.arguments),
            **{name: getattr(call, name) for name in more},
            "seats": self.seats,
            "answers": [
                {"seat": seat.number, "by": seat.by, "approved": seat.approved, "at": iso(seat.at)}
                for seat in self.answers
            ],
            "created_at": iso(self.created_at),
            "expires_at": iso(self.expires_at),
            "used_at": iso(self.used_at),
        }


class ApprovalGone(Exception):
    """Another worker used the approval first; nothing was written."""


def may_answer(approval: Approval, user: str, codes: frozenset[str]) -> bool:
    """Whether this person may answer: it is their call, or they are an approver of all that it touches (U8).

    A call that touches nothing protected was asked about by a rule or guard: for that an approver of everything is
    needed.
    """
    if user == approval.call.user or ANY_CODE in codes:
        return True
    return bool(approval.call.codes) and codes.issuperset(approval.call.codes)


def check_lifetime(lifetime: timedelta) -> timedelta:
    """Raises ``InvalidInput('approval_lifetime')`` unless it lasts from a second to a week."""
    if not timedelta(seconds=1) <= lifetime <= timedelta(days=7):
        raise InvalidInput("approval_lifetime", field="approval_lifetime")
    return lifetime
