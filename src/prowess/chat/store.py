"""Tables and queries of agents, conversations and messages."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Index,
    Integer,
    Row,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    func,
    insert,
    select,
    update,
)

from prowess.access.filters import EVERYTHING, NOTHING, SkillFilter, stored_filter
from prowess.chat.model import Agent, ChatRef, Conversation, Message
from prowess.db.metadata import BigIntKey, instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

agents = Table(
    "agents",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("persona", Text, nullable=False),
    Column("language", Text, nullable=False),
    Column("owner", Text),
    Column("skill_filter", Text),
    instant("created_at"),
    Column("good_at", Text),
    Column("not_for", Text),
)

conversations = Table(
    "conversations",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("user_id", Text),
    Column("agent_id", Text),
    Column("title", Text, nullable=False),
    Column("message_count", Integer, nullable=False),
    instant("last_message_at", nullable=True),
    Column("last_reply_id", Text),
    instant("created_at"),
    Index("ix_conversations_user", "tenant", "user_id"),
    sqlite_with_rowid=False,
)

group_members = Table(
    "group_members",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("group_id", Text, primary_key=True),
    Column("member_kind", Text, primary_key=True),
    Column("member_id", Text, primary_key=True),
    instant("joined_at"),
)

messages = Table(
    "messages",
    metadata,
    Column("seq", BigIntKey, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("chat_kind", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("author_kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("reply_to", Text),
    Column("run_id", Text),
    Column("session_id", Text),
    instant("created_at"),
    UniqueConstraint("tenant", "chat_kind", "chat_id", "id"),
)

_AGENT = Statement(select(agents).where(agents.c.tenant == bindparam("tenant"), agents.c.id == bindparam("agent")))
_CONVERSATION = Statement(
    select(conversations).where(
        conversations.c.tenant == bindparam("tenant"),
        conversations.c.kind == bindparam("kind"),
        conversations.c.id == bindparam("chat"),
    )
)
_MESSAGE = Statement(
    select(messages).where(
        messages.c.tenant == bindparam("tenant"),
        messages.c.chat_kind == bindparam("kind"),
        messages.c.chat_id == bindparam("chat"),
        messages.c.id == bindparam("message"),
    )
)
_CHAT_ROW = update(conversations).where(
    conversations.c.tenant == bindparam("of_tenant"),
    conversations.c.kind == bindparam("of_kind"),
    conversations.c.id == bindparam("of_chat"),
)
_COUNTED = {"message_count": conversations.c.message_count + 1, "last_message_at": bindparam("at")}
_COUNT_MESSAGE = Statement(_CHAT_ROW.values(**_COUNTED))
_COUNT_REPLY = Statement(_CHAT_ROW.values(**_COUNTED, last_reply_id=bindparam("reply")))
_OF_CHAT = (
    (messages.c.tenant == conversations.c.tenant)
    & (messages.c.chat_kind == conversations.c.kind)
    & (messages.c.chat_id == conversations.c.id)
)
_LAST_REPLY = (
    select(messages.c.id).where(_OF_CHAT, messages.c.author_kind == "agent").order_by(messages.c.seq.desc()).limit(1)
)
_RECOUNT = _CHAT_ROW.values(
    message_count=select(func.count()).select_from(messages).where(_OF_CHAT).scalar_subquery(),
    last_message_at=select(func.max(messages.c.created_at)).where(_OF_CHAT).scalar_subquery(),
    last_reply_id=_LAST_REPLY.scalar_subquery(),
)
_LOCK_CHAT = (
    select(conversations.c.id)
    .where(
        conversations.c.tenant == bindparam("of_tenant"),
        conversations.c.kind == bindparam("of_kind"),
        conversations.c.id == bindparam("of_chat"),
    )
    .with_for_update()
)
MESSAGE_COLUMNS = tuple(column.name for column in messages.columns if column.name != "seq")
_INSERT_MESSAGE = Statement(insert(messages).inline(), MESSAGE_COLUMNS)
_INSERT_CONVERSATION = Statement(insert(conversations).inline())
_INSERT_MEMBER = Statement(insert(group_members).inline())
_INSERT_AGENT = Statement(insert(agents).inline())
_MEMBER = Statement(
    select(group_members.c.member_id).where(
        group_members.c.tenant == bindparam("tenant"),
        group_members.c.group_id == bindparam("group"),
        group_members.c.member_kind == bindparam("kind"),
        group_members.c.member_id == bindparam("member"),
    )
)


def find_agent(connection: Connection, tenant: str, agent: str) -> Agent | None:
    """The agent, or none."""
    row = _AGENT.first(connection, {"tenant": tenant, "agent": agent})
    return None if row is None else _to_agent(row)


def list_agents(connection: Connection, tenant: str) -> list[Agent]:
    """The tenant's agents by id."""
    query = select(agents).where(agents.c.tenant == tenant).order_by(agents.c.id)
    return [_to_agent(row) for row in connection.execute(query)]


