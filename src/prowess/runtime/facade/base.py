"""What every part of the façade stands on."""

from __future__ import annotations

from prowess.access.resolver import CallContext
from prowess.access.surface import CapabilitySurface
from prowess.errors import Denied, NotFound
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.runtime.wiring import Parts
from prowess.skills.bindings import Sample
from prowess.skills.service import find_entry
from prowess.turns.view import Entry, TurnView, reachable

OPERATOR = Actor("operator", "operator")


class Facade:
    """Holds the wired parts."""

    def __init__(self, parts: Parts) -> None:
        """Use ``prowess.open``."""
        self._parts = parts

    def _view(
        self, tenant: str, user: str | None, agent: str | None, surface: CapabilitySurface | None = None
    ) -> TurnView:
        """What a person sees of the catalog, outside any turn.

        ``agent`` null: whichever agent; ``user`` null: nobody, so that only the agent's own design cuts.
        Raises ``Denied('surface_unresolved')``, ``NotFound('agent_not_found')``, ``InvalidInput('bad_id')``.
        """
        if user is None:
            given = surface or CapabilitySurface.ALLOW_ALL
        else:
            context = CallContext(tenant, check_id(user, "user"), agent)
            given = surface or self._resolved(context)
        return self._parts.views.of(tenant, user, None if agent is None else check_id(agent, "agent"), given)

    def _resolved(self, context: CallContext) -> CapabilitySurface:
        """The user's surface outside any turn; that it could not be learned is an audit row (C39)."""
        try:
            return self._parts.surfaces.resolve(context)
        except Denied as denied:
            with self._parts.log.transaction(context.tenant) as transaction:
                transaction.emit(
                    "surface.unresolved",
                    tenant=context.tenant,
                    actor=Actor("user", context.user),
                    user=context.user,
                    agent=context.agent,
                    decision="denied",
                    cause=str(denied.detail.get("cause")),
                )
            raise

    def _visible(self, tenant: str, user: str, agent: str | None, skill: str) -> Entry:
        """A skill that exists for this user, in the version that serves them, else in one that may.

        Raises ``NotFound('skill_not_found')`` for any other, all alike (G8): also for a draft.
        """
        view = self._view(tenant, user, agent)
        catalog = self._parts.skills.catalog(tenant)
        current = find_entry(catalog, skill)
        skill_id, sample = current.manifest.id, Sample(tenant, user, self._parts.reader.drafts)
        bound = (entry for entry in view.bound if entry.manifest.id == skill_id)
        for entry in (*bound, current, *catalog.versions(skill_id)):
            if not entry.removed and sample.holds(skill_id, entry.rollout) and reachable(view, entry):
                return entry
        raise NotFound("skill_not_found", skill=skill[:80])
