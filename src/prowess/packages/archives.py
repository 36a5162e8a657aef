"""Archives read as hostile: entries are streamed, counted and named anew, never extracted by a library (C06, C09).

``.zip`` (a ``.skill`` file is one) and tar, plain or packed by gzip, bzip2 or xz. What an archive says of itself, names
and sizes, is checked; what it turns out to hold is counted. Links, devices, sparse and encrypted entries are refused.
An archive within an archive is a file like any other and is not opened.
"""

from __future__ import annotations

import errno
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from prowess.errors import SkillFileError
from prowess.packages.packed import Unpacked
from prowess.packages.paths import Taken, safe_path
from prowess.skills.skill_md.folder import MAX_FILE_BYTES, MAX_FILES, MAX_SKILL_BYTES

MAX_ARCHIVE_BYTES = 50 * 1024 * 1024
MAX_ENTRIES = 2 * MAX_FILES
"""files, folders and what is passed over"""
MAX_DIRECTORY_BYTES = 2 * 1024 * 1024
"""of the list at the end of a zip, which is read at once"""
MAX_RATIO = 200
"""how many times its packed size an entry may become, where it is larger than a mebibyte"""
MEBIBYTE = 1024 * 1024
CHUNK = 64 * 1024

_END, _END_SIZE, _LOCATOR, _MAX_COMMENT = b"PK\x05\x06", 22, b"PK\x06\x07", 65_535
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_PASSED_OVER = ("__MACOSX",)


class Sink(Protocol):
    """Where the files of an archive go."""

    def file(self, path: str, *, executable: bool) -> BinaryIO:
        """A new file, open for writing."""
        ...


@dataclass(slots=True)
class _Limits:
    """What was taken out so far, and the names in use."""

    archive: str
    taken: Taken
    entries: int = 0
    files: int = 0
    size: int = 0

    def enter(self, name: str, *, folder: bool) -> str | None:
        """The path of an entry; ``None`` for one that is passed over, and for the top folder itself."""
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise self.refusal("archive_entries", limit=MAX_ENTRIES)
        path = safe_path(name, self.archive)
        if not path or path.split("/")[0] in _PASSED_OVER:
            return None
        self.taken.add(path, folder=folder)
        if folder:
            return None
        self.files += 1
        if self.files > MAX_FILES:
            raise self.refusal("archive_entries", limit=MAX_FILES)
        return path

    def check_size(self, path: str, size: int) -> None:
        """What an entry says that it holds."""
        if size > MAX_FILE_BYTES:
            raise self.refusal("archive_file_size", name=path, limit=MAX_FILE_BYTES)
        if self.size + size > MAX_SKILL_BYTES:
            raise self.refusal("archive_size", limit=MAX_SKILL_BYTES)

    def copy(self, path: str, source: IO[bytes], target: IO[bytes]) -> None:
        """What an entry turns out to hold, whatever it said."""
        held = 0
        while chunk := source.read(CHUNK):
            held += len(chunk)
            self.check_size(path, held)
            target.write(chunk)
        self.size += held

    def refusal(self, code: str, **detail: object) -> SkillFileError:
        """The error, naming the archive."""
        return SkillFileError(code, file=self.archive, line=1, **detail)


def is_archive(path: Path) -> bool:
    """Whether the file begins as an archive does that can be read here."""
    return _kind(path) is not None


def unpack(path: Path, sink: Sink) -> None:
    """Write the files of the archive to ``sink``.

    At most 50 MiB packed and unpacked, 5 MiB a file, 2,000 files and 4,000 entries; memory stays at a few MiB. Raises
    ``SkillFileError``: ``archive_type``, ``archive_unreadable``, ``archive_large``, ``archive_entries``,
    ``archive_name``, ``archive_twice``, ``archive_link``, ``archive_special``, ``archive_encrypted``,
    ``archive_method``, ``archive_file_size``, ``archive_size``, ``archive_ratio``.
    """
    name = path.name
    limits = _Limits(name, Taken(name))
    kind = _kind(path)
    if kind is None:
        raise limits.refusal("archive_type")
    if path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise limits.refusal("archive_large", limit=MAX_ARCHIVE_BYTES)
    with _readable(limits), path.open("rb") as file:
        if kind == "zip":
            _unpack_zip(file, limits, sink)
        else:
            _unpack_tar(file, kind, limits, sink)


@contextmanager
def _readable(limits: _Limits) -> Iterator[None]:
    try:
        yield
    except SkillFileError:
        raise
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        RecursionError,
        OverflowError,
        LookupError,
    ) as error:
        raise limits.refusal("archive_unreadable", problem=type(error).__name__) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place that cannot be: the archive said so
            raise
        raise limits.refusal("archive_unreadable", problem=type(error).__name__) from None


