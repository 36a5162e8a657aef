"""Tables and queries of installed skill versions, their files, and bindings.

An installed skill lives in the database, files included: a version is immutable, the catalog needs no folder to be in
step with, and a backup of the database is whole.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    Row,
    Table,
    Text,
    bindparam,
    insert,
    literal_column,
    select,
    update,
)

from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, among, upsert
from prowess.kernel.canonical import compact_json
from prowess.skills.manifest import SkillManifest
from prowess.skills.names import SkillRef
from prowess.skills.trust import Trust

logger = logging.getLogger(__name__)

skill_versions = Table(
    "skill_versions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("skill_id", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("manifest", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("notes", Text, nullable=False),
    Column("added_by", Text, nullable=False),
    instant("added_at"),
    instant("removed_at", nullable=True),
    Column("rollout", Integer),
    Column("trust", Text),
    Column("signer", Text),
    Column("signature", Text),
)

skill_files = Table(
    "skill_files",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("skill_id", Text, primary_key=True),
    Column("version", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("executable", Boolean, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

skill_catalogs = Table(
    "skill_catalogs",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("revision", Integer, nullable=False),
)

skill_bindings = Table(
    "skill_bindings",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("target_kind", Text, primary_key=True),
    Column("target_id", Text, primary_key=True),
    Column("skill_id", Text, primary_key=True),
    Column("enabled", Boolean, nullable=False),
    Column("pinned_version", Text),
    instant("updated_at"),
    Index("ix_skill_bindings_skill", "tenant", "skill_id"),
)

_SCRIPTS = select(skill_files.c.skill_id, skill_files.c.version, skill_files.c.path).where(
    skill_files.c.tenant == bindparam("tenant"), skill_files.c.path.like("scripts/%.py")
)
_VERSIONS = select(skill_versions).where(skill_versions.c.tenant == bindparam("tenant"))
_REVISION = Statement(select(skill_catalogs.c.revision).where(skill_catalogs.c.tenant == bindparam("tenant")))
_BINDINGS = Statement(
    select(skill_bindings).where(
        skill_bindings.c.tenant == bindparam("tenant"),
        (
            (skill_bindings.c.target_kind == "user") & (skill_bindings.c.target_id == bindparam("user"))
            | (skill_bindings.c.target_kind == "agent") & (skill_bindings.c.target_id == bindparam("agent"))
        ),
    )
)

_BINDINGS_OF = Statement(
    select(skill_bindings).where(
        skill_bindings.c.tenant == bindparam("tenant"),
        # Not each kind with its own ids: SQLite would then read all bindings of the tenant.
        literal_column("target_kind IN ('agent', 'user')"),
        among(skill_bindings.c.target_id, "targets"),
    )
)

TargetKind = Literal["user", "agent"]


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """An installed version without its files."""

    manifest: SkillManifest
    body: str
    digest: str
    source: str
    notes: tuple[str, ...] = ()
    """what of the skill does not work here yet: codes with a sentence under ``note.<code>``"""
    removed: bool = False
    rollout: int = 100
    """percent of users whom it serves; 0: a draft"""
    scripts: tuple[str, ...] = ()
    """paths of its Python files in ``scripts/``"""
    trust: Trust = Trust.COMMUNITY
    signer: str | None = None
    """the id of the key that vouches for it, where ``trust`` is ``verified``"""
    signature: str | None = None
    """the text of ``prowess.sig`` that came with it"""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of an installed version; ``path`` is relative, with forward slashes."""

    path: str
    executable: bool
    sha256: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Binding:
    """A user's or agent's choice for a skill (T6)."""

    target_kind: TargetKind
    target_id: str
    skill_id: str
    enabled: bool
    pinned_version: str | None


def catalog_revision(connection: Connection, tenant: str) -> int:
    """Grows with every change of the tenant's installed skills; 0 before the first."""
    row = _REVISION.first(connection, {"tenant": tenant})
    return 0 if row is None else int(row.revision)


