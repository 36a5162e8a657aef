"""Agents, conversations and groups."""

from __future__ import annotations

from prowess.access.filters import EVERYTHING, SkillFilter
from prowess.chat.model import Agent, ChatRef, Conversation, Message
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT


class Chats(Facade):
    """Agents, conversations and groups."""

    def create_agent(
        self,
        agent: str,
        *,
        name: str | None = None,
        persona: str = "",
        language: str = "en",
        owner: str | None = None,
        skill_filter: SkillFilter = EVERYTHING,
        tenant: str = DEFAULT_TENANT,
    ) -> Agent:
        """A new agent; ``owner`` null: it is the tenant's. Raises ``Conflict('agent_exists')``."""
        return self._parts.chat.create_agent(
            actor=OPERATOR,
            tenant=tenant,
            agent=agent,
            name=name,
            persona=persona,
            language=language,
            owner=owner,
            skill_filter=skill_filter,
        )

    def design_agent(self, agent: str, skill_filter: SkillFilter, *, tenant: str = DEFAULT_TENANT) -> None:
        """Change which skills an agent is designed with, from its next turn on.

        Raises ``NotFound('agent_not_found')``, and ``InvalidInput('bad_filter')`` for an overlay, which is for one
        call.
        """
        self._parts.chat.design_agent(actor=OPERATOR, tenant=tenant, agent=agent, skill_filter=skill_filter)

    def agents(self, *, tenant: str = DEFAULT_TENANT) -> list[Agent]:
        """The tenant's agents."""
        return self._parts.chat.agents(tenant)

    def conversations(self, *, user: str, tenant: str = DEFAULT_TENANT) -> list[Conversation]:
        """The user's conversations, the latest first."""
        return self._parts.chat.conversations(tenant, user)

    def messages(
        self,
        conversation: str | None = None,
        *,
        group: str | None = None,
        user: str | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Message]:
        """The latest messages of a conversation or group, oldest first; with ``user``, only where it is theirs."""
        chat = ChatRef("conversation", conversation or "") if group is None else ChatRef("group", group)
        return self._parts.chat.messages(tenant, chat, user=user, limit=limit)
