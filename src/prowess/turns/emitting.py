"""Events of a turn: whose it is and where, said once."""

from __future__ import annotations

from typing import Any

from prowess.events.log import Transaction
from prowess.events.model import Actor
from prowess.turns.request import TurnRequest


def emit(
    transaction: Transaction, kind: str, request: TurnRequest, *, actor: Actor | None = None, **fields: Any
) -> None:
    """An event of this turn; done by its user where no other actor is named."""
    transaction.emit(
        kind,
        tenant=request.tenant,
        actor=actor or Actor("user", request.user),
        user=request.user,
        agent=request.agent,
        chat=request.chat,
        message_id=request.message_id,
        **fields,
    )


def emit_call(transaction: Transaction, kind: str, request: TurnRequest, call_id: str, **fields: Any) -> None:
    """An event of one tool call, which the agent made."""
    emit(transaction, kind, request, actor=Actor("agent", request.agent), target=call_id, **fields)
