"""The engine that wakes workers (B5, B18). Only ids cross it: the ledger in the database is the truth.

A job id that is delivered twice, late or never does no harm: claims are made by compare-and-set, and what an engine was
not told, or lost, the sweep finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class Work(Protocol):
    """What an engine may ask of the ledger. Synchronous, and safe to call from any thread."""

    def run(self, ids: Sequence[str]) -> None:
        """Claim and run these jobs, as far as they are due and still to do; returns when they have ended.

        Never raises for what a job did. Raises ``StorageError`` where the ledger cannot be read.
        """
        ...

    def sweep(self) -> datetime | None:
        """Look after triggers, followers of the log and silent workers; returns when something is next due."""
        ...

    def due(self, limit: int) -> list[tuple[str, datetime]]:
        """(job id, due) of jobs that are due within the next minute: oldest first, a share for every tenant."""
        ...


class JobEngine(Protocol):
    """Wakes workers. ``embedded`` and ``pgqueuer`` are the adapters."""

    @property
    def name(self) -> str:
        """Shown by ``prowess doctor``."""
        ...

    def wake(self, jobs: Sequence[tuple[str, datetime]]) -> None:
        """These jobs are committed: (id, due) of each. From any thread; never raises, hardly blocks."""
        ...

    def close(self) -> None:
        """Pass on what ``wake`` took, within a limit, and let go of everything."""
        ...

    async def serve(self, work: Work, stop: asyncio.Event) -> None:
        """Until ``stop`` is set. What runs then is waited for, within a limit."""
        ...
