"""What a tool may learn of the activity between its user and its agent: counts and ids, never text (M2, R3)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from sqlalchemy import BindParameter, bindparam, case, func, select

from prowess.chat.store import conversations, messages
from prowess.events.log import EventLog
from prowess.kernel.clock import to_ms
from prowess.turns.definitions import Activity, SkillActivity
from prowess.turns.request import TurnRequest
from prowess.turns.runs import RunStatus, runs
from prowess.turns.sessions.model import SessionStatus
from prowess.turns.sessions.store import sessions

ACTIVITY = "activity:read"

_WHOSE: dict[str, BindParameter[str]] = {
    "tenant": bindparam("tenant"),
    "user_id": bindparam("user"),
    "agent_id": bindparam("agent"),
}
_MESSAGES = (
    select(messages.c.author_kind, func.count().label("n"))
    .join(
        conversations,
        (conversations.c.tenant == messages.c.tenant)
        & (conversations.c.kind == messages.c.chat_kind)
        & (conversations.c.id == messages.c.chat_id),
    )
    .where(
        *(conversations.c[name] == value for name, value in _WHOSE.items()), messages.c.created_at >= bindparam("at")
    )
    .group_by(messages.c.author_kind)
)
_ENDED = {
    str(status): func.coalesce(func.sum(case((runs.c.status == str(status), 1), else_=0)), 0).label(str(status))
    for status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.DENIED)
}
_RUNS = (
    select(runs.c.skill_id, func.count().label("uses"), *_ENDED.values())
    .where(*(runs.c[name] == value for name, value in _WHOSE.items()), runs.c.started_at >= bindparam("at"))
    .group_by(runs.c.skill_id)
    .order_by(func.count().desc(), runs.c.skill_id)
)
_WAITING = (
    select(sessions.c.skill_id)
    .where(
        *(sessions.c[name] == value for name, value in _WHOSE.items()),
        sessions.c.status == str(SessionStatus.WAITING_USER),
        sessions.c.expires_at > bindparam("now"),
    )
    .order_by(sessions.c.updated_at)
)


class ScopedActivity:
    """The ``ActivityReader`` that a tool handler gets."""

    def __init__(self, log: EventLog, request: TurnRequest) -> None:
        self._log = log
        self._whose = {"tenant": request.tenant, "user": request.user, "agent": request.agent}

    def since(self, start: datetime) -> Activity:
        """From ``start`` until now, of this user with this agent alone."""
        values = self._whose | {"at": to_ms(start)}
        with self._log.database.read() as connection:
            counted = Counter({row.author_kind: row.n for row in connection.execute(_MESSAGES, values)})
            used = tuple(
                SkillActivity(row.skill_id, row.uses, int(row.completed), int(row.failed), int(row.denied))
                for row in connection.execute(_RUNS, values)
            )
            now = self._whose | {"now": to_ms(self._log.clock.now())}
            waiting = tuple(row.skill_id for row in connection.execute(_WAITING, now))
        return Activity(counted["user"], counted["agent"], counted["trigger"], used, waiting)
