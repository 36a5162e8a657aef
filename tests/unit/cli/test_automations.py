"""``prowess automations`` (B2, B11, B15, C50, C61, C64)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from prowess.cli.main import app

BERLIN = ["automations", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-03-28T12:00:00Z"]


def test_c50_next_fires_as_json() -> None:
    done = CliRunner().invoke(app, [*BERLIN, "--count", "2", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "fires": [
            {"utc": "2026-03-29T01:00:00.000Z", "local": "2026-03-29T03:00:00+02:00", "note": "after_gap"},
            {"utc": "2026-03-30T00:30:00.000Z", "local": "2026-03-30T02:30:00+02:00", "note": ""},
        ]
    }


def test_c50_next_fires_for_people() -> None:
    done = CliRunner().invoke(app, [*BERLIN, "--lang", "zh"])
    assert "调整时钟跳过了这个当地时间" in done.stdout


def test_c54_c61_c64_a_file_of_them_goes_on_after_a_bad_line(tmp_path: Path) -> None:
    lines = [
        {"cron": "@daily", "tz": "Asia/Shanghai", "after": "2026-01-01T00:00:00Z", "count": 1},
        {"cron": "0 0 31 2 *"},
        {"cron": "* * * * *", "tz": "UTC+3"},
        {"cron": "* * * * *", "count": 0},
        {"cron": "0 0 0 * * *"},
        ["cron"],
        {"cron": "0 12 * * *", "after": "2026-01-01T12:00:00+00:00", "count": 1},
    ]
    file = tmp_path / "crons.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    done = CliRunner().invoke(app, ["automations", "next", "--input", str(file)])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 1
    assert [item.get("error", {}).get("code") for item in found] == [
        None,
        "cron_never",
        "unknown_zone",
        "bad_count",
        "cron_fields",
        "bad_json_line",
        None,
    ]
    assert found[0]["fires"] == [{"utc": "2026-01-01T16:00:00.000Z", "local": "2026-01-02T00:00:00+08:00", "note": ""}]
    assert found[-1]["fires"][0]["utc"] == "2026-01-02T12:00:00.000Z"


@pytest.mark.parametrize("args", [[], ["* * * * *", "--input", "x"]])
def test_b11_one_or_a_file_of_them(args: list[str]) -> None:
    assert CliRunner().invoke(app, ["automations", "next", *args]).exit_code == 2


# --- triggers --------------------------------------------------------------------------------------------------------

Run = Callable[..., Result]
ADD = (
    "automations", "add", "cron", "--name", "Morning", "--prompt", "What is on?",
    "--spec", '{"cron": "0 9 * * 1-5", "tz": "Asia/Shanghai"}',
)  # fmt: skip


def test_b2_the_life_of_a_trigger_as_json(document: Callable[..., Any]) -> None:
    made = document(*ADD, "--with", '{"misfire": "skip", "rate": {"fires": 3, "seconds": 60}}')
    assert (made["kind"], made["status"], made["misfire"], made["rate"]) == (
        "cron",
        "active",
        "skip",
        {"fires": 3, "seconds": 60},
    )
    trigger = made["id"]
    assert document("automations", "list") == {"automations": [made]}
    assert document("automations", "list", "--user", "u2") == {"automations": []}
    assert document("automations", "list", "--user", "u2", "--all") == {"automations": [made]}
    assert document("automations", "show", trigger) == made
    rehearsed = document("automations", "dry-run", trigger)
    assert (rehearsed["text"], rehearsed["blocked"], len(rehearsed["next_fires"])) == ("What is on?", None, 5)
    fired = document("automations", "fire", trigger)
    assert (fired["source"], fired["status"], fired["trigger"]) == ("manual", "fired", trigger)
    assert document("automations", "history", trigger) == {"fires": [fired]}
    assert document("automations", "pause", trigger)["status"] == "paused"
    assert document("automations", "resume", trigger)["status"] == "active"
    assert document("automations", "remove", trigger) == {"removed": trigger}
    assert document("automations", "list") == {"automations": []}


def test_b2_the_life_of_a_trigger_for_people(run: Run, document: Callable[..., Any]) -> None:
    assert "No automations yet" in run("automations", "list").stdout
    assert "next fire 20" in run(*ADD).stdout
    trigger = document("automations", "list")["automations"][0]["id"]
    assert "Morning" in run("automations", "list").stdout
    assert "prompt: What is on?" in run("automations", "show", trigger).stdout
    assert "It would ask mira: What is on?" in run("automations", "dry-run", trigger).stdout
    assert "It has not fired yet." in run("automations", "history", trigger).stdout
    assert "Fired; job job-" in run("automations", "fire", trigger).stdout
    assert "manual" in run("automations", "history", trigger).stdout
    assert "is paused" in run("automations", "pause", trigger).stdout
    assert "It would not run now: paused" in run("automations", "dry-run", trigger).stdout
    assert "is active" in run("automations", "resume", trigger).stdout
    assert "is removed" in run("automations", "remove", trigger).stdout


def test_b15_a_proposal_on_the_command_line(run: Run, document: Callable[..., Any], error: Callable[..., Any]) -> None:
    run("permissions", "grant", "--skill", "propose-automation", "--code", "automation:propose")
    words = ("turn", "--user", "me", "--agent", "mira", "--conversation", "c1")
    document(*words, "--message-id", "m1", "--text", "/propose-automation 0 9 * * * | One.")
    document(*words, "--message-id", "m2", "--text", "/propose-automation 0 9 * * * | Two.")
    one, two = document("automations", "list")["automations"]
    assert (one["status"], one["created_by"]) == ("proposed", {"kind": "agent", "id": "mira"})
    assert error("automations", "confirm", one["id"], "--user", "u2")["code"] == "trigger_not_found"
    assert document("automations", "confirm", one["id"])["status"] == "active"
    assert document("automations", "reject", two["id"]) == {"rejected": two["id"]}


def test_errors_of_triggers_name_field_and_remedy(error: Callable[..., Any]) -> None:
    wrong = error("automations", "add", "interval", "--name", "x", "--prompt", "y", "--spec", '{"seconds": 1}')
    assert (wrong["code"], wrong["detail"]["field"]) == ("bad_trigger", "spec.seconds")
    assert error("automations", "add", "cron", "--name", "x", "--spec", "[")["code"] == "bad_json_option"
    assert error(*ADD, "--with", '{"status": "active"}')["code"] == "unknown_keys"
    assert error("automations", "show", "none")["code"] == "trigger_not_found"
    assert error("automations", "history", "none", "--limit", "0")["code"] == "bad_count"
