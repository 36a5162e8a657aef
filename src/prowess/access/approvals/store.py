"""Tables and queries of approvals. Every change of status is a compare-and-set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    Row,
    Table,
    Text,
    and_,
    bindparam,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from prowess.access.approvals.model import Approval, ApprovalStatus, AskedCall, Seat, TurnKey
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms

approvals = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("call_key", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("chat_kind", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("tool", Text, nullable=False),
    Column("skill_id", Text, nullable=False),
    Column("skill_version", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("resource", Text),
    Column("codes", Text, nullable=False),
    Column("input_digest", Text, nullable=False),
    Column("arguments", Text),
    Column("rule", Text),
    Column("risk", Text, nullable=False),
    Column("destructive", Boolean, nullable=False),
    Column("origin", Text, nullable=False),
    Column("run_id", Text),
    Column("language", Text, nullable=False),
    Column("above", Text, nullable=False),
    Column("seats", Integer, nullable=False),
    Column("status", Text, nullable=False),
    instant("created_at"),
    instant("expires_at"),
    instant("used_at", nullable=True),
    Column("outcome", Text),
    Column("result", Text),
    Index("ix_approvals_turn", "tenant", "chat_kind", "chat_id", "message_id", "agent_id"),
    Index("ix_approvals_user", "tenant", "user_id", "created_at"),
)

# Statuses are literals, or SQLite would plan the partial indexes anew at each execution.
_OPEN = or_(
    approvals.c.status == literal_column("'pending'"),
    and_(approvals.c.status == literal_column("'approved'"), approvals.c.used_at.is_(None)),
)
Index("uq_approvals_open", approvals.c.call_key, unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN)
_UNSETTLED = approvals.c.outcome.is_(None)
Index("ix_approvals_unsettled", approvals.c.expires_at, sqlite_where=_UNSETTLED, postgresql_where=_UNSETTLED)

approval_answers = Table(
    "approval_answers",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("seat", Integer, primary_key=True),
    Column("answered_by", Text, nullable=False),
    Column("approved", Boolean, nullable=False),
    instant("at"),
    Index("uq_approval_answers_person", "approval_id", "answered_by", unique=True),
)

_BY_KEY = Statement(select(approvals).where(approvals.c.call_key == bindparam("key"), _OPEN))
_CHANGE = update(approvals).where(approvals.c.id == bindparam("of_approval"))


def find_open(connection: Connection, call_key: str) -> Approval | None:
    """The approval of this call that is pending, or approved and not used; overdue ones included."""
    row = _BY_KEY.first(connection, {"key": call_key})
    return None if row is None else _to_approval(row)


def find_pending_twin(connection: Connection, call: AskedCall) -> Approval | None:
    """An open approval for the same arguments of the same tool in the same turn, of whichever ordinal."""
    query = select(approvals).where(
        *_of_turn(call.turn),
        approvals.c.user_id == call.user,
        approvals.c.tool == call.tool,
        approvals.c.input_digest == call.input_digest,
        _OPEN,
    )
    row = connection.execute(query.order_by(approvals.c.ordinal)).first()
    return None if row is None else _to_approval(row)


def find_approval(connection: Connection, tenant: str, approval_id: str) -> Approval | None:
    """The approval with its answers, or none."""
    query = select(approvals).where(approvals.c.tenant == tenant, approvals.c.id == approval_id)
    row = connection.execute(query).first()
    return None if row is None else _to_approval(row, _answers(connection, [approval_id]).get(approval_id, ()))


def list_approvals(
    connection: Connection, tenant: str, *, status: ApprovalStatus | None, user: str | None, limit: int
) -> list[Approval]:
    """The tenant's approvals, newest first; with ``user``, of that user's calls."""
    query = select(approvals).where(approvals.c.tenant == tenant)
    if status is not None:
        query = query.where(approvals.c.status == str(status))
    if user is not None:
        query = query.where(approvals.c.user_id == user)
    rows = connection.execute(query.order_by(approvals.c.created_at.desc(), approvals.c.id.desc()).limit(limit)).all()
    answers = _answers(connection, [row.id for row in rows])
    return [_to_approval(row, answers.get(row.id, ())) for row in rows]


def approvals_of(connection: Connection, turn: TurnKey) -> list[Approval]:
    """Every approval of a turn, in the order in which they were asked."""
    query = select(approvals).where(*_of_turn(turn)).order_by(approvals.c.created_at, approvals.c.ordinal)
    return [_to_approval(row) for row in connection.execute(query)]


def lock_turn(connection: Connection, turn: TurnKey) -> bool:
    """Hold all approvals of a turn until this transaction ends; whether any of them has no outcome.

    Without it, two that end at once on PostgreSQL would each believe the other to be open still.
    """
    query = select(approvals.c.outcome).where(*_of_turn(turn)).order_by(approvals.c.id).with_for_update()
    return any(row.outcome is None for row in connection.execute(query))


def overdue_approvals(connection: Connection, now: datetime, limit: int) -> list[tuple[str, str]]:
    """(tenant, id) of those whose time is over while nothing came of them, of every tenant, oldest first."""
    query = select(approvals.c.tenant, approvals.c.id).where(_UNSETTLED, _OPEN, approvals.c.expires_at <= to_ms(now))
    return [(row.tenant, row.id) for row in connection.execute(query.order_by(approvals.c.expires_at).limit(limit))]


def lost_approvals(connection: Connection, used_before: datetime, limit: int) -> list[tuple[str, str]]:
    """(tenant, id) of those that were used and have no outcome: their process is gone."""
    query = select(approvals.c.tenant, approvals.c.id).where(_UNSETTLED, approvals.c.used_at <= to_ms(used_before))
    return [(row.tenant, row.id) for row in connection.execute(query.order_by(approvals.c.used_at).limit(limit))]


def insert_approval(connection: Connection, approval: Approval) -> None:
    """Store a new one; raises ``IntegrityError`` where its call has an open one."""
    call = approval.call
    same = ("call_key", "call_id", "tenant", "message_id", "ordinal", "tool", "skill_id", "skill_version", "verb")
    more = ("resource", "input_digest", "arguments", "rule", "risk", "destructive", "origin", "run_id", "language")
    row: dict[str, Any] = {name: getattr(call, name) for name in (*same, *more)} | {
        "id": approval.id,
        "user_id": call.user,
        "agent_id": call.agent,
        "chat_kind": call.chat[0],
        "chat_id": call.chat[1],
        "codes": compact_json(call.codes),
        "above": compact_json(call.above),
        "seats": approval.seats,
        "status": str(approval.status),
        "created_at": to_ms(approval.created_at),
        "expires_at": to_ms(approval.expires_at),
    }
    connection.execute(insert(approvals).inline(), row)


def insert_answer(connection: Connection, approval_id: str, seat: Seat) -> None:
    """Fill a seat; raises ``IntegrityError`` where it is filled, or by the same person."""
    row = {
        "approval_id": approval_id,
        "seat": seat.number,
        "answered_by": seat.by,
        "approved": seat.approved,
        "at": to_ms(seat.at),
    }
    connection.execute(insert(approval_answers).inline(), row)


def approve_pending(connection: Connection, approval_id: str, now_ms: int, until: datetime) -> bool:
    """Pending becomes approved, until then; false where it was not pending or its time is over."""
    change = _CHANGE.where(approvals.c.status == "pending", approvals.c.expires_at > now_ms)
    return _changed(connection, change.values(status="approved", expires_at=to_ms(until)), approval_id)


def end_open(connection: Connection, approval_id: str, status: ApprovalStatus, outcome: str) -> bool:
    """What is pending, or approved and not used, ends like this; its arguments are forgotten."""
    values = {"status": str(status), "outcome": outcome, "arguments": None}
    return _changed(connection, _CHANGE.where(_OPEN).values(**values), approval_id)


def use_approved(connection: Connection, approval_id: str, now_ms: int) -> bool:
    """Use it up; false where it is not there to be used any more. Its arguments are forgotten."""
    change = _CHANGE.where(
        approvals.c.status == "approved", approvals.c.used_at.is_(None), approvals.c.expires_at > now_ms
    )
    return _changed(connection, change.values(used_at=now_ms, arguments=None), approval_id)


def set_outcome(connection: Connection, approval_id: str, outcome: str, result: str | None) -> bool:
    """What came of the call; false where something is known already."""
    change = _CHANGE.where(approvals.c.used_at.is_not(None), _UNSETTLED)
    return _changed(connection, change.values(outcome=outcome, result=result), approval_id)


def forget_results(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    """Forget what these calls returned: their turn has gone on."""
    of = (approvals.c.tenant == tenant, approvals.c.id.in_(ids))
    connection.execute(update(approvals).where(*of).values(result=None))


def forget_old_results(connection: Connection, used_before: datetime) -> int:
    """Forget results that no turn has asked for; returns how many."""
    kept = update(approvals).where(approvals.c.result.is_not(None), approvals.c.used_at <= to_ms(used_before))
    return int(connection.execute(kept.values(result=None)).rowcount)


def _changed(connection: Connection, statement: Any, approval_id: str) -> bool:
    return bool(connection.execute(statement, {"of_approval": approval_id}).rowcount == 1)


def _of_turn(turn: TurnKey) -> tuple[Any, ...]:
    table = approvals.c
    return (
        table.tenant == turn.tenant,
        table.chat_kind == turn.chat[0],
        table.chat_id == turn.chat[1],
        table.message_id == turn.message_id,
        table.agent_id == turn.agent,
    )


def _answers(connection: Connection, ids: list[str]) -> dict[str, tuple[Seat, ...]]:
    query = select(approval_answers).where(approval_answers.c.approval_id.in_(ids)).order_by(approval_answers.c.seat)
    found: dict[str, tuple[Seat, ...]] = {}
    for row in connection.execute(query):
        seat = Seat(row.seat, row.answered_by, bool(row.approved), from_ms(row.at))
        found[row.approval_id] = (*found.get(row.approval_id, ()), seat)
    return found


def _to_approval(row: Row[Any], answers: tuple[Seat, ...] = ()) -> Approval:
    call = AskedCall(
        call_key=row.call_key,
        call_id=row.call_id,
        tenant=row.tenant,
        user=row.user_id,
        agent=row.agent_id,
        chat=(row.chat_kind, row.chat_id),
        message_id=row.message_id,
        ordinal=row.ordinal,
        tool=row.tool,
        skill_id=row.skill_id,
        skill_version=row.skill_version,
        verb=row.verb,
        resource=row.resource,
        codes=tuple(json.loads(row.codes)),
        input_digest=row.input_digest,
        arguments=row.arguments,
        rule=row.rule,
        risk=row.risk,
        destructive=bool(row.destructive),
        origin=row.origin,
        run_id=row.run_id,
        language=row.language,
        above=tuple(json.loads(row.above)),
    )
    return Approval(
        id=row.id,
        call=call,
        seats=row.seats,
        status=ApprovalStatus(row.status),
        created_at=from_ms(row.created_at),
        expires_at=from_ms(row.expires_at),
        used_at=None if row.used_at is None else from_ms(row.used_at),
        outcome=row.outcome,
        result=row.result,
        answers=answers,
    )
