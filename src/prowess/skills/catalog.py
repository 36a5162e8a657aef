"""One catalog over all kinds of skill: built-in definitions and the tenant's installed versions (S6, S7, T6).

A catalog is an immutable snapshot. The service keeps one a tenant and replaces it when the tenant's revision in the
database has moved, so a change made by any process is in force at the next turn (C10).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

from prowess.errors import Conflict
from prowess.kernel.canonical import text_digest
from prowess.skills.locks import SkillLock, locks_of
from prowess.skills.manifest import SkillKind, SkillManifest
from prowess.skills.names import SkillRef, Version
from prowess.skills.notes import served_notes
from prowess.skills.store import StoredSkill, catalog_revision, stored_skills
from prowess.skills.trust import Trust


class HasManifest(Protocol):
    """What the catalog needs of a definition."""

    @property
    def manifest(self) -> SkillManifest:
        """Its declaration."""
        ...


logger = logging.getLogger(__name__)

D = TypeVar("D", bound=HasManifest)

BUILT_IN = "built-in"
_INSTALLED = {SkillKind.PROMPT, SkillKind.TOOL}
MOUNTED_PREFIX = "mcp:"
"""before the name of the MCP server that a tool is mounted from"""
FULL = 100
"""percent"""


@dataclass(frozen=True, slots=True)
class CatalogEntry(Generic[D]):
    """One version of one skill. ``source``: ``built-in``, ``mcp:<server>``, or where it was installed from."""

    definition: D
    source: str
    digest: str
    notes: tuple[str, ...] = ()
    """what does not work here yet: codes with a sentence under ``note.<code>``"""
    removed: bool = False
    rollout: int = 100
    """percent of users whom it serves; 0: a draft"""
    trust: Trust = Trust.BUILT_IN
    signer: str | None = None
    """the id of the key that vouches for it"""

    @property
    def manifest(self) -> SkillManifest:
        """The declaration of this version."""
        return self.definition.manifest


class Catalog(Generic[D]):
    """An immutable snapshot: id → versions, newest first."""

    def __init__(
        self,
        entries: Iterable[CatalogEntry[D]],
        broken: Iterable[SkillRef] = (),
        locks: Mapping[str, SkillLock] | None = None,
    ) -> None:
        """Raises ``Conflict`` for what cannot stand beside each other; see ``check_fits``.

        ``broken``: versions that are in use and cannot be read. A skill whose current version is one of them has none:
        an older version does not take its place. The same holds for a skill that is locked to a version which is
        removed, unreadable or of other content than the lock says (U11).
        """
        skills: dict[str, dict[str, CatalogEntry[D]]] = {}
        for entry in entries:
            versions = skills.setdefault(entry.manifest.id, {})
            check_fits(entry, versions.values())
            versions[entry.manifest.version] = entry
        self._skills = {skill_id: _newest_first(versions) for skill_id, versions in sorted(skills.items())}
        unread: dict[str, list[str]] = {}
        for ref in broken:
            unread.setdefault(ref.id, []).append(ref.version)
        locks = locks or {}
        current = (
            _locked(versions, locks[name]) if name in locks else _current(versions.values(), unread.get(name, ()))
            for name, versions in self._skills.items()
        )
        self._current = {entry.manifest.id: entry for entry in current if entry is not None}
        self.entries = tuple(self._current.values())
        """the current version of each skill, by id: one and the same tuple for as long as the snapshot serves"""

        self.locked = frozenset(locks)
        """skills whose current version serves everybody, whatever they are pinned to"""
        self.partial = frozenset(
            skill_id
            for skill_id in self._current.keys() - self.locked
            if any(entry.rollout < FULL and not entry.removed for entry in self._skills[skill_id].values())
        )
        """skills that serve some users in another version than others, or not at all"""

    def get(self, skill_id: str, version: str) -> CatalogEntry[D] | None:
        """That very version, removed or not: running sessions are pinned to it (W4)."""
        return self._skills.get(skill_id, {}).get(version)

    def current(self, skill_id: str) -> CatalogEntry[D] | None:
        """The newest stable version that was not removed; the newest pre-release where none is stable (T6).

        Where the skill is locked, the version that it is locked to (U11).
        """
        return self._current.get(skill_id)

    def versions(self, skill_id: str) -> tuple[CatalogEntry[D], ...]:
        """Every version, newest first; empty for an unknown id."""
        return tuple(self._skills.get(skill_id, {}).values())

    def __iter__(self) -> Iterator[CatalogEntry[D]]:
        """The current version of each skill, by id."""
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self._current)


class CatalogService(Generic[D]):
    """Gives the snapshot that is in force."""

    def __init__(self, built_in: Iterable[D], from_stored: Callable[[StoredSkill], D]) -> None:
        """``built_in`` definitions are the same for every tenant; ``from_stored`` makes one of an installed version."""
        self._built_in = tuple(CatalogEntry(item, BUILT_IN, _definition_digest(item)) for item in built_in)
        self._from_stored = from_stored
        self._tools = {
            tool: entry.manifest.id for entry in self._built_in if (tool := tool_of(entry.definition)) is not None
        }
        self._snapshots: dict[str, tuple[int, Catalog[D]]] = {}
        self._lock = threading.Lock()
        self._empty = Catalog(self._built_in)
        self.mounted: Callable[[Connection, str], Iterable[CatalogEntry[D]]] = _nothing
        """(connection, tenant) → entries that stand above what is installed, set by the composition root; whoever
        changes them bumps the catalog"""

    @property
    def built_in(self) -> Catalog[D]:
        """The built-in skills alone; for what runs without a database."""
        return self._empty

    def snapshot(self, connection: Connection, tenant: str) -> Catalog[D]:
        """The tenant's catalog as of this transaction."""
        revision = catalog_revision(connection, tenant)
        if revision == 0:
            return self._empty
        known = self._snapshots.get(tenant)
        if known is not None and known[0] == revision:
            return known[1]
        stored = stored_skills(connection, tenant)
        mounted = list(self._fitting(self.mounted(connection, tenant), self._empty))
        taken = {entry.manifest.id for entry in mounted}
        above = Catalog([*self._built_in, *mounted])
        broken = [ref for ref in stored.broken if ref.id not in taken]
        installed = self._fitting(self._entries(stored.readable), above)
        catalog = Catalog([*self._built_in, *mounted, *installed], broken, locks_of(connection, tenant))
        with self._lock:
            self._snapshots[tenant] = (revision, catalog)
        return catalog

    @staticmethod
    def _fitting(entries: Iterable[CatalogEntry[D]], above: Catalog[D]) -> Iterator[CatalogEntry[D]]:
        """Those whose name is not taken ``above``; the others are logged and wait until it is free again."""
        for entry in entries:
            try:
                check_fits(entry, above.versions(entry.manifest.id))
            except Conflict as conflict:
                logger.error("a skill is left out: %s", conflict.message())
            else:
                yield entry

    def entry(self, stored: StoredSkill) -> CatalogEntry[D]:
        """An installed version as it would serve, whatever else is there."""
        definition = self._from_stored(stored)
        notes = served_notes(stored, definition.manifest.kind)
        return CatalogEntry(
            definition,
            stored.source,
            stored.digest,
            notes,
            stored.removed,
            stored.rollout,
            stored.trust,
            stored.signer,
        )

    def _entries(self, installed: Iterable[StoredSkill]) -> list[CatalogEntry[D]]:
        """The installed versions. The name of a tool belongs to one skill: another that claims it gives no tool.

        The gate judges a tool by its name, so what one skill was granted must not reach another's script.
        """
        owners, entries = dict(self._tools), []
        for stored in sorted(installed, key=lambda item: (item.removed, item.manifest.id, item.manifest.version)):
            entry = self.entry(stored)
            tool = tool_of(entry.definition)
            if tool is not None and owners.setdefault(tool, entry.manifest.id) != entry.manifest.id:
                logger.error("skill %s gives no tool: another one has its name", entry.manifest.id)
                entry = self.entry(replace(stored, scripts=()))
            entries.append(entry)
        return entries


