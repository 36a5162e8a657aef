"""Misfires against the brute-force clock: any downtime, any rule (B11, B12, U7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import cron_oracle

import prowess
from prowess import ManualClock
from prowess.automation.triggers.model import Kind, Misfire
from prowess.automation.triggers.schedule import GRACE, compile_schedule, plan_due
from prowess.automation.triggers.specs import CronSpec, IntervalSpec
from prowess.kernel.ids import SequentialIds

YEAR = 2026
# Around the changes of the clock in each of these zones, where a mistake would show.
PLACES = [
    ("America/New_York", datetime(2026, 3, 8, 5, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 13, tzinfo=UTC)),
]
EXPRESSIONS = ["*/5 * * * *", "30 1 * * *", "15,45 1-3 * * *", "0 */2 * * *"]


@cache
def real_fires(expression: str, zone: str) -> list[datetime]:
    """Of the whole year, minute by minute; once for each of the few pairs."""
    return cron_oracle.fires(expression, zone, YEAR)


@settings(max_examples=150)
@given(
    place=st.sampled_from(PLACES),
    expression=st.sampled_from(EXPRESSIONS),
    misfire=st.sampled_from(Misfire),
    bound=st.integers(1, 12),
    steps=st.lists(st.integers(1, 6 * 3_600), min_size=1, max_size=8),
)
def test_b11_b12_whatever_the_downtime_each_slot_is_run_once_or_counted_as_missed(
    place: tuple[str, datetime], expression: str, misfire: Misfire, bound: int, steps: list[int]
) -> None:
    zone, start = place
    schedule = compile_schedule(Kind.CRON, CronSpec(cron=expression, tz=zone), start)
    assert schedule is not None
    real = real_fires(expression, zone)
    now, planned = start, next(schedule.slots(start)).at
    ran: list[datetime] = []
    missed = 0
    for step in steps:
        now += timedelta(seconds=step)
        if planned > now:
            continue
        due = plan_due(schedule, planned, now, misfire, bound)
        run = [slot.at for slot in due.run]
        passed = [instant for instant in real if planned <= instant <= now]
        late = [instant for instant in run if now - instant > GRACE]
        assert len(run) + (due.missed.number if due.missed else 0) == len(passed)
        assert run == passed[-len(run) :] if run else True
        if misfire is Misfire.SKIP:
            assert late == []
        elif misfire is Misfire.ONE:
            assert run == passed[-1:]
        else:
            assert run == passed[-bound:]
        if due.missed is not None:
            assert (due.missed.first, due.missed.complete) == (passed[0], True)
            assert due.missed.last == passed[len(passed) - len(run) - 1]
            missed += due.missed.number
        ran += run
        assert due.next is not None
        planned = due.next
        assert planned > now
    assert ran == sorted(set(ran))
    assert set(ran) <= set(real)
    assert len(ran) + missed == len([instant for instant in real if start < instant < planned])


@settings(max_examples=100)
@given(
    seconds=st.integers(10, 7_200),
    misfire=st.sampled_from(Misfire),
    bound=st.integers(1, 100),
    steps=st.lists(st.integers(1, 20_000), min_size=1, max_size=6),
)
def test_b11_an_interval_keeps_to_its_anchor(seconds: int, misfire: Misfire, bound: int, steps: list[int]) -> None:
    anchor = datetime(2026, 3, 1, 8, 0, 0, 123_000, tzinfo=UTC)
    every = timedelta(seconds=seconds)
    schedule = compile_schedule(Kind.INTERVAL, IntervalSpec(seconds=seconds), anchor)
    assert schedule is not None
    now, planned, counted = anchor, anchor + every, 0
    for step in steps:
        now += timedelta(seconds=step)
        due = plan_due(schedule, planned, now, misfire, bound)
        assert all((slot.at - anchor) % every == timedelta(0) for slot in due.run)
        assert len(due.run) <= (bound if misfire is Misfire.ALL else 1)
        counted += len(due.run) + (due.missed.number if due.missed else 0)
        assert due.next == anchor + ((now - anchor) // every + 1) * every
        planned = due.next
    assert counted == (now - anchor) // every


@pytest.mark.parametrize("misfire", list(Misfire))
@settings(max_examples=12)
@given(steps=st.lists(st.tuples(st.integers(1, 900), st.integers(1, 3)), min_size=1, max_size=8))
def test_b12_u7_in_the_database_every_slot_has_one_job_or_is_in_a_missed_row(
    misfire: Misfire, steps: list[tuple[int, int]]
) -> None:
    clock = ManualClock(datetime(2026, 3, 8, 5, 0, tzinfo=UTC))
    start = clock.now()
    with prowess.open("sqlite://", clock=clock, ids=SequentialIds()) as app:
        trigger = app.add_automation(
            user="u1",
            name="t",
            agent="mira",
            kind="cron",
            spec={"cron": "*/5 * * * *", "tz": "America/New_York"},
            prompt="x",
            misfire=str(misfire),
            misfire_bound=3,
            rate={"fires": 10_000, "seconds": 60},
        )
        for step, sweeps in steps:
            clock.advance(timedelta(seconds=step))
            for _ in range(sweeps):
                app.fire_due()
        found = app.automation_history(trigger.id, limit=1_000)
    real = [instant for instant in real_fires("*/5 * * * *", "America/New_York") if start < instant]
    passed = [instant for instant in real if instant <= clock.now()]
    ran = [fire.planned for fire in found if fire.status == "fired"]
    assert len(ran) == len(set(ran))
    assert set(ran) <= set(passed)
    assert len(ran) + sum(fire.missed for fire in found) == len(passed)