def insert_agent(connection: Connection, agent: Agent) -> None:
    """Store a new agent; raises ``IntegrityError`` where the id is taken."""
    row = {
        "tenant": agent.tenant,
        "id": agent.id,
        "name": agent.name,
        "persona": agent.persona,
        "language": agent.language,
        "owner": agent.owner,
        "skill_filter": _filter_column(agent.skill_filter),
        "created_at": to_ms(agent.created_at),
        "good_at": _tags_column(agent.good_at),
        "not_for": _tags_column(agent.not_for),
    }
    _INSERT_AGENT.run(connection, row)


def set_design(
    connection: Connection,
    tenant: str,
    agent: str,
    skill_filter: SkillFilter | None,
    good_at: tuple[str, ...],
    not_for: tuple[str, ...],
) -> bool:
    """Change what an agent is designed with; a null filter stays. False where there is no such agent."""
    values = {"good_at": _tags_column(good_at), "not_for": _tags_column(not_for)}
    if skill_filter is not None:
        values["skill_filter"] = _filter_column(skill_filter)
    statement = update(agents).where(agents.c.tenant == tenant, agents.c.id == agent)
    return connection.execute(statement.values(**values)).rowcount == 1


def list_members(connection: Connection, tenant: str, group: str, kind: str) -> list[str]:
    """The ``user`` or ``agent`` members of a group, in the order in which they joined."""
    query = (
        select(group_members.c.member_id)
        .where(
            group_members.c.tenant == tenant,
            group_members.c.group_id == group,
            group_members.c.member_kind == kind,
        )
        .order_by(group_members.c.joined_at, group_members.c.member_id)
    )
    return [row.member_id for row in connection.execute(query)]


def find_conversation(connection: Connection, tenant: str, ref: ChatRef) -> Conversation | None:
    """The conversation or group, or none."""
    row = _CONVERSATION.first(connection, {"tenant": tenant, "kind": ref.kind, "chat": ref.id})
    return None if row is None else _to_conversation(row)


