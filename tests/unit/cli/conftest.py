"""The command line in this process: what needs no process of its own is tested here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from prowess.cli.main import app

Run = Callable[..., Result]
SETTINGS = (
    "PROWESS_RESOLVER", "PROWESS_POLICIES", "PROWESS_MODE", "PROWESS_MODEL", "PROWESS_MODEL_URL", "PROWESS_MODEL_KEY",
    "PROWESS_SECRET_KEY", "PROWESS_SECRET_KEY_FILE", "PROWESS_OUTGOING_HOSTS", "PROWESS_ENGINE", "PROWESS_WATCH", "PROWESS_SANDBOX", "PROWESS_SCRIPT_ROOTS", "OPENAI_API_KEY",
)  # fmt: skip
"""not taken from whoever runs the tests"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run("turn", "--text", …)`` on a fresh database, in English."""
    monkeypatch.chdir(tmp_path)
    environment = {
        "PROWESS_DB": f"sqlite:///{tmp_path / 'cli.db'}",
        "PROWESS_LANG": "en",
        "PROWESS_DEBUG": "",
        **dict.fromkeys(SETTINGS, ""),
        "XDG_DATA_HOME": str(tmp_path / "data"),
    }

    def call(*args: str, stdin: str | bytes | None = None, **extra: str) -> Result:
        return CliRunner().invoke(app, list(args), input=stdin, env=environment | extra)

    return call


@pytest.fixture
def document(run: Run) -> Callable[..., Any]:
    """What a command says with ``--json``: one document on standard output, and nothing beside it."""

    def call(*args: str, **extra: Any) -> Any:
        result = run(*args, "--json", **extra)
        assert result.stderr == ""
        return json.loads(result.stdout)

    return call


@pytest.fixture
def error(run: Run) -> Callable[..., dict[str, Any]]:
    """The error object of a command that is refused."""

    def call(*args: str, **extra: Any) -> dict[str, Any]:
        result = run(*args, "--json", **extra)
        assert result.exit_code == 1, (args, result.output)
        assert result.stderr == ""
        found: dict[str, Any] = json.loads(result.stdout)["error"]
        assert set(found) == {"code", "message", "detail", "remedy"}
        assert found["message"] not in ("", f"error.{found['code']}")
        assert found["remedy"] not in ("", f"remedy.{found['code']}")
        assert "{" not in found["message"]
        return found

    return call
