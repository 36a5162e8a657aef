"""What the agents of one task have changed, so that two of them do not undo each other's work unasked (B17).

A task is an outermost turn with all that it handed over. Whoever changed a resource last may change it again; for
another agent of the task a person decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Table, Text, and_, insert, select, update

from prowess.access.approvals.model import TurnKey
from prowess.access.model import RuleVerdict
from prowess.db.metadata import instant, metadata
from prowess.turns.questions import Asked, Call
from prowess.turns.stopping import turn_key

CONFLICT = "conflicting_change"
TaskSource = Callable[[Connection, TurnKey], TurnKey]
"""(turn) → the outermost turn of the task that it belongs to: itself where nothing was handed over to it"""

task_changes = Table(
    "task_changes",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("root_chat_kind", Text, primary_key=True),
    Column("root_chat_id", Text, primary_key=True),
    Column("root_message_id", Text, primary_key=True),
    Column("root_agent_id", Text, primary_key=True),
    Column("resource", Text, primary_key=True),
    Column("agent_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    instant("changed_at"),
)


def alone(_connection: Connection, turn: TurnKey) -> TurnKey:
    """The source of whoever hands nothing over."""
    return turn


class Change(NamedTuple):
    """Who changed a resource last."""

    agent: str
    call_id: str


class Write(NamedTuple):
    """A write within a task: what it changes, and whose change it follows."""

    root: TurnKey
    resource: str
    last: Change | None


def in_task(connection: Connection, source: TaskSource, call: Call, asked: Asked) -> tuple[Write | None, Asked]:
    """What a call changes within its task, null where it names nothing that it changes; and what that asks for.

    Where another agent of the task changed the resource last, or is about to, a person must say yes. Like what a guard
    asks, no standing approval, mode or trigger settles it; its rule names the rival, agent and call. It stays so until
    this transaction ends.
    """
    if call.tool.effect != "write" or asked.resource is None:
        return None, asked
    root = source(connection, turn_key(call.request))
    query = select(task_changes.c.agent_id, task_changes.c.call_id).where(_is(root, asked.resource))
    found = connection.execute(query.with_for_update()).first()
    write = Write(root, asked.resource, None if found is None else Change(found.agent_id, found.call_id))
    if write.last is None or write.last.agent == call.request.agent:
        return write, asked
    rival = RuleVerdict("ask", f"{CONFLICT}:{write.last.agent}:{write.last.call_id}")
    return write, asked._replace(guards=(*asked.guards, rival), rival=rival.rule)


def note_change(connection: Connection, write: Write, call: Call, call_id: str, at_ms: int) -> None:
    """The call changes its resource now. Raises ``IntegrityError`` where another call was the first."""
    root, resource = write.root, write.resource
    who = {"agent_id": call.request.agent, "tool": call.tool.tool_id, "call_id": call_id, "changed_at": at_ms}
    if write.last is not None:
        connection.execute(update(task_changes).where(_is(root, resource)).values(**who))
        return
    row = {
        "tenant": root.tenant,
        "root_chat_kind": root.chat[0],
        "root_chat_id": root.chat[1],
        "root_message_id": root.message_id,
        "root_agent_id": root.agent,
        "resource": resource,
    }
    connection.execute(insert(task_changes).inline(), row | who)


def _is(root: TurnKey, resource: str) -> ColumnElement[bool]:
    table = task_changes.c
    return and_(
        table.tenant == root.tenant,
        table.root_chat_kind == root.chat[0],
        table.root_chat_id == root.chat[1],
        table.root_message_id == root.message_id,
        table.root_agent_id == root.agent,
        table.resource == resource,
    )
