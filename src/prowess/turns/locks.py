"""One destructive tool has one user at a time (B17)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import Column, Connection, Table, Text, bindparam, delete, insert, select, update

from prowess.access.model import Risk
from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement
from prowess.events.log import Transaction
from prowess.turns.definitions import ToolSkill
from prowess.turns.emitting import emit_call
from prowess.turns.executions import find_execution
from prowess.turns.questions import Call

BUSY = "tool_busy"
GRACE = timedelta(seconds=60)
"""beyond the tool's own timeout: then its process is gone, and another may have the tool"""

tool_locks = Table(
    "tool_locks",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("tool", Text, primary_key=True),
    Column("call_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),
    Column("chat_kind", Text, nullable=False),
    Column("chat_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    instant("until"),
)

_IS = (tool_locks.c.tenant == bindparam("of_tenant"), tool_locks.c.tool == bindparam("of_tool"))
_HOLDER = Statement(select(tool_locks.c.call_id, tool_locks.c.until).where(*_IS).with_for_update())
_RELEASE = Statement(delete(tool_locks).where(*_IS, tool_locks.c.call_id == bindparam("of_call")))


def is_exclusive(tool: ToolSkill) -> bool:
    """Whether the tool destroys what cannot be brought back: declared so, or irreversible (ruling 12.25)."""
    return tool.destructive or any(item.risk is Risk.L4 for item in tool.manifest.permission_requirements)


def take_lock(connection: Connection, call: Call, call_id: str, now_ms: int) -> str | None:
    """Take the lock of the call's tool; null where it is this call's now, else the id of the call that holds it.

    A lock whose time is over is taken from its holder. Raises ``IntegrityError`` where another call was faster.
    """
    request, tool = call.request, call.tool
    where = {"of_tenant": request.tenant, "of_tool": tool.tool_id}
    found = _HOLDER.first(connection, where)
    if found is not None and found.call_id != call_id and found.until > now_ms:
        return str(found.call_id)
    holder = {
        "call_id": call_id,
        "user_id": request.user,
        "agent_id": request.agent,
        "chat_kind": request.chat.kind,
        "chat_id": request.chat.id,
        "message_id": request.message_id,
        "until": now_ms + round((tool.timeout + GRACE).total_seconds() * 1000),
    }
    if found is None:
        connection.execute(insert(tool_locks).inline(), {"tenant": request.tenant, "tool": tool.tool_id, **holder})
    else:
        connection.execute(update(tool_locks).where(*_IS).values(**holder), where)
    return None


def take_alone(transaction: Transaction, call: Call, call_id: str) -> bool:
    """Give a destructive tool to this call alone; false where another has it. Raises as ``take_lock``."""
    if not is_exclusive(call.tool):
        return True
    known = find_execution(transaction.connection, call.key)
    if known is not None and call.tool.effect == "write":
        return True  # it is answered from its record
    mine, told = call_id if known is None else known.id, {"skill": call.skill, "run_id": call.run_id}
    holder = take_lock(transaction.connection, call, mine, transaction.now_ms)
    tool = call.tool.tool_id
    if holder is None:
        emit_call(transaction, "tool.locked", call.request, mine, decision="allowed", tool=tool, **told)
    else:
        refused: dict[str, Any] = {"decision": "denied", "reason": BUSY, "holder": holder}
        emit_call(transaction, "tool.busy", call.request, mine, tool=tool, **refused, **told)
    return holder is None


def release_lock(connection: Connection, tenant: str, tool: str, call_id: str) -> bool:
    """Give the lock back; false where it is no longer this call's."""
    return _RELEASE.run(connection, {"of_tenant": tenant, "of_tool": tool, "of_call": call_id}) == 1
