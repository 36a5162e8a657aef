"""Time zones by their names, and local times in them (rulings 12.14 to 12.17)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from importlib.metadata import version
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

from prowess.errors import InvalidInput

_NO_ZONES = frozenset({"localtime", "Factory", "posixrules"})
_MINUTE = timedelta(minutes=1)
_STEP = timedelta(hours=12)
"""No zone has changed its offset twice within so short a time."""


def zone(name: object) -> ZoneInfo:
    """A zone of the IANA database by its exact name, links included. Raises ``InvalidInput('unknown_zone')``."""
    if not isinstance(name, str) or name not in _names():
        raise InvalidInput("unknown_zone", field="tz", zone=str(name)[:64])
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


@cache
def data_version() -> str:
    """Which zone data is in use: stored fires are found anew when it changes (ruling 12.16).

    The machine's own is preferred, as ``zoneinfo`` does; ``unknown`` where it does not say.
    """
    for folder in map(Path, TZPATH):
        for name in ("+VERSION", "tzdata.zi"):
            try:
                with (folder / name).open(encoding="utf-8") as file:
                    return file.readline(80).removeprefix("# version ").strip()
            except OSError:
                continue
        if (folder / "UTC").exists():
            return "unknown"
    return version("tzdata")


def to_utc(local: datetime, tz: tzinfo) -> datetime | None:
    """The instant of a local minute: the first of two; the first valid minute after a gap (rulings 12.14, 12.15).

    ``local`` is naive. Null where its local *date* does not exist in the zone.
    """
    first = local.replace(tzinfo=tz, fold=0)
    instant = first.astimezone(UTC)
    if instant.astimezone(tz).replace(tzinfo=None) == local:
        return instant
    if not _date_exists(local.date(), tz):
        return None
    # In a gap, fold=0 reads the clock of before the change and fold=1 that of after: the change lies between.
    after = local.replace(tzinfo=tz, fold=1).astimezone(UTC)
    return next_change(after - _MINUTE, instant + _MINUTE, tz)


def exists(local: datetime, tz: tzinfo) -> bool:
    """Whether a naive local time is ever shown by a clock in the zone."""
    return local.replace(tzinfo=tz).astimezone(UTC).astimezone(tz).replace(tzinfo=None) == local


def is_second_pass(instant: datetime, tz: tzinfo) -> bool:
    """Whether the local time of an instant is there twice, and this is the later one."""
    return instant.astimezone(tz).fold == 1


def next_change(start: datetime, end: datetime, tz: tzinfo) -> datetime | None:
    """The first instant after ``start``, up to ``end``, with another offset to UTC; null where there is none."""
    offset = _offset(start, tz)
    low = start
    while low < end:
        high = min(low + _STEP, end)
        if _offset(high, tz) != offset:
            return _bisected(low, high, offset, tz)
        low = high
    return None


def _bisected(low: datetime, high: datetime, offset: timedelta, tz: tzinfo) -> datetime:
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if _offset(middle, tz) == offset:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


def _offset(instant: datetime, tz: tzinfo) -> timedelta:
    return instant.astimezone(tz).utcoffset() or timedelta(0)


def _date_exists(day: date, tz: tzinfo) -> bool:
    """Whether any minute of the local date is ever shown: 30 December 2011 is not, in Apia."""
    start = datetime(day.year, day.month, day.day)
    return any(exists(start + timedelta(minutes=minute), tz) for minute in (*range(0, 1440, 15), 1439))
