"""What background work needs from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Work(Protocol):
    """What an engine may ask of the ledger; synchronous, from any thread."""

    def run(self, ids: Sequence[str]) -> None:
        """Claim and run these jobs, all that are due and still to do; returns when they are done."""
        ...

    def sweep(self) -> datetime | None:
        """Triggers, expired leases, what the engine was never told; returns when something is next due."""
        ...

    def due(self, limit: int) -> list[tuple[str, datetime]]:
        """(job id, due) within the next minute and not running, oldest first, fair across tenants."""
        ...


class JobEngine(Protocol):
    """Wakes workers; the ledger is the truth."""

    name: str

    def wake(self, jobs: Sequence[tuple[str, datetime]]) -> None:
        """These jobs were committed; from any thread; never raises."""
        ...

    async def serve(self, work: Work, stop: asyncio.Event) -> None:
        """Until ``stop`` is set; what runs is finished first, within a limit."""
        ...
