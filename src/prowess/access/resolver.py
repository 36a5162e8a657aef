"""From a call to its surface: resolved once, server side, before anything is staged or shown (G9, U3).

A resolver is the operator's. One that raises, hangs, or answers with anything but a surface aborts the call; so does
an unrestricted surface where the operator did not choose that (rulings 12.9 and 12.23).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Protocol

from prowess.access.guards import within
from prowess.access.surface import CapabilitySurface
from prowess.errors import Denied, InvalidInput

logger = logging.getLogger(__name__)

RESOLVER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CallContext:
    """Whose call it is. Made by the server from the message itself, never from what a model says (U2)."""

    tenant: str
    user: str
    agent: str | None
    """null where no agent is concerned, such as a person who looks at skills"""
    chat_kind: str | None = None
    chat_id: str | None = None
    message_id: str | None = None
    origin: str = "user"


class CapabilityResolver(Protocol):
    """Says what a user may use at all. Called once a call, from any thread.

    If it caches, its cache is the delay of a revocation: that is the operator's to choose.
    """

    def resolve(self, context: CallContext) -> CapabilitySurface | None:
        """The surface of this call; null and a surface with no dimension are refused unless chosen at start-up."""
        ...


class SurfaceSource:
    """Where surfaces come from, and what to do when they do not come."""

    def __init__(
        self,
        resolver: CapabilityResolver | None,
        *,
        server: bool = False,
        allow_all: bool = False,
        seconds: float = RESOLVER_SECONDS,
    ) -> None:
        """``allow_all``: the operator's choice that who has no surface may use all that an agent has.

        Raises ``InvalidInput``: ``resolver_required`` for a server with neither, ``wrong_type`` for no resolver.
        """
        if resolver is None and server and not allow_all:
            raise InvalidInput("resolver_required", field="resolver")
        if resolver is not None and not callable(getattr(resolver, "resolve", None)):
            raise InvalidInput(
                "wrong_type", field="resolver", expected="CapabilityResolver", got=type(resolver).__name__
            )
        self._resolver = resolver
        self._server = server
        self._allow_all = allow_all
        self._seconds = seconds

    def resolve(self, context: CallContext) -> CapabilitySurface:
        """The surface of a call. Raises ``Denied('surface_unresolved')``: the call is over, nothing was shown."""
        if self._resolver is None:
            return CapabilitySurface.ALLOW_ALL
        resolver = self._resolver
        try:
            found: Any = within(lambda: resolver.resolve(context), self._seconds, "resolver")
        except Exception as error:
            logger.warning("the capability resolver failed: %s", type(error.__cause__ or error).__name__)
            raise Denied("surface_unresolved", cause=_cause(error)) from None
        if found is None and self._allow_all:
            return CapabilitySurface.ALLOW_ALL
        if not isinstance(found, CapabilitySurface):
            raise Denied("surface_unresolved", cause="nothing" if found is None else "wrong_type")
        if found.allows_all and self._server and not self._allow_all and not _chooses(resolver):
            raise Denied("surface_unresolved", cause="unrestricted")
        return found


def _cause(error: Exception) -> str:
    return "timeout" if isinstance(error, TimeoutError) else "raised"


def _chooses(resolver: CapabilityResolver) -> bool:
    """Whether an unrestricted surface from this resolver is something that the operator wrote down: a role."""
    return bool(getattr(resolver, "grants_all_by_name", False))
