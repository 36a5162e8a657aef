"""Handing tasks to other agents, looking at them, and stopping a turn with all that came of it (B17, U10)."""

from __future__ import annotations

from collections.abc import Iterable

from prowess.access.approvals.model import TurnKey
from prowess.automation.delegation.model import Delegation, Stopped, TaskGraph
from prowess.automation.delegation.stopping import LIMIT_SECONDS
from prowess.chat.model import ChatRef
from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.plan import TurnPlan

MAX_WAIT_SECONDS = 600.0


class Delegations(Facade):
    """Handing tasks to other agents, looking at them, and stopping a turn with all that came of it (B17, U10)."""

    def delegate(
        self,
        plan: TurnPlan,
        text: str,
        *,
        agent: str | None = None,
        needs: Iterable[str] = (),
        message_id: str | None = None,
    ) -> Delegation:
        """Hand a task of this turn to another agent, and wait for its reply.

        ``agent`` null: the one that is good at most of ``needs``. ``message_id``: said again, it is the same task. The
        delegate has at most the rights of the turn; its reply is in ``reply``, how it went in ``status``. Raises
        ``NotFound`` (``agent_not_found``, ``no_agent_for``), ``Denied('delegation_loop')``,
        ``LimitExceeded('delegation_depth')``, ``Conflict`` (``turn_stopped``, ``message_id_reused``), ``InvalidInput``.
        """
        return self._parts.delegation.delegate(plan, text, agent=agent, needs=needs, message_id=message_id)

    def tasks(self, *, user: str | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT) -> list[Delegation]:
        """What agents handed to each other, the latest first; of all users where none is given."""
        return self._parts.delegation.list(tenant, user=user, limit=limit)

    def task_graph(
        self,
        message_id: str,
        *,
        agent: str,
        conversation: str | None = None,
        group: str | None = None,
        user: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> TaskGraph:
        """The whole task that a turn belongs to: who handed what to whom, and the trigger that began it.

        ``user``: only of theirs. Raises ``NotFound('turn_not_found')``, ``InvalidInput`` (``scope_missing``,
        ``bad_id``).
        """
        return self._parts.delegation.graph(_key(tenant, message_id, agent, conversation, group), user)

    def stop_turn(
        self,
        *,
        user: str | None,
        message_id: str,
        agent: str,
        conversation: str | None = None,
        group: str | None = None,
        limit: float = LIMIT_SECONDS,
        tenant: str = DEFAULT_TENANT,
    ) -> Stopped:
        """Stop a turn: its voice, tools, delegates, waiting approvals and jobs; and say when all are down (U10).

        ``user``: whose turn it must be; null: the operator, who may stop any. ``limit``: seconds to wait for what runs,
        0 to 600. Raises ``NotFound('turn_not_found')``, ``InvalidInput`` (``scope_missing``, ``bad_id``,
        ``bad_stop_limit``).
        """
        if not 0 <= limit <= MAX_WAIT_SECONDS:
            raise InvalidInput("bad_stop_limit", field="limit", limit=int(MAX_WAIT_SECONDS))
        actor = OPERATOR if user is None else Actor("user", check_id(user, "user"))
        key = _key(tenant, message_id, agent, conversation, group)
        return self._parts.stopping.stop(key, actor=actor, user=user, limit=limit)


def _key(tenant: str, message_id: str, agent: str, conversation: str | None, group: str | None) -> TurnKey:
    if (conversation is None) == (group is None):
        raise InvalidInput("scope_missing", field="conversation")
    chat = ChatRef("group", group) if group is not None else ChatRef("conversation", conversation or "")
    check_id(chat.id, chat.kind)
    return TurnKey(tenant, chat, check_id(message_id, "message_id"), check_id(agent, "agent"))
