"""Turns: whole, streamed, or in thirds for somebody else's agent loop (T1, T9)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from prowess.access.filters import SkillFilter
from prowess.access.model import Mode
from prowess.access.surface import CapabilitySurface
from prowess.runtime.facade.base import Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.options import CallOptions, Unattended
from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.request import TurnRequest, TurnResult


class CallChoices(TypedDict, total=False):
    """What may be said of one call."""

    surface: CapabilitySurface | None
    filter: SkillFilter | None
    mode: Mode | None
    parent: TurnPlan | None
    unattended: Unattended | None


class Turns(Facade):
    """Turns: whole, streamed, or in thirds for somebody else's agent loop (T1, T9)."""

    def turn(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
        **choices: Unpack[CallChoices],
    ) -> TurnResult:
        """One message and its reply. Exactly one of ``conversation`` and ``group``.

        Raises ``InvalidInput``, ``NotFound``, ``Conflict`` (``message_id_reused``, ``session_changed``),
        ``LimitExceeded``, ``VoiceError``, and ``Denied('surface_unresolved')``; after any of them the same message id
        may be sent again. For this call alone: ``surface`` in place of the resolver, ``filter`` over the agent's own,
        ``mode``, ``parent``, the plan of the turn that delegates this one, and ``unattended``, where nobody is there.
        """
        request = TurnRequest(tenant, user, agent, text, message_id, conversation, group)
        return self._parts.engine.turn(request, CallOptions(**choices))

    async def aturn(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
        **choices: Unpack[CallChoices],
    ) -> TurnResult:
        """The asynchronous twin of ``turn``."""
        request = TurnRequest(tenant, user, agent, text, message_id, conversation, group)
        async for piece in self._parts.engine.stream(request, CallOptions(**choices)):
            if isinstance(piece, TurnResult):
                return piece
        raise AssertionError("a stream ends with its result")

    def stream(
        self,
        *,
        user: str,
        agent: str,
        message_id: str,
        text: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
        **choices: Unpack[CallChoices],
    ) -> AsyncIterator[str | TurnResult]:
        """Pieces of the reply as they come, then the ``TurnResult``."""
        request = TurnRequest(tenant, user, agent, text, message_id, conversation, group)
        return self._parts.engine.stream(request, CallOptions(**choices))

    def group_turn(
        self,
        *,
        user: str,
        group: str,
        message_id: str,
        text: str,
        agents: Sequence[str] | None = None,
        tenant: str = DEFAULT_TENANT,
        **choices: Unpack[CallChoices],
    ) -> list[TurnResult]:
        """One message to several agents of a group, one reply each, in the order in which they joined.

        ``agents`` null: those that the text addresses by ``@id``, or all of them where it addresses none. Each is a
        turn of its own, with its own run; what one says the next can see. Raises as ``turn``; agents that have answered
        have, and answer the repeated message from their record.
        """
        members = list(agents) if agents is not None else self._parts.chat.agents_of(tenant, group, user)
        addressed = members if agents is not None else _addressed(text, members)
        return [
            self.turn(user=user, agent=agent, group=group, message_id=message_id, text=text, tenant=tenant, **choices)
            for agent in addressed
        ]

    def begin(self, request: TurnRequest, **choices: Unpack[CallChoices]) -> TurnPlan:
        """The first third of a turn, for somebody else's agent loop: instruction and tools. Raises as ``turn``."""
        return self._parts.engine.begin(request, CallOptions(**choices))

    def call(self, plan: TurnPlan, tool: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """A tool call of that loop, through the same gate, limits and records. A refusal is an outcome."""
        return self._parts.engine.call(plan, tool, arguments)

    def finish(self, plan: TurnPlan, reply: str) -> TurnResult:
        """The last third: store the reply. Raises ``InvalidInput`` for an unusable reply."""
        return self._parts.engine.finish(plan, reply)

    def fail(self, plan: TurnPlan, error: Exception) -> None:
        """Instead of ``finish``: the loop could not reply."""
        self._parts.engine.fail(plan, error)


def _addressed(text: str, agents: Sequence[str]) -> list[str]:
    """The agents that the text addresses as ``@id``; all of them where it addresses none."""
    named = {name.lower() for name in re.findall(r"@([\w.-]+)", text)}
    return [agent for agent in agents if agent.lower() in named] or list(agents)
