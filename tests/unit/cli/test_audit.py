"""``prowess audit seal``, ``verify`` and ``export`` (R4)."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

Run = Callable[..., Result]


def test_r4_seal_and_verify(run: Run, document: Callable[..., Any], tmp_path: Path) -> None:
    run("agents", "create", "sol")
    made = document("audit", "seal")["seal"]
    assert (made["number"], made["first_seq"]) == (1, 1)
    assert document("audit", "seal") == {"seal": None}
    found = document("audit", "verify")
    assert (found["ok"], found["seals"], found["unsealed"], found["faults"]) == (True, 1, 0, [])
    assert found["anchor"].endswith("cli.db.seals")
    with sqlite3.connect(tmp_path / "cli.db") as connection:
        connection.execute("UPDATE events SET actor_id = 'nobody' WHERE seq = 1")
    connection.close()
    broken = run("audit", "verify", "--json")
    assert broken.exit_code == 1
    assert [fault["kind"] for fault in json.loads(broken.stdout)["faults"]] == ["events_differ"]
    told = run("audit", "verify")
    assert (told.exit_code, "something was changed" in told.stdout) == (1, True)


def test_r4_export(run: Run, tmp_path: Path) -> None:
    run("turn", "--text", "/help")
    run("agents", "design", "mira", "--only", "daily-planning")
    lines = [json.loads(line) for line in run("audit", "export").stdout.splitlines()]
    assert [line["type"] for line in lines] == ["agent.designed"]
    target = tmp_path / "log.csv"
    assert run("audit", "export", "--format", "csv", "--all", "--out", str(target)).exit_code == 0
    found = list(csv.DictReader(io.StringIO(target.read_text())))
    assert found[0]["seq"] == "1"
    assert {row["type"] for row in found} >= {"turn.started", "turn.completed", "agent.designed"}
    again = run("audit", "export", "--out", str(target), "--json")
    assert (again.exit_code, json.loads(again.stdout)["error"]["code"]) == (1, "not_creatable")
    assert run("audit", "export", "--format", "xml").exit_code == 1


def test_r4_no_cell_is_a_formula() -> None:
    from prowess.cli.audit import _plain

    assert [_plain(value) for value in ("=1+1", "@x", "-2", "plain", 3, None)] == [
        "'=1+1",
        "'@x",
        "'-2",
        "plain",
        3,
        None,
    ]
