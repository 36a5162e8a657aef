"""``prowess automations next`` (B11, C50, C61, C64)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

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
