"""Fences: whoever no longer holds the work of a turn writes nothing more of it (B5, B16)."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

Fence = Callable[[Connection], None]
"""Called at the start of every transaction that has an effect; raises ``Conflict('lease_lost')`` where another worker
has taken over. Its answer holds until that transaction ends."""


def hold(fence: Fence | None, connection: Connection) -> None:
    """Asks the fence, where there is one."""
    if fence is not None:
        fence(connection)
