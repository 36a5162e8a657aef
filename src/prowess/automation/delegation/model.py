"""A task that one agent handed to another, and the graph of such tasks. No I/O (B17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from prowess.access.approvals.model import TurnKey
from prowess.kernel.clock import iso

MAX_DEPTH = 5
"""handings-over from the outermost turn to the innermost delegate"""


class TaskStatus(StrEnum):
    """How a task stands. ``waiting``: a call of the delegate waits for a person's yes."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


OPEN = (TaskStatus.RUNNING, TaskStatus.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """One task that was handed over. The id is also that of the delegate's message and of its conversation."""

    id: str
    user: str
    parent: TurnKey
    """the turn that handed it over"""
    child: TurnKey
    """the delegate's turn"""
    root: TurnKey
    """the outermost turn of the task"""
    depth: int
    """1 for what the outermost turn handed over"""
    needs: tuple[str, ...]
    status: TaskStatus
    error_code: str | None
    created_at: datetime
    finished_at: datetime | None
    reply: str | None = None
    """what the delegate said, for whoever handed the task over; never stored here (R3)"""

    @property
    def agent(self) -> str:
        """The agent that the task was handed to."""
        return self.child.agent

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess tasks list``: without the reply."""
        return {
            "id": self.id,
            "user": self.user,
            "from": _turn(self.parent),
            "to": _turn(self.child),
            "root": _turn(self.root),
            "depth": self.depth,
            "needs": list(self.needs),
            "status": str(self.status),
            "error_code": self.error_code,
            "created_at": iso(self.created_at),
            "finished_at": iso(self.finished_at),
        }


class TaskNode(NamedTuple):
    """A turn of the graph, or the trigger that started the outermost one."""

    id: str
    """of the message, or of the trigger"""
    kind: Literal["turn", "trigger"]
    agent: str | None
    chat: tuple[str, str] | None
    status: str
    error_code: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name; ``chat`` as an object."""
        chat = None if self.chat is None else {"kind": self.chat[0], "id": self.chat[1]}
        return {**self._asdict(), "chat": chat}


class TaskEdge(NamedTuple):
    """Who started whom."""

    source: str
    target: str
    kind: Literal["delegated", "triggered"]


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """A task: its outermost turn first, then what was handed over, in order."""

    root: str
    nodes: tuple[TaskNode, ...]
    edges: tuple[TaskEdge, ...]

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess tasks show``."""
        return {
            "root": self.root,
            "nodes": [node.to_json() for node in self.nodes],
            "edges": [{"from": edge.source, "to": edge.target, "kind": edge.kind} for edge in self.edges],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What stopping a turn came to: how many of each kind, and what had not ended within the limit (U10)."""

    message_id: str
    turns: int
    """stopped with this word, the turn itself and its delegates"""
    delegates: int
    tools: int
    """calls that ran at that moment and were told"""
    approvals: int
    jobs: int
    """that had not begun, or waited"""
    still_running: tuple[str, ...]

    @property
    def all_down(self) -> bool:
        """Whether nothing of the turn runs any more."""
        return not self.still_running

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess stop``."""
        counts = {name: getattr(self, name) for name in ("turns", "delegates", "tools", "approvals", "jobs")}
        return {
            "message_id": self.message_id,
            **counts,
            "still_running": list(self.still_running),
            "all_down": self.all_down,
        }


def _turn(key: TurnKey) -> dict[str, Any]:
    return {"agent": key.agent, "message_id": key.message_id, "chat": {"kind": key.chat[0], "id": key.chat[1]}}
