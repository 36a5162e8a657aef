"""When a schedule fires, for those who ask before there is a trigger (B11)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from prowess.automation.cron import cron_schedule, first_fire
from prowess.errors import InvalidInput
from prowess.kernel.clock import SystemClock, iso, parse_instant

MAX_FIRES = 1_000


def next_fires(asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``{"utc", "local", "note"}`` of each of the next fires of ``{"cron", "tz", "after", "count"}``.

    ``tz`` is UTC, ``after`` now and ``count`` 5 where they are left out. ``note``: ``after_gap`` where the local time
    is skipped by a change of the clock, ``first_pass`` or ``second_pass`` where it is there twice, else empty.

    Raises ``InvalidInput`` (``cron_fields``, ``cron_field``, ``cron_too_long``, ``cron_never``, ``unknown_zone``,
    ``bad_instant``, ``bad_count``).
    """
    count = asked.get("count", 5)
    if type(count) is not int or not 1 <= count <= MAX_FIRES:
        raise InvalidInput("bad_count", field="count", limit=MAX_FIRES)
    given = asked.get("after")
    after = SystemClock().now() if given is None else parse_instant(str(given), "after")
    schedule = cron_schedule(asked.get("cron"), asked.get("tz", "UTC"))
    first_fire(schedule, after)
    return [
        {"utc": iso(fire.utc), "local": fire.local.isoformat(), "note": fire.note}
        for fire in itertools.islice(schedule.fires(after), count)
    ]
