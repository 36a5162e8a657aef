"""The capability surface: what a user may use at all, in three dimensions (G6, G7, G11, rulings 12.18 and 12.21).

Each dimension is null, when it does not take part, or a set, possibly empty. A name in any set dimension allows;
there is no blacklist. A surface is a value: resolved once for a call, frozen, never stored (G9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from prowess.errors import InvalidInput
from prowess.kernel.names import normalise_skill_name

SKILL_GROUP_SUFFIX = "_skill_tools"
MAX_ENTRIES = 100_000
"""names in one surface"""
MAX_NAME = 256


_T = TypeVar("_T")


class SkillKey(NamedTuple):
    """A skill as an agent has it. ``version`` or ``source`` null: not known here."""

    id: str
    version: str | None = None
    source: str | None = None


class SkillEntry(NamedTuple):
    """A skill as a surface names it: an id, an id at a version, or an id from a source (ruling 12.21)."""

    id: str
    version: str | None = None
    source: str | None = None

    def to_json(self) -> str | list[str]:
        """As a surface takes it: ``"id"``, ``"id@version"`` or ``[source, …]``."""
        name = self.id if self.version is None else f"{self.id}@{self.version}"
        return name if self.source is None else [self.source, name]


class GroupId(NamedTuple):
    """A tool group: one that was declared, or the tool group of a skill. A pair, so that names never collide (G11)."""

    kind: Literal["declared", "skill"]
    name: str

    @classmethod
    def of_skill(cls, skill_id: str) -> GroupId:
        """The tool group of a skill."""
        return cls("skill", skill_id)

    @classmethod
    def parse(cls, text: str) -> GroupId:
        """The group that a person or model names: ``<skill>_skill_tools`` is a skill's, all else is declared."""
        skill = text.removesuffix(SKILL_GROUP_SUFFIX)
        return cls("skill", skill) if skill != text and skill else cls("declared", text)

    def __str__(self) -> str:
        return f"{self.name}{SKILL_GROUP_SUFFIX}" if self.kind == "skill" else self.name


SkillName = str | tuple[str, str] | SkillEntry
"""``"id"``, ``"id@version"``, ``(source, id)`` or an entry"""


@dataclass(frozen=True, slots=True, init=False)
class CapabilitySurface:
    """What one user may use in one call.

    ``skills``: ids (``fill_form`` is read as ``fill-form``), ``id@version``, or ``(source, id)``; ``groups``: names of
    tool groups, ``<skill>_skill_tools`` for a skill's; ``tools``: exact names, ``server/tool`` for MCP. Each null or an
    iterable. Raises ``InvalidInput`` (``surface_entry``, ``surface_too_large``).
    """

    skills: frozenset[SkillEntry] | None
    groups: frozenset[GroupId] | None
    tools: frozenset[str] | None

    ALLOW_ALL: ClassVar[CapabilitySurface]
    """no dimension takes part: everything that the agent has"""
    DENY_ALL: ClassVar[CapabilitySurface]
    """all dimensions are empty: nothing but what is marked as system"""

    def __init__(
        self,
        skills: Iterable[SkillName] | None = None,
        groups: Iterable[str | GroupId] | None = None,
        tools: Iterable[str] | None = None,
    ) -> None:
        object.__setattr__(self, "skills", None if skills is None else _entries(skills, "skills", _skill_entry))
        object.__setattr__(self, "groups", None if groups is None else _entries(groups, "groups", _group))
        object.__setattr__(self, "tools", None if tools is None else _entries(tools, "tools", _tool))

    @property
    def allows_all(self) -> bool:
        """Whether no dimension is set."""
        return self.skills is None and self.groups is None and self.tools is None

    def names_skill(self, skill: SkillKey) -> bool:
        """Whether the skill is granted: no dimension is set, or an entry names it."""
        if self.skills is None:
            return self.allows_all
        if (skill.id, None, None) in self.skills:  # the plainest entry, which nearly all are
            return True
        return any(entry in self.skills for entry in _entries_of(skill))

    def entry_for(self, skill: SkillKey) -> SkillEntry | None:
        """The entry that grants the skill, the plainest first; null where none does, or no dimension is set."""
        return next((entry for entry in _entries_of(skill) if self.skills is not None and entry in self.skills), None)

    def names_group(self, group: GroupId) -> bool:
        """Whether the group is granted by name, or no dimension is set."""
        return self.allows_all if self.groups is None else group in self.groups

    def names_tool(self, tool: str) -> bool:
        """Whether the tool is granted by name."""
        return self.tools is not None and tool in self.tools

    def without(self, name: SkillEntry | GroupId | str) -> CapabilitySurface:
        """The same surface less one entry; for asking whether that entry decided (G14)."""
        return CapabilitySurface(
            skills=None if self.skills is None else self.skills - {name},
            groups=None if self.groups is None else self.groups - {name},
            tools=None if self.tools is None else self.tools - {name},
        )

    def to_json(self) -> dict[str, list[Any] | None]:
        """``{"skills", "groups", "tools"}``, each null or a sorted list; the keywords that make the same again."""
        return {
            "skills": None if self.skills is None else sorted((entry.to_json() for entry in self.skills), key=str),
            "groups": None if self.groups is None else sorted(map(str, self.groups)),
            "tools": None if self.tools is None else sorted(self.tools),
        }

    def union(self, other: CapabilitySurface) -> CapabilitySurface:
        """What either allows: for a user with several roles."""
        if self.allows_all or other.allows_all:
            return CapabilitySurface.ALLOW_ALL
        return CapabilitySurface(
            skills=_either(self.skills, other.skills),
            groups=_either(self.groups, other.groups),
            tools=_either(self.tools, other.tools),
        )


