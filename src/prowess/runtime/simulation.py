"""Who gains and who loses under other rules: every known user, agent and tool, asked of the gate twice (G14)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection, select

from prowess.access.gate import decide
from prowess.access.model import Decision
from prowess.access.policies import PolicySet
from prowess.access.resolver import CallContext
from prowess.access.roles.model import Role, surface_of_roles
from prowess.access.roles.store import members_of, roles_of
from prowess.access.store import grants
from prowess.chat.store import conversations, list_agents
from prowess.errors import LimitExceeded
from prowess.runtime.wiring import Parts
from prowess.skills.manifest import ChatScope
from prowess.turns.questions import Call, gate_facts, gate_request
from prowess.turns.request import TurnRequest
from prowess.turns.view import Rights, TurnView, stricter

MAX_QUESTIONS = 200_000


@dataclass(frozen=True, slots=True)
class Change:
    """One answer that would change."""

    user: str
    agent: str
    kind: Literal["skill", "tool"]
    name: str
    before: str
    """``allow``, ``ask`` or ``deny``; of a skill, whether it exists for the user"""
    after: str
    reason: str
    """why the stricter of both answers is what it is"""

    @property
    def gains(self) -> bool:
        """Whether the user may do more than before."""
        return _RANK[self.after] > _RANK[self.before]

    def to_json(self) -> dict[str, Any]:
        """The fields by name, and ``gains``."""
        names = ("user", "agent", "kind", "name", "before", "after", "reason")
        return {name: getattr(self, name) for name in names} | {"gains": self.gains}


_RANK = {"deny": 0, "ask": 1, "allow": 2}


def simulate(
    parts: Parts,
    tenant: str,
    policies: PolicySet | None,
    roles: tuple[Role, ...],
    *,
    users: Iterable[str] | None,
    agents: Iterable[str] | None,
) -> list[Change]:
    """Every answer that would change, by user, agent and name. Raises ``LimitExceeded('simulation_too_large')``."""
    with parts.database.read() as connection:
        people = sorted(set(users)) if users is not None else _known_users(connection, tenant)
        wanted = None if agents is None else set(agents)
        found = [agent for agent in list_agents(connection, tenant) if wanted is None or agent.id in wanted]
        size = len(people) * len(found) * max(1, len(parts.catalog.snapshot(connection, tenant)))
    if size > MAX_QUESTIONS:
        raise LimitExceeded("simulation_too_large", limit=MAX_QUESTIONS)
    # A resolver may read the database itself, so it is asked before it is read here.
    pairs = [
        (user, agent, parts.surfaces.resolve(CallContext(tenant, user, agent.id)))
        for user in people
        for agent in found
        if agent.usable_by(user)
    ]
    changes: list[Change] = []
    with parts.database.read() as connection:
        for user, agent, surface in pairs:
            rights = Rights((surface,), mode=stricter(parts.mode, parts.policies.mode))
            before = parts.reader.view(connection, tenant, user, agent, rights)
            after = _changed(connection, parts, tenant, before, policies, roles)
            changes += _differences(connection, parts, tenant, before, after)
    return changes


def _changed(
    connection: Connection,
    parts: Parts,
    tenant: str,
    before: TurnView,
    policies: PolicySet | None,
    roles: tuple[Role, ...],
) -> TurnView:
    rights, view = before.rights, before
    if roles:
        proposed = {role.name: role for role in roles}
        own = [proposed.get(role.name, role) for role in roles_of(connection, tenant, before.user)]
        rights = replace(rights, layers=(surface_of_roles(own),))
    if policies is not None:
        rights = replace(rights, mode=stricter(parts.mode, policies.mode))
        view = replace(view, policies=policies)
        if policies.names_roles:
            names = frozenset(role.name for role in roles_of(connection, tenant, before.user))
            view = replace(view, roles=names)
    return replace(view, rights=rights)


def _differences(connection: Connection, parts: Parts, tenant: str, before: TurnView, after: TurnView) -> list[Change]:
    changes: list[Change] = []
    for entry in before.bound:
        was, will = before.hidden(entry), after.hidden(entry)
        if (was is None) != (will is None):
            words = ("deny", "allow") if will is None else ("allow", "deny")
            changes.append(
                Change(before.user, before.agent, "skill", entry.manifest.id, *words, reason=str(will or was))
            )
    request = TurnRequest(tenant, before.user, before.agent, "?", "simulation", "simulation")
    for scope in ChatScope:
        for tool in before.tools_in(scope):
            if scope is ChatScope.GROUP and ChatScope.SINGLE in tool.manifest.scopes:
                continue  # asked already
            call = Call(request, tool, 0, "en", None, before)
            now = _decide(connection, parts, call)
            then = _decide(connection, parts, replace(call, view=after))
            if now.effect != then.effect:
                stricter_one = then if _RANK[then.effect] < _RANK[now.effect] else now
                changes.append(
                    Change(
                        before.user,
                        before.agent,
                        "tool",
                        tool.tool_id,
                        now.effect,
                        then.effect,
                        stricter_one.rule or stricter_one.reason,
                    )
                )
    return changes


def _decide(connection: Connection, parts: Parts, call: Call) -> Decision:
    return decide(gate_request(call, None), gate_facts(connection, call, None, parts.clock.now()))


def _known_users(connection: Connection, tenant: str) -> list[str]:
    """Everybody who has talked, was given a role, or has consented to something."""
    talked = select(conversations.c.user_id).where(
        conversations.c.tenant == tenant, conversations.c.user_id.is_not(None)
    )
    consented = select(grants.c.user_id).where(grants.c.tenant == tenant)
    found = {row.user_id for row in connection.execute(talked.union(consented))}
    return sorted(found | {user for _, user in members_of(connection, tenant)})