def latest_conversation(connection: Connection, tenant: str, user: str, agent: str) -> ChatRef | None:
    """The conversation of the two that was spoken in last; null where they have none."""
    query = (
        select(conversations.c.id)
        .where(
            conversations.c.tenant == tenant,
            conversations.c.user_id == user,
            conversations.c.agent_id == agent,
            conversations.c.kind == "conversation",
        )
        .order_by(func.coalesce(conversations.c.last_message_at, conversations.c.created_at).desc(), conversations.c.id)
        .limit(1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else ChatRef("conversation", found)


def list_conversations(connection: Connection, tenant: str, user: str) -> list[Conversation]:
    """The user's conversations, the latest first."""
    query = (
        select(conversations)
        .where(conversations.c.tenant == tenant, conversations.c.user_id == user)
        .order_by(conversations.c.last_message_at.desc(), conversations.c.id)
    )
    return [_to_conversation(row) for row in connection.execute(query)]


def insert_conversation(
    connection: Connection, tenant: str, ref: ChatRef, *, user: str | None, agent: str | None, title: str, at_ms: int
) -> None:
    """Store a new conversation or group; raises ``IntegrityError`` where the id is taken."""
    row = {
        "tenant": tenant,
        "kind": ref.kind,
        "id": ref.id,
        "user_id": user,
        "agent_id": agent,
        "title": title,
        "message_count": 0,
        "created_at": at_ms,
    }
    _INSERT_CONVERSATION.run(connection, row)


def is_member(connection: Connection, tenant: str, group: str, kind: str, member: str) -> bool:
    """Whether a ``user`` or ``agent`` belongs to the group."""
    values = {"tenant": tenant, "group": group, "kind": kind, "member": member}
    return _MEMBER.first(connection, values) is not None


def insert_member(connection: Connection, tenant: str, group: str, kind: str, member: str, at_ms: int) -> None:
    """Add a member; raises ``IntegrityError`` where it is one already."""
    row = {"tenant": tenant, "group_id": group, "member_kind": kind, "member_id": member, "joined_at": at_ms}
    _INSERT_MEMBER.run(connection, row)


def find_message(connection: Connection, tenant: str, ref: ChatRef, message_id: str) -> Message | None:
    """One message, or none."""
    values = {"tenant": tenant, "kind": ref.kind, "chat": ref.id, "message": message_id}
    row = _MESSAGE.first(connection, values)
    return None if row is None else _to_message(row)


def insert_message(connection: Connection, tenant: str, message: Message) -> None:
    """Store a message and count it; raises ``IntegrityError`` where its id is taken in this chat (ruling 12.26)."""
    row = dict(zip(MESSAGE_COLUMNS, message_row(tenant, message), strict=True))
    # Counted first: that locks the conversation, so that the order of its messages is the order of its last replies.
    where = {"of_tenant": tenant, "of_kind": message.chat.kind, "of_chat": message.chat.id, "at": row["created_at"]}
    if message.author_kind == "agent":
        _COUNT_REPLY.run(connection, where | {"reply": message.id})
    else:
        _COUNT_MESSAGE.run(connection, where)
    _INSERT_MESSAGE.run(connection, row)


def recount(connection: Connection, tenant: str, chat: ChatRef) -> None:
    """Set a conversation's counters to what is stored: number of messages, time of the last, last reply (B8)."""
    where = {"of_tenant": tenant, "of_kind": chat.kind, "of_chat": chat.id}
    connection.execute(_LOCK_CHAT, where)  # a statement of its own: the count must see what its holder committed
    connection.execute(_RECOUNT, where)


def list_messages(
    connection: Connection, tenant: str, ref: ChatRef, *, limit: int, before_seq: int | None = None
) -> list[Message]:
    """The latest ``limit`` messages, oldest first."""
    query = select(messages).where(
        messages.c.tenant == tenant, messages.c.chat_kind == ref.kind, messages.c.chat_id == ref.id
    )
    if before_seq is not None:
        query = query.where(messages.c.seq < before_seq)
    rows = connection.execute(query.order_by(messages.c.seq.desc()).limit(limit)).all()
    return [_to_message(row) for row in reversed(rows)]


def message_row(tenant: str, message: Message) -> tuple[Any, ...]:
    """In the order of ``MESSAGE_COLUMNS``."""
    kind, chat_id = message.chat
    return (
        tenant,
        kind,
        chat_id,
        message.id,
        message.author_kind,
        message.author,
        message.text,
        message.reply_to,
        message.run_id,
        message.session_id,
        to_ms(message.created_at),
    )


def _to_agent(row: Row[Any]) -> Agent:
    return Agent(
        tenant=row.tenant,
        id=row.id,
        name=row.name,
        persona=row.persona,
        language=row.language,
        owner=row.owner,
        created_at=from_ms(row.created_at),
        skill_filter=EVERYTHING if row.skill_filter is None else _filter(row.skill_filter),
        good_at=_tags(row.good_at),
        not_for=_tags(row.not_for),
    )


def _tags_column(tags: tuple[str, ...]) -> str | None:
    return compact_json(tags) if tags else None


def _tags(stored: str | None) -> tuple[str, ...]:
    return () if stored is None else tuple(map(str, json.loads(stored)))


def _filter_column(skill_filter: SkillFilter) -> str | None:
    return None if skill_filter is EVERYTHING else compact_json(skill_filter.to_json())


def _filter(stored: str) -> SkillFilter:
    try:
        return stored_filter(json.loads(stored))
    except ValueError:
        return NOTHING


def _to_conversation(row: Row[Any]) -> Conversation:
    return Conversation(
        tenant=row.tenant,
        ref=ChatRef(row.kind, row.id),
        user=row.user_id,
        agent=row.agent_id,
        title=row.title,
        message_count=row.message_count,
        last_message_at=None if row.last_message_at is None else from_ms(row.last_message_at),
        created_at=from_ms(row.created_at),
    )


def _to_message(row: Row[Any]) -> Message:
    return Message(
        id=row.id,
        chat=ChatRef(row.chat_kind, row.chat_id),
        author_kind=row.author_kind,
        author=row.author,
        text=row.text,
        reply_to=row.reply_to,
        run_id=row.run_id,
        session_id=row.session_id,
        created_at=from_ms(row.created_at),
    )
