"""Keys and signatures (ruling 8): what is vouched for is exactly this content of this skill."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.errors import Conflict, ProwessError
from prowess.packages.signing import (
    Statement,
    key_id_of,
    new_key,
    parse_signature,
    read_public_key,
    read_signature,
    sign,
    write_signature,
)
from prowess.packages.verifying import trusted_alone, verify_skill
from prowess.skills.skill_md import read_skill_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "helper"
    place.mkdir()
    (place / "SKILL.md").write_text("---\nname: helper\ndescription: Helps.\n---\n\nHelp.\n")
    return place


def test_s7_a_signature_is_no_part_of_the_content_and_survives_nothing_else(tmp_path: Path, folder: Path) -> None:
    key_id, public = new_key(tmp_path / "key")
    before = read_skill_folder(folder).digest
    signature = sign(read_skill_folder(folder), tmp_path / "key")
    write_signature(folder, signature)
    assert read_skill_folder(folder).digest == before == signature.statement.digest
    assert parse_signature(read_signature(folder) or "") == signature
    raw = read_public_key(public)
    assert (key_id_of(raw), signature.key_id) == (key_id, key_id)
    assert signature.verified_by(raw)
    for changed in (
        Statement("other", None, before),
        Statement("helper", "1.0.0", before),
        Statement("helper", None, "0" * 64),
    ):
        assert not replace(signature, statement=changed).verified_by(raw)
    assert not replace(signature, value=bytes(64)).verified_by(raw)
    new_key(tmp_path / "other")
    assert not signature.verified_by(read_public_key(tmp_path / "other.pub"))
    found = verify_skill(folder, trusted_alone(public))
    assert (found["signature"], found["ok"], found["key_id"]) == ("verified", True, key_id)
    assert verify_skill(folder, trusted_alone(tmp_path / "other.pub"))["signature"] == "unknown"
    (folder / "SKILL.md").write_text("---\nname: helper\ndescription: Harms.\n---\n\nHelp.\n")
    assert verify_skill(folder, trusted_alone(public))["signature"] == "invalid"
    (folder / "prowess.sig").unlink()
    assert verify_skill(folder, [])["signature"] == "unsigned"


def test_keys_are_for_their_owner_and_never_overwritten(tmp_path: Path, folder: Path) -> None:
    new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict):
        new_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ProwessError) as error:
        sign(read_skill_folder(folder), tmp_path / "key")
    assert error.value.code == "signing_key_exposed"
    (tmp_path / "bad.pub").write_text("# nothing\n")
    for key in (tmp_path / "bad.pub", "c2hvcnQ="):
        with pytest.raises(ProwessError):
            read_public_key(key)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"statement": 1}', "[" * 100_000, json.dumps({"statement": {"skill": 1, "version": None, "digest": "x"}, "key": "k", "signature": "AA=="})],
    ids=["empty", "list", "object", "null", "number", "deep", "types"],
)  # fmt: skip
def test_a_signature_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(ProwessError) as error:
        parse_signature(text)
    assert error.value.code == "signature_malformed"


def test_a_signature_that_is_a_link_or_large_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "elsewhere").write_text("{}")
    (folder / "prowess.sig").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProwessError) as error:
        read_signature(folder)
    assert error.value.code == "file_irregular"
    (folder / "prowess.sig").unlink()
    (folder / "prowess.sig").write_text("x" * 5_000)
    with pytest.raises(ProwessError) as large:
        read_signature(folder)
    assert large.value.code == "file_too_large"
