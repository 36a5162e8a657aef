"""The files of a skill folder, and the folders of a tree that are skills (S1, S7; C05, C07, C13).

A skill is everything below its folder except what is generated (``validation/``, ``quality/``, ``metadata.json``,
``prowess.sig``) and what belongs to other programs (``.git``, ``node_modules``, ``.venv``, ``__pycache__``). What is
excepted has no part in the digest and is never staged or run. A SKILL.md further down is one of the skill's files,
not a second skill.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prowess.errors import SkillFileError
from prowess.skills.front_matter import Diagnostic, read_limited

MAX_FILES = 2_000
MAX_FILE_BYTES = 5 * 1024 * 1024
MAX_SKILL_BYTES = 50 * 1024 * 1024
MAX_FOLDER_DEPTH = 32
MAX_TREE_FOLDERS = 200_000
MAX_TREE_SKILLS = 20_000

SKILL_MD = "SKILL.md"
PROWESS_YAML = "prowess.yaml"
FOREIGN_NAMES = frozenset({".git", "node_modules", ".venv", "__pycache__"})
GENERATED_FOLDERS = frozenset({"validation", "quality"})
METADATA_JSON = "metadata.json"
SIGNATURE_FILE = "prowess.sig"
GENERATED_FILES = frozenset({METADATA_JSON, SIGNATURE_FILE})
TEMPORARY_PREFIX = ".prowess-tmp-"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill: path below the folder with ``/``, whether it is executable, size in bytes, SHA-256.

    The content stays on disk unless it was given; ``read`` refuses content that has changed meanwhile.
    """

    path: str
    executable: bool
    size: int
    sha256: str
    source: Path | bytes

    @classmethod
    def of(cls, path: str, content: bytes, *, executable: bool = False) -> SkillFile:
        """A file held in memory."""
        return cls(path, executable, len(content), hashlib.sha256(content).hexdigest(), content)

    def read(self) -> bytes:
        """The bytes whose digest is ``sha256``.

        Raises ``SkillFileError`` (``file_changed``, and those of ``read_limited``).
        """
        if isinstance(self.source, bytes):
            return self.source
        content = read_limited(str(self.source), MAX_FILE_BYTES)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise SkillFileError("file_changed", file=str(self.source), line=1)
        return content


def content_digest(files: Iterable[SkillFile]) -> str:
    """The identity of a skill's content (S7): 64 hexadecimal characters.

    SHA-256 over the canonical JSON (RFC 8785) of the list of ``[path, SHA-256 of the bytes]``, sorted by path. So:

    - bytes count exactly: a trailing space, a line end or a byte order mark more is another digest;
    - names count: a renamed or moved file is another digest;
    - file modes, times and owners do not count;
    - generated and foreign parts (see the head of this module) and empty folders do not count.
    """
    from prowess.kernel.canonical import digest

    return digest(sorted([file.path, file.sha256] for file in files))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file seen in a folder, not yet read."""

    path: str
    location: str
    executable: bool
    size: int


class FolderScan:
    """All that can be said about a skill folder without opening a file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: list[FoundFile] = []
        self.diagnostics: list[Diagnostic] = []
        self._real = os.path.realpath(folder)
        self._bytes = 0

    def run(self) -> FolderScan:
        """Walk the folder once, in the order of names."""
        pending = [(self.folder, "", 0)]
        while pending:
            place, prefix, depth = pending.pop()
            try:
                with os.scandir(place) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
            except (OSError, ValueError) as error:
                self._note("folder_unreadable", place, problem=getattr(error, "strerror", None) or str(error))
                continue
            for entry in reversed(entries):
                self._visit(entry, prefix)
                if len(self.files) > MAX_FILES or self._bytes > MAX_SKILL_BYTES:
                    self._refuse_size()
                    return self
            pending.extend(self._folders(entries, prefix, depth))
        self.files.sort(key=lambda file: file.path)
        return self

    def find(self, name: str) -> FoundFile | None:
        """The file of that name directly in the folder."""
        return next((file for file in self.files if file.path == name), None)

    def _folders(self, entries: list[os.DirEntry[str]], prefix: str, depth: int) -> Iterable[tuple[str, str, int]]:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False) or (not prefix and entry.name in GENERATED_FOLDERS):
                continue
            if entry.name in FOREIGN_NAMES:
                self._note("folder_ignored", entry.path, name=entry.name)
            elif depth >= MAX_FOLDER_DEPTH:
                self._note("folder_too_deep", entry.path, limit=MAX_FOLDER_DEPTH)
            elif _good_name(entry.name):
                yield entry.path, f"{prefix}{entry.name}/", depth + 1

    def _visit(self, entry: os.DirEntry[str], prefix: str) -> None:
        name = entry.name
        if name in FOREIGN_NAMES or (not prefix and name in GENERATED_FILES):
            return
        if not _good_name(name):
            self._note("file_name", self.folder, name=ascii(name).strip("'"))
            return
        if entry.is_symlink() and not self._link_is_file(entry):
            return
        if entry.is_dir(follow_symlinks=False):
            return
        try:
            state = entry.stat()
        except OSError as error:
            self._note("file_unreadable", entry.path, problem=error.strerror or str(error))
            return
        if not stat.S_ISREG(state.st_mode):
            self._note("file_irregular", entry.path)
            return
        if state.st_size > MAX_FILE_BYTES and (prefix or name not in (SKILL_MD, PROWESS_YAML)):
            self._note("file_too_large", entry.path, size=state.st_size, limit=MAX_FILE_BYTES)
        if prefix and name == SKILL_MD:
            self._note("nested_skill", entry.path, outer=self.folder)
        self._bytes += state.st_size
        self.files.append(FoundFile(prefix + name, entry.path, bool(state.st_mode & 0o111), state.st_size))

    def _link_is_file(self, entry: os.DirEntry[str]) -> bool:
        """Whether a link leads to a file of the same skill; others are refused (outside) or passed over."""
        target = os.path.realpath(entry.path)
        if not target.startswith(self._real.rstrip(os.sep) + os.sep):
            self._note("link_outside", entry.path)
            return False
        if not Path(target).is_file():
            self._note("link_ignored", entry.path)
            return False
        return True

    def _refuse_size(self) -> None:
        if len(self.files) > MAX_FILES:
            self._note("folder_too_many_files", self.folder, limit=MAX_FILES)
        else:
            self._note("folder_too_large", self.folder, limit=MAX_SKILL_BYTES)

    def _note(self, code: str, file: str, **detail: object) -> None:
        self.diagnostics.append(Diagnostic(code, shown(file), 1, detail))


