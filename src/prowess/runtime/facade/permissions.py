"""Consent, roles, standing approvals, and asking why (G2, G5, G14, U3, U5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from prowess.access.model import EffectiveAction, Grant, Risk, StandingApproval
from prowess.access.policies import load_policies
from prowess.access.resolver import CallContext
from prowess.access.roles.model import Role
from prowess.access.standing.service import StandingMatch, matches
from prowess.access.surface import CapabilitySurface, SkillName
from prowess.errors import InvalidInput, NotFound
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.kernel.names import normalise_skill_name
from prowess.mounts.definitions import skill_id as mounted_skill_id
from prowess.runtime.explaining import ReachExplanation, action_of, explain_skill, explain_tool, find_tool
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.runtime.simulation import Change, simulate
from prowess.turns.definitions import ToolSkill
from prowess.turns.request import TurnRequest
from prowess.turns.view import unseen_verdict


class Permissions(Facade):
    """Consent, roles, standing approvals, and asking why (G2, G5, G14, U3, U5)."""

    def grant(
        self,
        *,
        user: str,
        skill: str,
        code: str,
        agent: str | None = None,
        resource: str | None = None,
        expires_at: datetime | None = None,
        tenant: str = DEFAULT_TENANT,
        actor: Actor | None = None,
    ) -> Grant:
        """Consent of the user to one declared code of a skill; for one agent where ``agent`` is given.

        Raises ``NotFound`` (``skill_not_found``, ``agent_not_found``), ``InvalidInput`` (``code_not_declared``,
        ``code_not_grantable``, ``expiry_in_past``).
        """
        check_id(user, "user")
        manifest = self._visible(tenant, user, None, skill).manifest
        if agent is not None:
            self._parts.chat.require_agent(tenant, agent, user)
        return self._parts.grants.grant(
            actor=actor or Actor("user", user),
            tenant=tenant,
            user=user,
            skill=(manifest.id, manifest.version),
            declared=manifest.permission_requirements,
            code=code,
            agent=agent,
            resource=resource,
            expires_at=expires_at,
        )

    def revoke(
        self,
        *,
        user: str,
        skill: str,
        code: str,
        agent: str | None = None,
        tenant: str = DEFAULT_TENANT,
        actor: Actor | None = None,
    ) -> int:
        """Take back the user's grants of a code, effective at the next operation.

        Raises ``NotFound('grant_not_found')``.
        """
        # Whether or not the skill, or the server that a tool was mounted from, is still there.
        server, slash, tool = skill.partition("/")
        skill_id = mounted_skill_id(server, tool) if slash else normalise_skill_name(skill)
        return self._parts.grants.revoke(
            actor=actor or Actor("user", user), tenant=tenant, user=user, skill=skill_id, code=code, agent=agent
        )

    def grants(self, *, user: str, with_revoked: bool = False, tenant: str = DEFAULT_TENANT) -> list[Grant]:
        """The user's grants, newest first."""
        return self._parts.grants.list(tenant, user, with_revoked=with_revoked)

    # --- roles (U3) ---

    def define_role(
        self,
        role: str,
        *,
        skills: Iterable[SkillName] | None = None,
        groups: Iterable[str] | None = None,
        tools: Iterable[str] | None = None,
        everything: bool = False,
        tenant: str = DEFAULT_TENANT,
        actor: Actor = OPERATOR,
    ) -> Role:
        """Make a role or change what it gives. One that names nothing gives nothing, unless ``everything`` is said.

        Raises ``InvalidInput`` (``bad_id``, ``surface_entry``). In force with ``prowess.open(resolver="roles")``.
        """
        surface = CapabilitySurface(skills, groups, tools)
        return self._parts.roles.define(actor=actor, tenant=tenant, role=Role(role, surface, everything))

    def remove_role(self, role: str, *, tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR) -> None:
        """Remove a role from everybody. Raises ``NotFound('role_not_found')``."""
        self._parts.roles.remove(actor=actor, tenant=tenant, name=role)

    def assign_role(self, role: str, *, user: str, tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR) -> bool:
        """Give a user a role; false where they have it. Raises ``NotFound('role_not_found')``."""
        return self._parts.roles.assign(actor=actor, tenant=tenant, name=role, user=user)

    def unassign_role(self, role: str, *, user: str, tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR) -> bool:
        """Take a role back, from the user's next call on; false where they did not have it."""
        return self._parts.roles.unassign(actor=actor, tenant=tenant, name=role, user=user)

    def roles(self, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> list[Role]:
        """The tenant's roles, or those of one user, by name."""
        return self._parts.roles.list(tenant) if user is None else self._parts.roles.of_user(tenant, user)

    def role_members(self, role: str | None = None, *, tenant: str = DEFAULT_TENANT) -> list[tuple[str, str]]:
        """(role, user) of each membership."""
        return self._parts.roles.members(tenant, role)

    def surface(self, *, user: str, agent: str | None = None, tenant: str = DEFAULT_TENANT) -> CapabilitySurface:
        """What the user may use at all, resolved anew. Raises ``Denied('surface_unresolved')``."""
        return self._resolved(CallContext(tenant, check_id(user, "user"), agent))

    # --- always allow (U5) ---

    def preview_always_allow(
        self, *, user: str, agent: str, tool: str, arguments: Mapping[str, Any], tenant: str = DEFAULT_TENANT
    ) -> EffectiveAction:
        """What an "always allow" for this call would bind: tool, verb and resource. Stores nothing.

        Raises ``NotFound('tool_not_found')``, ``InvalidInput`` (``tool_arguments``, ``not_always_allowable``).
        """
        return self._action(tenant, user, agent, tool, arguments)[1]

    def always_allow(
        self, *, user: str, agent: str, tool: str, arguments: Mapping[str, Any], tenant: str = DEFAULT_TENANT
    ) -> StandingApproval:
        """Never ask this user again about this very action of this agent. Only a person can say so (G15).

        Raises as ``preview_always_allow``.
        """
        found, action = self._action(tenant, user, agent, tool, arguments)
        skill = (found.manifest.id, found.manifest.version)
        return self._parts.standing.allow(
            actor=Actor("user", user), tenant=tenant, user=user, agent=agent, skill=skill, action=action
        )

    def standing_approvals(
        self, *, user: str, with_revoked: bool = False, tenant: str = DEFAULT_TENANT
    ) -> list[StandingApproval]:
        """What the user has always allowed, newest first."""
        return self._parts.standing.list(tenant, user, with_revoked=with_revoked)

    def standing_matches(
        self, *, user: str, agent: str, tool: str, arguments: Mapping[str, Any], tenant: str = DEFAULT_TENANT
    ) -> list[StandingMatch]:
        """Each standing approval beside this call, and the first thing in which it differs; none: it serves (U5)."""
        _, action = self._action(tenant, user, agent, tool, arguments)
        return list(matches(self.standing_approvals(user=user, tenant=tenant), agent, action))

    def revoke_standing(self, approval_id: str, *, user: str, tenant: str = DEFAULT_TENANT) -> None:
        """Take a standing approval back; the next call asks again. Raises ``NotFound('standing_not_found')``."""
        self._parts.standing.revoke(actor=Actor("user", user), tenant=tenant, user=user, approval_id=approval_id)

    # --- asking why (G14) ---

    def explain(
        self,
        *,
        user: str,
        agent: str,
        tool: str | None = None,
        skill: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        surface: CapabilitySurface | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> ReachExplanation:
        """Whether this user may use a tool or a skill through this agent now, layer by layer, and what decides it.

        For operators: it tells a thing that is not granted from one that does not exist. ``arguments``: also what rests
        on them, resources and standing approvals. Guards are not asked. Raises ``InvalidInput``
        (``nothing_to_explain``, ``tool_arguments``).
        """
        if (tool is None) == (skill is None):
            raise InvalidInput("nothing_to_explain", field="tool")
        view = self._view(tenant, user, agent, surface)
        catalog = self._parts.skills.catalog(tenant)
        if skill is not None:
            return explain_skill(view, catalog, skill)
        request = TurnRequest(tenant, user, agent, "?", "explain", conversation or "explain")
        with self._parts.database.read() as connection:
            parts = self._parts
            return explain_tool(connection, parts.clock.now(), view, request, str(tool), arguments, parts.budgets)

    def simulate(
        self,
        *,
        policies: Iterable[str | Path] | None = None,
        roles: Iterable[Role] | None = None,
        users: Iterable[str] | None = None,
        agents: Iterable[str] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Change]:
        """Who gains and who loses under other policy files, or with some roles defined otherwise. Stores nothing.

        ``users`` and ``agents`` null: all that are known. Guards are not asked. Raises ``InvalidInput`` for files that
        do not hold, ``LimitExceeded('simulation_too_large')``.
        """
        changed = None if policies is None else load_policies(policies)
        return simulate(self._parts, tenant, changed, tuple(roles or ()), users=users, agents=agents)

    def _action(
        self, tenant: str, user: str, agent: str, tool: str, arguments: Mapping[str, Any]
    ) -> tuple[ToolSkill, EffectiveAction]:
        view = self._view(tenant, user, agent)
        found = find_tool(view, tool)
        if found is None or not unseen_verdict(view, tool).allowed:
            raise NotFound("tool_not_found", tool=tool[:128])
        if any(requirement.risk in (Risk.L3, Risk.L4) for requirement in found.manifest.permission_requirements):
            raise InvalidInput("not_always_allowable", field="tool", tool=tool)
        return found, action_of(found, arguments)