def _entries_of(skill: SkillKey) -> tuple[SkillEntry, ...]:
    """Every entry that would cover the skill, the plainest first."""
    skill_id, version, source = skill
    entries = [SkillEntry(skill_id)]
    if version is not None:
        entries.append(SkillEntry(skill_id, version))
    if source is not None:
        entries.append(SkillEntry(skill_id, None, source))
        if version is not None:
            entries.append(SkillEntry(skill_id, version, source))
    return tuple(entries)


def _either(left: frozenset[_T] | None, right: frozenset[_T] | None) -> frozenset[_T] | None:
    return None if left is None and right is None else (left or frozenset()) | (right or frozenset())


def _entries(given: Iterable[Any], field: str, read: Callable[[Any], _T | None]) -> frozenset[_T]:
    if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
        raise InvalidInput("surface_entry", field=field, wanted="a list of names")
    found: set[_T] = set()
    for item in given:
        entry = read(item)
        if entry is None:
            raise InvalidInput("surface_entry", field=field, wanted="a name")
        found.add(entry)
        if len(found) > MAX_ENTRIES:
            raise InvalidInput("surface_too_large", field=field, limit=MAX_ENTRIES)
    return frozenset(found)


def _name(item: Any) -> str | None:
    return item if isinstance(item, str) and item.strip() and len(item) <= MAX_NAME else None


def _skill_entry(item: Any) -> SkillEntry | None:
    if isinstance(item, SkillEntry):
        return item
    source: str | None = None
    if isinstance(item, list | tuple) and len(item) == 2:
        source, item = _name(item[0]), item[1]
        if source is None:
            return None
    text = _name(item)
    if text is None:
        return None
    name, at, version = text.partition("@")
    if not name.strip() or (at and not version.strip()):
        return None
    return SkillEntry(normalise_skill_name(name), version.strip() or None, source)


def _group(item: Any) -> GroupId | None:
    if isinstance(item, GroupId):
        return item
    text = _name(item)
    return None if text is None else GroupId.parse(text)


_tool = _name

CapabilitySurface.ALLOW_ALL = CapabilitySurface()
CapabilitySurface.DENY_ALL = CapabilitySurface((), (), ())
