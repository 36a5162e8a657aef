"""Agents handing tasks to agents (B17).

A handed-over task is an ordinary turn of the same user with another agent, in a conversation of its own: the same
entry, gate and log. The delegate has at most the rights of the turn that handed it over, whoever is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError

from prowess.access.approvals.model import TurnKey
from prowess.automation.delegation.model import MAX_DEPTH, OPEN, Delegation, TaskEdge, TaskGraph, TaskNode, TaskStatus
from prowess.automation.delegation.routing import route
from prowess.automation.delegation.store import (
    change_delegation,
    delegation_to,
    delegations_under,
    find_delegation,
    insert_delegation,
    list_delegations,
    root_of,
)
from prowess.chat.service import ChatService
from prowess.chat.tags import check_tags
from prowess.errors import Conflict, Denied, InvalidInput, LimitExceeded, NotFound, ProwessError
from prowess.events.followers import Follower
from prowess.events.log import EventLog, Transaction, events
from prowess.events.model import SYSTEM, Actor, DecisionWord, Event
from prowess.kernel.canonical import digest
from prowess.kernel.clock import from_ms
from prowess.kernel.ids import IdSource, check_id
from prowess.turns.engine import TurnEngine
from prowess.turns.fencing import hold
from prowess.turns.options import CallOptions
from prowess.turns.plan import TurnPlan
from prowess.turns.request import AGENT_PREFIX, TRIGGER_PREFIX, TurnRequest, TurnResult
from prowess.turns.runs import RunStatus, runs_of_turn
from prowess.turns.stopped import hold_unstopped, is_stopped
from prowess.turns.stopping import STOPPED, turn_key
from prowess.turns.store import stored_turn
from prowess.turns.suspended import find_suspended

FOLLOWER = "delegations"
_LOST = "lease_lost"
_CONCERNING = (
    (events.c.type == "turn.continued")
    & (events.c.chat_kind == "conversation")
    & (events.c.chat_id == events.c.message_id)
)
"""that a delegate's turn went on: its conversation has the id of its only message"""
_WORDS: dict[TaskStatus, DecisionWord] = {
    TaskStatus.COMPLETED: "succeeded",
    TaskStatus.FAILED: "failed",
    TaskStatus.STOPPED: "cancelled",
}


