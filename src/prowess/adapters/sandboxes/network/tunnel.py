"""Carry bytes both ways between a run and a host, within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from prowess.adapters.sandboxes.network.model import NetworkLimits

CHUNK = 65_536
FLUSH_S = 5.0


class Stream(NamedTuple):
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        """Close it now, without what is still unsent."""
        self.writer.transport.abort()

    async def finish(self) -> None:
        """Close it once the other side has taken what is still unsent, which it gets a few seconds for."""
        self.writer.close()
        try:
            async with asyncio.timeout(FLUSH_S):
                await self.writer.wait_closed()
        except (TimeoutError, asyncio.CancelledError) as late:
            self.abort()
            if not isinstance(late, TimeoutError):
                raise
        except OSError:
            pass  # it was gone already


class Tunnel:
    """Two connections that carry each other's bytes."""

    def __init__(self, inside: Stream, outside: Stream, limits: NetworkLimits) -> None:
        self._inside = inside
        self._outside = outside
        self._limits = limits

    async def run(self, up: Callable[[int], bool], down: Callable[[int], bool]) -> None:
        """Until both sides have said all, one breaks, or a limit of bytes is reached.

        ``up`` and ``down`` say whether so many bytes more may be carried. Raises ``TimeoutError``.
        """
        now = asyncio.get_running_loop().time
        end = now() + self._limits.life_s
        async with asyncio.timeout_at(min(now() + self._limits.idle_s, end)) as limit, asyncio.TaskGroup() as both:

            def alive() -> None:
                limit.reschedule(min(now() + self._limits.idle_s, end))

            both.create_task(self._pump(self._inside.reader, self._outside.writer, up, alive))
            both.create_task(self._pump(self._outside.reader, self._inside.writer, down, alive))

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        may: Callable[[int], bool],
        alive: Callable[[], None],
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                if not may(len(data)):
                    break
                writer.write(data)
                await writer.drain()
                alive()
            else:
                writer.write_eof()
                return
        except OSError:
            pass
        # Both, so that the other direction ends too.
        self._inside.abort()
        self._outside.abort()
