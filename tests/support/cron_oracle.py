"""Cron by brute force: every minute of a span is looked at, and the rulings 12.13 to 12.15 are read off its clock.

Slow and plain on purpose; it shares nothing with the code under test.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


@cache
def clock(zone: str, year: int) -> tuple[tuple[datetime, datetime], ...]:
    """(instant, local time) of every minute of a year and some days around it."""
    tz = ZoneInfo(zone)
    start = datetime(year - 1, 12, 29, tzinfo=UTC)
    end = datetime(year + 1, 1, 4, tzinfo=UTC)
    minutes = int((end - start) / MINUTE)
    instants = (start + number * MINUTE for number in range(minutes))
    return tuple((instant, instant.astimezone(tz).replace(tzinfo=None, fold=0)) for instant in instants)


def values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        first, last = (low, high) if span == "*" else (int(span.split("-")[0]), int(span.split("-")[-1]))
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Pattern:
    """An expression, read once."""

    def __init__(self, expression: str) -> None:
        self.fields = expression.split()
        found = [values(field, *bounds) for field, bounds in zip(self.fields, RANGES, strict=True)]
        self.minute, self.hour, self.day, self.month, self.weekday = found
        self.both = self.fields[2].startswith("*") or self.fields[4].startswith("*")

    @property
    def fixed(self) -> bool:
        return not self.fields[0].startswith("*") and not self.fields[1].startswith("*")

    def matches(self, local: datetime) -> bool:
        if local.minute not in self.minute or local.hour not in self.hour or local.month not in self.month:
            return False
        by_day = local.day in self.day
        by_weekday = bool({local.isoweekday() % 7, local.isoweekday()} & self.weekday)
        return by_day and by_weekday if self.both else by_day or by_weekday


def fires(expression: str, zone: str, year: int) -> list[datetime]:
    """Every fire of a year (by UTC), in order."""
    pattern = Pattern(expression)
    if pattern.fixed:
        found = _fixed(pattern, zone, year)
    else:
        found = [instant for instant, local in clock(zone, year) if pattern.matches(local)]
    return sorted({instant for instant in found if instant.year == year})


def _fixed(pattern: Pattern, zone: str, year: int) -> list[datetime]:
    found = [instant for local, instant in first_passes(zone, year) if pattern.matches(local)]
    # the times of a gap fire at its end, if their date exists
    return found + [end for skipped, end in gaps(zone, year) if pattern.matches(skipped)]


@cache
def first_passes(zone: str, year: int) -> tuple[tuple[datetime, datetime], ...]:
    """(local time, the first instant at which it is shown)."""
    shown: dict[datetime, datetime] = {}
    for instant, local in clock(zone, year):
        shown.setdefault(local, instant)
    return tuple(shown.items())


@cache
def gaps(zone: str, year: int) -> tuple[tuple[datetime, datetime], ...]:
    """(skipped local time of a date that exists, the first instant after it)."""
    minutes = clock(zone, year)
    dates = {local.date() for _, local in minutes}
    found = []
    for (_, before), (instant, local) in itertools.pairwise(minutes):
        skipped = before + MINUTE
        while skipped < local:
            if skipped.date() in dates:
                found.append((skipped, instant))
            skipped += MINUTE
    return tuple(found)