class DelegationService:
    """The use cases of handing over."""

    def __init__(self, log: EventLog, ids: IdSource, chat: ChatService, engine: TurnEngine) -> None:
        self._log = log
        self._ids = ids
        self._chat = chat
        self._engine = engine
        self._follower = Follower(log, FOLLOWER, self._handle, only=_CONCERNING)

    def delegate(
        self,
        plan: TurnPlan,
        text: str,
        *,
        agent: str | None = None,
        needs: Iterable[str] = (),
        message_id: str | None = None,
    ) -> Delegation:
        """Hand a task to another agent and wait for what it says.

        ``agent`` null: the one that is good at most of ``needs``. ``message_id``: an id of the caller's own, so that
        the same handing-over said again is the same task. What the delegate's turn came to is in the status: an error
        of its voice is no exception here. Raises ``NotFound`` (``agent_not_found``, ``no_agent_for``),
        ``Denied('delegation_loop')``, ``LimitExceeded('delegation_depth')``, ``Conflict`` (``turn_stopped``,
        ``message_id_reused``), ``InvalidInput`` (``needs_missing``, ``bad_tag``, and as for any turn).
        """
        tags, task = check_tags(needs, "needs"), self._task_id(plan, message_id)
        with self._log.database.read() as connection:
            known = find_delegation(connection, plan.request.tenant, task)
        receiver = self._receiver(plan, agent, tags) if known is None else agent or known.agent
        request = _request(plan.request, text, receiver, task)
        made = self._record(plan, request, tags)
        if made.child != turn_key(request):
            raise Conflict("message_id_reused", field="message_id")
        try:
            result = self._engine.turn(request, CallOptions(parent=plan, fence=plan.fence))
        except ProwessError as error:
            if error.code in (_LOST, "message_id_reused"):
                raise
            status = TaskStatus.STOPPED if error.code == STOPPED else TaskStatus.FAILED
            return self._end(made, status, error.code)
        status, code = self._outcome(made, result)
        return replace(self._end(made, status, code), reply=result.reply)

    def graph(self, turn: TurnKey, user: str | None = None) -> TaskGraph:
        """The whole task that a turn belongs to. ``user``: only of theirs. Raises ``NotFound('turn_not_found')``."""
        with self._log.database.read() as connection:
            root = root_of(connection, turn)
            stored = stored_turn(connection, root)
            if stored is None or user not in (None, stored.user):
                raise NotFound("turn_not_found", message_id=turn.message_id)
            handed = delegations_under(connection, root)
            stopped = is_stopped(connection, root)
            waiting = find_suspended(connection, root, self._log.clock.now()) is not None
        status = "stopped" if stopped else "waiting" if waiting else "completed" if stored.finished else "running"
        nodes = [TaskNode(root.message_id, "turn", root.agent, root.chat, status)]
        edges: list[TaskEdge] = []
        if stored.origin.startswith(TRIGGER_PREFIX):
            trigger = stored.origin.removeprefix(TRIGGER_PREFIX)
            nodes.insert(0, TaskNode(trigger, "trigger", None, None, "fired"))
            edges.append(TaskEdge(trigger, root.message_id, "triggered"))
        for item in handed:
            nodes.append(TaskNode(item.id, "turn", item.agent, item.child.chat, str(item.status), item.error_code))
            edges.append(TaskEdge(item.parent.message_id, item.id, "delegated"))
        return TaskGraph(root.message_id, tuple(nodes), tuple(edges))

    def list(self, tenant: str, *, user: str | None = None, limit: int = 100) -> list[Delegation]:
        """What was handed over, the latest first; with ``user``, of theirs."""
        with self._log.database.read() as connection:
            return list_delegations(connection, tenant, user=user, limit=max(1, min(limit, 10_000)))

    def look_after(self) -> datetime | None:
        """End tasks that waited for a person and went on since; a duty of the worker."""
        self._follower.catch_up()
        return None

    def _receiver(self, plan: TurnPlan, agent: str | None, needs: Sequence[str]) -> str:
        request = plan.request
        above = (*plan.view.rights.above, request.agent)
        if len(above) > MAX_DEPTH:
            raise LimitExceeded("delegation_depth", limit=MAX_DEPTH)
        if agent is None:
            if not needs:
                raise InvalidInput("needs_missing", field="needs")
            return route(needs, self._chat.agents(request.tenant), user=request.user, above=above)
        if check_id(agent, "agent") in above:
            raise Denied("delegation_loop", agent=agent)
        return self._chat.require_agent(request.tenant, agent, request.user).id

    def _task_id(self, plan: TurnPlan, message_id: str | None) -> str:
        if message_id is None:
            return self._ids.new("task")
        given, parent = check_id(message_id, "message_id"), plan.request
        return f"task-{digest([parent.tenant, list(parent.chat), parent.message_id, parent.agent, given])[-40:]}"

    def _record(self, plan: TurnPlan, request: TurnRequest, needs: tuple[str, ...]) -> Delegation:
        """The row of the task, made where there is none."""
        try:
            return self._insert(plan, request, needs)
        except IntegrityError:  # the same was handed over at the same moment
            return self._insert(plan, request, needs)

    def _insert(self, plan: TurnPlan, request: TurnRequest, needs: tuple[str, ...]) -> Delegation:
        parent = turn_key(plan.request)
        with self._log.transaction(request.tenant) as transaction:
            connection = transaction.connection
            known = find_delegation(connection, request.tenant, request.message_id)
            if known is not None:
                return known
            hold(plan.fence, connection)
            hold_unstopped(connection, parent)
            above = delegation_to(connection, parent)
            made = Delegation(
                id=request.message_id,
                user=request.user,
                parent=parent,
                child=turn_key(request),
                root=parent if above is None else above.root,
                depth=1 if above is None else above.depth + 1,
                needs=needs,
                status=TaskStatus.RUNNING,
                error_code=None,
                created_at=from_ms(transaction.now_ms),
                finished_at=None,
            )
            insert_delegation(connection, made)
            emit_task(transaction, "task.delegated", made, Actor("agent", parent.agent), "allowed", needs=list(needs))
        return made

    def _outcome(self, made: Delegation, result: TurnResult) -> tuple[TaskStatus, str | None]:
        with self._log.database.read() as connection:
            if is_stopped(connection, made.child):
                return TaskStatus.STOPPED, "stopped"
            if find_suspended(connection, made.child, self._log.clock.now()) is not None:
                return TaskStatus.WAITING, None
        run = result.run
        if run is not None and run.status in (RunStatus.FAILED, RunStatus.DENIED):
            return TaskStatus.FAILED, "turn_failed" if result.decision is None else result.decision.reason
        return TaskStatus.COMPLETED, None

    def _end(self, made: Delegation, status: TaskStatus, code: str | None) -> Delegation:
        """Record how it ended, once; returns it as it stands."""
        with self._log.transaction(made.child.tenant) as transaction:
            end_task(transaction, made, status, code)
            found = find_delegation(transaction.connection, made.child.tenant, made.id)
        return found or made

    def _handle(self, transaction: Transaction, found: Sequence[Event]) -> None:
        for event in found:
            made = find_delegation(transaction.connection, event.tenant, event.message_id or "")
            if made is None or made.status is not TaskStatus.WAITING:
                continue
            if find_suspended(transaction.connection, made.child, transaction.now) is None:
                end_task(transaction, made, *self._continued(transaction, made.child))

    @staticmethod
    def _continued(transaction: Transaction, child: TurnKey) -> tuple[TaskStatus, str | None]:
        for status, code in runs_of_turn(transaction.connection, child):
            if status in (RunStatus.FAILED, RunStatus.DENIED):
                return TaskStatus.FAILED, code
        return TaskStatus.COMPLETED, None


