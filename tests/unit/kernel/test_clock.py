from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import InvalidInput
from prowess.kernel.clock import ManualClock, SystemClock, from_ms, iso, parse_instant, to_ms

instants = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def test_the_system_clock_is_aware_and_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_a_manual_clock_stands_until_moved() -> None:
    clock = ManualClock(datetime(2026, 3, 1, 16, 0, tzinfo=ZoneInfo("Asia/Shanghai")))
    assert clock.now() == clock.now() == datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
    assert clock.now().tzinfo is UTC
    assert clock.advance(timedelta(hours=2)) == datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
    assert clock.advance(timedelta(hours=-3)) == clock.now() == datetime(2026, 3, 1, 7, 0, tzinfo=UTC)


def test_milliseconds_known_values() -> None:
    assert to_ms(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert to_ms(datetime(2026, 3, 1, 8, 0, 0, 999, tzinfo=UTC)) == 1_772_352_000_000
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_ms(datetime(2026, 3, 1, 16, 0, tzinfo=ZoneInfo("Asia/Shanghai"))) == 1_772_352_000_000


@given(instants)
def test_milliseconds_round_down_and_come_back(instant: datetime) -> None:
    back = from_ms(to_ms(instant))
    assert timedelta(0) <= instant - back < timedelta(milliseconds=1)
    assert to_ms(back) == to_ms(instant)


def test_iso_has_milliseconds_and_z() -> None:
    assert iso(None) is None
    assert iso(datetime(2026, 3, 1, 8, 0, 0, 123_999, tzinfo=UTC)) == "2026-03-01T08:00:00.123Z"
    assert iso(datetime(2026, 3, 1, 9, 0, tzinfo=timezone(timedelta(hours=1)))) == "2026-03-01T08:00:00.000Z"


@given(instants)
def test_iso_is_read_back_to_the_millisecond(instant: datetime) -> None:
    assert to_ms(parse_instant(iso(instant) or "", "at")) == to_ms(instant)


@pytest.mark.parametrize("text", ["2026-03-01T08:00:00Z", "2026-03-01T16:00+08:00", "20260301T080000Z"])
def test_instants_with_an_offset_are_read(text: str) -> None:
    assert parse_instant(text, "at") == datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-03-01T08:00:00", "2026-03-01", "soon", "", "2026-13-01T00:00Z", "x" * 500])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_instant(text, "expires_at")
    assert refused.value.code == "bad_instant"
    assert refused.value.detail == {"field": "expires_at", "value": text[:40]}
