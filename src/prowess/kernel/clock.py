"""Time is given, not taken (rule 5 of the house).

Inside, an instant is an aware ``datetime`` in UTC; in a table it is an integer, milliseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from typing import Protocol

from prowess.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until moved; for tests, replays and ``--now``."""

    def __init__(self, start: datetime) -> None:
        self._now = start.astimezone(UTC)
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """The instant it was set to."""
        return self._now

    def advance(self, step: timedelta) -> datetime:
        """Move by ``step`` (negative moves back) and return the new instant."""
        with self._lock:
            self._now += step
            return self._now


def to_ms(instant: datetime) -> int:
    """Milliseconds since the epoch, rounded down."""
    return (instant - _EPOCH) // _MILLISECOND


def from_ms(value: int) -> datetime:
    """The instant ``value`` milliseconds after the epoch."""
    return _EPOCH + value * _MILLISECOND


def iso(instant: datetime | None) -> str | None:
    """ISO 8601 with milliseconds and ``Z``, or null."""
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST_SPAN = timedelta(days=36_525)


def parse_span(text: str, field: str) -> timedelta:
    """Read a span such as ``90s``, ``30m``, ``2h`` or ``3d``, up to a century. Raises ``InvalidInput('bad_span')``."""
    match = _SPAN.fullmatch(text.strip())
    span = timedelta(**{_UNITS[match.group(2)]: int(match.group(1))}) if match else None
    if span is None or span > _LONGEST_SPAN:
        raise InvalidInput("bad_span", field=field, value=text[:40])
    return span


def parse_instant(text: str, field: str) -> datetime:
    """Read ISO 8601 with an offset or ``Z``.

    Raises ``InvalidInput('bad_instant')`` where it cannot be read or has no offset.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("bad_instant", field=field, value=text[:40]) from None
    if instant.tzinfo is None:
        raise InvalidInput("bad_instant", field=field, value=text[:40])
    return instant.astimezone(UTC)
