"""Reading what a turn needs to know, in one consistent view."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from prowess.chat.model import Seat
from prowess.chat.service import ChatService
from prowess.chat.store import find_message
from prowess.events.log import EventLog
from prowess.skills.bindings import bound_entries
from prowess.skills.catalog import CatalogService
from prowess.skills.store import bindings_for
from prowess.turns.definitions import SkillDefinition
from prowess.turns.executor import TurnFacts
from prowess.turns.request import TurnRequest
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.store import live_sessions
from prowess.turns.store import TurnRecord, find_turn


@dataclass(frozen=True, slots=True)
class TurnReading:
    """The facts, and what this very message came to before."""

    facts: TurnFacts
    seat: Seat
    overdue: tuple[Session, ...]
    """sessions of this chat whose time has passed; to be marked before anything else (W7)"""
    earlier: TurnRecord | None
    earlier_reply: str | None


class FactReader:
    """Reads; writes nothing."""

    def __init__(self, log: EventLog, chat: ChatService, catalog: CatalogService[SkillDefinition]) -> None:
        self._log = log
        self._chat = chat
        self._catalog = catalog

    def read(self, request: TurnRequest) -> TurnReading:
        """Raises ``NotFound`` (``agent_not_found``, ``chat_not_found``)."""
        with self._log.database.read() as connection:
            seat = self._chat.find_seat(connection, request.tenant, request.chat, request.user, request.agent)
            return self._reading(connection, request, seat)

    def message_exists(self, request: TurnRequest) -> bool:
        """Whether the message id is taken in this chat, by whomever."""
        with self._log.database.read() as connection:
            return find_message(connection, request.tenant, request.chat, request.message_id) is not None

    def _reading(self, connection: Connection, request: TurnRequest, seat: Seat) -> TurnReading:
        now = self._log.clock.now()
        catalog = self._catalog.snapshot(connection, request.tenant)
        bindings = bindings_for(connection, request.tenant, request.user, request.agent)
        live = live_sessions(connection, request.tenant, request.user, request.chat)
        current = [session for session in live if session.expires_at > now]
        own = [session for session in current if session.agent == request.agent]
        earlier = find_turn(connection, request)
        facts = TurnFacts(
            agent=seat.agent,
            catalog=catalog,
            candidates=bound_entries(catalog, bindings),
            session=next((session for session in own if session.parked_at is None), None),
            parked=tuple(session for session in own if session.parked_at is not None),
            place_held=any(session.parked_at is None for session in current if session.agent != request.agent),
            now=now,
        )
        overdue = tuple(session for session in live if session.expires_at <= now)
        return TurnReading(facts, seat, overdue, earlier, _reply(connection, request, earlier))


def _reply(connection: Connection, request: TurnRequest, earlier: TurnRecord | None) -> str | None:
    if earlier is None or earlier.reply_id is None:
        return None
    message = find_message(connection, request.tenant, request.chat, earlier.reply_id)
    return None if message is None else message.text
