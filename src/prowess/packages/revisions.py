"""Which revision serves: locks, rollback in one command, and lock files (U11).

A version is immutable, so going back is choosing: a lock names version and digest, and serves everybody from the next
turn on. Sessions that run keep the version that they began with (W4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from prowess.errors import Conflict, Denied, InvalidInput, NotFound, SkillFileError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.clock import iso
from prowess.kernel.names import is_skill_name, normalise_skill_name
from prowess.skills.catalog import Catalog, CatalogEntry, CatalogService, HasManifest, is_installed
from prowess.skills.front_matter import read_limited
from prowess.skills.locks import SkillLock, delete_lock, locks_of, put_lock
from prowess.skills.names import SkillRef, Version
from prowess.skills.store import bump_catalog

D = TypeVar("D", bound=HasManifest)

LOCK_FORMAT = 1
MAX_LOCK_FILE_BYTES = 4 * 1024 * 1024
MAX_LOCKED = 20_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGEST_START = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")


@dataclass(frozen=True, slots=True)
class LockedSkill:
    """One line of a lock file."""

    id: str
    version: str
    digest: str
    source: str
    signer: str | None

    def to_json(self) -> dict[str, Any]:
        """The shape of one entry under ``skills``."""
        return {
            "id": self.id,
            "version": self.version,
            "digest": self.digest,
            "source": self.source,
            "signer": self.signer,
        }


def lock_to_json(lock: SkillLock) -> dict[str, Any]:
    """The shape of ``prowess skills lock``."""
    return {
        "id": lock.skill,
        "version": lock.version,
        "digest": lock.digest,
        "locked_by": lock.locked_by,
        "locked_at": iso(lock.locked_at),
    }


class RevisionService(Generic[D]):
    """The use cases of locks; all of them are the operator's (G15)."""

    def __init__(self, log: EventLog, catalog: CatalogService[D]) -> None:
        self._log = log
        self._catalog = catalog

    def lock(self, *, actor: Actor, tenant: str, skill: str, to: str | None = None) -> SkillLock:
        """Let this version serve everybody until it is unlocked: the current one, or a version or digest.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``), ``InvalidInput`` (``skill_built_in``,
        ``digest_ambiguous``), ``Denied('agent_cannot_decide')``.
        """
        with self._change(actor, tenant) as transaction:
            catalog = self._catalog.snapshot(transaction.connection, tenant)
            skill_id, versions = _versions(catalog, skill)
            entry = catalog.current(skill_id) if to is None else _named(skill_id, versions, to)
            if entry is None:
                raise NotFound("skill_not_found", skill=skill[:80])
            return self._put(transaction, actor, tenant, entry, "locked")

    def rollback(self, *, actor: Actor, tenant: str, skill: str, to: str | None = None) -> SkillLock:
        """Go back to a former version, or to the one that ``to`` names, for everybody from the next turn on.

        Without ``to``: the newest version in use before the one that serves now, stable where one is. Raises as
        ``lock``, and ``Conflict('nothing_to_roll_back')``.
        """
        with self._change(actor, tenant) as transaction:
            catalog = self._catalog.snapshot(transaction.connection, tenant)
            skill_id, versions = _versions(catalog, skill)
            entry = _before(catalog.current(skill_id), versions) if to is None else _named(skill_id, versions, to)
            if entry is None:
                raise Conflict("nothing_to_roll_back", skill=skill_id)
            return self._put(transaction, actor, tenant, entry, "rolled_back")

    def unlock(self, *, actor: Actor, tenant: str, skill: str) -> bool:
        """Follow the newest stable version again; false where it was not locked. Raises ``Denied``."""
        skill_id = normalise_skill_name(skill)
        with self._change(actor, tenant) as transaction:
            if not delete_lock(transaction.connection, tenant, skill_id):
                return False
            bump_catalog(transaction.connection, tenant)
            transaction.emit("skill.unlocked", tenant=tenant, actor=actor, target=skill_id)
            return True

    def locks(self, tenant: str) -> list[SkillLock]:
        """Every lock, by skill."""
        with self._log.database.read() as connection:
            return list(locks_of(connection, tenant).values())

    def lock_file(self, tenant: str) -> dict[str, Any]:
        """What serves now: ``{"format", "skills": [{"id", "version", "digest", "source", "signer"}]}``."""
        with self._log.database.read() as connection:
            catalog = self._catalog.snapshot(connection, tenant)
        entries = [entry for entry in catalog if is_installed(entry.source)]
        locked = [
            LockedSkill(entry.manifest.id, entry.manifest.version, entry.digest, entry.source, entry.signer)
            for entry in entries
        ]
        return {"format": LOCK_FORMAT, "skills": [item.to_json() for item in locked]}

    def _change(self, actor: Actor, tenant: str) -> Any:
        if actor.kind == "agent":
            raise Denied("agent_cannot_decide", field="actor")
        return self._log.transaction(tenant)

    @staticmethod
    def _put(transaction: Transaction, actor: Actor, tenant: str, entry: CatalogEntry[D], why: str) -> SkillLock:
        ref = SkillRef(entry.manifest.id, entry.manifest.version)
        if not is_installed(entry.source):
            raise InvalidInput("skill_built_in", skill=ref.id)
        put_lock(
            transaction.connection,
            tenant,
            ref.id,
            version=ref.version,
            digest=entry.digest,
            locked_by=actor.id,
            at_ms=transaction.now_ms,
        )
        bump_catalog(transaction.connection, tenant)
        transaction.emit("skill.locked", tenant=tenant, actor=actor, skill=ref, digest=entry.digest, why=why)
        return SkillLock(ref.id, ref.version, entry.digest, actor.id, transaction.now)


