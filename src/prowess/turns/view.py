"""What one call may see: resolved once when it starts, frozen, and asked on every road (T11, G8, G9, U1, U12).

``Rights`` is what was resolved for the call. ``TurnView`` is what those rights leave of the tenant's catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from prowess.access.capabilities import CallSurface, Capabilities, GroupCapability, SkillCapability
from prowess.access.filters import EVERYTHING, SkillFilter
from prowess.access.model import NO_RULE, Mode, RuleVerdict, Verb, Verdict
from prowess.access.policies import NO_POLICIES, Attempt, PolicySet
from prowess.access.surface import CapabilitySurface, GroupId, SkillKey
from prowess.kernel.names import normalise_skill_name
from prowess.skills.catalog import CatalogEntry
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SERVER_GROUP_PREFIX, SkillDefinition, ToolGroup, ToolSkill

Entry = CatalogEntry[SkillDefinition]

HiddenReason = Literal["not_granted", "filtered", "policy"]

_MODES = (Mode.BYPASS, Mode.DEFAULT, Mode.DONT_ASK, Mode.EXPLORE)


@dataclass(frozen=True, slots=True)
class Rights:
    """What was resolved for one call. Never stored."""

    layers: tuple[CapabilitySurface, ...] = (CapabilitySurface.ALLOW_ALL,)
    """the call's own surface, after those of the calls that delegated to it"""
    overlay: SkillFilter | None = None
    """over the agent's own filter, for this call"""
    overlays_above: tuple[SkillFilter, ...] = ()
    """of the calls that delegated: what they shut out no delegate lets in"""
    mode: Mode = Mode.DEFAULT
    above: tuple[str, ...] = ()
    """the agents that delegated, outermost first: rules about them hold here too (C37, C38)"""
    unattended: frozenset[str] | None = None
    """null: the user is there; else the codes that a trigger's policy pre-approved (B14)"""

    @property
    def unrestricted(self) -> bool:
        """Whether nothing is cut: no surface and no filter for the call."""
        cut = self.overlay is not None or self.overlays_above
        return not cut and all(layer.allows_all for layer in self.layers)


class Marks(NamedTuple):
    """What the operator marked as system when the runtime was opened (G10), and the declared tool groups."""

    skills: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    groups: tuple[ToolGroup, ...] = ()


def stricter(one: Mode, other: Mode | None) -> Mode:
    """The mode that lets less through."""
    return one if other is None else max(one, other, key=_MODES.index)


def both_unattended(above: frozenset[str] | None, own: frozenset[str] | None) -> frozenset[str] | None:
    """What is pre-approved for a delegate: what both were given, where nobody is there for either."""
    if above is None or own is None:
        return own if above is None else above
    return above & own


@dataclass(frozen=True)
class TurnView:
    """One call's frozen view."""

    user: str
    agent: str
    rights: Rights
    agent_filter: SkillFilter
    bound: tuple[Entry, ...]
    """enabled here, before anything of this class is asked (T6)"""
    policies: PolicySet = NO_POLICIES
    roles: frozenset[str] = frozenset()
    marks: Marks = field(default=Marks())

    @cached_property
    def candidates(self) -> tuple[Entry, ...]:
        """The skills that exist for this call."""
        if self.rights.unrestricted and self.agent_filter is EVERYTHING and not self.policies.rules:
            return self.bound
        return tuple(entry for entry in self.bound if self.hidden(entry) is None)

    def hidden(self, entry: Entry) -> HiddenReason | None:
        """Why a skill does not exist here; null where it does."""
        manifest = entry.manifest
        if not self._designed(manifest.id):
            return "filtered"
        if not self._granted(entry):
            return "not_granted"
        if self.policies.rules and self.judge(manifest.id).effect == "deny":
            return "policy"
        return None

    def judge(
        self, skill: str, tool: str | None = None, verb: Verb = "write", resource: str | None = None
    ) -> RuleVerdict:
        """What the policies say, of this agent and of those that delegated to it: the strictest."""
        if not self.policies.rules:
            return NO_RULE
        attempt = self.attempt(skill, tool, verb, resource)
        verdict = self.policies.judge(attempt)
        for agent in self.rights.above:
            other = self.policies.judge(self.attempt(skill, tool, verb, resource, agent=agent))
            if _RANK[other.effect] > _RANK[verdict.effect]:
                verdict = other
        return verdict

    def attempt(
        self, skill: str, tool: str | None, verb: Verb, resource: str | None, *, agent: str | None = None
    ) -> Attempt:
        """The attempt as policies and guards see it."""
        return Attempt(self.user, agent or self.agent, skill, tool, verb, resource, self.roles)

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the agent has here: enabled skills that pass its filter, before the surface is asked."""
        return _capabilities(_Same(self.bound), self._filters, self.marks)

    def surface(self, equipped: frozenset[GroupId] | None) -> CallSurface:
        """The view of capabilities with what is stored as equipped; null: nothing was stored yet."""
        capabilities = self.capabilities
        known = capabilities.equipped_at_first if equipped is None else equipped
        return CallSurface(capabilities, self.rights.layers, known)

    def tools_in(self, scope: ChatScope) -> Iterator[ToolSkill]:
        """Every tool of this agent that serves this kind of chat, granted or not."""
        for entry in self.bound:
            tool = entry.definition
            if isinstance(tool, ToolSkill) and scope in entry.manifest.scopes and self._designed(tool.manifest.id):
                yield tool

    def entry(self, skill: str, scope: ChatScope | None = None) -> Entry | None:
        """The skill that is named, where it exists for this call and, where one is given, serves this kind of chat."""
        wanted = normalise_skill_name(skill)
        found = next((entry for entry in self.candidates if entry.manifest.id == wanted), None)
        return found if found is None or scope is None or scope in found.manifest.scopes else None

    def sees(self, skill_id: str, version: str, source: str | None) -> bool:
        """Whether a version that is pinned elsewhere, in a session, exists for this call; bindings are not asked."""
        key = SkillKey(skill_id, version, source)
        return (
            self._designed(skill_id)
            and (skill_id in self.marks.skills or all(layer.names_skill(key) for layer in self.rights.layers))
            and not (self.policies.rules and self.judge(skill_id).effect == "deny")
        )

    def _designed(self, skill_id: str) -> bool:
        return all(item is EVERYTHING or item.allows(skill_id) for item in self._filters)

    @cached_property
    def _filters(self) -> tuple[SkillFilter, ...]:
        """All must let a skill through: the agent's with what lies over it, and those of the calls that delegated."""
        above = (item for item in self.rights.overlays_above if item.kind != "enable")
        return (self.agent_filter.overlaid(self.rights.overlay), *above)

    def _granted(self, entry: Entry) -> bool:
        manifest = entry.manifest
        if manifest.id in self.marks.skills:
            return True
        key = SkillKey(manifest.id, manifest.version, entry.source)
        return all(layer.names_skill(key) for layer in self.rights.layers)


