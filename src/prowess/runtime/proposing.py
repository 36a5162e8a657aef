"""The narrow port by which a tool leaves a proposal: for the calling user and agent, never active (B15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prowess.automation.triggers.service import TriggerService
from prowess.automation.triggers.specs import read_draft
from prowess.kernel.clock import iso
from prowess.turns.request import TurnRequest

_ASKABLE = frozenset({"name", "kind", "spec", "skill", "prompt"})


@dataclass(frozen=True, slots=True)
class TurnProposals:
    """Proposals of one turn; who proposes for whom is the turn's, not the model's (U2)."""

    triggers: TriggerService
    request: TurnRequest

    def propose(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store a proposal. Raises as ``TriggerService.propose``."""
        asked = {name: value for name, value in fields.items() if name in _ASKABLE}
        chat = self.request.conversation
        draft = read_draft({**asked, "agent": self.request.agent, "conversation": chat})
        made = self.triggers.propose(
            tenant=self.request.tenant,
            user=self.request.user,
            agent=self.request.agent,
            origin=self.request.origin,
            draft=draft,
        )
        rehearsed = self.triggers.first_fire(made)
        return {"id": made.id, "name": made.name, "kind": str(made.kind), "next": iso(rehearsed)}
