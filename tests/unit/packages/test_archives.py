"""Archives that mean harm: refused by name, in bounded time and memory, with nothing written outside (C06, C09)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import SkillFileError
from prowess.packages import archives
from prowess.packages.archives import MAX_ENTRIES, is_archive, unpack
from prowess.packages.paths import Taken, safe_path
from prowess.packages.unpacking import opened_package

SKILL = b"---\nname: helper\ndescription: Helps.\n---\n\nHelp.\n"
MIB = 1024 * 1024


class Memory:
    """Keeps what is unpacked."""

    def __init__(self) -> None:
        self.files: dict[str, io.BytesIO] = {}
        self.executable: set[str] = set()

    def file(self, path: str, *, executable: bool) -> BinaryIO:
        self.files[path] = kept = io.BytesIO()
        kept.close = lambda: None  # type: ignore[method-assign]
        if executable:
            self.executable.add(path)
        return kept


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def tarred(path: Path, *entries: tarfile.TarInfo | tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for entry in entries:
            info, content = (
                (entry, b"") if isinstance(entry, tarfile.TarInfo) else (tarfile.TarInfo(entry[0]), entry[1])
            )
            if content:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def refused(path: Path) -> str:
    with pytest.raises(SkillFileError) as error:
        unpack(path, Memory())
    for language in ("en", "zh"):
        assert error.value.message(language) != f"error.{error.value.code}"
        assert error.value.remedy(language) != f"remedy.{error.value.code}"
    return error.value.code


@pytest.mark.parametrize("name", ["a.zip", "a.skill", "a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_every_form_is_read_by_what_it_holds(tmp_path: Path, name: str) -> None:
    entries = (("helper/SKILL.md", SKILL), ("helper/assets/数据.bin", bytes(range(256)) * 600))
    if name.endswith((".zip", ".skill")):
        path = zipped(tmp_path / name, *entries)
    else:
        path = tarred(tmp_path / name, *entries, mode={"r": "w", "z": "w:gz", "2": "w:bz2", "x": "w:xz"}.get(name[-1] if name[-2:] != "xz" else "x", "w"))  # fmt: skip
    assert is_archive(path)
    sink = Memory()
    unpack(path, sink)
    assert {name: file.getvalue() for name, file in sink.files.items()} == dict(entries)


def test_modes_are_kept_and_tops_left_out(tmp_path: Path) -> None:
    script = tarfile.TarInfo("./helper/scripts/go.sh")
    script.mode = 0o755
    folder = tarfile.TarInfo("./helper/")
    folder.type = tarfile.DIRTYPE
    sink = Memory()
    unpack(tarred(tmp_path / "a.tar", folder, ("./helper/SKILL.md", SKILL), script), sink)
    assert set(sink.files) == {"helper/SKILL.md", "helper/scripts/go.sh"}
    assert sink.executable == {"helper/scripts/go.sh"}


@pytest.mark.parametrize(
    "name",
    [
        "../out", "a/../../out", "a/..", "/etc/passwd", "C:/x", "c:x", "a/C:x", "..\\out", "a\\..\\b", "a\\b", "a//b",
        "a/\x00b", "a\n", "con", "a/NUL.txt", "a/COM1", "a /b", "a/b.", "a/ b", "x" * 201, "/".join("d" * 40),
        "é" * 101, "a/" * 201,
    ],
)  # fmt: skip
def test_c09_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SkillFileError) as error:
        safe_path(name, "a.zip")
    assert error.value.code == "archive_name"
    assert refused(tarred(tmp_path / "a.tar", (name.replace("\x00", "\x01"), b"x"))) == "archive_name"
    if "\x00" not in name:
        info = zipfile.ZipInfo("placeholder")
        info.filename = name
        assert refused(zipped(tmp_path / "a.zip", (info, b"x"))) == "archive_name"


def test_c09_a_nul_in_the_name_of_a_zip_entry_is_seen(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", ("SKILL.md_x", b"x"))
    path.write_bytes(path.read_bytes().replace(b"SKILL.md_x", b"SKILL.md\0x"))
    assert refused(path) == "archive_name"


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["..", ".", "", "a", "B:", "\\", "/", "con"]), max_size=8).map("/".join)
)
def test_c09_no_name_leads_out_of_the_folder(name: str) -> None:
    try:
        path = safe_path(name, "x")
    except SkillFileError:
        return
    root = Path("/root-of-all")
    assert not path or (root / path).relative_to(root).parts == tuple(path.split("/"))
    assert ".." not in path.split("/")
    assert "\\" not in path
    assert "\0" not in path


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "A"), ("straße", "STRASSE"), ("é", "e\u0301"), ("ﬁ", "fi"), ("a/b", "A"), ("a", "a/b"), ("a", "a")],
)
def test_c09_names_that_are_one_file_elsewhere_are_refused(first: str, second: str) -> None:
    taken = Taken("x")
    taken.add(first, folder=False)
    with pytest.raises(SkillFileError) as error:
        taken.add(second, folder=False)
    assert error.value.code == "archive_twice"


def test_c09_links_devices_and_sparse_files_are_refused(tmp_path: Path) -> None:
    kinds = {
        tarfile.SYMTYPE: "archive_link",
        tarfile.LNKTYPE: "archive_link",
        tarfile.CHRTYPE: "archive_special",
        tarfile.BLKTYPE: "archive_special",
        tarfile.FIFOTYPE: "archive_special",
        tarfile.CONTTYPE: "archive_special",
        b"Z": "archive_special",
    }
    for kind, code in kinds.items():
        info = tarfile.TarInfo("helper/x")
        info.type, info.linkname = kind, "/etc/passwd"
        assert refused(tarred(tmp_path / "a.tar", info)) == code, kind
    for mode, code in (
        (stat.S_IFLNK, "archive_link"),
        (stat.S_IFIFO, "archive_special"),
        (stat.S_IFCHR, "archive_special"),
    ):
        entry = zipfile.ZipInfo("helper/x")
        entry.create_system, entry.external_attr = 3, (mode | 0o644) << 16
        assert refused(zipped(tmp_path / "a.zip", (entry, b"/etc/passwd"))) == code


def test_c06_encrypted_and_unusual_packing_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", ("SKILL.md", SKILL), packed=zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    assert refused(path) == "archive_encrypted"
    for packed in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert refused(zipped(tmp_path / "b.zip", ("SKILL.md", SKILL), packed=packed)) == "archive_method"


def refused_in_bounds(path: Path) -> str:
    """With less than 40 MiB of Python's memory and 5 s of CPU."""
    started = time.process_time()
    tracemalloc.start()
    try:
        code = refused(path)
        assert tracemalloc.get_traced_memory()[1] < 40 * MIB
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 5
    return code


