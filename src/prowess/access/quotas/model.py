"""What a quota is, on which count a use goes, and what came of reserving (U9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, iso, to_ms

EACH = "*"
"""in the place of an id: each user, agent or skill has a count of its own"""
EXHAUSTED = "quota_exhausted"
"""the code of every refusal for want of budget"""
MAX_LIMIT = 10**15
WARN_AT = 0.8
"""the part of a quota at which its owner is told"""


class Resource(StrEnum):
    """What is counted, in whole numbers."""

    CALLS = "calls"
    """of tools, and jobs that were begun"""
    WALL_MS = "wall_ms"
    """time that tools took"""
    SANDBOX_MS = "sandbox_ms"
    """time that scripts took in a sandbox"""
    MODEL_TOKENS = "model_tokens"
    """input and output"""
    COST_MICROS = "cost_micros"
    """millionths of the currency in which prices are given"""


class Window(StrEnum):
    """How long a count lasts. Windows are fixed, and begin with the minute, hour, day or month in UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    TOTAL = "total"
    """for ever"""


_MS = {Window.MINUTE: 60_000, Window.HOUR: 3_600_000, Window.DAY: 86_400_000}


def window_start(window: Window, now_ms: int) -> int:
    """When the window that holds this instant began, in milliseconds; 0 for ``total``."""
    if window is Window.TOTAL:
        return 0
    now = from_ms(now_ms)
    if window is Window.MONTH:
        return to_ms(datetime(now.year, now.month, 1, tzinfo=UTC))
    return now_ms - now_ms % _MS[window]


def window_end(window: Window, start_ms: int) -> int | None:
    """When the next window begins, in milliseconds; null for ``total``."""
    if window is Window.TOTAL:
        return None
    if window is not Window.MONTH:
        return start_ms + _MS[window]
    start = from_ms(start_ms)
    year, month = divmod(start.year * 12 + start.month, 12)
    return to_ms(datetime(year, month + 1, 1, tzinfo=UTC))


NAMES = ("user", "agent", "skill", "trigger", "job")
"""whom and what a quota can be for"""


class Use(NamedTuple):
    """Who uses something: every quota that fits counts it."""

    tenant: str
    user: str
    agent: str
    skill: str | None = None
    """null: a reply that no skill serves"""
    trigger: str | None = None
    """the automation that started it; null: a person did"""
    job: str | None = None
    """the background job that does it"""


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit. Of ``NAMES``, each is an id, ``*`` for each one by itself, or null for all together."""

    id: str
    tenant: str
    resource: Resource
    window: Window
    limit: int
    user: str | None = None
    agent: str | None = None
    skill: str | None = None
    trigger: str | None = None
    job: str | None = None
    set_by: str = ""
    set_at: datetime | None = None
    """null: declared by a skill itself"""

    def counter(self, use: Use) -> str | None:
        """The count that a use goes on; null where the quota does not concern it."""
        own: list[str] = []
        for name in NAMES:
            wanted, given = getattr(self, name), getattr(use, name)
            if wanted is None:
                continue
            if given is None or wanted not in (EACH, given):
                return None
            if wanted == EACH:
                own.append(given)
        return compact_json(own)

    def to_json(self) -> dict[str, object]:
        """``{"id", "resource", "window", "limit", …NAMES, "set_by", "set_at"}``."""
        return {
            "id": self.id,
            "resource": str(self.resource),
            "window": str(self.window),
            "limit": self.limit,
            **{name: getattr(self, name) for name in NAMES},
            "set_by": self.set_by,
            "set_at": None if self.set_at is None else iso(self.set_at),
        }


class Usage(NamedTuple):
    """How much of a quota is gone in one window."""

    quota: Quota
    counter: tuple[str, ...]
    """the ids in the places of ``*``"""
    used: int
    reserved: int
    """of what runs at this moment, and of what never said how it ended"""
    since: datetime | None
    until: datetime | None
    """when the count starts anew; null: never"""

    @property
    def left(self) -> int:
        """What can still be reserved."""
        return max(0, self.quota.limit - self.used - self.reserved)

    def to_json(self) -> dict[str, object]:
        """Those of the quota, and ``{"counter", "used", "reserved", "left", "since", "until"}``."""
        return {
            **self.quota.to_json(),
            "counter": list(self.counter),
            "used": self.used,
            "reserved": self.reserved,
            "left": self.left,
            "since": None if self.since is None else iso(self.since),
            "until": None if self.until is None else iso(self.until),
        }


class Exhausted(NamedTuple):
    """Why nothing was reserved."""

    quota: Quota
    taken: int
    """used and reserved"""
    wanted: int
    frees_at: datetime | None
    """null: never by itself"""


class Held(NamedTuple):
    """What was reserved on one count."""

    quota: Quota
    counter: str
    start_ms: int
    amount: int


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was reserved for one use; settled with what it really took, in whichever transaction.

    One that is never settled, because its process died, counts in full until its window ends: what it took is not
    known, and a budget is not to be overdrawn.
    """

    held: tuple[Held, ...] = ()

    def amount(self, resource: Resource) -> int | None:
        """The least that is reserved of a resource; null where nothing limits it."""
        return min((item.amount for item in self.held if item.quota.resource is resource), default=None)
