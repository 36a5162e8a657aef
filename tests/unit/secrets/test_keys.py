"""The key ring, and where keys are read from."""

from __future__ import annotations

import base64
import os
import pickle
import stat
from pathlib import Path

import pytest

from prowess.errors import Conflict, StorageError
from prowess.secrets.keys import KeyRing, Sealed, new_key_file, read_keys

ONE, TWO = bytes(range(32)), bytes(range(32, 64))


def text_of(key: bytes) -> str:
    return base64.b64encode(key).decode()


def write(file: Path, content: str, mode: int = 0o600) -> Path:
    file.write_text(content)
    file.chmod(mode)
    return file


def refused(**source: object) -> StorageError:
    with pytest.raises(StorageError) as found:
        read_keys(**source)  # type: ignore[arg-type]
    assert text_of(ONE) not in str(found.value.to_json())
    return found.value


def test_u4_a_ring_opens_what_it_sealed_in_the_same_context_only() -> None:
    ring = KeyRing([ONE])
    sealed = ring.seal(b"value", b"here")
    assert b"value" not in sealed.data
    assert ring.open(sealed, b"here") == b"value"
    assert ring.seal(b"value", b"here") != sealed
    for wrong, context in [
        (sealed, b"there"),
        (Sealed(sealed.key_id, sealed.data[:-1] + bytes([sealed.data[-1] ^ 1])), b"here"),
        (Sealed(sealed.key_id, b""), b"here"),
        (Sealed(sealed.key_id, sealed.data[:13]), b"here"),
    ]:
        with pytest.raises(StorageError) as found:
            ring.open(wrong, context)
        assert found.value.code == "secret_damaged"


def test_u4_the_first_key_seals_and_the_others_still_open() -> None:
    old, new = KeyRing([ONE]), KeyRing([TWO, ONE])
    sealed = old.seal(b"value", b"")
    assert new.open(sealed, b"") == b"value"
    assert new.seal(b"value", b"").key_id == new.key_id == KeyRing([TWO]).key_id != old.key_id
    with pytest.raises(StorageError) as found:
        old.open(new.seal(b"value", b""), b"")
    assert (found.value.code, found.value.detail["key"]) == ("secret_key_unknown", new.key_id)


def test_u4_a_ring_shows_no_key_and_does_not_travel() -> None:
    ring = KeyRing([ONE])
    assert repr(ring) == f"KeyRing({ring.key_id})"
    assert ring.key_id not in ONE.hex()
    with pytest.raises(TypeError):
        pickle.dumps(ring)
    for keys in ([], [ONE[:31]], [ONE, b""]):
        with pytest.raises(ValueError, match="32 bytes"):
            KeyRing(keys)


def test_u4_keys_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    one, two = KeyRing([ONE]).key_id, KeyRing([TWO]).key_id
    file = write(tmp_path / "key", f"# newest first\n\n{text_of(TWO)}\n  {text_of(ONE)}  \n")
    urlsafe = base64.urlsafe_b64encode(b"\xff" * 32).decode()
    assert read_keys(file, {}).key_ids == (two, one)
    assert read_keys(None, {"PROWESS_SECRET_KEY_FILE": str(file)}).key_ids == (two, one)
    assert read_keys(None, {"PROWESS_SECRET_KEY": f"{text_of(ONE)} {text_of(TWO)}"}).key_ids == (one, two)
    assert read_keys(None, {"PROWESS_SECRET_KEY": urlsafe}).key_id == KeyRing([b"\xff" * 32]).key_id
    both = {"PROWESS_SECRET_KEY": text_of(ONE), "PROWESS_SECRET_KEY_FILE": str(file)}
    assert read_keys(None, both).key_ids == (one,)
    assert read_keys(file, both).key_ids == (two, one)


def test_u4_without_a_key_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(environment={}).code == "secret_key_missing"
    assert refused(environment={"PROWESS_SECRET_KEY": ""}).code == "secret_key_missing"
    absent = refused(file=tmp_path / "absent", environment={})
    assert (absent.code, absent.detail["cause"]) == ("secret_key_missing", "FileNotFoundError")
    monkeypatch.delenv("PROWESS_SECRET_KEY", raising=False)
    monkeypatch.delenv("PROWESS_SECRET_KEY_FILE", raising=False)
    assert refused().code == "secret_key_missing"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_u4_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    found = refused(file=write(tmp_path / "key", text_of(ONE), mode))
    assert (found.code, found.detail["mode"]) == ("secret_key_exposed", f"{mode:04o}")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_u4_a_key_file_of_its_owner_alone_is_read(tmp_path: Path, mode: int) -> None:
    assert read_keys(write(tmp_path / "key", text_of(ONE), mode)).key_id == KeyRing([ONE]).key_id


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", 1),
        ("# nothing\n", 1),
        (text_of(ONE)[:-4], 1),
        (f"{text_of(TWO)}\n{text_of(ONE)}!", 2),
        (f"{text_of(TWO)}\nnot a key", 2),
        ("é" * 44, 1),
        (text_of(ONE + TWO), 1),
        ("x" * 70_000, 1),
    ],
    ids=range(8),
)
def test_u4_a_malformed_key_is_named_by_its_line_alone(tmp_path: Path, content: str, line: int) -> None:
    found = refused(file=write(tmp_path / "key", content))
    assert found.code == "secret_key_malformed"
    assert found.detail == {"source": str(tmp_path / "key"), "line": line}
    if "\n" not in content and content:
        assert refused(environment={"PROWESS_SECRET_KEY": content}).detail == {
            "source": "PROWESS_SECRET_KEY",
            "line": 1,
        }


def test_u4_what_is_no_file_is_no_key_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refused(file=tmp_path / "pipe").code == "secret_key_malformed"
    assert refused(file=tmp_path).code == "secret_key_malformed"


def test_u4_a_new_key_file_is_closed_and_never_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "key"
    key_id = new_key_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_keys(file).key_ids == (key_id,)
    before = file.read_bytes()
    with pytest.raises(Conflict) as exists:
        new_key_file(file)
    assert exists.value.code == "secret_key_exists"
    assert file.read_bytes() == before
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        new_key_file(tmp_path / "link")
    with pytest.raises(StorageError) as unwritable:
        new_key_file(tmp_path / "no folder" / "key")
    assert unwritable.value.code == "secret_key_unwritable"
    assert new_key_file(tmp_path / "other") != key_id
