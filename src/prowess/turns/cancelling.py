"""How a call is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable


class CancelToken:
    """Set when a tool call timed out or its turn was stopped; a handler that loops looks at it."""

    def __init__(self, above: CancelToken | None = None) -> None:
        """``above``: of the call within which this one was made; what stops that one stops this."""
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        if above is not None:
            above.then(self.cancel)

    def cancel(self) -> None:
        """Ask the handler to stop."""
        with self._lock:
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def then(self, listener: Callable[[], object]) -> None:
        """Have ``listener`` called once the handler should stop, at once where it should; for one that waits."""
        with self._lock:
            if not self._event.is_set():
                self._listeners.append(listener)
                return
        listener()

    @property
    def cancelled(self) -> bool:
        """Whether it should stop."""
        return self._event.is_set()
