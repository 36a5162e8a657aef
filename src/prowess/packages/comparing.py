"""Two versions of a skill side by side, and three put together: folders, archives, installed ones (U11)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from prowess.errors import Conflict, InvalidInput, NotFound, SkillFileError
from prowess.events.log import EventLog
from prowess.kernel.names import normalise_skill_name
from prowess.packages.changes import changes_between, file_changes
from prowess.packages.compatibility import breaks, needed_version
from prowess.packages.merging import FileContent, Files, MergedFile, merge_files
from prowess.packages.unpacking import files_below, lay_out, opened_package, private_folder
from prowess.skills.catalog import CatalogEntry, CatalogService, HasManifest, is_installed
from prowess.skills.front_matter import read_limited
from prowess.skills.names import Version
from prowess.skills.service import find_entry
from prowess.skills.skill_md import LoadedSkill, read_skill_folder
from prowess.skills.skill_md.folder import METADATA_JSON
from prowess.skills.store import skill_file_rows

D = TypeVar("D", bound=HasManifest)

MAX_METADATA_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Side:
    """One version: the skill as read, its files, and the digest that it says to come from."""

    skill: LoadedSkill
    files: Files
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """What merging came to; ``folder`` is where it was written."""

    folder: Path
    base: str
    """the digest of the version that both come from"""
    files: tuple[MergedFile, ...]

    @property
    def conflicts(self) -> tuple[MergedFile, ...]:
        """What is left to a person."""
        return tuple(file for file in self.files if file.how == "conflict")

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess skills merge``."""
        files = [file.to_json() for file in self.files if file.how != "same"]
        return {"folder": str(self.folder), "base": self.base, "files": files, "conflicts": len(self.conflicts)}


