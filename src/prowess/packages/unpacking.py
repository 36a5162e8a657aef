"""A skill from a folder or an archive as a private copy, so that what is checked is what is stored."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from prowess.errors import SkillFileError
from prowess.packages.signing import read_signature
from prowess.skills.front_matter import read_limited
from prowess.skills.skill_md.folder import MAX_FILE_BYTES, SKILL_MD, FolderScan, shown
from prowess.skills.skill_md.reader import is_folder

PREFIX = "prowess-package-"


@dataclass(frozen=True, slots=True)
class Package:
    """A skill's files in a folder of our own, for as long as it is open."""

    folder: Path
    source: str
    """where it came from: an absolute path"""
    kind: Literal["folder", "archive"]
    signature: str | None
    """the text of ``prowess.sig``, unverified"""


@contextmanager
def opened_package(path: str | os.PathLike[str]) -> Iterator[Package]:
    """The skill at ``path``: a folder, or an archive of one.

    Raises ``SkillFileError``: ``path_missing``, what ``unpack`` raises, ``archive_layout`` where an archive holds no
    skill or several, ``folder_too_many_files``, ``folder_too_large``, ``file_too_large``, ``file_changed``.
    """
    place = Path(path)
    folder = place.parent if place.name.lower() == SKILL_MD.lower() and not is_folder(place) else place
    with private_folder() as private:
        if is_folder(folder):
            name = folder.name if folder.name not in ("", "..") else folder.resolve().name
            copy = private / (name or "skill")
            _copy(folder, copy)
            yield Package(copy, str(folder.resolve()), "folder", read_signature(folder))
            return
        from prowess.packages.archives import is_archive, unpack  # only those wait for it who have an archive

        if not _is_file(place):
            raise SkillFileError("path_missing", file=shown(str(place)), line=1)
        if not is_archive(place):
            raise SkillFileError("archive_type", file=place.name, line=1)
        unpack(place, _Folder(private))
        copy = _top(private, place)
        yield Package(copy, str(place.resolve()), "archive", read_signature(copy))


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that nobody else may look into, gone in the end."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lay_out(files: Iterable[tuple[str, bytes, bool]], folder: Path) -> None:
    """Write ``(path, content, executable)`` below a new folder. The paths were read by us before."""
    sink = _Folder(folder)
    folder.mkdir(mode=0o700)
    for path, content, executable in files:
        with sink.file(path, executable=executable) as target:
            target.write(content)


def files_below(folder: Path) -> Iterator[tuple[str, bytes, bool]]:
    """``(path, content, executable)`` of the skill's files in a folder of ours, by path."""
    for found in FolderScan(str(folder)).run().files:
        yield found.path, read_limited(found.location, MAX_FILE_BYTES, found.path), found.executable


class _Folder:
    """Writes below a folder of ours, to new files only."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def file(self, path: str, *, executable: bool) -> BinaryIO:
        """A new file, open for writing. Raises ``SkillFileError('archive_twice')`` where something stands there."""
        place = self._root / path
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
            return os.fdopen(os.open(place, flags, 0o700 if executable else 0o600), "wb")
        except (FileExistsError, NotADirectoryError):
            raise SkillFileError("archive_twice", file=self._root.name, line=1, name=path) from None


def _copy(folder: Path, copy: Path) -> None:
    """The files that belong to the skill; what cannot be read is refused by name, faults in them are found later."""
    scan = FolderScan(str(folder)).run()
    fault = next((note for note in scan.diagnostics if note.severity == "error" and note.code in _UNREADABLE), None)
    if fault is not None:
        raise SkillFileError(fault.code, file=fault.file, line=fault.line, **fault.detail)
    sink = _Folder(copy)
    copy.mkdir(mode=0o700)
    for found in scan.files:
        content = read_limited(found.location, MAX_FILE_BYTES, shown(found.location))
        with sink.file(found.path, executable=found.executable) as target:
            target.write(content)


_UNREADABLE = frozenset(
    {
        "folder_unreadable",
        "folder_too_deep",
        "folder_too_many_files",
        "folder_too_large",
        "file_too_large",
        "file_unreadable",
        "file_irregular",
        "file_name",
        "link_outside",
    }
)


def _top(private: Path, archive: Path) -> Path:
    """The skill's folder in what an archive held: the one folder at its top, or the top itself."""
    if _holds_skill(private):
        name = archive.name.partition(".")[0] or "skill"
        outer = Path(tempfile.mkdtemp(prefix=".top-", dir=private))
        top = outer / name
        top.mkdir()
        for entry in list(private.iterdir()):
            if entry != outer:
                entry.rename(top / entry.name)
        return top
    entries = list(private.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and _holds_skill(entries[0]):
        return entries[0]
    raise SkillFileError("archive_layout", file=archive.name, line=1)


def _holds_skill(folder: Path) -> bool:
    return any(entry.name.lower() == SKILL_MD.lower() and entry.is_file() for entry in folder.iterdir())


def _is_file(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return path.is_file()
    return False