def check_fits(entry: CatalogEntry[Any], others: Iterable[CatalogEntry[Any]]) -> None:
    """Whether ``entry`` may stand beside ``others``, the known versions of the same id.

    Raises ``Conflict``: ``skill_exists`` (same version, same content), ``skill_digest_differs`` (same version, other
    content: S7), ``skill_kind_differs``, ``skill_name_taken`` (the other is built in).
    """
    manifest = entry.manifest
    for other in others:
        detail = {"skill": manifest.id, "version": manifest.version, "source": entry.source, "other": other.source}
        if other.manifest.version == manifest.version:
            code = "skill_exists" if other.digest == entry.digest else "skill_digest_differs"
            raise Conflict(code, **detail)
        if _origin(other.source) != _origin(entry.source):
            raise Conflict("skill_name_taken", **detail)
        kinds = {manifest.kind, other.manifest.kind}
        # An installed version is a tool where its script runs, and a prompt where it rests.
        if len(kinds) > 1 and (entry.source == BUILT_IN or kinds != _INSTALLED):
            raise Conflict("skill_kind_differs", **detail, kind=str(manifest.kind), other_kind=str(other.manifest.kind))


def tool_of(definition: HasManifest) -> str | None:
    """The name of the tool that a definition gives; null where it gives none."""
    found = getattr(definition, "tool_id", None)
    return found if isinstance(found, str) else None


def is_installed(source: str) -> bool:
    """Whether a skill of this source lies in the tenant's own store, with its files."""
    return source != BUILT_IN and not source.startswith(MOUNTED_PREFIX)


def _origin(source: str) -> str:
    """What kind of source it is; a server is one by itself, so that a name is never shared between two (G11)."""
    return "installed" if is_installed(source) else source


def _nothing(_connection: Connection, _tenant: str) -> Iterable[CatalogEntry[Any]]:
    return ()


def _newest_first(versions: dict[str, CatalogEntry[D]]) -> dict[str, CatalogEntry[D]]:
    # Build metadata has no part in the order of versions; by text it still has one order here (T5).
    return dict(sorted(versions.items(), key=lambda item: (Version(item[0]), item[0]), reverse=True))


def _current(newest_first: Iterable[CatalogEntry[D]], broken: Iterable[str] = ()) -> CatalogEntry[D] | None:
    """The newest stable version in full use; where none is, the newest stable, else the newest."""
    present = [entry for entry in newest_first if not entry.removed]
    full = [entry for entry in present if entry.rollout == FULL] or present
    stable = (entry for entry in full if Version(entry.manifest.version).stable)
    found = next(stable, full[0] if full else None)
    if found is None:
        return None
    return None if any(_goes_before(version, found.manifest.version) for version in broken) else found


def _locked(versions: Mapping[str, CatalogEntry[D]], lock: SkillLock) -> CatalogEntry[D] | None:
    """The version that a lock names, if it is still there as it was."""
    entry = versions.get(lock.version)
    return entry if entry is not None and not entry.removed and entry.digest == lock.digest else None


def _goes_before(version: str, current: str) -> bool:
    """Whether a version that cannot be read would be current in the other's place."""
    one, other = Version(version), Version(current)
    return (one.stable, one) > (other.stable, other)


def _definition_digest(definition: HasManifest) -> str:
    body = getattr(definition, "body", "")
    return text_digest(definition.manifest.model_dump_json(exclude_defaults=True) + "\x1e" + body)
