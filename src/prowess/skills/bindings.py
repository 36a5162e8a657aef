"""Which skills are candidates here: the catalog, cut by the choices of the user and of the agent (T6).

- Without a choice a skill is enabled.
- A skill disabled by the user or for the agent is no candidate: the intersection decides.
- A pinned version serves in place of the current one; the user's pin goes before the agent's. A pin to a version that
  was removed leaves no candidate rather than another version.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from prowess.skills.catalog import Catalog, CatalogEntry, HasManifest
from prowess.skills.store import Binding

D = TypeVar("D", bound=HasManifest)


def bound_entries(catalog: Catalog[D], bindings: Iterable[Binding]) -> tuple[CatalogEntry[D], ...]:
    """The candidates, by id."""
    disabled: set[str] = set()
    pins: dict[str, str] = {}
    for binding in sorted(bindings, key=lambda item: item.target_kind):  # "agent" first, so that a user's pin wins
        if not binding.enabled:
            disabled.add(binding.skill_id)
        if binding.pinned_version is not None:
            pins[binding.skill_id] = binding.pinned_version
    if not disabled and not pins:
        return catalog.entries
    chosen = (_serving(catalog, entry, pins) for entry in catalog if entry.manifest.id not in disabled)
    return tuple(entry for entry in chosen if entry is not None)


def is_enabled(skill_id: str, bindings: Iterable[Binding]) -> bool:
    """Whether nobody here has disabled the skill."""
    return all(binding.enabled for binding in bindings if binding.skill_id == skill_id)


def _serving(catalog: Catalog[D], entry: CatalogEntry[D], pins: dict[str, str]) -> CatalogEntry[D] | None:
    version = pins.get(entry.manifest.id)
    if version is None:
        return entry
    pinned = catalog.get(entry.manifest.id, version)
    return None if pinned is None or pinned.removed else pinned
