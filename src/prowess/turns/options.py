"""What a developer may say of one call. A narrower call is asked for here, a wider one by whoever wires the runtime."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.access.filters import SkillFilter
from prowess.access.model import Mode
from prowess.access.surface import CapabilitySurface
from prowess.errors import InvalidInput
from prowess.turns.fencing import Fence
from prowess.turns.plan import TurnPlan
from prowess.turns.request import TurnRequest


@dataclass(frozen=True, slots=True)
class CallOptions:
    """``surface`` stands in for the resolver; ``filter`` lies over the agent's own; ``parent`` delegates this turn."""

    surface: CapabilitySurface | None = None
    filter: SkillFilter | None = None
    mode: Mode | None = None
    parent: TurnPlan | None = None
    fence: Fence | None = None
    """where a job runs the turn: raises once another worker has taken over"""

    def check(self, request: TurnRequest) -> None:
        """Raises ``InvalidInput``: ``wrong_type``; ``parent_mismatch`` for another user's or tenant's parent."""
        wanted = {
            "surface": CapabilitySurface, "filter": SkillFilter, "mode": Mode, "parent": TurnPlan
        }  # fmt: skip
        for name, kind in wanted.items():
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind):
                raise InvalidInput("wrong_type", field=name, expected=kind.__name__, got=type(given).__name__)
        if self.parent is not None:
            above = self.parent.request
            if (above.tenant, above.user) != (request.tenant, request.user):
                raise InvalidInput("parent_mismatch", field="parent")


NO_OPTIONS = CallOptions()
