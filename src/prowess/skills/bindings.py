"""Which skills are candidates here: the catalog, cut by the choices of the user and of the agent (T6).

- Without a choice a skill is enabled.
- A skill disabled by the user or for the agent is no candidate: the intersection decides.
- A version that is rolled out in part serves the users on its side, another one the others; a draft serves nobody.
- A version that the operator locked the skill to serves everybody, whatever they are pinned to.
- A pinned version serves in place of the current one; the user's pin goes before the agent's. A pin to a version that
  was removed leaves no candidate rather than another version.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, TypeVar

from prowess.kernel.canonical import compact_json
from prowess.skills.catalog import FULL, Catalog, CatalogEntry, HasManifest
from prowess.skills.names import Version
from prowess.skills.store import Binding

D = TypeVar("D", bound=HasManifest)


class Sample(NamedTuple):
    """For whom versions that are rolled out in part are chosen. ``drafts``: a place of work, where drafts serve too."""

    tenant: str = ""
    user: str = ""
    drafts: bool = False

    def holds(self, skill_id: str, percent: int) -> bool:
        """Whether a version serves this user: the same user is always on the same side, and stays as it grows."""
        if percent >= FULL or self.drafts:
            return True
        return _side(self.tenant, self.user, skill_id) < percent


NOBODY = Sample()


def bound_entries(
    catalog: Catalog[D], bindings: Iterable[Binding], sample: Sample = NOBODY
) -> tuple[CatalogEntry[D], ...]:
    """The candidates, by id."""
    if bindings == () and not catalog.partial:
        return catalog.entries
    disabled: set[str] = set()
    pins: dict[str, str] = {}
    for binding in sorted(bindings, key=lambda item: item.target_kind):  # "agent" first, so that a user's pin wins
        if not binding.enabled:
            disabled.add(binding.skill_id)
        if binding.pinned_version is not None:
            pins[binding.skill_id] = binding.pinned_version
    if not disabled and not pins and not catalog.partial:
        return catalog.entries
    chosen = (_serving(catalog, entry, pins, sample) for entry in catalog if entry.manifest.id not in disabled)
    return tuple(entry for entry in chosen if entry is not None)


def is_enabled(skill_id: str, bindings: Iterable[Binding]) -> bool:
    """Whether nobody here has disabled the skill."""
    return all(binding.enabled for binding in bindings if binding.skill_id == skill_id)


def _serving(
    catalog: Catalog[D], entry: CatalogEntry[D], pins: dict[str, str], sample: Sample
) -> CatalogEntry[D] | None:
    skill_id = entry.manifest.id
    if skill_id in catalog.locked:
        return entry
    version = pins.get(skill_id)
    if version is not None:
        pinned = catalog.get(skill_id, version)
        usable = pinned is not None and not pinned.removed and sample.holds(skill_id, pinned.rollout)
        return pinned if usable else None
    if skill_id not in catalog.partial:
        return entry
    newer = (
        other
        for other in catalog.versions(skill_id)
        if not other.removed and Version(other.manifest.version).stable and sample.holds(skill_id, other.rollout)
    )
    return next(newer, entry if sample.holds(skill_id, entry.rollout) else None)


@lru_cache(maxsize=65_536)
def _side(tenant: str, user: str, skill_id: str) -> int:
    """From 0 to 99, evenly spread over users."""
    text = compact_json([tenant, user, skill_id])
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % FULL