def bump_catalog(connection: Connection, tenant: str) -> None:
    """Make every process reload the tenant's catalog at its next turn (C10)."""
    first = upsert(connection, skill_catalogs).values(tenant=tenant, revision=1)
    grown = {"revision": skill_catalogs.c.revision + 1}
    connection.execute(first.on_conflict_do_update(index_elements=[skill_catalogs.c.tenant], set_=grown))


class StoredSkills(NamedTuple):
    """What the database holds."""

    readable: list[StoredSkill]
    broken: list[SkillRef]
    """versions in use that cannot be read: known by name, so that no other takes their place unnoticed"""


def stored_skills(connection: Connection, tenant: str) -> StoredSkills:
    """Every installed version, removed ones included: running sessions may be pinned to them.

    One that cannot be read is logged; it must not take the others with it.
    """
    found = StoredSkills([], [])
    scripts: dict[tuple[str, str], list[str]] = {}
    for file in connection.execute(_SCRIPTS.order_by(skill_files.c.path), {"tenant": tenant}):
        scripts.setdefault((file.skill_id, file.version), []).append(file.path)
    for row in connection.execute(_VERSIONS, {"tenant": tenant}):
        try:
            found.readable.append(_to_stored(row, tuple(scripts.get((row.skill_id, row.version), ()))))
        except (ValueError, TypeError) as error:
            logger.error("skill %s@%s cannot be read: %s", row.skill_id, row.version, type(error).__name__)
            if row.removed_at is None:
                found.broken.append(SkillRef(row.skill_id, row.version))
    return found


def stored_version(connection: Connection, tenant: str, ref: SkillRef) -> StoredSkill | None:
    """One installed version as its files declare it; none where it is not there or cannot be read."""
    of = (skill_versions.c.skill_id == ref.id, skill_versions.c.version == ref.version)
    row = connection.execute(_VERSIONS.where(*of), {"tenant": tenant}).first()
    own = (skill_files.c.skill_id == ref.id, skill_files.c.version == ref.version)
    scripts = connection.scalars(_SCRIPTS.where(*own).with_only_columns(skill_files.c.path), {"tenant": tenant})
    try:
        return None if row is None else _to_stored(row, tuple(sorted(scripts)))
    except (ValueError, TypeError):
        return None


def insert_skill(
    connection: Connection,
    tenant: str,
    skill: StoredSkill,
    files: Sequence[StoredFile],
    *,
    added_by: str,
    at_ms: int,
) -> None:
    """Store a version and its files; raises ``IntegrityError`` where the version is there already."""
    manifest = skill.manifest
    key = {"tenant": tenant, "skill_id": manifest.id, "version": manifest.version}
    row = key | {
        "digest": skill.digest,
        "manifest": manifest.model_dump_json(exclude_defaults=True),
        "body": skill.body,
        "source": skill.source,
        "notes": compact_json(list(skill.notes)),
        "added_by": added_by,
        "added_at": at_ms,
        "rollout": None if skill.rollout == 100 else skill.rollout,
        "trust": str(skill.trust),
        "signer": skill.signer,
        "signature": skill.signature,
    }
    connection.execute(insert(skill_versions).inline(), row)
    rows = [
        key | {"path": file.path, "executable": file.executable, "sha256": file.sha256, "content": file.content}
        for file in files
    ]
    if rows:
        connection.execute(insert(skill_files).inline(), rows)


def mark_removed(connection: Connection, tenant: str, skill_id: str, version: str | None, at_ms: int | None) -> int:
    """Set or clear (``at_ms`` null) the removal mark of one or all versions; returns how many changed."""
    statement = update(skill_versions).where(
        skill_versions.c.tenant == tenant,
        skill_versions.c.skill_id == skill_id,
        skill_versions.c.removed_at.is_not(None) if at_ms is None else skill_versions.c.removed_at.is_(None),
    )
    if version is not None:
        statement = statement.where(skill_versions.c.version == version)
    return connection.execute(statement.values(removed_at=at_ms)).rowcount


