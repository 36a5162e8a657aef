"""``prowess secrets``. Typing a value at the prompt is in tests/e2e."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Call = Callable[..., Any]
VALUE = "ghp_4Zr9xQ2mLk7T"


@pytest.fixture
def key(document: Call, tmp_path: Path) -> dict[str, str]:
    """The environment with a key."""
    made = document("secrets", "new-key", str(tmp_path / "my keys"))
    assert made["export"] == f"export PROWESS_SECRET_KEY_FILE='{tmp_path / 'my keys'}'"
    return {"PROWESS_SECRET_KEY_FILE": made["file"]}


def test_a_key_lies_in_the_data_folder_and_is_never_overwritten(run: Run, error: Call, tmp_path: Path) -> None:
    made = run("secrets", "new-key")
    file = next(tmp_path.glob("data/**/secret.key"))
    assert made.stdout == f"export PROWESS_SECRET_KEY_FILE={file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert error("secrets", "new-key")["code"] == "secret_key_exists"


def test_a_slot_is_filled_listed_rotated_and_emptied(
    run: Run, document: Call, error: Call, key: dict[str, str]
) -> None:
    filled = document("secrets", "set", "GITHUB_TOKEN", "--stdin", stdin=f"{VALUE}\n", **key)
    assert filled["owner"] == {"kind": "tenant", "id": "default"}
    document("secrets", "set", "GITHUB_TOKEN", "--user", "ana", "--stdin", stdin=VALUE, **key)
    document("secrets", "set", "GITHUB_TOKEN", "--skill", "city_weather", "--stdin", stdin=VALUE, **key)
    owners = [item["owner"] for item in document("secrets", "list", **key)["secrets"]]
    assert {"kind": "skill", "id": "city-weather"} in owners
    assert len(owners) == 3
    assert [item["name"] for item in document("secrets", "list", "--user", "ana")["secrets"]] == ["GITHUB_TOKEN"]
    assert document("secrets", "rotate", **key) == {"rotated": 3}
    assert document("secrets", "delete", "GITHUB_TOKEN", "--user", "ana") == {"deleted": "GITHUB_TOKEN"}
    assert error("secrets", "delete", "GITHUB_TOKEN", "--user", "ana")["code"] == "secret_missing"
    everything = run("secrets", "list", **key).output + run("audit", "list", "--json").output
    assert "GITHUB_TOKEN" in everything
    assert VALUE not in everything


def test_a_value_is_no_argument_and_no_pipe_is_read_unasked(run: Run, key: dict[str, str]) -> None:
    for args in (("GITHUB_TOKEN", VALUE), ("GITHUB_TOKEN",)):
        result = run("secrets", "set", *args, stdin=VALUE, **key)
        assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("code", "args"),
    {
        "bad_secret_name": ("sk-liveValue123",),
        "bad_secret_owner": ("TOKEN", "--user", "ana", "--skill", "tea"),
        "secret_too_short": ("TOKEN",),
    }.items(),
)
def test_what_no_slot_takes_is_refused(error: Call, key: dict[str, str], code: str, args: tuple[str, ...]) -> None:
    found = error("secrets", "set", *args, "--stdin", stdin="short" if code == "secret_too_short" else VALUE, **key)
    assert found["code"] == code
    assert "sk-live" not in str(found)


def test_without_a_key_nothing_is_stored(error: Call, document: Call) -> None:
    assert error("secrets", "set", "TOKEN", "--stdin", stdin=VALUE)["code"] == "secret_key_missing"
    assert error("secrets", "rotate")["code"] == "secret_key_missing"
    assert document("secrets", "list") == {"secrets": []}


def test_lists_are_readable_in_chinese(run: Run, key: dict[str, str]) -> None:
    assert "没有已填的密钥槽" in run("secrets", "list", "--lang", "zh").stdout
    run("secrets", "set", "TOKEN", "--stdin", stdin=VALUE, **key)
    assert "密钥槽" in run("secrets", "list", "--lang", "zh").stdout
