"""Laying out the files of granted skills for one call, in a folder of its own (G12).

A call sees its own folder and no other: ``WORKSPACE/.prowess/<call>/<skill>/…``. Folders of calls that are over are
taken away before the next one is laid out, whoever laid them out; those of running calls are not touched. Which are
which is in the database, so that several instances on one workspace, and one that was restored from an old copy, agree.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

from prowess.errors import Conflict, InvalidInput, StorageError
from prowess.events.log import EventLog
from prowess.kernel.clock import to_ms
from prowess.kernel.ids import IdSource
from prowess.skills.staging.store import (
    insert_staged,
    known_in,
    over_in,
    release_staged,
    renew_staged,
    take_over,
)
from prowess.skills.store import StoredFile

FOLDER = ".prowess"
LEASE = timedelta(minutes=15)
"""How long files stand without being renewed, where a process died and never released them."""
MAX_STAGED_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill to lay out: its id and its files."""

    skill_id: str
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """What was laid out. ``digest`` is of names, modes and content, in a fixed order: equal files, equal digest."""

    call: str
    tenant: str
    path: Path
    skills: tuple[str, ...]
    digest: str


class StagingService:
    """The use cases of staging."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def stage(self, tenant: str, workspace: Path, skills: Sequence[SkillFolder]) -> Staged:
        """Clean the workspace, then lay the skills out for a new call. Release it when the call is over.

        Raises ``InvalidInput`` (``workspace_missing``, ``staged_too_large``), ``Conflict('workspace_unsafe')`` where a
        link stands in the place of a folder, ``StorageError('workspace_unwritable')``.
        """
        size = sum(len(file.content) for skill in skills for file in skill.files)
        if size > MAX_STAGED_BYTES:
            raise InvalidInput("staged_too_large", limit=MAX_STAGED_BYTES)
        with _opened(workspace) as (root, folder):
            self._clean(root, folder)
            call = self._ids.new("staged")
            with self._log.transaction(tenant, redacted=False) as transaction:
                until = transaction.now_ms + LEASE // timedelta(milliseconds=1)
                insert_staged(transaction.connection, call, tenant, str(root), transaction.now_ms, until)
            try:
                _lay_out(folder, call, skills)
            except OSError as error:
                self.release(Staged(call, tenant, root / FOLDER / call, (), ""))
                raise StorageError("workspace_unwritable", cause=error.strerror or "") from None
        names = tuple(skill.skill_id for skill in skills)
        return Staged(call, tenant, root / FOLDER / call, names, folders_digest(skills))

    def renew(self, staged: Staged) -> None:
        """Keep the files of a call that takes long. Raises ``Conflict('staged_over')`` where they are gone."""
        with self._log.transaction(staged.tenant, redacted=False) as transaction:
            until = transaction.now_ms + LEASE // timedelta(milliseconds=1)
            if not renew_staged(transaction.connection, staged.call, until):
                raise Conflict("staged_over", call=staged.call)

    def release(self, staged: Staged) -> None:
        """The call is over; its files go at once, or with the next cleaning where that fails."""
        with self._log.transaction(staged.tenant, redacted=False) as transaction:
            release_staged(transaction.connection, staged.call, transaction.now_ms)
        with suppress(InvalidInput, Conflict, StorageError):
            self.clean(staged.path.parent.parent)

    def clean(self, workspace: Path) -> int:
        """Take away what calls left behind; returns how many folders. Raises as ``stage``."""
        with _opened(workspace) as (root, folder):
            return self._clean(root, folder)

    def _clean(self, root: Path, folder: int) -> int:
        now = to_ms(self._log.clock.now())
        with self._log.database.read() as connection:
            over = over_in(connection, str(root), now)
            # Listed before the folders are: one that is made meanwhile had its row before.
            known = known_in(connection, str(root))
        count = 0
        for call in over:
            with self._log.transaction(None) as transaction:
                claimed = take_over(transaction.connection, call, now)
            if claimed:
                count += _remove(folder, call)
        strays = [name for name in os.listdir(folder) if name not in known]
        with self._log.database.read() as connection:
            known = known_in(connection, str(root))
        return count + sum(_remove(folder, name) for name in strays if name not in known)


def folders_digest(skills: Iterable[SkillFolder]) -> str:
    """SHA-256 over skill, path, mode and content of every file, by skill and path."""
    digest = hashlib.sha256()
    for skill in sorted(skills, key=lambda item: item.skill_id):
        for file in sorted(skill.files, key=lambda item: item.path):
            content = hashlib.sha256(file.content).hexdigest()
            digest.update(repr((skill.skill_id, file.path, file.executable, content)).encode())
    return digest.hexdigest()


def archive(skills: Iterable[SkillFolder]) -> bytes:
    """The same files as a tar archive, byte for byte equal for equal files: for a workspace on another machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for skill in sorted(skills, key=lambda item: item.skill_id):
            for file in sorted(skill.files, key=lambda item: item.path):
                member = tarfile.TarInfo(f"{skill.skill_id}/{file.path}")
                member.size, member.mode = len(file.content), 0o500 if file.executable else 0o400
                tar.addfile(member, io.BytesIO(file.content))
    return packed.getvalue()


@contextmanager
def _opened(workspace: Path) -> Iterator[tuple[Path, int]]:
    """The workspace, resolved, and its folder of calls as a descriptor, which no link can divert."""
    try:
        root = workspace.resolve(strict=True)
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        raise InvalidInput("workspace_missing", field="workspace") from None
    try:
        folder = _calls_folder(top)
    finally:
        os.close(top)
    try:
        yield root, folder
    finally:
        os.close(folder)


def _calls_folder(top: int) -> int:
    with suppress(FileExistsError):
        os.mkdir(FOLDER, 0o700, dir_fd=top)
    try:
        return os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError:
        raise Conflict("workspace_unsafe", folder=FOLDER) from None


def _lay_out(folder: int, call: str, skills: Sequence[SkillFolder]) -> None:
    os.mkdir(call, 0o700, dir_fd=folder)
    with _directory(folder, call) as root:
        for skill in skills:
            os.mkdir(skill.skill_id, 0o700, dir_fd=root)
            with _directory(root, skill.skill_id) as top:
                for file in skill.files:
                    _write(top, PurePosixPath(file.path), file)


def _write(top: int, path: PurePosixPath, file: StoredFile) -> None:
    """One file below ``top``; every folder on the way was made by this call. Raises ``OSError``."""
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise OSError(22, "a path that leads out of the skill")
    if len(path.parts) > 1:
        with suppress(FileExistsError):
            os.mkdir(path.parts[0], 0o700, dir_fd=top)
        with _directory(top, path.parts[0]) as below:
            _write(below, PurePosixPath(*path.parts[1:]), file)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(path.name, flags, 0o500 if file.executable else 0o400, dir_fd=top)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(file.content)


@contextmanager
def _directory(parent: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _remove(folder: int, name: str) -> bool:
    """Whether it was there. What is no folder is unlinked; links are not followed."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
