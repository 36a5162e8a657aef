"""The turn table: what each message id came to, so that no message is ever served twice (W5).

A turn belongs to (tenant, chat, message id, agent). Turns of a workflow carry their session and its revision: those
rows are the turn table of the session. The instruction of a tool turn is never stored: it holds what was recalled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Index, Integer, Row, Table, Text, bindparam, insert, select, update

from prowess.access.approvals.model import TurnKey
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.kernel.canonical import compact_json
from prowess.turns.definitions import Instruction
from prowess.turns.request import (
    DecisionView,
    RunView,
    Selection,
    SessionView,
    ToolCallView,
    TurnRequest,
)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A stored turn. ``reply_id`` null: no reply was stored yet."""

    user: str
    text_digest: str
    kind: str
    """what served it: ``safety``, ``workflow``, ``tool``, ``prompt``, ``plain``, ``control``"""
    selection: Selection | None
    session: SessionView | None
    run: RunView | None
    """with the status that the run takes when the turn is finished"""
    run_error: str | None
    decision: DecisionView | None
    tool_calls: tuple[ToolCallView, ...]
    events: tuple[str, ...]
    instruction: Instruction | None
    reply_id: str | None
    pending: tuple[str, ...] = ()
    """approvals that the turn asked for"""


class StoredTurn(NamedTuple):
    """Whose a turn is, who started it, and whether its reply is stored."""

    user: str
    origin: str
    finished: bool


turns = Table(
    "turns",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("chat_kind", Text, primary_key=True),
    Column("chat_id", Text, primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("text_digest", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("session_id", Text),
    Column("session_revision", Integer),
    Column("run_id", Text),
    Column("instruction", Text),
    Column("outcome", Text, nullable=False),
    Column("reply_id", Text),
    instant("started_at"),
    instant("finished_at", nullable=True),
    Index("uq_turns_session_revision", "session_id", "session_revision", unique=True),
)

_KEY = {
    "of_tenant": turns.c.tenant,
    "of_kind": turns.c.chat_kind,
    "of_chat": turns.c.chat_id,
    "of_message": turns.c.message_id,
    "of_agent": turns.c.agent_id,
}
_WHERE = [column == bindparam(name) for name, column in _KEY.items()]
_FIND = Statement(select(turns).where(*_WHERE))
_INSERT = Statement(insert(turns).inline())
_FINISH = Statement(
    update(turns)
    .where(*_WHERE, turns.c.reply_id.is_(None))
    .values(outcome=bindparam("new_outcome"), reply_id=bindparam("new_reply"), finished_at=bindparam("at"))
)
_SESSION_TURNS = (
    select(turns.c.message_id, turns.c.session_revision)
    .where(turns.c.session_id == bindparam("session"))
    .order_by(turns.c.session_revision)
)


def find_turn(connection: Connection, request: TurnRequest) -> TurnRecord | None:
    """What this message came to, or none."""
    row = _FIND.first(connection, _key(request))
    return None if row is None else _to_record(row)


def stored_turn(connection: Connection, key: TurnKey) -> StoredTurn | None:
    """A turn by its key, or none."""
    values = {
        "of_tenant": key.tenant,
        "of_kind": key.chat[0],
        "of_chat": key.chat[1],
        "of_message": key.message_id,
        "of_agent": key.agent,
    }
    row = _FIND.first(connection, values)
    return None if row is None else StoredTurn(row.user_id, row.origin, row.reply_id is not None)


def insert_turn(connection: Connection, request: TurnRequest, record: TurnRecord, at_ms: int) -> None:
    """Store a turn that began; raises ``IntegrityError`` where the message was served already."""
    row = {
        "tenant": request.tenant,
        "chat_kind": request.chat.kind,
        "chat_id": request.chat.id,
        "message_id": request.message_id,
        "agent_id": request.agent,
        "user_id": request.user,
        "origin": request.origin,
        "text_digest": record.text_digest,
        "kind": record.kind,
        "session_id": None if record.session is None else record.session.id,
        "session_revision": None if record.session is None else record.session.revision,
        "run_id": None if record.run is None else record.run.id,
        "instruction": None if record.instruction is None else compact_json(_fields(record.instruction)),
        "outcome": _outcome(record),
        "reply_id": record.reply_id,
        "started_at": at_ms,
        "finished_at": None if record.reply_id is None else at_ms,
    }
    _INSERT.run(connection, row)


def finish_turn(connection: Connection, request: TurnRequest, record: TurnRecord, reply_id: str, at_ms: int) -> bool:
    """Attach the stored reply; false where another worker has finished the turn."""
    values = _key(request) | {"new_outcome": _outcome(record), "new_reply": reply_id, "at": at_ms}
    return _FINISH.run(connection, values) == 1


def session_turns(connection: Connection, session_id: str) -> list[tuple[str, int]]:
    """(message id, revision) of every turn of a session, in order."""
    return [
        (row.message_id, row.session_revision) for row in connection.execute(_SESSION_TURNS, {"session": session_id})
    ]


def _key(request: TurnRequest) -> dict[str, Any]:
    return {
        "of_tenant": request.tenant,
        "of_kind": request.chat.kind,
        "of_chat": request.chat.id,
        "of_message": request.message_id,
        "of_agent": request.agent,
    }


def _outcome(record: TurnRecord) -> str:
    parts = {name: getattr(record, name) for name in ("selection", "session", "run", "decision")}
    outcome: dict[str, Any] = {name: None if part is None else _fields(part) for name, part in parts.items()}
    outcome["tool_calls"] = [_fields(call) for call in record.tool_calls]
    outcome["events"] = record.events
    outcome["run_error"] = record.run_error
    if record.pending:
        outcome["pending"] = record.pending
    return compact_json(outcome)


def _fields(view: Any) -> dict[str, Any]:
    return {name: getattr(view, name) for name in view.__slots__}


def _to_record(row: Row[Any]) -> TurnRecord:
    outcome = json.loads(row.outcome)
    decision = outcome["decision"]
    return TurnRecord(
        user=row.user_id,
        text_digest=row.text_digest,
        kind=row.kind,
        selection=_view(Selection, outcome["selection"]),
        session=_view(SessionView, outcome["session"]),
        run=_view(RunView, outcome["run"]),
        run_error=outcome["run_error"],
        decision=_view(DecisionView, decision and decision | {"missing": tuple(decision["missing"])}),
        tool_calls=tuple(ToolCallView(**call) for call in outcome["tool_calls"]),
        events=tuple(outcome["events"]),
        instruction=_to_instruction(row.instruction),
        reply_id=row.reply_id,
        pending=tuple(outcome.get("pending", ())),
    )


def _view(kind: Any, fields: dict[str, Any] | None) -> Any:
    return None if fields is None else kind(**fields)


def _to_instruction(text: str | None) -> Instruction | None:
    if text is None:
        return None
    fields = json.loads(text)
    return Instruction(fields["text"], tuple(fields["say"]), fields["language"])
