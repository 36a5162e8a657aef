"""What an agent was designed with: a filter over skills, and overlays for one call (section 1, conformance B).

A filter is data: it cannot raise, and one that cannot be read lets nothing through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prowess.errors import InvalidInput
from prowess.kernel.names import normalise_skill_name

FilterKind = Literal["all", "none", "only", "except", "enable", "disable"]

MAX_FILTER_NAMES = 10_000
_KINDS: tuple[FilterKind, ...] = ("all", "none", "only", "except", "enable", "disable")


@dataclass(frozen=True, slots=True)
class SkillFilter:
    """``all``, ``none``, ``only(…)``, ``except(…)``; for one call also the overlays ``enable(…)`` and ``disable(…)``.

    Standing alone, ``enable`` is a whitelist and ``disable`` a blacklist.
    """

    kind: FilterKind = "all"
    names: frozenset[str] = frozenset()
    base: SkillFilter | None = None
    """what an overlay lies on"""

    @classmethod
    def of(cls, kind: str, names: Iterable[str] = ()) -> SkillFilter:
        """A filter over skill ids, which are read like everywhere. Raises ``InvalidInput('bad_filter')``."""
        known = next((word for word in _KINDS if word == kind), None)
        given: list[Any] = [] if isinstance(names, str) else list(names)
        wrong = isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in given)
        if known is None or wrong or len(given) > MAX_FILTER_NAMES or (known in ("all", "none")) != (not given):
            raise InvalidInput("bad_filter", field="filter", known=list(_KINDS), limit=MAX_FILTER_NAMES)
        return cls(known, frozenset(map(normalise_skill_name, given)))

    def allows(self, skill_id: str) -> bool:
        """Whether the skill passes. What the base shuts out no overlay lets in."""
        if self.base is None:
            return self._says(skill_id)
        if skill_id in self.names:
            return self.kind == "enable" and self._root().allows(skill_id)
        return self.base.allows(skill_id)

    def overlaid(self, other: SkillFilter | None) -> SkillFilter:
        """This filter with ``other`` for one call: an overlay narrows or re-admits; any other filter replaces it."""
        if other is None:
            return self
        if other.kind not in ("enable", "disable"):
            return other
        return SkillFilter(other.kind, other.names, self)

    def to_json(self) -> dict[str, Any]:
        """``{"kind", "names"}`` of a filter without a base."""
        return {"kind": self.kind, "names": sorted(self.names)}

    def _says(self, skill_id: str) -> bool:
        if self.kind in ("only", "enable"):
            return skill_id in self.names
        if self.kind in ("except", "disable"):
            return skill_id not in self.names
        return self.kind == "all"

    def _root(self) -> SkillFilter:
        return self if self.base is None else self.base._root()


EVERYTHING = SkillFilter()
NOTHING = SkillFilter("none")


def stored_filter(stored: Any) -> SkillFilter:
    """The filter as it was stored; null is none at all, and one that cannot be read lets nothing through."""
    if stored is None:
        return EVERYTHING
    try:
        if not isinstance(stored, Mapping):
            return NOTHING
        return SkillFilter.of(stored["kind"], stored["names"])
    except (KeyError, TypeError, InvalidInput):
        return NOTHING
