"""The law once more, from its words alone (G1–G3, G6, G7, G9, G10, G13, B14, rulings 12.18–12.20, 12.25, 12.27, 12.29);
nothing of src.
A surface is a triple of sets or nulls: skills as (id, version or null, source or null), groups as (kind, name), tools."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Set
from typing import Any

Id = tuple[Any, ...]
Surface = tuple[Set[Id] | None, Set[Id] | None, Set[str] | None]
ALL: Surface = (None, None, None)


Skill = namedtuple("Skill", "version source tools system")
Group = namedtuple("Group", "tools bound manageable system")


class Law:
    """One call: what the agent has, the surfaces from the outermost call to this one, what is equipped."""

    def __init__(self, skills: dict[str, Skill], declared: dict[str, Group], loose: Set[str], marked: Set[str],
                 chain: list[Surface], equipped: Set[Id]) -> None:  # fmt: skip
        own = {("skill", name): Group(it.tools, name, False, False) for name, it in skills.items() if it.tools}
        self.skills, self.marked, self.equipped = skills, marked, equipped
        self.chain = chain = [s for at, s in enumerate(chain) if at == 0 or s != ALL]  # G9: who names nothing inherits
        self.groups: dict[Id, Group] = {**own, **{("declared", name): group for name, group in declared.items()}}
        self.of = {tool: {g for g, it in self.groups.items() if tool in it.tools}
                   for tool in loose.union(*(group.tools for group in self.groups.values()))}  # fmt: skip
        self.granted = {at: self._granted(s) for at, s in enumerate(chain)}

    def _names(self, surface: Surface, name: str | None) -> bool:
        it = self.skills.get(name or "")
        ids = {(name, v, s) for v in (None, it.version) for s in (None, it.source)} if it else set()
        return bool(ids & (surface[0] or set()))

    def _granted(self, surface: Surface) -> set[Id]:
        named = self.groups if surface == ALL else surface[1] or set()
        return {g for g, it in self.groups.items() if g in named or self._names(surface, it.bound)}

    def skill(self, name: str) -> bool:
        it = self.skills.get(name)
        return it is not None and (it.system or all(s == ALL or self._names(s, name) for s in self.chain))

    def group(self, group: Id) -> bool:
        return group in self.groups and (self.groups[group].system or all(group in g for g in self.granted.values()))

    def tool(self, name: str) -> bool:
        return name in self.of and (name in self.marked or all(
            s == ALL or name in (s[2] or ()) or self.of[name] & self.granted[at] for at, s in enumerate(self.chain)
        ))  # fmt: skip

    def active(self, name: str) -> bool:
        mine, system = self.of[name], {g for g, it in self.groups.items() if it.system}
        return not mine or all(
            mine & self.equipped & (self.granted[at] | system) or (name in (s[2] or ()) and not mine & self.granted[at])
            for at, s in enumerate(self.chain)
        )

    def callable(self, name: str) -> bool:
        return self.tool(name) and self.active(name)


def gate(ask: Any, facts: Any, covers: Callable[[str, str | None], bool]) -> str:
    """``allow``, ``ask`` or ``deny``."""
    codes = {g.code for g in facts.grants if g.status == "active" and (g.scope == "user" or g.agent == ask.agent)
             and (g.tenant, g.user, g.skill_id) == (ask.tenant, ask.user, ask.skill_id)
             and not (g.expires_at is not None and facts.now >= g.expires_at)
             and (g.resource is None or ask.tentative or covers(g.resource, ask.resource))}  # fmt: skip
    said, needs, mode = {guard.effect for guard in facts.guards}, facts.requirements, facts.mode
    if (not facts.reach.allowed or not facts.enabled or facts.policy.effect == "deny" or said - {"allow", "ask"}
            or (mode == "explore" and ask.verb != "read") or {n.code for n in needs if n.risk == "L4"} - facts.opened
            or {n.code for n in needs if n.risk != "L4" and (n.risk, n.approval) != ("L0", "none")} - codes):  # fmt: skip
        return "deny"
    careful = {need.risk for need in needs if need.approval == "per_operation"}
    asked = facts.policy.effect == "ask" or (careful and facts.policy.effect != "allow")
    alone, touched = facts.unattended, {n.code for n in needs if (n.risk, n.approval) != ("L0", "none")}
    before = alone is not None and ask.verb == "read" and touched and touched <= alone
    safety = "ask" in said or careful & {"L3", "L4"} or (alone is not None and facts.destructive)
    if not (safety or (asked and not facts.standing and mode != "bypass" and not before)):
        return "allow"
    yes = facts.approval
    names = ("tenant", "user", "agent", "skill_id", "skill_version", "action")
    if yes and all(getattr(yes, n) == getattr(ask, n) for n in names) and not yes.used and facts.now < yes.expires_at:
        if yes.input_digest != ask.input_digest:
            return "deny"
        if yes.approved:
            return "allow"
    return "deny" if mode == "dont_ask" else "ask"
