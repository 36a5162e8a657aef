"""Agents, conversations and groups: who may enter, and what is made on first use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from prowess.access.filters import EVERYTHING, SkillFilter
from prowess.chat.model import Agent, ChatRef, Conversation, Message, Seat
from prowess.chat.store import (
    find_agent,
    find_conversation,
    insert_agent,
    insert_conversation,
    insert_member,
    is_member,
    latest_conversation,
    list_agents,
    list_conversations,
    list_members,
    list_messages,
    set_design,
)
from prowess.chat.tags import check_tags
from prowess.errors import Conflict, InvalidInput, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.ids import check_id
from prowess.kernel.text import check_text

MAX_PERSONA_TEXT = 8_000
LANGUAGES = ("en", "zh")


class ChatService:
    """The use cases of chat. ``create_missing``: an unknown agent or chat is made on first use (embedded mode)."""

    def __init__(self, log: EventLog, *, create_missing: bool) -> None:
        self._log = log
        self._create_missing = create_missing

    def find_seat(self, connection: Connection, tenant: str, chat: ChatRef, user: str, agent: str) -> Seat:
        """The place of ``user`` in this chat with ``agent``.

        Raises ``NotFound`` (``agent_not_found``, ``chat_not_found``), alike for what is absent and for what belongs to
        somebody else; what is absent is none where it may be made on first use.
        """
        known = find_agent(connection, tenant, agent) is not None
        found = self.agent_for(connection, tenant, user, agent)
        seated = self._is_seated(connection, tenant, chat, user, agent)
        return Seat(found, known and seated)

    def may_use(self, connection: Connection, tenant: str, user: str, agent: str) -> bool:
        """Whether ``user`` may talk to the agent at this moment; one that is absent, where it is made on first use."""
        found = find_agent(connection, tenant, agent)
        return self._create_missing if found is None else found.usable_by(user)

    def check_own(self, connection: Connection, tenant: str, conversation: str, user: str, agent: str) -> None:
        """Raises ``NotFound`` (``chat_not_found``, ``agent_not_found``) for a conversation of somebody else."""
        self.find_seat(connection, tenant, ChatRef("conversation", conversation), user, agent)

    def take_seat(self, transaction: Transaction, tenant: str, chat: ChatRef, user: str, agent: str) -> None:
        """Make what ``find_seat`` found missing.

        Raises ``IntegrityError`` where another turn was faster, ``NotFound`` where what it made is not this user's.
        """
        connection = transaction.connection
        found = find_agent(connection, tenant, agent)
        if found is not None and not found.usable_by(user):
            raise NotFound("agent_not_found", agent=agent)
        if found is None:
            insert_agent(connection, _new_agent(tenant, agent, transaction.now))
            transaction.emit("agent.created", tenant=tenant, actor=SYSTEM, agent=agent)
        single = chat.kind == "conversation"
        conversation = find_conversation(connection, tenant, chat)
        if single and conversation is not None and (conversation.user, conversation.agent) != (user, agent):
            raise NotFound("chat_not_found", kind=chat.kind, id=chat.id)
        if conversation is None:
            insert_conversation(
                connection,
                tenant,
                chat,
                user=user if single else None,
                agent=agent if single else None,
                title="",
                at_ms=transaction.now_ms,
            )
            transaction.emit("conversation.created", tenant=tenant, actor=SYSTEM, user=user, agent=agent, chat=chat)
        if chat.kind == "group":
            self._join(transaction, tenant, chat, user, agent)

    def default_conversation(self, connection: Connection, tenant: str, user: str, agent: str) -> ChatRef | None:
        """Where an agent speaks to a user of its own accord: the conversation they spoke in last (B3)."""
        return latest_conversation(connection, tenant, user, agent)

    def agent_for(self, connection: Connection, tenant: str, user: str, agent: str) -> Agent:
        """The agent that ``user`` may talk to, made on first use. Raises ``NotFound('agent_not_found')``."""
        found = find_agent(connection, tenant, agent)
        if (found is None and not self._create_missing) or (found is not None and not found.usable_by(user)):
            raise NotFound("agent_not_found", agent=agent)
        return found or _new_agent(tenant, agent, self._log.clock.now())

    def create_agent(
        self,
        *,
        actor: Actor,
        tenant: str,
        agent: str,
        name: str | None = None,
        persona: str = "",
        language: str = "en",
        owner: str | None = None,
        skill_filter: SkillFilter = EVERYTHING,
        good_at: Iterable[str] = (),
        not_for: Iterable[str] = (),
    ) -> Agent:
        """A new agent. Raises ``Conflict('agent_exists')``, ``InvalidInput``."""
        check_id(agent, "agent")
        tags = _roles(good_at, not_for)
        if language not in LANGUAGES:
            raise InvalidInput("unknown_language", field="language", known=list(LANGUAGES))
        if persona:
            check_text(persona, "persona", limit=MAX_PERSONA_TEXT)
        try:
            with self._log.transaction(tenant) as transaction:
                shown = name or _display_name(agent)
                made = Agent(tenant, agent, shown, persona, language, owner, transaction.now, skill_filter, *tags)
                insert_agent(transaction.connection, made)
                transaction.emit("agent.created", tenant=tenant, actor=actor, agent=agent, user=owner)
                return made
        except IntegrityError:
            raise Conflict("agent_exists", agent=agent) from None

    def design_agent(
        self,
        *,
        actor: Actor,
        tenant: str,
        agent: str,
        skill_filter: SkillFilter | None = None,
        good_at: Iterable[str] | None = None,
        not_for: Iterable[str] | None = None,
    ) -> Agent:
        """Change which skills an agent is designed with, and which tasks are handed to it; what is null stays.

        From its next turn on. Raises ``NotFound('agent_not_found')``, ``InvalidInput``: ``bad_filter`` for an overlay,
        which is for one call and no design, ``bad_tag``, ``too_many_tags``, ``tag_in_both``, ``design_missing``.
        """
        if skill_filter is None and good_at is None and not_for is None:
            raise InvalidInput("design_missing", field="filter")
        if skill_filter is not None and (skill_filter.kind in ("enable", "disable") or skill_filter.base is not None):
            raise InvalidInput("bad_filter", field="filter", known=["all", "none", "only", "except"])
        with self._log.transaction(tenant) as transaction:
            known = find_agent(transaction.connection, tenant, agent)
            if known is None:
                raise NotFound("agent_not_found", agent=agent)
            tags = _roles(known.good_at if good_at is None else good_at, known.not_for if not_for is None else not_for)
            set_design(transaction.connection, tenant, agent, skill_filter, *tags)
            changed: dict[str, Any] = {} if skill_filter is None else {"filter": skill_filter.to_json()}
            if good_at is not None or not_for is not None:
                changed |= {"good_at": list(tags[0]), "not_for": list(tags[1])}
            transaction.emit("agent.designed", tenant=tenant, actor=actor, agent=agent, **changed)
            return replace(known, skill_filter=skill_filter or known.skill_filter, good_at=tags[0], not_for=tags[1])

    def agents_of(self, tenant: str, group: str, user: str) -> list[str]:
        """The agents of a group that ``user`` belongs to. Raises ``NotFound('chat_not_found')``."""
        with self._log.database.read() as connection:
            if not is_member(connection, tenant, group, "user", user):
                raise NotFound("chat_not_found", kind="group", id=group)
            return list_members(connection, tenant, group, "agent")

    def require_agent(self, tenant: str, agent: str, user: str) -> Agent:
        """An agent that ``user`` may talk to. Raises ``NotFound('agent_not_found')``."""
        with self._log.database.read() as connection:
            found = find_agent(connection, tenant, agent)
        if found is None or not found.usable_by(user):
            raise NotFound("agent_not_found", agent=agent)
        return found

    def agents(self, tenant: str) -> list[Agent]:
        """The tenant's agents."""
        with self._log.database.read() as connection:
            return list_agents(connection, tenant)

    def conversations(self, tenant: str, user: str) -> list[Conversation]:
        """The user's conversations, the latest first."""
        with self._log.database.read() as connection:
            return list_conversations(connection, tenant, user)

    def messages(self, tenant: str, chat: ChatRef, *, user: str | None = None, limit: int = 100) -> list[Message]:
        """The latest messages, oldest first; with ``user``, only of a chat that is theirs (``chat_not_found``)."""
        with self._log.database.read() as connection:
            conversation = find_conversation(connection, tenant, chat)
            if conversation is None or (user is not None and not _may_read(connection, conversation, user)):
                raise NotFound("chat_not_found", kind=chat.kind, id=chat.id)
            return list_messages(connection, tenant, chat, limit=limit)

    def _is_seated(self, connection: Connection, tenant: str, chat: ChatRef, user: str, agent: str) -> bool:
        conversation = find_conversation(connection, tenant, chat)
        seated = False
        if conversation is not None and chat.kind == "group":
            seated = all(is_member(connection, tenant, chat.id, *member) for member in _members(user, agent))
        elif conversation is not None:
            seated = (conversation.user, conversation.agent) == (user, agent)
        somebody_elses = conversation is not None and chat.kind == "conversation" and not seated
        if somebody_elses or (not seated and not self._create_missing):
            raise NotFound("chat_not_found", kind=chat.kind, id=chat.id)
        return seated

    @staticmethod
    def _join(transaction: Transaction, tenant: str, chat: ChatRef, user: str, agent: str) -> None:
        for kind, member in _members(user, agent):
            if not is_member(transaction.connection, tenant, chat.id, kind, member):
                insert_member(transaction.connection, tenant, chat.id, kind, member, transaction.now_ms)
                transaction.emit(
                    "group.member_added", tenant=tenant, actor=SYSTEM, chat=chat, target=member, member_kind=kind
                )


def _members(user: str, agent: str) -> tuple[tuple[str, str], ...]:
    return (("user", user), ("agent", agent))


def _roles(good_at: Iterable[str], not_for: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    good, bad = check_tags(good_at, "good_at"), check_tags(not_for, "not_for")
    both = set(good).intersection(bad)
    if both:
        raise InvalidInput("tag_in_both", field="not_for", tag=min(both))
    return good, bad


def _new_agent(tenant: str, agent: str, now: datetime) -> Agent:
    return Agent(tenant, agent, _display_name(agent), "", "en", None, now)


def _display_name(agent: str) -> str:
    return agent[:1].upper() + agent[1:]


def _may_read(connection: Connection, conversation: Conversation, user: str) -> bool:
    if conversation.ref.kind == "group":
        return is_member(connection, conversation.tenant, conversation.ref.id, "user", user)
    return conversation.user == user
