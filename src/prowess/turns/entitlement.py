"""What one call may use, resolved once when it starts (G9, B17)."""

from __future__ import annotations

from prowess.access.model import Mode
from prowess.access.policies import PolicySet
from prowess.access.resolver import CallContext, SurfaceSource
from prowess.access.surface import CapabilitySurface
from prowess.errors import Denied
from prowess.turns.commit import TurnWriter
from prowess.turns.options import NO_OPTIONS, CallOptions
from prowess.turns.request import TurnRequest
from prowess.turns.view import Rights, both_unattended, stricter


class Entitlement:
    """Resolves the rights of calls."""

    def __init__(self, surfaces: SurfaceSource, policies: PolicySet, mode: Mode, writer: TurnWriter) -> None:
        self._surfaces = surfaces
        self._policies = policies
        self._mode = mode
        self._writer = writer
        # One and the same for most calls where no surfaces are resolved: it is never changed.
        self._everything = Rights(mode=stricter(mode, policies.mode))

    def rights(self, request: TurnRequest, options: CallOptions) -> Rights:
        """The rights of a call; a delegate has its parent's and its own.

        Raises ``Denied('surface_unresolved')``, ``InvalidInput`` (``wrong_type``, ``parent_mismatch``).
        """
        if options is not NO_OPTIONS:
            options.check(request)
        if options.surface is not None:
            surface = options.surface
        else:
            try:
                surface = self._surfaces.resolve(call_context(request))
            except Denied as denied:
                self._writer.unresolved(request, str(denied.detail.get("cause")))
                raise
        if options is NO_OPTIONS and surface is CapabilitySurface.ALLOW_ALL:
            return self._everything
        mode = stricter(options.mode or self._mode, self._policies.mode)
        unattended = None if options.unattended is None else options.unattended.preapproved
        if options.parent is None:
            return Rights((surface,), options.filter, mode=mode, unattended=unattended)
        above = options.parent.view.rights
        overlays = above.overlays_above if above.overlay is None else (*above.overlays_above, above.overlay)
        return Rights(
            layers=(*above.layers, surface),
            overlay=options.filter,
            overlays_above=overlays,
            mode=stricter(mode, above.mode),
            above=(*above.above, options.parent.request.agent),
            unattended=both_unattended(above.unattended, unattended),
        )


def call_context(request: TurnRequest) -> CallContext:
    """Whose call it is, as a resolver sees it."""
    chat = request.chat
    return CallContext(
        request.tenant, request.user, request.agent, chat.kind, chat.id, request.message_id, request.origin
    )
