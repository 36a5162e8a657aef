"""Agents, conversations and groups."""

from __future__ import annotations

from collections.abc import Iterable

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
        good_at: Iterable[str] = (),
        not_for: Iterable[str] = (),
        tenant: str = DEFAULT_TENANT,
    ) -> Agent:
        """A new agent; ``owner`` null: it is the tenant's.

        ``good_at``, ``not_for``: tags by which tasks are handed to it or never are (B17). Raises
        ``Conflict('agent_exists')``, ``InvalidInput`` (``bad_tag``, ``too_many_tags``, ``tag_in_both``).
        """
        return self._parts.chat.create_agent(
            actor=OPERATOR,
            tenant=tenant,
            agent=agent,
            name=name,
            persona=persona,
            language=language,
            owner=owner,
            skill_filter=skill_filter,
            good_at=good_at,
            not_for=not_for,
        )

    def design_agent(
        self,
        agent: str,
        skill_filter: SkillFilter | None = None,
        *,
        good_at: Iterable[str] | None = None,
        not_for: Iterable[str] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Agent:
        """Change an agent's skills or the tags of its tasks, from its next turn on; what is null stays.

        Raises ``NotFound('agent_not_found')``, ``InvalidInput``: ``bad_filter`` for an overlay, which is for one call,
        ``bad_tag``, ``too_many_tags``, ``tag_in_both``, ``design_missing``.
        """
        return self._parts.chat.design_agent(
            actor=OPERATOR, tenant=tenant, agent=agent, skill_filter=skill_filter, good_at=good_at, not_for=not_for
        )

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
