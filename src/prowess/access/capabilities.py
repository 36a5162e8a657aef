"""What an agent has, and what one call sees of it: filter ∩ entitlement ∩ activation (T11, G6–G10, rulings 12.18–20).

``Capabilities`` is the agent as it was built. ``CallSurface`` is one call's view: the surface that was resolved for it
(and those of the calls above it, for a delegate), and what is equipped in the conversation. Both are immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from prowess.access.model import Layer, Verdict
from prowess.access.surface import CapabilitySurface, GroupId, SkillKey

LOAD_SKILL = "load_skill_through_path"
RESET_TOOLS = "reset_equipped_tools"
META_TOOLS = frozenset({LOAD_SKILL, RESET_TOOLS})
"""always there, and system (G10); what they show and change is cut to the surface (T11)"""


@dataclass(frozen=True, slots=True)
class SkillCapability:
    """A skill that an agent has. ``tools``: those of its tool group; none: it has no such group (ruling 12.20)."""

    key: SkillKey
    tools: frozenset[str] = frozenset()
    system: bool = False
    equipped: bool = False
    """whether its tool group is active before its manual was loaded"""


@dataclass(frozen=True, slots=True)
class GroupCapability:
    """A declared tool group."""

    name: str
    tools: frozenset[str]
    activate_on_skill: str | None = None
    """the skill whose grant grants the group, and whose loading activates it (G7)"""
    manageable: bool = True
    """whether ``reset_equipped_tools`` may name it"""
    system: bool = False
    equipped: bool = False
    """whether it is active in a new conversation"""


NOT_FOUND = Verdict(False, Layer.FILTER, "not_found")
NOT_GRANTED = Verdict(False, Layer.ENTITLEMENT, "not_granted")
NOT_ACTIVE = Verdict(False, Layer.ACTIVATION, "not_active")
NOT_ALLOWED_HERE = Verdict(False, Layer.FILTER, "not_allowed_here")
SYSTEM = Verdict(True, None, "system")
UNRESTRICTED = Verdict(True, None, "unrestricted")


class Capabilities:
    """Skills, tool groups and tools of one agent, after its filter."""

    def __init__(
        self,
        skills: Iterable[SkillCapability],
        groups: Iterable[GroupCapability] = (),
        tools: Iterable[str] = (),
        system_tools: Collection[str] = (),
    ) -> None:
        """``tools``: those outside every group. Groups and system marks may name tools that the agent lacks."""
        self.skills: Mapping[str, SkillCapability] = {skill.key.id: skill for skill in skills}
        self.groups: dict[GroupId, GroupCapability] = {}
        for skill in self.skills.values():
            if skill.tools:
                group = GroupCapability(
                    skill.key.id, skill.tools, skill.key.id, manageable=False, equipped=skill.equipped
                )
                self.groups[GroupId.of_skill(skill.key.id)] = group
        for group in groups:
            self.groups[GroupId("declared", group.name)] = group
        groups_of: dict[str, list[GroupId]] = {tool: [] for tool in (*META_TOOLS, *tools)}
        for group_id, group in self.groups.items():
            for tool in group.tools:
                groups_of.setdefault(tool, []).append(group_id)
        self.groups_of: Mapping[str, tuple[GroupId, ...]] = {tool: tuple(ids) for tool, ids in groups_of.items()}
        self.system_tools = META_TOOLS | frozenset(system_tools)
        self.equipped_at_first = frozenset(group_id for group_id, group in self.groups.items() if group.equipped)

    def activated_by(self, skill_id: str) -> frozenset[GroupId]:
        """The groups that loading the skill activates: its own and those bound to it (ruling 12.19)."""
        return frozenset(group_id for group_id, group in self.groups.items() if group.activate_on_skill == skill_id)


@dataclass(frozen=True, slots=True)
class CallSurface:
    """One call's frozen view of an agent's capabilities. Every road to a capability asks here (U1)."""

    capabilities: Capabilities
    layers: tuple[CapabilitySurface, ...]
    """the call's own surface, after those of the calls that delegated to it: all must allow (G9, B17)"""
    equipped: frozenset[GroupId]
    """as stored; what is seen of it is cut to what is granted (ruling 12.20)"""
    _executed: dict[str, Verdict] = field(default_factory=dict, init=False, repr=False, compare=False)
    """answers given already: all that they rest on is frozen"""

    def with_loaded(self, skill_id: str) -> CallSurface:
        """The same with the groups active that loading the skill activates."""
        return replace(self, equipped=self.equipped | self.capabilities.activated_by(skill_id))

    def skill(self, skill_id: str) -> Verdict:
        """Whether the skill's manual and resources are there for this call."""
        skill = self.capabilities.skills.get(skill_id)
        if skill is None:
            return NOT_FOUND
        if skill.system:
            return SYSTEM
        return self._granted(lambda layer: _skill_granted(layer, skill))

    def group(self, group_id: GroupId) -> Verdict:
        """Whether the group can be activated: granted, or marked as system."""
        group = self.capabilities.groups.get(group_id)
        if group is None:
            return NOT_FOUND
        if group.system:
            return SYSTEM
        return self._granted(lambda layer: self._group_granted(layer, group_id, group))

    def tool(self, name: str) -> Verdict:
        """Whether this user is entitled to the tool, equipped or not."""
        groups = self.capabilities.groups_of.get(name)
        if groups is None:
            return NOT_FOUND
        if name in self.capabilities.system_tools:
            return SYSTEM
        return self._granted(lambda layer: self._tool_granted(layer, name, groups))

    def execute(self, name: str) -> Verdict:
        """Whether the tool may be called as far as filter, entitlement and activation go (ruling 12.18)."""
        verdict = self._executed.get(name)
        if verdict is None:
            verdict = self.tool(name)
            if verdict.allowed and not self.active(name):
                verdict = NOT_ACTIVE
            if name in self.capabilities.groups_of:  # others are without number
                self._executed[name] = verdict
        return verdict

    def active(self, name: str) -> bool:
        """Whether the tool is equipped for this call."""
        groups = self.capabilities.groups_of.get(name)
        if not groups:
            return groups is not None
        first, *rest = self.layers or (CapabilitySurface.ALLOW_ALL,)
        # A delegate whose own surface says nothing has its parent's (G9): there is nothing to be active under.
        asked = (first, *(layer for layer in rest if not layer.allows_all))
        return all(self._active(layer, name, groups) for layer in asked)

    def tools(self) -> Iterator[str]:
        """The tools that may be called, by name: exactly those that ``execute`` allows."""
        return (name for name in sorted(self.capabilities.groups_of) if self.execute(name).allowed)

    def manageable_groups(self) -> tuple[GroupId, ...]:
        """The groups that ``reset_equipped_tools`` may name here, by name."""
        return tuple(
            group_id
            for group_id, group in sorted(self.capabilities.groups.items(), key=lambda item: item[0].name)
            if group.manageable and self.group(group_id).allowed
        )

    def active_groups(self) -> frozenset[GroupId]:
        """What is equipped and granted (ruling 12.20)."""
        return frozenset(group_id for group_id in self.equipped if self.group(group_id).allowed)

    def _granted(self, by_layer: Callable[[CapabilitySurface], tuple[str, str] | None]) -> Verdict:
        """All layers must allow; ``by_layer`` names the entry of one that does."""
        verdict = UNRESTRICTED
        for layer in self.layers:
            if layer.allows_all:
                continue
            by = by_layer(layer)
            if by is None:
                return NOT_GRANTED
            verdict = Verdict(True, None, "granted", by)
        return verdict

    def _active(self, layer: CapabilitySurface, tool: str, groups: tuple[GroupId, ...]) -> bool:
        known = self.capabilities.groups
        granted = [group for group in groups if self._group_granted(layer, group, known[group]) is not None]
        if any(group in self.equipped and (known[group].system or group in granted) for group in groups):
            return True
        return not granted and layer.names_tool(tool)

    def _group_granted(
        self, layer: CapabilitySurface, group_id: GroupId, group: GroupCapability
    ) -> tuple[str, str] | None:
        """The entry of ``layer`` that grants the group: by name, or through its skill."""
        if layer.allows_all:
            return ("surface", "unrestricted")
        if layer.names_group(group_id):
            return ("group", str(group_id))
        skill = None if group.activate_on_skill is None else self.capabilities.skills.get(group.activate_on_skill)
        return None if skill is None else _skill_granted(layer, skill)

    def _tool_granted(self, layer: CapabilitySurface, name: str, groups: tuple[GroupId, ...]) -> tuple[str, str] | None:
        if layer.names_tool(name):
            return ("tool", name)
        granted = (self._group_granted(layer, group, self.capabilities.groups[group]) for group in groups)
        return next((by for by in granted if by is not None), None)


def _skill_granted(layer: CapabilitySurface, skill: SkillCapability) -> tuple[str, str] | None:
    entry = layer.entry_for(skill.key)
    return None if entry is None else ("skill", entry.id)