def test_c06_100_000_entries_are_not_even_listed(tmp_path: Path) -> None:
    entry = b"PK\x01\x02" + bytes(42) + b"x"
    size = (len(entry) * 100_000).to_bytes(4, "little")
    end = b"PK\x05\x06" + bytes(4) + (0xFFFF).to_bytes(2, "little") * 2 + size + bytes(6)
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04" + entry * 100_000 + end)
    assert refused_in_bounds(tmp_path / "a.zip") == "archive_entries"
    folder = tarfile.TarInfo("folder")
    folder.type = tarfile.DIRTYPE
    with gzip.open(tmp_path / "a.tar.gz", "wb", 1) as file:
        for _ in range(100):
            file.write(folder.tobuf() * 1_000)
    assert refused_in_bounds(tmp_path / "a.tar.gz") == "archive_entries"


def test_c06_a_central_list_that_understates_itself_is_bounded(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", *((f"f{number}", b"") for number in range(MAX_ENTRIES + 1)))
    data = bytearray(path.read_bytes())
    data[-14:-10] = (1).to_bytes(2, "little") * 2
    path.write_bytes(bytes(data))
    assert refused(path) == "archive_entries"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_c06_a_packed_bomb_stops_at_the_limit(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_SKILL_BYTES", 8 * MIB)
    monkeypatch.setattr(archives, "_TAR_BYTES", 9 * MIB)
    entries = [(f"f{number}", bytes(4 * MIB)) for number in range(3)]
    (tmp_path / "a.tar.x").write_bytes(pack(tarred(tmp_path / "a.tar", *entries).read_bytes()))
    assert refused_in_bounds(tmp_path / "a.tar.x") == "archive_size"
    # What is no file is counted too: a header of ten million letters.
    wordy = tarfile.TarInfo("helper/SKILL.md")
    wordy.pax_headers = {"comment": "x" * 10 * MIB}
    (tmp_path / "b.tar.x").write_bytes(pack(tarred(tmp_path / "b.tar", wordy).read_bytes()))
    assert refused_in_bounds(tmp_path / "b.tar.x") == "archive_size"


def test_c06_zip_bombs_are_refused_by_ratio_and_by_what_comes_out(tmp_path: Path) -> None:
    assert refused_in_bounds(zipped(tmp_path / "a.zip", ("f", bytes(4 * MIB)))) == "archive_ratio"
    assert refused_in_bounds(zipped(tmp_path / "b.zip", ("SKILL.md", bytes(50 * MIB)))) == "archive_file_size"
    # One that says it is small: the library stops at what it says and finds the sum wrong.
    path = zipped(tmp_path / "c.zip", ("f", bytes(MIB)))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    for place in (22, at + 24):
        data[place : place + 4] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    assert refused(path) == "archive_unreadable"


def test_c06_an_archive_within_an_archive_is_a_file(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", ("../out", b"x")).read_bytes()
    sink = Memory()
    unpack(zipped(tmp_path / "a.zip", ("assets/inner.zip", inner), packed=zipfile.ZIP_STORED), sink)
    assert sink.files["assets/inner.zip"].getvalue() == inner


@given(st.integers(0, 2_000), st.binary(min_size=1, max_size=8), st.sampled_from(["zip", "tar", "tar.gz"]))
def test_c06_damage_is_refused_or_harmless(place: int, damage: bytes, kind: str) -> None:
    data = bytearray(_SAMPLES[kind])
    at = place % len(data)
    data[at : at + len(damage)] = damage
    path = _SCRATCH / f"damaged.{kind}"
    path.write_bytes(bytes(data))
    sink = Memory()
    try:
        unpack(path, sink)
    except SkillFileError as error:
        assert error.detail["file"] == path.name
    for name in sink.files:
        assert ".." not in name.split("/")
        assert not name.startswith("/")


@pytest.fixture(scope="module", autouse=True)
def _samples(tmp_path_factory: pytest.TempPathFactory) -> None:
    global _SCRATCH
    _SCRATCH = tmp_path_factory.mktemp("damaged")
    entries = (("helper/SKILL.md", SKILL), ("helper/a.txt", b"abc" * 100))
    _SAMPLES["zip"] = zipped(_SCRATCH / "s.zip", *entries).read_bytes()
    _SAMPLES["tar"] = tarred(_SCRATCH / "s.tar", *entries).read_bytes()
    _SAMPLES["tar.gz"] = tarred(_SCRATCH / "s.tar.gz", *entries, mode="w:gz").read_bytes()


_SCRATCH = Path()
_SAMPLES: dict[str, bytes] = {}


def test_cut_off_streams_and_strangers_are_refused(tmp_path: Path) -> None:
    path = tarred(tmp_path / "a.tar.gz", ("helper/SKILL.md", SKILL * 500), mode="w:gz")
    path.write_bytes(path.read_bytes()[:60])
    assert refused(path) == "archive_unreadable"
    (tmp_path / "text.zip").write_text("not an archive")
    assert refused(tmp_path / "text.zip") == "archive_type"
    (tmp_path / "z.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    assert refused(tmp_path / "z.zst") == "archive_type"


def test_streams_that_follow_each_other_are_one(tmp_path: Path) -> None:
    data = tarred(tmp_path / "a.tar", ("helper/SKILL.md", SKILL)).read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(data[:700]) + gzip.compress(data[700:]))
    sink = Memory()
    unpack(tmp_path / "a.tar.gz", sink)
    assert sink.files["helper/SKILL.md"].getvalue() == SKILL


def test_a_window_that_fills_at_the_end_of_input_is_emptied(tmp_path: Path) -> None:
    """A decoder may hold more than was asked for when the last packed byte was read."""
    packed = zlib.compressobj(wbits=31, level=9)
    data = tarred(tmp_path / "a.tar", ("f", bytes(200_000))).read_bytes()
    (tmp_path / "a.tar.gz").write_bytes(packed.compress(data) + packed.flush())
    sink = Memory()
    unpack(tmp_path / "a.tar.gz", sink)
    assert sink.files["f"].getvalue() == bytes(200_000)


def test_one_skill_at_the_top_or_in_one_folder(tmp_path: Path) -> None:
    inside = zipped(tmp_path / "x.zip", ("helper/SKILL.md", SKILL), ("__MACOSX/helper/._SKILL.md", b"x"))
    with opened_package(inside) as package:
        assert (package.folder.name, package.kind, package.source) == ("helper", "archive", str(inside))
        assert sorted(path.name for path in package.folder.iterdir()) == ["SKILL.md"]
        kept = package.folder
    assert not kept.exists()
    with opened_package(zipped(tmp_path / "helper.zip", ("SKILL.md", SKILL), ("a/b.txt", b"x"))) as package:
        assert package.folder.name == "helper"
        assert (package.folder / "a" / "b.txt").read_bytes() == b"x"
    for entries in ([("a/SKILL.md", SKILL), ("b/SKILL.md", SKILL)], [("a/b/SKILL.md", SKILL)], [("readme", b"x")]):
        with pytest.raises(SkillFileError) as error, opened_package(zipped(tmp_path / "y.zip", *entries)):
            pass
        assert error.value.code == "archive_layout"


def test_c06_a_skill_md_of_50_mb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "helper"
    folder.mkdir()
    with (folder / "SKILL.md").open("wb") as file:
        file.truncate(50 * MIB)
    with pytest.raises(SkillFileError) as error, opened_package(folder):
        pass
    assert error.value.code in ("file_too_large", "folder_too_large")
