"""Cron expressions (B11; rulings 12.13, 12.15 to 12.17; cases C50, C54, C61, C63, C64)."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from prowess.automation.cron import cron_schedule, first_fire
from prowess.errors import InvalidInput


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(expression: str, zone: str, after: str, count: int = 3) -> list[tuple[str, str]]:
    found = itertools.islice(cron_schedule(expression, zone).fires(at(after)), count)
    return [(f"{fire.local:%Y-%m-%d %H:%M %z}", fire.note) for fire in found]


def test_c50_a_fixed_time_fires_once_where_the_hour_repeats() -> None:
    assert following("30 1 * * *", "America/New_York", "2026-10-31T12:00") == [
        ("2026-11-01 01:30 -0400", "first_pass"),
        ("2026-11-02 01:30 -0500", ""),
        ("2026-11-03 01:30 -0500", ""),
    ]


def test_c50_a_skipped_time_fires_at_the_next_valid_minute() -> None:
    assert following("30 2 * * *", "America/New_York", "2026-03-07T12:00") == [
        ("2026-03-08 03:00 -0400", "after_gap"),
        ("2026-03-09 02:30 -0400", ""),
        ("2026-03-10 02:30 -0400", ""),
    ]


def test_c50_half_an_hour_is_a_gap_too() -> None:
    assert following("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 2) == [
        ("2026-10-04 02:30 +1100", "after_gap"),
        ("2026-10-05 02:15 +1100", ""),
    ]
    assert following("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", 2) == [
        ("2026-04-05 01:45 +1100", "first_pass"),
        ("2026-04-06 01:45 +1030", ""),
    ]


def test_b11_a_schedule_on_elapsed_time_fires_in_both_passes() -> None:
    assert following("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:10", 5) == [
        ("2026-10-25 02:30 +0200", "first_pass"),
        ("2026-10-25 02:00 +0100", "second_pass"),
        ("2026-10-25 02:30 +0100", "second_pass"),
        ("2026-10-25 03:00 +0100", ""),
        ("2026-10-25 03:30 +0100", ""),
    ]


def test_c63_day_fields() -> None:
    weekdays = [local for local, _ in following("0 9 * * 1-5", "Asia/Shanghai", "2026-01-02T00:00", 6)]
    assert weekdays == [f"2026-01-{day:02} 09:00 +0800" for day in (2, 5, 6, 7, 8, 9)]
    either = [local[:10] for local, _ in following("0 0 1,15 * 5", "UTC", "2026-01-01T12:00", 5)]
    assert either == ["2026-01-02", "2026-01-09", "2026-01-15", "2026-01-16", "2026-01-23"]
    both = [local[:10] for local, _ in following("0 0 */10 * 1", "UTC", "2026-01-01T00:00", 2)]
    assert both == ["2026-05-11", "2026-06-01"]  # a Monday that is the 1st, 11th, 21st or 31st


def test_b11_a_skipped_time_before_midnight_fires_at_midnight() -> None:
    (fire, _) = following("30 23 * * *", "America/Nuuk", "2024-03-30T12:00", 2)
    assert fire == ("2024-03-31 00:00 -0100", "after_gap")


def test_b11_a_date_that_does_not_exist_does_not_fire() -> None:
    assert [local for local, _ in following("0 10 * * *", "Pacific/Apia", "2011-12-29T00:00", 2)] == [
        "2011-12-29 10:00 -1000",
        "2011-12-31 10:00 +1400",
    ]


def test_b11_strictly_after() -> None:
    schedule = cron_schedule("0 12 * * *", "UTC")
    assert first_fire(schedule, at("2026-01-01T12:00")).utc == at("2026-01-02T12:00")
    assert first_fire(schedule, at("2026-01-01T12:00") - timedelta(microseconds=1)).utc == at("2026-01-01T12:00")


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("0 0 * jan SUN", "0 0 * JAN SUN"),
        ("0 0 * * 7", "0 0 * * 7"),
    ],
)
def test_c64_aliases_and_names(alias: str, fields: str) -> None:
    assert cron_schedule(alias, "UTC").expression == fields


def test_c64_sunday_is_0_and_7() -> None:
    sundays = {following(f"0 0 * * {day}", "UTC", "2026-01-01T00:00", 4)[3] for day in ("0", "7", "SUN", "sun")}
    assert sundays == {("2026-01-25 00:00 +0000", "")}


@pytest.mark.parametrize(
    ("expression", "code", "why"),
    [
        ("0 0 0 * * *", "cron_fields", None),
        ("* * * *", "cron_fields", None),
        ("", "cron_fields", None),
        ("@reboot", "cron_fields", None),
        ("5/10 * * * *", "cron_field", "step_of_one"),
        ("10-5 * * * *", "cron_field", "backward"),
        ("* * * * FRI-SUN", "cron_field", "backward"),
        ("0 0 ? * *", "cron_field", "not_supported"),
        ("0 0 L * *", "cron_field", "not_supported"),
        ("0 0 15W * *", "cron_field", "not_supported"),
        ("0 0 * * 5#2", "cron_field", "not_supported"),
        ("60 * * * *", "cron_field", "out_of_range"),
        ("* 24 * * *", "cron_field", "out_of_range"),
        ("* * 0 * *", "cron_field", "out_of_range"),
        ("* * * 13 *", "cron_field", "out_of_range"),
        ("* * * * 8", "cron_field", "out_of_range"),
        ("* * * * MOX", "cron_field", "out_of_range"),
        ("*/0 * * * *", "cron_field", "step_zero"),
        ("1, * * * *", "cron_field", "unreadable"),
        ("-1 * * * *", "cron_field", "unreadable"),
        ("٣ * * * *", "cron_field", None),
        ("1" * 300, "cron_too_long", None),
    ],
)
def test_c64_what_is_refused_says_why(expression: str, code: str, why: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        cron_schedule(expression, "UTC")
    assert caught.value.code == code
    if why is not None:
        assert caught.value.detail["why"] == why


@pytest.mark.parametrize("expression", ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 feb *"])
def test_c61_an_impossible_schedule_never_fires(expression: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        first_fire(cron_schedule(expression, "Europe/Berlin"), at("2026-01-01T00:00"))
    assert caught.value.code == "cron_never"


def test_c61_a_rare_schedule_is_not_impossible() -> None:
    leap = first_fire(cron_schedule("0 0 29 2 *", "Europe/Berlin"), at("2096-03-01T00:00"))
    assert f"{leap.local:%Y-%m-%d}" == "2104-02-29"


@pytest.mark.parametrize(
    "zone",
    [
        "UTC+3",
        "europe/berlin",
        "Europe/Nowhere",
        "localtime",
        "Factory",
        "posix/UTC",
        "right/UTC",
        "",
        "../UTC",
        None,
        3,
    ],
)
def test_c54_a_zone_that_is_none_is_refused(zone: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        cron_schedule("* * * * *", zone)
    assert caught.value.code == "unknown_zone"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "US/Eastern", "Etc/GMT-3", "Asia/Calcutta"])
def test_c54_names_and_links_are_zones(zone: str) -> None:
    assert first_fire(cron_schedule("* * * * *", zone), at("2026-01-01T00:00")).utc == at("2026-01-01T00:01")
