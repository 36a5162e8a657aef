"""Cron expressions: which minutes they name, and what a change of the clock does (B11, rulings 12.13 to 12.16).

cronsim finds the local minutes; what happens where the clock is changed is ruled here. A *fixed* schedule, neither
whose minute nor whose hour begins with ``*``, fires once a day for each of its local times: at the first pass where an
hour repeats, at the first valid minute after a gap. Any other runs on elapsed time: both passes fire, skipped times do
not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from prowess.automation.zones import exists, is_second_pass, next_change, to_utc, zone
from prowess.errors import InvalidInput

HORIZON = timedelta(days=30 * 366)
"""A schedule that does not fire within it is impossible (ruling 12.16)."""
MAX_EXPRESSION = 256
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, tuple("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split())),
    _Field("weekday", 0, 7, tuple("SUN MON TUE WED THU FRI SAT".split())),
)
_ITEM = re.compile(r"(?:(\*)|([A-Z]{3}|[0-9]{1,4})(?:-([A-Z]{3}|[0-9]{1,4}))?)(?:/([0-9]{1,4}))?")


class Fire(NamedTuple):
    """One fire. ``utc`` is the slot; ``local`` the same instant as a clock in the zone shows it."""

    utc: datetime
    local: datetime
    note: str
    """empty; ``after_gap``: its local time was skipped; ``first_pass``, ``second_pass``: its local time is twice"""


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A checked expression in a zone."""

    expression: str
    """five fields, as given but for aliases"""
    tz: ZoneInfo

    @property
    def fixed(self) -> bool:
        """Whether neither minute nor hour begins with ``*`` (ruling 12.14)."""
        minute, hour, *_ = self.expression.split()
        return not minute.startswith("*") and not hour.startswith("*")

    def fires(self, after: datetime) -> Iterator[Fire]:
        """The fires strictly after an instant, in order; ends where there is none for thirty years."""
        start = after.astimezone(UTC)
        found = self._fixed(start) if self.fixed else self._elapsed(start)
        last = start
        for instant, note in found:
            if instant <= last:
                continue  # two skipped times that end at one minute are one slot, and cronsim may begin too early
            last = instant
            yield Fire(instant, instant.astimezone(self.tz), note)

    def _fixed(self, start: datetime) -> Iterator[tuple[datetime, str]]:
        """Each local time, once a local day. From two days before, for a gap may move a time past a midnight."""
        local = (start.astimezone(self.tz) - 2 * _DAY).replace(tzinfo=None)
        for match in _matches(self.expression, local):
            instant = to_utc(match, self.tz)
            if instant is None:
                continue
            if not exists(match, self.tz):
                yield instant, "after_gap"
            else:
                yield instant, "first_pass" if self._is_twice(match) else ""

    def _elapsed(self, start: datetime) -> Iterator[tuple[datetime, str]]:
        """Every minute whose local time matches, stretch by stretch of one offset to UTC."""
        begin = start.replace(second=0, microsecond=0) + _MINUTE
        while True:
            offset = begin.astimezone(self.tz).utcoffset() or timedelta(0)
            local = (begin + offset).replace(tzinfo=None)
            change: datetime | None = None
            looked = begin
            for match in _matches(self.expression, local - timedelta(seconds=1)):
                instant = (match - offset).replace(tzinfo=UTC)
                change = next_change(looked, instant, self.tz)
                if change is not None:
                    break
                looked = instant
                yield instant, self._pass_of(match, instant)
            if change is None:
                return
            begin = change

    def _is_twice(self, match: datetime) -> bool:
        one, other = (match.replace(tzinfo=self.tz, fold=fold).utcoffset() for fold in (0, 1))
        return one != other

    def _pass_of(self, match: datetime, instant: datetime) -> str:
        if not self._is_twice(match):
            return ""
        return "second_pass" if is_second_pass(instant, self.tz) else "first_pass"


def cron_schedule(expression: object, tz: object) -> CronSchedule:
    """Check an expression and a zone.

    Raises ``InvalidInput``: ``cron_fields``, ``cron_field`` (naming the field and why), ``cron_too_long``,
    ``unknown_zone``. Whether it ever fires is asked by ``first_fire``.
    """
    if not isinstance(expression, str) or len(expression) > MAX_EXPRESSION:
        raise InvalidInput("cron_too_long", field="cron", limit=MAX_EXPRESSION)
    text = ALIASES.get(expression.strip().lower(), expression)
    fields = text.upper().split()
    if len(fields) != len(_FIELDS):
        raise InvalidInput("cron_fields", field="cron", found=len(fields))
    for field, value in zip(_FIELDS, fields, strict=True):
        _check(field, value)
    return CronSchedule(" ".join(fields), zone(tz))


def first_fire(schedule: CronSchedule, after: datetime) -> Fire:
    """The next fire. Raises ``InvalidInput('cron_never')`` where there is none within thirty years."""
    found = next(schedule.fires(after), None)
    if found is None or found.utc - after.astimezone(UTC) > HORIZON:
        raise InvalidInput("cron_never", field="cron")
    return found


def _matches(expression: str, after: datetime) -> Iterator[datetime]:
    """Naive local minutes strictly after a naive local time, within the horizon."""
    try:
        found: Iterator[datetime] = CronSim(expression, after)
    except CronSimError:  # a day that no month has
        return
    end = after + HORIZON + 4 * _DAY
    for match in found:
        if match > end:
            return
        if match > after:  # the guard: cronsim may repeat itself where a clock is changed
            yield match


def _check(field: _Field, value: str) -> None:
    for item in value.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise InvalidInput("cron_field", field="cron", part=field.name, value=item[:32], why=_why(item))
        star, start, end, step = match.groups()
        if step is not None and (int(step) == 0 or (star is None and end is None)):
            why = "step_zero" if int(step) == 0 else "step_of_one"
            raise InvalidInput("cron_field", field="cron", part=field.name, value=item, why=why)
        if star is None and end is not None and _number(field, start, item) > _number(field, end, item):
            raise InvalidInput("cron_field", field="cron", part=field.name, value=item, why="backward")
        if star is None:
            _number(field, start, item)


def _number(field: _Field, word: str, item: str) -> int:
    if word in field.words:
        return field.words.index(word) + (1 if field.name == "month" else 0)
    if not word.isdigit() or not field.low <= int(word) <= field.high:
        raise InvalidInput("cron_field", field="cron", part=field.name, value=item[:32], why="out_of_range")
    return int(word)


def _why(item: str) -> str:
    return "not_supported" if any(sign in item for sign in "?LW#") else "unreadable"