class _Same:
    """A tuple that equals only itself: what a snapshot of the catalog holds is compared by identity."""

    __slots__ = ("entries",)

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.entries is other.entries

    def __hash__(self) -> int:
        return id(self.entries)


@lru_cache(maxsize=32)
def _capabilities(bound: _Same, filters: tuple[SkillFilter, ...], marks: Marks) -> Capabilities:
    """Kept for as long as the catalog stands: building it costs as much as a turn where there are many skills."""
    present = [entry for entry in bound.entries if all(item.allows(entry.manifest.id) for item in filters)]
    groups = [*map(_group, marks.groups), *_servers(present)]
    grouped = frozenset(tool for group in groups for tool in group.tools)
    return Capabilities(
        (_skill(entry, grouped, marks.skills) for entry in present),
        groups,
        system_tools=marks.tools,
    )


_RANK = {None: 0, "allow": 1, "ask": 2, "deny": 3}


def reachable(view: TurnView, entry: Entry) -> bool:
    """Whether a person can come upon the skill at all: it exists for them, or a tool of it does (G7)."""
    if view.hidden(entry) is None:
        return True
    tool = entry.definition
    return isinstance(tool, ToolSkill) and unseen_verdict(view, tool.tool_id).allowed


def unseen_verdict(view: TurnView, tool: str) -> Verdict:
    """Entitlement to a tool, which is frozen for the call; activation is asked where the call is dispatched."""
    return view.surface(None).tool(tool)


def _skill(entry: Entry, grouped: frozenset[str], system: frozenset[str]) -> SkillCapability:
    manifest, definition = entry.manifest, entry.definition
    tools = frozenset({definition.tool_id}) if isinstance(definition, ToolSkill) else frozenset()
    # The manual of a tool skill is its schema: its group is equipped from the start, unless a declared group holds it.
    return SkillCapability(
        SkillKey(manifest.id, manifest.version, entry.source),
        tools,
        system=manifest.id in system,
        equipped=not tools & grouped,
    )


def _servers(present: list[Entry]) -> Iterator[GroupCapability]:
    """A group for the tools of each mounted server, active in a new conversation (X7)."""
    tools: dict[str, set[str]] = {}
    for entry in present:
        definition = entry.definition
        if isinstance(definition, ToolSkill) and definition.server is not None:
            tools.setdefault(definition.server, set()).add(definition.tool_id)
    for server in sorted(tools):
        yield GroupCapability(f"{SERVER_GROUP_PREFIX}{server}", frozenset(tools[server]), equipped=True)


def _group(group: ToolGroup) -> GroupCapability:
    return GroupCapability(
        group.name,
        frozenset(group.tools),
        group.activate_on_skill,
        manageable=group.manageable,
        system=group.system,
        equipped=group.equipped,
    )
