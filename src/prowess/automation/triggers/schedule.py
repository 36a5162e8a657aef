"""When a trigger is due, and what becomes of the fires that nobody was there for (B11, rulings 12.14 to 12.17)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from prowess.automation.cron import CronSchedule, cron_schedule, first_fire
from prowess.automation.triggers.model import Kind, Misfire
from prowess.automation.triggers.specs import CronSpec, IntervalSpec, OnceSpec, Spec
from prowess.automation.zones import exists, to_utc, zone
from prowess.errors import InvalidInput
from prowess.kernel.clock import from_ms, parse_instant, to_ms

MAX_AHEAD = timedelta(days=5 * 366)
GRACE = timedelta(seconds=60)
"""A fire that is later than this, or than its interval, was missed."""
MAX_COUNTED = 10_000
"""Fires of one downtime that are counted one by one."""
_RECENT = timedelta(days=1)
_JUST_BEFORE = timedelta(microseconds=1)


class Slot(NamedTuple):
    """One fire of a schedule; ``note`` as in ``cron.Fire``."""

    at: datetime
    note: str = ""


class Schedule(Protocol):
    """Knows its fires."""

    @property
    def grace(self) -> timedelta:
        """How late a fire may be and still be on time."""
        ...

    def slots(self, after: datetime) -> Iterator[Slot]:
        """The fires strictly after an instant, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Once:
    """One fire."""

    slot: Slot
    grace: timedelta = GRACE

    def slots(self, after: datetime) -> Iterator[Slot]:
        """The one fire, where it is after ``after``."""
        if self.slot.at > after:
            yield self.slot


@dataclass(frozen=True, slots=True)
class Interval:
    """Elapsed time from an anchor, which itself is no fire."""

    anchor: datetime
    every: timedelta

    @property
    def grace(self) -> timedelta:
        """That of every schedule, but never longer than the interval."""
        return min(GRACE, self.every)

    def slots(self, after: datetime) -> Iterator[Slot]:
        """Every multiple after ``after``."""
        number = max(0, (after - self.anchor) // self.every)
        while True:
            number += 1
            yield Slot(self.anchor + number * self.every)


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in its zone."""

    schedule: CronSchedule
    grace: timedelta = GRACE

    def slots(self, after: datetime) -> Iterator[Slot]:
        """As ``CronSchedule.fires``."""
        return (Slot(fire.utc, fire.note) for fire in self.schedule.fires(after))


class Missed(NamedTuple):
    """Fires that passed and are not run."""

    first: datetime
    last: datetime
    number: int
    complete: bool
    """false where there were more than could be counted"""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done for a trigger now. Every slot is in ``run``, in ``missed``, or to come."""

    run: tuple[Slot, ...]
    """oldest first"""
    missed: Missed | None
    next: datetime | None
    """null: there is no further fire"""


def compile_schedule(kind: Kind, spec: Spec, anchor: datetime) -> Schedule | None:
    """The schedule of a trigger; null for a kind without times.

    Raises ``InvalidInput`` (``bad_instant``, ``time_not_in_zone``, ``unknown_zone``, ``cron_field`` and the rest of
    ``cron_schedule``).
    """
    if isinstance(spec, OnceSpec):
        return Once(_once(spec))
    if isinstance(spec, CronSpec):
        return Cron(cron_schedule(spec.cron, spec.tz))
    if isinstance(spec, IntervalSpec):
        return Interval(anchor, timedelta(seconds=spec.seconds))
    return None


def first_slot(schedule: Schedule, now: datetime) -> datetime:
    """The first fire of a new trigger.

    Raises ``InvalidInput``: ``time_in_past``, ``time_too_far`` (five years), ``cron_never`` (C61).
    """
    if isinstance(schedule, Cron):
        return first_fire(schedule.schedule, now).utc
    found = next(schedule.slots(now), None)
    if found is None:
        raise InvalidInput("time_in_past", field="spec.at")
    if found.at - now > MAX_AHEAD:
        raise InvalidInput("time_too_far", field="spec.at", years=5)
    return found.at


def next_slot(schedule: Schedule, after: datetime) -> datetime | None:
    """The next fire strictly after an instant; null where there is none."""
    found = next(schedule.slots(after), None)
    return None if found is None else found.at


def plan_due(schedule: Schedule, planned: datetime, now: datetime, misfire: Misfire, bound: int) -> Due:
    """Which of the fires from ``planned`` up to ``now`` are run.

    At most one is run, the latest, but under ``all``: then the latest ``bound``. Under ``skip`` it is run only if it is
    on time.
    """
    keep = bound if misfire is Misfire.ALL else 1
    latest: deque[Slot] = deque(maxlen=keep + 1)  # one more, to say which was the last that is not run
    first: datetime | None = None
    count, complete, following = 0, True, None
    for slot in schedule.slots(planned - _JUST_BEFORE):
        if slot.at > now:
            following = slot.at
            break
        first = first or slot.at
        count += 1
        latest.append(slot)
        if count == MAX_COUNTED:
            recent = _recent(schedule, max(slot.at, now - _RECENT), now)
            count, complete = count + len(recent), False
            latest.extend(recent)
            following = next_slot(schedule, now)
            break
    if first is None:
        return Due((), None, following)
    run = tuple(latest)[-keep:]
    if misfire is Misfire.SKIP:
        run = tuple(slot for slot in run if now - slot.at <= schedule.grace)
    left = count - len(run)
    missed = Missed(first, latest[-len(run) - 1].at, left, complete) if left else None
    return Due(run, missed, following)


def _recent(schedule: Schedule, after: datetime, now: datetime) -> list[Slot]:
    found: list[Slot] = []
    for slot in schedule.slots(after):
        if slot.at > now or len(found) == MAX_COUNTED:
            break
        found.append(slot)
    return found


def _once(spec: OnceSpec) -> Slot:
    if spec.at is not None:
        return Slot(from_ms(to_ms(parse_instant(spec.at, "spec.at"))))
    tz = zone(spec.tz)
    try:
        local = datetime.fromisoformat(spec.local or "")
    except ValueError:
        local = None
    if local is None or local.tzinfo is not None:
        raise InvalidInput("bad_local_time", field="spec.local", value=(spec.local or "")[:40])
    local = local.replace(microsecond=0)
    instant = to_utc(local, tz)
    if instant is None:
        raise InvalidInput("time_not_in_zone", field="spec.local", zone=spec.tz)
    return Slot(instant, "" if exists(local, tz) else "after_gap")
