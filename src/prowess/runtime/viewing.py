"""What a person sees of the catalog outside any turn: one way to ask, for the façade and for what it joins."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.access.model import Mode
from prowess.access.policies import PolicySet
from prowess.access.surface import CapabilitySurface
from prowess.chat.model import Agent
from prowess.chat.store import find_agent
from prowess.errors import NotFound
from prowess.events.log import EventLog
from prowess.turns.facts import FactReader
from prowess.turns.view import Rights, TurnView, stricter


@dataclass(frozen=True, slots=True)
class Views:
    """Makes views of what holds at this moment."""

    log: EventLog
    reader: FactReader
    policies: PolicySet
    mode: Mode

    def of(self, tenant: str, user: str | None, agent: str | None, surface: CapabilitySurface) -> TurnView:
        """The view of ``user`` with ``agent`` under a surface.

        ``agent`` null: whichever agent; ``user`` null: nobody, so that only the agent's own design cuts. Raises
        ``NotFound('agent_not_found')`` for an agent that is not the user's.
        """
        rights = Rights((surface,), mode=stricter(self.mode, self.policies.mode))
        with self.log.database.read() as connection:
            found = None if agent is None else find_agent(connection, tenant, agent)
            if found is not None and user is not None and not found.usable_by(user):
                raise NotFound("agent_not_found", agent=agent)
            # An agent that nobody has talked to yet has no design of its own.
            seen = found or Agent(tenant, agent or "", agent or "", "", "en", None, self.log.clock.now())
            return self.reader.view(connection, tenant, user or "", seen, rights)