def _kind(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except (OSError, ValueError):
        return None
    if head.startswith((b"PK\x03\x04", _END)):
        return "zip"
    packed = next((kind for magic, kind in _PACKED.items() if head.startswith(magic)), None)
    return packed or ("tar" if head[257:262] == b"ustar" else None)


# zip


def _unpack_zip(file: BinaryIO, limits: _Limits, sink: Sink) -> None:
    _check_directory(file, limits)
    with zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > MAX_ENTRIES:
            raise limits.refusal("archive_entries", limit=MAX_ENTRIES)
        entries = [(entry, path) for entry in archive.infolist() if (path := _zip_entry(entry, limits)) is not None]
        if sum(entry.file_size for entry, _ in entries) > MAX_SKILL_BYTES:
            raise limits.refusal("archive_size", limit=MAX_SKILL_BYTES)
        for entry, path in entries:
            executable = entry.create_system == 3 and bool(entry.external_attr >> 16 & 0o111)
            with archive.open(entry) as source, sink.file(path, executable=executable) as target:
                limits.copy(path, source, target)


def _check_directory(file: BinaryIO, limits: _Limits) -> None:
    """The list of entries is read at once: how long it says to be is looked at before."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_SIZE - _MAX_COMMENT - 20))
    tail = file.read()
    at = len(tail) - _END_SIZE
    if at < 0 or tail[at : at + 4] != _END or tail[-2:] != b"\0\0":
        at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise limits.refusal("archive_unreadable", problem="no end record")
    entries, directory = int.from_bytes(tail[at + 10 : at + 12], "little"), tail[at + 12 : at + 16]
    long_form = tail[max(0, at - 20) : at].startswith(_LOCATOR)  # needed by more than 65,534 entries alone
    if long_form or entries > MAX_ENTRIES or int.from_bytes(directory, "little") > MAX_DIRECTORY_BYTES:
        raise limits.refusal("archive_entries", limit=MAX_ENTRIES)


def _zip_entry(entry: zipfile.ZipInfo, limits: _Limits) -> str | None:
    name = _zip_name(entry)
    mode = entry.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        raise limits.refusal("archive_link", name=_shown(name))
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise limits.refusal("archive_special", name=_shown(name))
    path = limits.enter(name, folder=name.endswith("/"))
    if path is None:
        return None
    if entry.flag_bits & 0x1:
        raise limits.refusal("archive_encrypted", name=path)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise limits.refusal("archive_method", name=path, method=entry.compress_type)
    limits.check_size(path, entry.file_size)
    if entry.file_size > MEBIBYTE and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        raise limits.refusal("archive_ratio", name=path, limit=MAX_RATIO)
    return path


def _zip_name(entry: zipfile.ZipInfo) -> str:
    """The name as it is written, before the library cuts it at a NUL; UTF-8 where that was meant and not said."""
    name = entry.orig_filename
    if not entry.flag_bits & 0x800 and not name.isascii():
        try:
            return name.encode("cp437").decode("utf-8")
        except UnicodeError:
            return name
    return name


# tar


def _unpack_tar(file: BinaryIO, kind: str, limits: _Limits, sink: Sink) -> None:
    def too_large() -> SkillFileError:
        return limits.refusal("archive_size", limit=MAX_SKILL_BYTES)

    stream = Unpacked(file, kind, _TAR_BYTES, too_large)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK) as archive:  # type: ignore[call-overload]
        for entry in archive:
            _tar_entry(archive, entry, limits, sink)


_TAR_BYTES = MAX_SKILL_BYTES + MAX_ENTRIES * 2048 + MEBIBYTE
"""the files, two blocks of header and two of padding for each, and the end"""


def _tar_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, limits: _Limits, sink: Sink) -> None:
    if entry.issym() or entry.islnk():
        raise limits.refusal("archive_link", name=_shown(entry.name))
    sparse = entry.issparse() or any(key.startswith("GNU.sparse") for key in entry.pax_headers)
    if sparse or entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
        raise limits.refusal("archive_special", name=_shown(entry.name))
    path = limits.enter(entry.name, folder=entry.isdir())
    if path is None:
        return
    limits.check_size(path, entry.size)
    source = archive.extractfile(entry)
    if source is None:
        raise limits.refusal("archive_special", name=path)
    with sink.file(path, executable=bool(entry.mode & 0o111)) as target:
        limits.copy(path, source, target)


def _shown(name: str) -> str:
    return ascii(name[:120])[1:-1]
