"""While a voice speaks: it hears that its turn was stopped, and is closed when nobody listens any more (U10)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from prowess.turns.definitions import CancelToken
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Voice


@contextmanager
def watching(plan: TurnPlan, voice: Voice) -> Iterator[None]:
    """While the voice speaks: that it is busy can be seen, and a stop of another process is noticed."""
    if voice.instant:
        yield
        return
    ended = plan.stop.begin("voice", CancelToken())
    try:
        with plan.stop.busy():
            yield
    finally:
        ended()


@asynccontextmanager
async def closing(pieces: AsyncIterator[str]) -> AsyncIterator[AsyncIterator[str]]:
    """Closes a stream that can be closed; one that is a plain iterator cannot."""
    try:
        yield pieces
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