def shown(path: str) -> str:
    """A path fit for a report: bytes that are no text are written as escapes."""
    return path if path.isprintable() else path.encode("utf-8", "backslashreplace").decode()


_BAD_NAME = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\\\\]")


def _good_name(name: str) -> bool:
    return _BAD_NAME.search(name) is None


def find_skill_folders(root: str | os.PathLike[str]) -> tuple[list[str], list[Diagnostic]]:
    """The skill folders at and below ``root`` in the order of their paths, and what could not be looked into.

    A folder is a skill where it holds a ``SKILL.md``; below it there are no further skills (C07). ``.git``,
    ``node_modules``, ``.venv`` and ``__pycache__`` are passed over. Links to folders are not followed; one that leads
    to a skill outside the root is reported. At most 32 levels, 200,000 folders and 20,000 skills: beyond, an error is
    among the diagnostics and the list is what was found so far.
    """
    top = str(Path(root))
    skills: list[str] = []
    notes: list[Diagnostic] = []
    pending = [(top, 0)]
    seen = 0
    while pending:
        place, depth = pending.pop()
        seen += 1
        if seen > MAX_TREE_FOLDERS or len(skills) > MAX_TREE_SKILLS or depth > MAX_FOLDER_DEPTH:
            limit = MAX_FOLDER_DEPTH if depth > MAX_FOLDER_DEPTH else MAX_TREE_SKILLS
            notes.append(Diagnostic("tree_too_large", shown(place), 1, {"limit": limit}))
            if depth > MAX_FOLDER_DEPTH:
                continue
            break
        try:
            with os.scandir(place) as listing:
                entries = list(listing)
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            notes.append(Diagnostic("folder_unreadable", shown(place), 1, {"problem": problem}))
            continue
        if any(entry.name == SKILL_MD and not entry.is_dir() for entry in entries):
            skills.append(place)
            continue
        folders = _folders_to_walk(entries, top, notes)
        pending.extend((path, depth + 1) for path in sorted(folders, reverse=True))
    return skills, notes


def _folders_to_walk(entries: list[os.DirEntry[str]], top: str, notes: list[Diagnostic]) -> list[str]:
    found = []
    for entry in entries:
        if entry.name in FOREIGN_NAMES or entry.name.startswith(TEMPORARY_PREFIX):
            continue
        if entry.is_dir(follow_symlinks=False):
            found.append(entry.path)
        elif entry.is_symlink() and Path(entry.path, SKILL_MD).is_file():
            real = os.path.realpath(top).rstrip(os.sep) + os.sep
            if not os.path.realpath(entry.path).startswith(real):
                notes.append(Diagnostic("link_ignored", shown(entry.path)))
    return found
