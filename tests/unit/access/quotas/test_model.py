"""On which count a use goes, and when a window begins and ends (U9)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.access.quotas.model import EACH, Quota, Resource, Use, Window, window_end, window_start
from prowess.kernel.clock import from_ms, to_ms

USE = Use("t", "u1", "mira", "notes")


def quota(**fields: str | None) -> Quota:
    return Quota("q", "t", Resource.CALLS, Window.DAY, 5, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "counter"),
    [
        ({}, "[]"),
        ({"user": "u1"}, "[]"),
        ({"user": "u2"}, None),
        ({"user": EACH}, '["u1"]'),
        ({"user": EACH, "agent": "mira", "skill": EACH}, '["u1","notes"]'),
        ({"user": EACH, "agent": "other"}, None),
        ({"skill": "notes"}, "[]"),
    ],
)
def test_u9_a_use_goes_on_the_count_of_those_whom_the_quota_names(fields: dict[str, str], counter: str | None) -> None:
    assert quota(**fields).counter(USE) == counter


def test_u9_a_reply_that_no_skill_serves_is_on_no_count_of_a_skill() -> None:
    assert quota(skill=EACH).counter(USE._replace(skill=None)) is None
    assert quota(user=EACH).counter(USE._replace(skill=None)) == '["u1"]'


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        (Window.MINUTE, datetime(2026, 2, 28, 23, 59, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        (Window.HOUR, datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        (Window.DAY, datetime(2026, 2, 28, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        (Window.MONTH, datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
    ],
)
def test_u9_windows_begin_with_their_unit_in_utc(window: Window, start: datetime, end: datetime) -> None:
    now = to_ms(datetime(2026, 2, 28, 23, 59, 30, tzinfo=UTC))
    assert from_ms(window_start(window, now)) == start
    assert from_ms(window_end(window, window_start(window, now)) or 0) == end


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(sorted(set(Window) - {Window.TOTAL})))
def test_u9_every_instant_is_in_exactly_one_window(now: int, window: Window) -> None:
    start = window_start(window, now)
    end = window_end(window, start)
    assert end is not None
    assert start <= now < end
    assert window_start(window, end) == end
    assert window_start(window, end - 1) == start


def test_u9_a_total_never_ends() -> None:
    assert (window_start(Window.TOTAL, 10**12), window_end(Window.TOTAL, 0)) == (0, None)
