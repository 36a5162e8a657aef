"""Stopping one turn, in one transaction, for every process (U10)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from prowess.access.approvals.model import TurnKey
from prowess.access.approvals.service import ApprovalService
from prowess.chat.store import find_agent, find_message
from prowess.errors import NotFound
from prowess.events.log import Transaction
from prowess.events.model import Actor
from prowess.kernel.ids import IdSource
from prowess.kernel.text import language_of
from prowess.turns.commit import TurnWriter
from prowess.turns.emitting import emit
from prowess.turns.executions import running_of
from prowess.turns.request import TurnRequest
from prowess.turns.selectors import words_of
from prowess.turns.stopped import chat_of, lock_against_effects, mark_stopped
from prowess.turns.store import find_turn
from prowess.turns.suspended import drop_suspended


class Halted(NamedTuple):
    """What stopping one turn came to."""

    user: str | None
    """null: the turn has not begun, and will not"""
    tools: tuple[str, ...]
    """calls that run at this moment, as ``tool (call id)``"""
    approvals: tuple[str, ...]
    """that waited and are withdrawn"""
    new: bool
    """false where it was stopped before"""


class TurnHalter:
    """Stops single turns."""

    def __init__(self, ids: IdSource, writer: TurnWriter, approvals: ApprovalService) -> None:
        self._ids = ids
        self._writer = writer
        self._approvals = approvals

    def halt(self, transaction: Transaction, key: TurnKey, actor: Actor, user: str | None = None) -> Halted:
        """Stop a turn: nothing of it has an effect after this transaction.

        ``user``: only a turn of theirs. What waits is withdrawn, what was to go on is dropped, its run is cancelled and
        its reply says so. Said again, it tells what runs still. Raises ``NotFound('turn_not_found')``.
        """
        connection, chat = transaction.connection, chat_of(key)
        lock_against_effects(connection, key)
        message = find_message(connection, key.tenant, chat, key.message_id)
        conversation, group = (None, chat.id) if chat.kind == "group" else (chat.id, None)
        text = "" if message is None else message.text
        request = TurnRequest(key.tenant, "", key.agent, text, key.message_id, conversation, group)
        record = find_turn(connection, request)
        if user is not None and (record is None or record.user != user):
            raise NotFound("turn_not_found", message_id=key.message_id)
        new = mark_stopped(connection, key, actor.id, transaction.now_ms)
        tools = tuple(f"{tool} ({call_id})" for call_id, tool in running_of(connection, key))
        if record is None or not new:
            return Halted(None if record is None else record.user, tools, (), new)
        request = replace(request, user=record.user)
        withdrawn = self._approvals.withdraw(transaction, key, actor)
        agent = find_agent(connection, key.tenant, key.agent)
        language = language_of(words_of(text), "en" if agent is None else agent.language)
        if drop_suspended(connection, key):
            self._writer.say_stopped(transaction, request, record, language, self._ids.new("msg"))
        else:
            self._writer.stop(transaction, request, language)
        emit(transaction, "turn.stopped", request, actor=actor, decision="cancelled", tools=len(tools))
        return Halted(record.user, tools, withdrawn, new)