class Comparer(Generic[D]):
    """Reads versions where they are; writes nothing but the folder of a merge."""

    def __init__(self, log: EventLog, catalog: CatalogService[D]) -> None:
        self._log = log
        self._catalog = catalog

    def diff(self, tenant: str, before: str, after: str) -> dict[str, Any]:
        """Files and permissions that differ, and the version that the change needs.

        Each side is a folder, an archive, ``skill`` or ``skill@version``. Raises ``SkillFileError``, ``NotFound``.
        """
        with self._side(tenant, before) as old, self._side(tenant, after) as new:
            old_files = {file.path: file.sha256 for file in old.skill.files}
            new_files = {file.path: file.sha256 for file in new.skill.files}
            changes = changes_between((old.skill.manifest, old_files), (new.skill.manifest, new_files))
            broken = breaks(old.skill.manifest, new.skill.manifest)
            needs = needed_version(Version(old.skill.manifest.version), broken[0].step if broken else "patch")
            same = old.skill.digest == new.skill.digest
            return {
                "before": _named(old),
                "after": _named(new),
                "files": [list(item) for item in file_changes(old_files, new_files)],
                "wider": [list(item) for item in changes.wider],
                "narrower": [list(item) for item in changes.narrower],
                "level": list(changes.level),
                "breaks": [{"step": item.step, "what": item.what} for item in broken],
                "needs": None if same else needs.text,
            }

    def merge(self, tenant: str, mine: str, theirs: str, destination: Path, base: str | None = None) -> Merge:
        """Put a local edit and an upstream version together in a new folder.

        The base is ``base`` (a version or digest of the installed skill), else the one that ``mine`` says it was
        exported from, else the installed version that ``mine`` declares. Raises ``SkillFileError``, ``NotFound``
        (``merge_base_missing``), ``Conflict('folder_exists')``.
        """
        if os.path.lexists(destination):
            raise Conflict("folder_exists", file=str(destination))
        with self._side(tenant, mine) as own, self._side(tenant, theirs) as other:
            if own.skill.manifest.id != other.skill.manifest.id:
                raise InvalidInput("merge_other_skill", skill=own.skill.manifest.id, other=other.skill.manifest.id)
            entry = self._base(tenant, own, base)
            old = self._installed_files(tenant, entry)
        merged = merge_files(old, own.files, other.files)
        kept = [(one.path, one.file.content, one.file.executable) for one in merged if one.file is not None]
        try:
            destination.parent.mkdir(parents=True, exist_ok=True)
            lay_out(kept, destination)
        except OSError as error:
            raise SkillFileError(
                "write_failed", file=str(destination), line=1, problem=error.strerror or str(error)
            ) from None
        return Merge(destination, entry.digest, tuple(merged))

    def export_exact(self, tenant: str, skill: str, version: str | None, destination: Path) -> Path:
        """Write a version byte by byte as it was installed, with the digest that it comes from in ``metadata.json``.

        Raises ``NotFound``, ``InvalidInput('skill_built_in')``, ``Conflict('folder_exists')``.
        """
        with self._log.database.read() as connection:
            entry = find_entry(self._catalog.snapshot(connection, tenant), skill, version)
        if not is_installed(entry.source):
            raise InvalidInput("skill_built_in", skill=entry.manifest.id)
        folder = destination / entry.manifest.id
        if os.path.lexists(folder):
            raise Conflict("folder_exists", file=str(folder))
        files = self._installed_files(tenant, entry)
        known = {"skill_id": entry.manifest.id, "version": entry.manifest.version, "digest": entry.digest}
        document = FileContent((json.dumps(known, indent=2) + "\n").encode())
        destination.mkdir(parents=True, exist_ok=True)
        lay_out(
            [(path, one.content, one.executable) for path, one in {**files, METADATA_JSON: document}.items()], folder
        )
        return folder

    def _base(self, tenant: str, own: Side, named: str | None) -> CatalogEntry[D]:
        skill_id = own.skill.manifest.id
        with self._log.database.read() as connection:
            versions = self._catalog.snapshot(connection, tenant).versions(skill_id)
        wanted = named or own.base or own.skill.declared_version
        for entry in versions:
            if is_installed(entry.source) and wanted is not None and wanted in (entry.manifest.version, entry.digest):
                return entry
        raise NotFound("merge_base_missing", skill=skill_id, base=(wanted or "")[:80])

    def _installed_files(self, tenant: str, entry: CatalogEntry[D]) -> dict[str, FileContent]:
        with self._log.database.read() as connection:
            rows = skill_file_rows(connection, tenant, entry.manifest.id, entry.manifest.version)
        return {row.path: FileContent(row.content, row.executable) for row in rows}

    @contextmanager
    def _side(self, tenant: str, named: str) -> Iterator[Side]:
        if os.path.lexists(named):
            with opened_package(named) as package:
                files = _contents(package.folder)
                yield Side(read_skill_folder(package.folder), files, _base_of(Path(package.source)))
            return
        skill, _, version = named.partition("@")
        with self._log.database.read() as connection:
            entry = find_entry(self._catalog.snapshot(connection, tenant), normalise_skill_name(skill), version or None)
        if not is_installed(entry.source):
            raise InvalidInput("skill_built_in", skill=entry.manifest.id)
        with private_folder() as private:
            folder = private / entry.manifest.id
            installed = self._installed_files(tenant, entry)
            lay_out([(path, one.content, one.executable) for path, one in installed.items()], folder)
            yield Side(read_skill_folder(folder), installed, entry.digest)


def _contents(folder: Path) -> Mapping[str, FileContent]:
    return {path: FileContent(content, executable) for path, content, executable in files_below(folder)}


def _base_of(folder: Path) -> str | None:
    """The digest that an exported folder says it comes from."""
    with suppress(SkillFileError, ValueError, AttributeError, RecursionError):
        if folder.is_dir():
            found = json.loads(read_limited(str(folder / METADATA_JSON), MAX_METADATA_BYTES)).get("digest")
            return found if isinstance(found, str) else None
    return None


def _named(side: Side) -> dict[str, Any]:
    manifest = side.skill.manifest
    return {"id": manifest.id, "version": side.skill.declared_version, "digest": side.skill.digest}