def set_trust(
    connection: Connection, tenant: str, ref: SkillRef, trust: Trust, signer: str | None, signature: str | None
) -> None:
    """Change what vouches for a version."""
    statement = update(skill_versions).where(
        skill_versions.c.tenant == tenant, skill_versions.c.skill_id == ref.id, skill_versions.c.version == ref.version
    )
    connection.execute(statement.values(trust=str(trust), signer=signer, signature=signature))


def set_rollout(connection: Connection, tenant: str, ref: SkillRef, percent: int) -> None:
    """Change whom a version serves."""
    statement = update(skill_versions).where(
        skill_versions.c.tenant == tenant, skill_versions.c.skill_id == ref.id, skill_versions.c.version == ref.version
    )
    connection.execute(statement.values(rollout=None if percent == 100 else percent))


def skill_file_rows(connection: Connection, tenant: str, skill_id: str, version: str) -> list[StoredFile]:
    """The files of a version by path."""
    query = (
        select(skill_files)
        .where(skill_files.c.tenant == tenant, skill_files.c.skill_id == skill_id, skill_files.c.version == version)
        .order_by(skill_files.c.path)
    )
    return [StoredFile(row.path, row.executable, row.sha256, row.content) for row in connection.execute(query)]


def file_digests(connection: Connection, tenant: str, skill_id: str, version: str) -> dict[str, str]:
    """Path → SHA-256 of the files of a version, without their content."""
    query = select(skill_files.c.path, skill_files.c.sha256).where(
        skill_files.c.tenant == tenant, skill_files.c.skill_id == skill_id, skill_files.c.version == version
    )
    return {row.path: row.sha256 for row in connection.execute(query)}


def bindings_for(connection: Connection, tenant: str, user: str, agent: str) -> list[Binding]:
    """The choices of this user and this agent."""
    rows = _BINDINGS.all(connection, {"tenant": tenant, "user": user, "agent": agent})
    return [Binding(row.target_kind, row.target_id, row.skill_id, row.enabled, row.pinned_version) for row in rows]


def bindings_of(
    connection: Connection, tenant: str, users: Iterable[str], agents: Iterable[str]
) -> dict[tuple[TargetKind, str], list[Binding]]:
    """The choices of many users and agents in one query, by whose they are; some of others who share an id."""
    found: dict[tuple[TargetKind, str], list[Binding]] = {}
    for row in _BINDINGS_OF.all(connection, {"tenant": tenant, "targets": sorted({*users, *agents})}):
        binding = Binding(row.target_kind, row.target_id, row.skill_id, row.enabled, row.pinned_version)
        found.setdefault((binding.target_kind, binding.target_id), []).append(binding)
    return found


def upsert_binding(
    connection: Connection,
    tenant: str,
    target: tuple[TargetKind, str],
    skill_id: str,
    changes: Mapping[str, Any],
    at_ms: int,
) -> None:
    """Store a choice: ``changes`` of ``enabled`` and ``pinned_version``; what is not among them stays as it is."""
    kind, target_id = target
    key = {"tenant": tenant, "target_kind": kind, "target_id": target_id, "skill_id": skill_id}
    changed = {**changes, "updated_at": at_ms}
    chosen = upsert(connection, skill_bindings).values({**key, "enabled": True, **changed})
    columns = [skill_bindings.c[name] for name in key]
    connection.execute(chosen.on_conflict_do_update(index_elements=columns, set_=changed))


def _to_stored(row: Row[Any], scripts: tuple[str, ...]) -> StoredSkill:
    manifest = SkillManifest.model_validate(json.loads(row.manifest))
    return StoredSkill(
        manifest,
        row.body,
        row.digest,
        row.source,
        tuple(json.loads(row.notes)),
        row.removed_at is not None,
        100 if row.rollout is None else row.rollout,
        scripts,
        Trust.COMMUNITY if row.trust is None else Trust(row.trust),
        row.signer,
        row.signature,
    )
