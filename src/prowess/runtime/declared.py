"""What a person may use with an agent, outside any turn: asked where automations are made (C31, B14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prowess.access.model import Risk
from prowess.access.resolver import CallContext, SurfaceSource
from prowess.errors import NotFound
from prowess.runtime.viewing import Views
from prowess.turns.view import Entry, TurnView

_RANKS = {risk: rank for rank, risk in enumerate(Risk)}


@dataclass(frozen=True, slots=True)
class Declared:
    """Reads the codes that the skills of an owner declare, by what holds now."""

    views: Views
    surfaces: SurfaceSource

    def __call__(self, tenant: str, user: str, agent: str, skill: str | None) -> Mapping[str, Risk]:
        """The codes that ``skill`` declares, or any skill of theirs where none is given, each with its highest risk.

        Raises ``NotFound('skill_not_found')`` alike for a skill that does not exist, is not enabled or not granted
        (G8), and ``Denied('surface_unresolved')``.
        """
        view = self.views.of(tenant, user, agent, self.surfaces.resolve(CallContext(tenant, user, agent)))
        entries = view.candidates if skill is None else (_entry(view, skill),)
        found: dict[str, Risk] = {}
        for requirement in (item for entry in entries for item in entry.manifest.permission_requirements):
            known = found.get(requirement.code, requirement.risk)
            found[requirement.code] = max(known, requirement.risk, key=_RANKS.__getitem__)
        return found


def _entry(view: TurnView, skill: str) -> Entry:
    found = view.entry(skill)
    if found is None:
        raise NotFound("skill_not_found", skill=skill[:80])
    return found
