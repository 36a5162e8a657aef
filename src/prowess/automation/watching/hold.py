"""Of several processes on a machine one watches files, and another takes over when it is gone (B12)."""

from __future__ import annotations

import contextlib
import os
import socket
from datetime import timedelta

from prowess.automation.watching.store import leave_watch, take_watch
from prowess.errors import StorageError
from prowess.events.log import EventLog
from prowess.kernel.clock import to_ms

HOLD = timedelta(seconds=10)
"""How long the process that watches may be silent before another one on its machine does."""


class WatchHold:
    """This process's claim to the watch of its machine."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._host = socket.gethostname()
        self._owner = f"{os.getpid()}:{id(self):x}"

    def holds(self) -> bool:
        """Take or keep the watch; false where another process has it. Raises ``StorageError``."""
        now = self._log.clock.now()
        with self._log.database.write() as connection:
            return take_watch(connection, self._host, self._owner, to_ms(now), to_ms(now + HOLD))

    def leave(self) -> None:
        """Let another process watch at once; where that cannot be written, it may soon."""
        with contextlib.suppress(StorageError), self._log.database.write() as connection:
            leave_watch(connection, self._host, self._owner)