def read_lock_file(file: Path) -> list[LockedSkill]:
    """The entries of a lock file. Raises ``SkillFileError`` (``lock_file_malformed``, and those of reading)."""
    try:
        found = json.loads(read_limited(str(file), MAX_LOCK_FILE_BYTES))
        if found["format"] != LOCK_FORMAT or not isinstance(found["skills"], list) or len(found["skills"]) > MAX_LOCKED:
            raise ValueError("format")
        locked = [_locked(item) for item in found["skills"]]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise SkillFileError("lock_file_malformed", file=str(file), line=1) from None
    if len({item.id for item in locked}) < len(locked):
        raise SkillFileError("lock_file_malformed", file=str(file), line=1)
    return locked


def _locked(item: Any) -> LockedSkill:
    skill_id, version, digest, source, signer = (item[name] for name in ("id", "version", "digest", "source", "signer"))
    texts = isinstance(source, str) and (signer is None or isinstance(signer, str)) and isinstance(version, str)
    if not texts or not is_skill_name(skill_id) or not _DIGEST.fullmatch(digest):
        raise ValueError("entry")
    return LockedSkill(skill_id, Version(version).text, digest, source, signer)


def _versions(catalog: Catalog[D], skill: str) -> tuple[str, Sequence[CatalogEntry[D]]]:
    skill_id = normalise_skill_name(skill)
    versions = [entry for entry in catalog.versions(skill_id) if not entry.removed]
    if not versions:
        raise NotFound("skill_not_found", skill=skill[:80])
    return skill_id, versions


def _named(skill_id: str, versions: Sequence[CatalogEntry[D]], to: str) -> CatalogEntry[D]:
    """The version that a version number, a digest or the beginning of one names."""
    for entry in versions:
        if entry.manifest.version == to:
            return entry
    start = _DIGEST_START.fullmatch(to)
    found = [entry for entry in versions if start is not None and entry.digest.startswith(start[1])]
    if len(found) > 1:
        raise InvalidInput("digest_ambiguous", field="to", skill=skill_id)
    if not found:
        raise NotFound("version_not_found", skill=skill_id, version=to[:80])
    return found[0]


def _before(current: CatalogEntry[D] | None, versions: Sequence[CatalogEntry[D]]) -> CatalogEntry[D] | None:
    """The newest version before the one that serves; a stable one where there is one."""
    if current is None:
        return versions[0]
    own = Version(current.manifest.version)
    older = [entry for entry in versions if Version(entry.manifest.version) < own]
    return next((entry for entry in older if Version(entry.manifest.version).stable), older[0] if older else None)
