"""Which failures of a model pass by themselves, and how long that is waited for (T12)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prowess.errors import VoiceError

RETRYABLE = frozenset({408, 429, 500, 502, 503, 504, 529})
"""HTTP statuses after which the same request may succeed"""


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """How often and how long one request is repeated: exponential backoff with jitter, within both limits.

    A wait that the provider asks for (``Retry-After``) is kept, unless it does not fit: then there is no further try.
    """

    attempts: int = 4
    """tries of one request, the first included; at least 1"""
    seconds: float = 30.0
    """from the first try to the beginning of the last"""
    first_delay: float = 0.5
    """seconds before the second try; doubled before each further one"""
    longest_delay: float = 8.0
    """seconds; what the provider asks for may be longer"""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    """takes seconds"""
    chance: Callable[[], float] = random.random
    """uniform over [0, 1)"""
    clock: Callable[[], float] = time.monotonic
    """seconds, never going back"""

    def begin(self) -> Attempts:
        """Start counting for one request."""
        return Attempts(self)


class Attempts:
    """The tries of one request."""

    def __init__(self, budget: RetryBudget) -> None:
        self._budget = budget
        self._began = budget.clock()
        self._made = 1

    async def again(self, after: float | None) -> bool:
        """Wait before the next try. False, and no wait, where the budget is spent.

        Args:
            after: seconds that the provider asked for; None where it asked for nothing
        """
        budget = self._budget
        if self._made >= budget.attempts:
            return False
        delay = max(self._backoff(), after or 0.0)
        if budget.clock() - self._began + delay > budget.seconds:
            return False
        self._made += 1
        await budget.sleep(delay)
        return True

    def _backoff(self) -> float:
        """Half of the delay is fixed and half is left to chance, so that many clients do not return at once."""
        budget = self._budget
        delay = min(budget.longest_delay, budget.first_delay * 2.0 ** (self._made - 1))
        return delay * (1 + budget.chance()) / 2


class CutShort(Exception):
    """A stream ended before its end."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request."""

    error: VoiceError
    """what to raise; never holds what the provider wrote"""
    passing: bool
    """whether the same request may succeed later"""
    after: float | None = None
    """seconds that the provider asks to wait"""


def failure_of(error: Exception, provider: str) -> Failure:
    """What an exception of a model client means. Anything unknown is an answer that could not be read."""
    from pydantic_ai import exceptions

    match error:
        case CutShort():
            return Failure(VoiceError("voice_cut", provider=provider), passing=True)
        case exceptions.ModelHTTPError() if not isinstance(error, exceptions.ModelQuotaExceededError):
            return _of_status(error.status_code, provider, error.retry_after)
        case exceptions.ModelQuotaExceededError() | exceptions.ModelRequestRejectedError() | exceptions.UserError():
            status = getattr(error, "status_code", None)
            return Failure(VoiceError("voice_rejected", provider=provider, status=status), passing=False)
        case exceptions.ModelRateLimitError():
            return _of_status(429, provider, error.retry_after)
        case exceptions.ModelUnavailableError() | exceptions.ModelServerError():
            return _of_status(503, provider, error.retry_after)
        case exceptions.ModelConnectionError() | exceptions.ModelRequestTimeout() | OSError():
            return Failure(VoiceError("voice_unavailable", provider=provider, status=None), passing=True)
        case exceptions.ModelAPIError(in_stream=True):
            return Failure(VoiceError("voice_cut", provider=provider), passing=True)
        case _:
            malformed = VoiceError("voice_malformed", provider=provider, cause=type(error).__name__)
            return Failure(malformed, passing=False)


def _of_status(status: int, provider: str, after: float | None) -> Failure:
    passing = status in RETRYABLE
    if status == 429:
        return Failure(VoiceError("voice_rate_limited", provider=provider), passing, after)
    if status >= 500 or passing:
        return Failure(VoiceError("voice_unavailable", provider=provider, status=status), passing, after)
    return Failure(VoiceError("voice_rejected", provider=provider, status=status), passing)
