"""What a person can do with the catalog: add, remove, export, enable, disable, pin (S1, S6, S7, T6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Connection

from prowess.errors import Conflict, InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.names import is_skill_name, normalise_skill_name
from prowess.skills.catalog import (
    BUILT_IN,
    FULL,
    Catalog,
    CatalogEntry,
    CatalogService,
    HasManifest,
    check_fits,
    is_installed,
    tool_of,
)
from prowess.skills.locks import delete_lock, locks_of
from prowess.skills.manifest import SkillKind, SkillManifest
from prowess.skills.names import SkillRef, Version
from prowess.skills.notes import notes_of
from prowess.skills.requirements import implied_requirements, merged_requirements
from prowess.skills.scripts import python_scripts
from prowess.skills.skill_md import LoadedSkill, SkillFile
from prowess.skills.skill_writer import Form, write_skill_folder
from prowess.skills.store import (
    Binding,
    StoredFile,
    StoredSkill,
    TargetKind,
    bindings_for,
    bump_catalog,
    insert_skill,
    mark_removed,
    set_rollout,
    set_trust,
    skill_file_rows,
    stored_skills,
    stored_version,
    upsert_binding,
)
from prowess.skills.trust import Trust

D = TypeVar("D", bound=HasManifest)


@dataclass(frozen=True, slots=True)
class Added:
    """What adding came to: ``state`` is ``added``, ``present`` (nothing to do) or ``restored``."""

    ref: SkillRef
    digest: str
    state: Literal["added", "present", "restored"]
    notes: tuple[str, ...]


NextVersion = Callable[[SkillManifest, SkillManifest], str]
"""(the newest version's manifest, the new one) → the version that the new one gets"""


def next_patch(old: SkillManifest, _new: SkillManifest) -> str:
    """The next patch, whatever changed."""
    return Version(old.version).next_patch().text


@dataclass(frozen=True, slots=True)
class Vouched:
    """Where a version comes from and what vouches for it, and how files that name no version are numbered."""

    source: str
    trust: Trust = Trust.COMMUNITY
    signer: str | None = None
    signature: str | None = None
    next_version: NextVersion = next_patch


class SkillService(Generic[D]):
    """The use cases of the catalog, one transaction each."""

    def __init__(self, log: EventLog, catalog: CatalogService[D]) -> None:
        self._log = log
        self._catalog = catalog

    def catalog(self, tenant: str) -> Catalog[D]:
        """The snapshot in force."""
        with self._log.database.read() as connection:
            return self._catalog.snapshot(connection, tenant)

    def numbered(
        self, connection: Connection, tenant: str, skill: LoadedSkill, source: str, next_version: NextVersion
    ) -> SkillManifest:
        """The manifest at the version that it gets here: the declared one, or one that the catalog finds.

        Raises ``Conflict('skill_from_elsewhere')``.
        """
        if skill.declared_version is not None:
            return skill.manifest
        versions = self._catalog.snapshot(connection, tenant).versions(skill.manifest.id)
        version = _free_version(skill.manifest, skill.digest, source, versions)
        if version is None:
            newest = SkillRef(skill.manifest.id, versions[0].manifest.version)
            declared = stored_version(connection, tenant, newest)
            version = next_version(versions[0].manifest if declared is None else declared.manifest, skill.manifest)
        return skill.manifest.model_copy(update={"version": version})

    def try_out(self, skill: LoadedSkill, source: str) -> CatalogEntry[D]:
        """The entry a skill would be; not within a transaction: what runs scripts tests itself when asked first."""
        return self._catalog.entry(StoredSkill(skill.manifest, "", "", source, scripts=python_scripts(skill.scripts)))

    def enter(
        self, transaction: Transaction, *, actor: Actor, tenant: str, skill: LoadedSkill, vouched: Vouched
    ) -> Added:
        """Take a skill into the catalog, files included, in the transaction of whoever has checked it (V).

        A folder that names no version gets the next one (``vouched.next_version``). Raises ``Conflict``
        (``skill_digest_differs``, ``skill_name_taken``, ``tool_name_taken``, ``skill_from_elsewhere``),
        ``SkillFileError`` where a file changed while it was read, and ``IntegrityError`` where somebody was faster.
        """
        catalog = self._catalog.snapshot(transaction.connection, tenant)
        versions = catalog.versions(skill.manifest.id)
        manifest = self.numbered(transaction.connection, tenant, skill, vouched.source, vouched.next_version)
        ref = SkillRef(manifest.id, manifest.version)
        stored = _stored(manifest, skill, vouched)
        entry = self._catalog.entry(stored)
        try:
            check_fits(entry, versions)
        except Conflict as conflict:
            if conflict.code != "skill_exists":
                raise
            return self._present(transaction, actor, tenant, ref, versions, stored)
        check_tool_free(entry, catalog)
        files = [StoredFile(file.path, file.executable, file.sha256, file.read()) for file in skill.files]
        insert_skill(transaction.connection, tenant, stored, files, added_by=actor.id, at_ms=transaction.now_ms)
        bump_catalog(transaction.connection, tenant)
        said: dict[str, Any] = {"source": vouched.source, "digest": skill.digest}
        said |= {"trust": str(vouched.trust), "signer": vouched.signer}
        transaction.emit("skill.added", tenant=tenant, actor=actor, skill=ref, **said)
        return Added(ref, skill.digest, "added", entry.notes)

    def remove(self, *, actor: Actor, tenant: str, skill: str, version: str | None = None) -> int:
        """Take one or all versions out of use; returns how many. Running sessions keep theirs; adding again restores.

        A lock goes with the whole skill. Raises ``NotFound`` (``skill_not_found``, ``version_not_found``),
        ``InvalidInput('skill_built_in')``, ``Conflict('version_locked')``.
        """
        with self._log.transaction(tenant) as transaction:
            entry = self._require(transaction, tenant, skill, version)
            _check_installed(entry)
            skill_id = entry.manifest.id
            self._free_lock(transaction, tenant, skill_id, version)
            count = mark_removed(transaction.connection, tenant, skill_id, version, transaction.now_ms)
            bump_catalog(transaction.connection, tenant)
            transaction.emit("skill.removed", tenant=tenant, actor=actor, target=skill_id, version=version, count=count)
            return count

    def roll_out(self, *, actor: Actor, tenant: str, skill: str, version: str, percent: int) -> None:
        """Let an installed version serve so many percent of the users; 0 makes it a draft, 100 ends the rollout.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``), ``InvalidInput`` (``skill_built_in``,
        ``bad_percent``).
        """
        if type(percent) is not int or not 0 <= percent <= FULL:
            raise InvalidInput("bad_percent", field="percent")
        with self._log.transaction(tenant) as transaction:
            entry = self._require(transaction, tenant, skill, version)
            _check_installed(entry)
            ref = SkillRef(entry.manifest.id, entry.manifest.version)
            set_rollout(transaction.connection, tenant, ref, percent)
            bump_catalog(transaction.connection, tenant)
            transaction.emit("skill.rolled_out", tenant=tenant, actor=actor, skill=ref, percent=percent)

    def bind(
        self,
        *,
        actor: Actor,
        tenant: str,
        target: tuple[TargetKind, str],
        skill: str,
        enabled: bool | None = None,
        pin: str | None = None,
        unpin: bool = False,
    ) -> Binding:
        """Enable, disable, pin or unpin a skill for a user or an agent; what is not named stays as it was.

        Raises ``NotFound`` (``skill_not_found``, ``version_not_found``).
        """
        kind, target_id = target
        with self._log.transaction(tenant) as transaction:
            skill_id = self._require(transaction, tenant, skill, pin).manifest.id
            changes: dict[str, Any] = {} if enabled is None else {"enabled": enabled}
            if unpin or pin is not None:
                changes["pinned_version"] = None if unpin else pin
            upsert_binding(transaction.connection, tenant, target, skill_id, changes, transaction.now_ms)
            binding = self._binding(transaction, tenant, target, skill_id)
            transaction.emit(
                "skill.bound",
                tenant=tenant,
                actor=actor,
                user=target_id if kind == "user" else None,
                agent=target_id if kind == "agent" else None,
                target=skill_id,
                enabled=binding.enabled,
                pinned_version=binding.pinned_version,
            )
            return binding

    def export(
        self, *, tenant: str, skill: str, version: str | None, destination: Path, form: Form = "standard"
    ) -> Path:
        """Write a version as a folder below ``destination`` and return it.

        Raises ``NotFound``, ``SkillFileError`` (see ``write_skill_folder``).
        """
        with self._log.database.read() as connection:
            catalog = self._catalog.snapshot(connection, tenant)
            entry = find_entry(catalog, skill, version)
            ref = SkillRef(entry.manifest.id, entry.manifest.version)
            if not is_installed(entry.source):
                body = getattr(entry.definition, "body", "") or entry.manifest.description
                return write_skill_folder(entry.manifest, body, (), destination, form)
            rows = skill_file_rows(connection, tenant, *ref)
            stored = next(
                item
                for item in stored_skills(connection, tenant).readable
                if (item.manifest.id, item.manifest.version) == ref
            )
        files = [SkillFile.of(row.path, row.content, executable=row.executable) for row in rows]
        return write_skill_folder(stored.manifest, stored.body, files, destination, form)

    def files(self, tenant: str, skill: str, version: str | None = None) -> list[StoredFile]:
        """The files of an installed version; empty for a built-in one."""
        with self._log.database.read() as connection:
            entry = find_entry(self._catalog.snapshot(connection, tenant), skill, version)
            if not is_installed(entry.source):
                return []
            return skill_file_rows(connection, tenant, entry.manifest.id, entry.manifest.version)

    @staticmethod
    def _free_lock(transaction: Transaction, tenant: str, skill_id: str, version: str | None) -> None:
        """A version that is locked stays: without it the skill would serve nobody."""
        lock = locks_of(transaction.connection, tenant).get(skill_id)
        if lock is None:
            return
        if version is None:
            delete_lock(transaction.connection, tenant, skill_id)
        elif version == lock.version:
            raise Conflict("version_locked", skill=skill_id, version=version)

    def _require(self, transaction: Transaction, tenant: str, skill: str, version: str | None) -> CatalogEntry[D]:
        return find_entry(self._catalog.snapshot(transaction.connection, tenant), skill, version)

    @staticmethod
    def _binding(transaction: Transaction, tenant: str, target: tuple[TargetKind, str], skill_id: str) -> Binding:
        kind, target_id = target
        ids = {"user": "", "agent": "", kind: target_id}
        for binding in bindings_for(transaction.connection, tenant, ids["user"], ids["agent"]):
            if (binding.target_kind, binding.target_id, binding.skill_id) == (kind, target_id, skill_id):
                return binding
        return Binding(kind, target_id, skill_id, enabled=True, pinned_version=None)

    def _present(
        self,
        transaction: Transaction,
        actor: Actor,
        tenant: str,
        ref: SkillRef,
        versions: tuple[CatalogEntry[D], ...],
        stored: StoredSkill,
    ) -> Added:
        known = next(entry for entry in versions if entry.manifest.version == ref.version)
        digest, trust = stored.digest, stored.trust
        better = trust is Trust.VERIFIED and known.signer != stored.signer
        if known.removed or better:  # a signature that came later counts; one that is not shown again is not lost
            set_trust(transaction.connection, tenant, ref, trust, stored.signer, stored.signature)
            bump_catalog(transaction.connection, tenant)
        said: dict[str, Any] = {"source": known.source, "digest": digest, "trust": str(trust), "signer": stored.signer}
        if not known.removed:
            if better:
                transaction.emit("skill.vouched", tenant=tenant, actor=actor, skill=ref, **said)
            return Added(ref, digest, "present", known.notes)
        mark_removed(transaction.connection, tenant, ref.id, ref.version, None)
        transaction.emit("skill.added", tenant=tenant, actor=actor, skill=ref, restored=True, **said)
        return Added(ref, digest, "restored", known.notes)


def find_entry(catalog: Catalog[D], skill: str, version: str | None = None) -> CatalogEntry[D]:
    """The entry that a person names: an id in any spelling (ruling 12.1), the current version where none is given.

    A tool of an MCP server may be named as its tool is: ``server/tool``.

    Raises ``NotFound`` (``skill_not_found``, ``version_not_found``).
    """
    skill_id = normalise_skill_name(skill)
    current = catalog.current(skill_id) if is_skill_name(skill_id) else None
    if current is None and "/" in skill:
        current = next((entry for entry in catalog if getattr(entry.definition, "tool_id", None) == skill), None)
    if current is None:
        raise NotFound("skill_not_found", skill=skill[:80])
    if version is None:
        return current
    skill_id = current.manifest.id
    entry = catalog.get(skill_id, version)
    if entry is None or entry.removed:
        raise NotFound("version_not_found", skill=skill_id, version=version[:80])
    return entry


def _check_installed(entry: CatalogEntry[Any]) -> None:
    if not is_installed(entry.source):
        code = "skill_built_in" if entry.source == BUILT_IN else "skill_mounted"
        raise InvalidInput(code, skill=entry.manifest.id)


def served_manifest(manifest: SkillManifest) -> SkillManifest:
    """The manifest as an installed skill serves: a prompt skill, selected by keywords and by name.

    Patterns of foreign files are not run: a regular expression can be made to take for ever.
    """
    return _selected_safely(manifest).model_copy(update={"kind": SkillKind.PROMPT})


def script_manifest(manifest: SkillManifest) -> SkillManifest:
    """The same of a skill whose script runs: a tool skill that asks for what its script may touch (X6)."""
    needed = merged_requirements(manifest.requirements, implied_requirements(manifest.permissions))
    return _selected_safely(manifest).model_copy(update={"kind": SkillKind.TOOL, "requirements": needed})


def _selected_safely(manifest: SkillManifest) -> SkillManifest:
    return manifest.model_copy(
        update={"triggers": manifest.triggers.model_copy(update={"patterns": (), "exclude": ()})}
    )


def _stored(manifest: SkillManifest, skill: LoadedSkill, vouched: Vouched) -> StoredSkill:
    paths = [file.path for file in skill.files]
    return StoredSkill(
        manifest,
        skill.body,
        skill.digest,
        vouched.source,
        notes_of(skill.manifest, paths),
        scripts=python_scripts(paths),
        trust=vouched.trust,
        signer=vouched.signer,
        signature=vouched.signature,
    )


def check_tool_free(entry: CatalogEntry[D], catalog: Catalog[D]) -> None:
    """Raises ``Conflict('tool_name_taken')`` where another skill gives a tool of that name."""
    tool, skill_id = tool_of(entry.definition), entry.manifest.id
    for other in catalog:
        if tool is not None and other.manifest.id != skill_id and tool_of(other.definition) == tool:
            raise Conflict("tool_name_taken", tool=tool, skill=skill_id, other=other.manifest.id)


def _free_version(
    manifest: SkillManifest,
    digest: str,
    source: str,
    versions: tuple[CatalogEntry[D], ...],
) -> str | None:
    """The version of a folder that names none: the one it has; ``None``, the next, where the same place has changed.

    From another place it may be another skill of that name, and which one serves would depend on the order (C08).
    """
    for entry in versions:
        if entry.digest == digest:
            return entry.manifest.version
    if not versions:
        return manifest.version
    newest = versions[0]
    if newest.source not in (source, BUILT_IN):
        raise Conflict("skill_from_elsewhere", skill=manifest.id, source=source, other=newest.source)
    return None
