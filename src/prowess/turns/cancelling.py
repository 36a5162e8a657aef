"""How a call is told to stop."""

from __future__ import annotations

import threading


class CancelToken:
    """Set when a tool call timed out or its turn was stopped; a handler that loops looks at it."""

    def __init__(self, above: CancelToken | None = None) -> None:
        """``above``: of the call within which this one was made; what stops that one stops this."""
        self._event = threading.Event()
        self._above = above

    def cancel(self) -> None:
        """Ask the handler to stop."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether it should stop."""
        return self._event.is_set() or (self._above is not None and self._above.cancelled)
