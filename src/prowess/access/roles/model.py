"""A role: a name for what its members may use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from prowess.access.surface import CapabilitySurface


@dataclass(frozen=True, slots=True)
class Role:
    """What the members of a role may use. ``everything`` is written out, never the result of naming nothing."""

    name: str
    surface: CapabilitySurface = field(default=CapabilitySurface.DENY_ALL)
    everything: bool = False

    @property
    def grants(self) -> CapabilitySurface:
        """The surface that the role gives: a role that names nothing gives nothing."""
        if self.everything:
            return CapabilitySurface.ALLOW_ALL
        return CapabilitySurface.DENY_ALL if self.surface.allows_all else self.surface

    def to_json(self) -> dict[str, Any]:
        """``{"name", "everything", "skills", "groups", "tools"}``."""
        return {"name": self.name, "everything": self.everything, **self.surface.to_json()}


def surface_of_roles(roles: Iterable[Role]) -> CapabilitySurface:
    """What a user with these roles may use: what any of them gives; without a role nothing (default deny)."""
    surface = CapabilitySurface.DENY_ALL
    for role in roles:
        surface = surface.union(role.grants)
    return surface
