"""Ids: made by an injected source, checked where they come in, and typed as pairs where a name alone is not enough."""

from __future__ import annotations

import secrets
import threading
from typing import Protocol

from prowess.errors import InvalidInput
from prowess.kernel.clock import Clock, to_ms

MAX_ID_LENGTH = 200


class IdSource(Protocol):
    """Makes ids."""

    def new(self, prefix: str) -> str:
        """A fresh id that starts with ``prefix`` and a hyphen."""
        ...


class RandomIds:
    """Time-ordered random ids: 44 bits of milliseconds, then 64 random bits (the idea of UUID version 7, RFC 9562)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new(self, prefix: str) -> str:
        """A fresh id such as ``run-019a2b3c4d5-9f8e7d6c5b4a3f2e``."""
        return f"{prefix}-{to_ms(self._clock.now()):011x}-{secrets.token_hex(8)}"


class SequentialIds:
    """``run-1``, ``run-2`` …: for tests that compare whole results."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """The next id."""
        with self._lock:
            self._last += 1
            return f"{prefix}-{self._last}"


def check_id(value: object, field: str) -> str:
    """Return ``value`` if it can serve as an id given from outside: 1 to 200 printable characters, no outer space.

    Raises ``InvalidInput('bad_id')`` otherwise.
    """
    if not isinstance(value, str):
        raise InvalidInput("wrong_type", field=field, expected="string", got=type(value).__name__)
    if not value or len(value) > MAX_ID_LENGTH or value != value.strip() or not value.isprintable():
        raise InvalidInput("bad_id", field=field, limit=MAX_ID_LENGTH, length=len(value))
    return value
