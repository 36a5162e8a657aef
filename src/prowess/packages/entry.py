"""The door to the catalog: what is known at this moment of a skill that comes in, and its entering."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from prowess.errors import Conflict, ProwessError, SkillFileError
from prowess.events.log import Transaction
from prowess.events.model import Actor
from prowess.packages.compatibility import next_version
from prowess.packages.deciding import Decision, Facts, Review
from prowess.packages.signing import Signature, parse_signature
from prowess.packages.store import keys_of
from prowess.packages.unpacking import Package
from prowess.skills.catalog import Catalog, CatalogEntry, CatalogService, check_fits, is_installed
from prowess.skills.manifest import SkillManifest
from prowess.skills.names import SkillRef, Version
from prowess.skills.service import Added, SkillService, Vouched, check_tool_free, served_manifest
from prowess.skills.skill_md import LoadedSkill
from prowess.skills.store import StoredSkill, file_digests, stored_version
from prowess.validation.report import Verdict


@dataclass(frozen=True, slots=True)
class Incoming:
    """A skill that was read and proven."""

    skill: LoadedSkill
    folder: Path
    source: str
    signature: str | None
    """the text of ``prowess.sig``"""
    verdict: Verdict
    own: bool
    entry: CatalogEntry[Any]
    """as it would serve"""
    expected: str | None = None
    """the digest that a lock file names"""


class Entrance:
    """Reads the facts and lets in, both within a transaction of the caller's."""

    def __init__(self, catalog: CatalogService[Any], skills: SkillService[Any], agent_version: str) -> None:
        self._catalog = catalog
        self._skills = skills
        self._agent_version = agent_version

    def incoming(
        self, skill: LoadedSkill, package: Package, verdict: Verdict, own: bool, expected: str | None = None
    ) -> Incoming:
        """What comes in, as it would serve; not within a transaction."""
        entry = self._skills.try_out(skill, package.source)
        return Incoming(skill, package.folder, package.source, package.signature, verdict, own, entry, expected)

    def look_ahead(self, connection: Connection, tenant: str, skill: LoadedSkill) -> Added | None:
        """What adding an own folder comes to where this very content is in use already; else ``None``.

        Raises what the catalog says against it, before anything is stored: ``Conflict``.
        """
        versions = self._catalog.snapshot(connection, tenant).versions(skill.manifest.id)
        for entry in versions:
            same = entry.digest == skill.digest and not entry.removed and is_installed(entry.source)
            if same and skill.declared_version in (None, entry.manifest.version):
                return Added(SkillRef(skill.manifest.id, entry.manifest.version), skill.digest, "present", entry.notes)
        source = str(skill.path.resolve())
        manifest = self._skills.numbered(connection, tenant, skill, source, _next_version)
        clash = _clash(manifest, skill.digest, source, versions)
        if clash is not None:
            raise clash
        return None

    def facts(self, transaction: Transaction, tenant: str, incoming: Incoming, review: Review) -> Facts:
        """What ``decide`` rests on, as of this transaction."""
        skill, connection = incoming.skill, transaction.connection
        catalog = self._catalog.snapshot(connection, tenant)
        versions = catalog.versions(skill.manifest.id)
        manifest, conflict = self._numbered(connection, tenant, incoming)
        signature: Signature | None = None
        try:
            signature = None if incoming.signature is None else parse_signature(incoming.signature)
        except SkillFileError as error:
            conflict = error
        conflict = conflict or _expected(incoming) or _clash(manifest, skill.digest, incoming.source, versions)
        conflict = conflict or _tool_taken(incoming.entry, catalog)
        current = _serving(transaction, tenant, catalog, manifest.id)
        return Facts(
            manifest=manifest,
            skill=skill,
            folder=incoming.folder,
            signature=signature,
            keys=keys_of(connection, tenant),
            verdict=incoming.verdict,
            present=any(
                entry.digest == skill.digest and not entry.removed
                for entry in versions
                if entry.manifest.version == manifest.version
            ),
            before=_predecessor(transaction, tenant, manifest, versions),
            current=current,
            current_files={}
            if current is None
            else file_digests(connection, tenant, current.manifest.id, current.manifest.version),
            conflict=conflict,
            agent_version=self._agent_version,
            own=incoming.own,
            review=review,
        )

    def enter(
        self, transaction: Transaction, actor: Actor, tenant: str, incoming: Incoming, decision: Decision
    ) -> Added:
        """Let it in, as decided. Raises as ``SkillService.enter``."""
        signature = incoming.signature if decision.signer is not None else None
        vouched = Vouched(incoming.source, decision.trust, decision.signer, signature, _next_version)
        return self._skills.enter(transaction, actor=actor, tenant=tenant, skill=incoming.skill, vouched=vouched)

    def _numbered(
        self, connection: Connection, tenant: str, incoming: Incoming
    ) -> tuple[SkillManifest, ProwessError | None]:
        try:
            return self._skills.numbered(connection, tenant, incoming.skill, incoming.source, _next_version), None
        except Conflict as conflict:
            return incoming.skill.manifest, conflict


def _next_version(old: SkillManifest, new: SkillManifest) -> str:
    return next_version(old, new).text


def _expected(incoming: Incoming) -> ProwessError | None:
    if incoming.expected is None or incoming.expected == incoming.skill.digest:
        return None
    skill = incoming.skill.manifest.id
    return Conflict("locked_digest_differs", skill=skill, digest=incoming.skill.digest, expected=incoming.expected)


def _clash(
    manifest: SkillManifest, digest: str, source: str, versions: tuple[CatalogEntry[Any], ...]
) -> Conflict | None:
    """What the catalog says against it; that this very content is there already is nothing against it."""
    definition = StoredSkill(served_manifest(manifest), "", digest, source)
    try:
        check_fits(CatalogEntry(definition, source, digest), versions)
    except Conflict as conflict:
        return None if conflict.code == "skill_exists" else conflict
    return None


def _tool_taken(entry: CatalogEntry[Any], catalog: Catalog[Any]) -> Conflict | None:
    try:
        check_tool_free(entry, catalog)
    except Conflict as conflict:
        return conflict
    return None


def _serving(transaction: Transaction, tenant: str, catalog: Catalog[Any], skill_id: str) -> StoredSkill | None:
    """The version that serves now, as its files declare it; none for a built-in skill."""
    current = catalog.current(skill_id)
    if current is None or not is_installed(current.source):
        return None
    return stored_version(transaction.connection, tenant, SkillRef(skill_id, current.manifest.version))


def _predecessor(
    transaction: Transaction, tenant: str, manifest: SkillManifest, versions: tuple[CatalogEntry[Any], ...]
) -> SkillManifest | None:
    """The version in use that this one follows, as its files declare it: the highest below it."""
    own = Version(manifest.version)
    for entry in versions:
        if not entry.removed and is_installed(entry.source) and Version(entry.manifest.version) < own:
            stored = stored_version(transaction.connection, tenant, SkillRef(manifest.id, entry.manifest.version))
            return None if stored is None else stored.manifest
    return None