def _request(parent: TurnRequest, text: str, agent: str, task: str) -> TurnRequest:
    """The delegate's turn. Raises ``InvalidInput`` for what cannot be one."""
    origin = f"{AGENT_PREFIX}{parent.agent}"
    request = TurnRequest(parent.tenant, parent.user, agent, text, task, conversation=task, origin=origin)
    request.check()
    return request


def end_task(transaction: Transaction, made: Delegation, status: TaskStatus, code: str | None) -> bool:
    """Record how a task stands now; false where it had ended. That it has ended is an event.

    One that failed may be tried again, as any message that got no reply.
    """
    before = OPEN if status is TaskStatus.FAILED else (*OPEN, TaskStatus.FAILED)
    if not change_delegation(transaction.connection, made.id, status, code, transaction.now_ms, before=before):
        return False
    if status not in OPEN:
        actor = Actor("agent", made.agent)
        emit_task(
            transaction, "task.completed_by_peer", made, actor, _WORDS[status], status=str(status), error_code=code
        )
    return True


def emit_task(
    transaction: Transaction,
    kind: str,
    made: Delegation,
    actor: Actor = SYSTEM,
    decision: str | None = None,
    **data: Any,
) -> None:
    """An event of a task: where the delegate works, and for whom; ids alone (R3)."""
    said = {name: value for name, value in data.items() if value not in (None, [])}
    transaction.emit(
        kind,
        tenant=made.child.tenant,
        actor=actor,
        user=made.user,
        agent=made.agent,
        chat=made.child.chat,
        message_id=made.child.message_id,
        target=made.id,
        decision=decision,
        parent_agent=made.parent.agent,
        parent_chat=list(made.parent.chat),
        parent_message=made.parent.message_id,
        root_message=made.root.message_id,
        depth=made.depth,
        **said,
    )
