"""Reading what a turn needs to know, in one consistent view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from prowess.access.filters import EVERYTHING
from prowess.access.policies import NO_POLICIES, PolicySet
from prowess.access.roles.store import roles_of
from prowess.chat.model import Agent, Seat
from prowess.chat.service import ChatService
from prowess.chat.store import find_message
from prowess.events.log import EventLog
from prowess.skills.bindings import Sample, bound_entries
from prowess.skills.catalog import Catalog, CatalogService
from prowess.skills.store import Binding, bindings_for
from prowess.turns.definitions import SkillDefinition
from prowess.turns.executor import TurnFacts
from prowess.turns.request import TurnRequest
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.store import live_sessions
from prowess.turns.store import TurnRecord, find_turn
from prowess.turns.view import Marks, Rights, TurnView


@dataclass(frozen=True, slots=True)
class TurnReading:
    """The facts, and what this very message came to before."""

    facts: TurnFacts
    view: TurnView
    seat: Seat
    overdue: tuple[Session, ...]
    """sessions of this chat whose time has passed; to be marked before anything else (W7)"""
    earlier: TurnRecord | None
    earlier_reply: str | None


class FactReader:
    """Reads; writes nothing."""

    def __init__(
        self,
        log: EventLog,
        chat: ChatService,
        catalog: CatalogService[SkillDefinition],
        policies: PolicySet = NO_POLICIES,
        marks: Marks | None = None,
        *,
        drafts: bool = False,
    ) -> None:
        self._log = log
        self._chat = chat
        self._catalog = catalog
        self._policies = policies
        self._marks = marks or Marks()
        self.drafts = drafts

    def read(self, request: TurnRequest, rights: Rights) -> TurnReading:
        """The facts of one message for a call with these rights.

        Raises ``NotFound`` (``agent_not_found``, ``chat_not_found``).
        """
        with self._log.database.read() as connection:
            seat = self._chat.find_seat(connection, request.tenant, request.chat, request.user, request.agent)
            return self._reading(connection, request, seat, rights)

    def view(
        self,
        connection: Connection,
        tenant: str,
        user: str,
        agent: Agent,
        rights: Rights,
        bindings: Iterable[Binding] | None = None,
    ) -> TurnView:
        """What a call with these rights sees of the tenant's catalog; ``bindings`` where they were read before."""
        catalog = self._catalog.snapshot(connection, tenant)
        return self.view_of(connection, catalog, tenant, user, agent, rights, bindings)

    def catalog(self, connection: Connection, tenant: str) -> Catalog[SkillDefinition]:
        """The tenant's catalog as of this transaction."""
        return self._catalog.snapshot(connection, tenant)

    def view_of(
        self,
        connection: Connection,
        catalog: Catalog[SkillDefinition],
        tenant: str,
        user: str,
        agent: Agent,
        rights: Rights,
        bindings: Iterable[Binding] | None = None,
    ) -> TurnView:
        """The same of a catalog that was read before, for many calls in one transaction."""
        if bindings is None:
            bindings = bindings_for(connection, tenant, user, agent.id)
        roles = roles_of(connection, tenant, user) if self._policies.names_roles else ()
        return TurnView(
            user=user,
            agent=agent.id,
            rights=rights,
            agent_filter=agent.skill_filter,
            bound=bound_entries(catalog, bindings, Sample(tenant, user, self.drafts)),
            policies=self._policies,
            roles=frozenset(role.name for role in roles),
            marks=self._marks,
        )

    def message_exists(self, request: TurnRequest) -> bool:
        """Whether the message id is taken in this chat, by whomever."""
        with self._log.database.read() as connection:
            return find_message(connection, request.tenant, request.chat, request.message_id) is not None

    def _reading(self, connection: Connection, request: TurnRequest, seat: Seat, rights: Rights) -> TurnReading:
        now = self._log.clock.now()
        catalog = self._catalog.snapshot(connection, request.tenant)
        view = self.view_of(connection, catalog, request.tenant, request.user, seat.agent, rights)
        live = live_sessions(connection, request.tenant, request.user, request.chat)
        current = [session for session in live if session.expires_at > now]
        own = [session for session in current if session.agent == request.agent and _seen(view, catalog, session)]
        earlier = find_turn(connection, request)
        facts = TurnFacts(
            agent=seat.agent,
            catalog=catalog,
            candidates=view.candidates,
            session=next((session for session in own if session.parked_at is None), None),
            parked=tuple(session for session in own if session.parked_at is not None),
            place_held=any(session.parked_at is None for session in current if session not in own),
            now=now,
        )
        overdue = tuple(session for session in live if session.expires_at <= now)
        return TurnReading(facts, view, seat, overdue, earlier, _reply(connection, request, earlier))


def _seen(view: TurnView, catalog: Catalog[SkillDefinition], session: Session) -> bool:
    """Whether the session's skill exists for this call. A narrow call neither continues nor changes the others."""
    if view.rights.unrestricted and view.agent_filter is EVERYTHING and not view.policies.rules:
        return True
    entry = catalog.get(*session.skill)
    return view.sees(*session.skill, None if entry is None else entry.source)


def _reply(connection: Connection, request: TurnRequest, earlier: TurnRecord | None) -> str | None:
    if earlier is None or earlier.reply_id is None:
        return None
    message = find_message(connection, request.tenant, request.chat, earlier.reply_id)
    return None if message is None else message.text
