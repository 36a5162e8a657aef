"""The local minute through a whole year, against a slow oracle (B11, rulings 12.13 to 12.15)."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime

import pytest
from tests.support.cron_oracle import fires

from prowess.automation.cron import cron_schedule

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Shanghai")
YEAR = 2026


def field(draw: random.Random, low: int, high: int) -> str:
    kind = draw.random()
    if kind < 0.3:
        return "*"
    if kind < 0.4:
        return f"*/{draw.randint(1, high)}"
    if kind < 0.7:
        return str(draw.randint(low, high))
    if kind < 0.8:
        return ",".join(str(draw.randint(low, high)) for _ in range(3))
    first = draw.randint(low, high)
    last = draw.randint(first, high)
    return f"{first}-{last}" if draw.random() < 0.5 else f"{first}-{last}/{draw.randint(1, 5)}"


def expression(draw: random.Random) -> str:
    """Mostly about the hours in which clocks are changed."""
    minute = draw.choice(["0", "15", "30", "45", "59", field(draw, 0, 59)])
    hour = draw.choice(["0", "1", "2", "3", "23", "1-3", "*/2", "0-4/2", field(draw, 0, 23)])
    if draw.random() < 0.6:
        return f"{minute} {hour} * * *"
    return f"{minute} {hour} {field(draw, 1, 31)} {field(draw, 1, 12)} {field(draw, 0, 7)}"


def ours(text: str, zone: str, year: int) -> list[datetime]:
    start = datetime(year - 1, 12, 31, 23, 59, tzinfo=UTC)
    found = (fire.utc for fire in cron_schedule(text, zone).fires(start))
    return list(itertools.takewhile(lambda instant: instant.year == year, found))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("zone", ZONES)
def test_b11_every_fire_of_a_year_is_the_oracles(zone: str) -> None:
    draw = random.Random(zone)
    for number in range(40):
        text = expression(draw)
        assert ours(text, zone, YEAR) == fires(text, zone, YEAR), (number, text)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("zone", "year", "text"),
    [
        ("Pacific/Apia", 2011, "0 10 * * *"),  # 30 December is no date there
        ("Pacific/Apia", 2011, "*/30 * * * *"),
        ("America/Sao_Paulo", 2018, "30 0 * * *"),  # midnight itself is skipped
        ("America/Nuuk", 2024, "30 23 * * *"),  # the hour before midnight is skipped
        ("Africa/Casablanca", 2026, "30 2 * * *"),  # changed for Ramadan, too
        ("Asia/Kathmandu", 1986, "5 0 * * *"),  # moved by a quarter of an hour
    ],
)
def test_b11_the_stranger_changes_are_the_oracles_too(zone: str, year: int, text: str) -> None:
    assert ours(text, zone, year) == fires(text, zone, year)
