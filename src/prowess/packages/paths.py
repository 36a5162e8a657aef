"""Names of files in archives: what may be written below a folder, and what is refused before a path is made (C09)."""

from __future__ import annotations

import re
import unicodedata

from prowess.errors import SkillFileError
from prowess.skills.skill_md.folder import MAX_FOLDER_DEPTH

MAX_PATH_BYTES = 400
MAX_NAME_BYTES = 200

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE | re.DOTALL)


def safe_path(name: str, archive: str) -> str:
    """The path below the folder that an entry of an archive names: parts joined by ``/``, none of them special.

    ``./`` in front, which tar writes, and ``/`` at the end of folders are left out; the empty text is the top itself.
    Raises ``SkillFileError('archive_name')``, ``problem`` being one of ``absolute``, ``parent``, ``drive``,
    ``backslash``, ``control``, ``empty_part``, ``device``, ``space_or_dot``, ``long``, ``deep``.
    """
    problem = _problem(name)
    parts = [part for part in name.rstrip("/").split("/") if part != "."]
    if problem is None and name.strip("./"):
        problem = next(filter(None, map(_part_problem, parts)), None)
    if problem is None and len(parts) > MAX_FOLDER_DEPTH:
        problem = "deep"
    if problem is not None:
        raise SkillFileError("archive_name", file=archive, line=1, name=ascii(name[:120])[1:-1], problem=problem)
    return "/".join(part for part in parts if part)


def _problem(name: str) -> str | None:
    if _CONTROL.search(name):
        return "control"
    if "\\" in name:
        return "backslash"
    if name.startswith("/"):
        return "absolute"
    if _DRIVE.match(name):
        return "drive"
    if ".." in name.split("/"):
        return "parent"
    return "long" if len(name.encode()) > MAX_PATH_BYTES else None


def _part_problem(part: str) -> str | None:
    if not part:
        return "empty_part"
    if part != part.rstrip(" .") or part != part.lstrip(" "):
        return "space_or_dot"  # Windows drops them, and two names become one
    if _DEVICE.fullmatch(part):
        return "device"
    if _DRIVE.match(part):
        return "drive"
    return "long" if len(part.encode()) > MAX_NAME_BYTES else None


class Taken:
    """The paths of an archive so far: each once, also where case and Unicode forms do not count."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, path: str, *, folder: bool) -> None:
        """Note a file or folder.

        Raises ``SkillFileError('archive_twice')`` where its place is taken: by a file of that name in any case or
        Unicode form, or by a folder where this is a file.
        """
        key = unicodedata.normalize("NFKC", path).casefold()
        parts = key.split("/")
        above = {"/".join(parts[:count]) for count in range(1, len(parts))}
        clash = key in self._files or bool(above & self._files) or (not folder and key in self._folders)
        if clash:
            raise SkillFileError("archive_twice", file=self._archive, line=1, name=path)
        self._folders |= above | ({key} if folder else set())
        if not folder:
            self._files.add(key)
