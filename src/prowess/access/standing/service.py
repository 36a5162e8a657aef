"""Giving and taking back standing approvals, and saying why one did or did not match (U5)."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Literal, NamedTuple

from prowess.access.model import EffectiveAction, StandingApproval
from prowess.access.standing.store import current_standing, insert_standing, list_standing, revoke_standing
from prowess.errors import NotFound
from prowess.events.log import EventLog
from prowess.events.model import Actor
from prowess.kernel.clock import from_ms
from prowess.kernel.ids import IdSource

Difference = Literal["agent", "tool", "verb", "resource"]


class StandingMatch(NamedTuple):
    """A standing approval beside an action: ``differs`` null where it serves, else the first thing that differs."""

    approval: StandingApproval
    differs: Difference | None


class StandingService:
    """The use cases of "always allow". Only a person gives one; an agent has no road here (G15)."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def allow(
        self, *, actor: Actor, tenant: str, user: str, agent: str, skill: tuple[str, str], action: EffectiveAction
    ) -> StandingApproval:
        """Always allow this very action of this user's agent; the one that is there where it is allowed already."""
        with self._log.transaction(tenant) as transaction:
            for known in current_standing(transaction.connection, tenant, user, skill[0]):
                if difference(known, agent, action) is None:
                    return known
            approval = StandingApproval(
                id=self._ids.new("standing"),
                tenant=tenant,
                user=user,
                agent=agent,
                skill_id=skill[0],
                action=action,
                created_at=from_ms(transaction.now_ms),
            )
            insert_standing(transaction.connection, approval)
            transaction.emit(
                "standing.allowed",
                tenant=tenant,
                actor=actor,
                user=user,
                agent=agent,
                skill=skill,
                target=approval.id,
                decision="allowed",
                tool=action.tool,
                verb=action.verb,
            )
            return approval

    def revoke(self, *, actor: Actor, tenant: str, user: str, approval_id: str) -> None:
        """Take one back; the next call asks again. Raises ``NotFound('standing_not_found')``."""
        with self._log.transaction(tenant) as transaction:
            if not revoke_standing(transaction.connection, tenant, user, approval_id, transaction.now_ms):
                raise NotFound("standing_not_found", id=approval_id)
            transaction.emit(
                "standing.revoked", tenant=tenant, actor=actor, user=user, target=approval_id, decision="cancelled"
            )

    def list(self, tenant: str, user: str, *, with_revoked: bool = False) -> builtins.list[StandingApproval]:
        """The user's standing approvals, newest first."""
        with self._log.database.read() as connection:
            return list_standing(connection, tenant, user, with_revoked=with_revoked)


def difference(approval: StandingApproval, agent: str, action: EffectiveAction) -> Difference | None:
    """Why an approval does not serve an action; null where it does. Nothing but equality serves."""
    if approval.agent != agent:
        return "agent"
    if approval.action.tool != action.tool:
        return "tool"
    if approval.action.verb != action.verb:
        return "verb"
    return None if approval.action.resource == action.resource else "resource"


def matches(approvals: Iterable[StandingApproval], agent: str, action: EffectiveAction) -> tuple[StandingMatch, ...]:
    """Each approval beside the action, those that serve first."""
    found = [StandingMatch(approval, difference(approval, agent, action)) for approval in approvals]
    return tuple(sorted(found, key=lambda match: match.differs is not None))
