"""Naming approvers, and opening irreversible codes; both are the operator's (U8, G1, G15)."""

from __future__ import annotations

import builtins

from prowess.access.approvers.model import ANY_CODE
from prowess.access.approvers.store import (
    codes_of,
    delete_approver,
    delete_opened,
    insert_approver,
    insert_opened,
    list_approvers,
    opened_codes,
)
from prowess.access.model import CODE_PATTERN
from prowess.errors import Denied, InvalidInput
from prowess.events.log import EventLog
from prowess.events.model import Actor
from prowess.kernel.ids import check_id

MAX_CODE = 200


class ApproverService:
    """The use cases of approvers and opened codes. An agent has no road here."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def add(self, *, actor: Actor, tenant: str, user: str, code: str) -> bool:
        """Name an approver for a code, or for all by ``*``; false where they are.

        Raises ``InvalidInput`` (``bad_id``, ``bad_code``), ``Denied('agent_cannot_decide')``.
        """
        check_id(user, "user")
        _check_code(code, any_code=True)
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            if code in codes_of(transaction.connection, tenant, user):
                return False
            insert_approver(transaction.connection, tenant, user, code, transaction.now_ms)
            transaction.emit("approver.added", tenant=tenant, actor=actor, user=user, target=code)
            return True

    def remove(self, *, actor: Actor, tenant: str, user: str, code: str) -> bool:
        """Take it back, from the next answer on; false where there was none."""
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            removed = delete_approver(transaction.connection, tenant, user, code)
            if removed:
                transaction.emit("approver.removed", tenant=tenant, actor=actor, user=user, target=code)
            return removed

    def list(self, tenant: str) -> builtins.list[tuple[str, str]]:
        """(user, code) of each approver."""
        with self._log.database.read() as connection:
            return list_approvers(connection, tenant)

    def open(self, *, actor: Actor, tenant: str, code: str) -> bool:
        """Let an irreversible code be asked for, with two people's yes each time; false where it is open.

        Raises ``InvalidInput('bad_code')``, ``Denied('agent_cannot_decide')``.
        """
        _check_code(code)
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            if code in opened_codes(transaction.connection, tenant):
                return False
            insert_opened(transaction.connection, tenant, code, transaction.now_ms)
            transaction.emit("risk.opened", tenant=tenant, actor=actor, target=code)
            return True

    def close(self, *, actor: Actor, tenant: str, code: str) -> bool:
        """Close a code: what waits for a yes does not run any more; false where it was not open."""
        _refuse_agents(actor)
        with self._log.transaction(tenant) as transaction:
            closed = delete_opened(transaction.connection, tenant, code)
            if closed:
                transaction.emit("risk.closed", tenant=tenant, actor=actor, target=code)
            return closed

    def opened(self, tenant: str) -> tuple[str, ...]:
        """The open codes."""
        with self._log.database.read() as connection:
            return opened_codes(connection, tenant)


def _check_code(code: str, *, any_code: bool = False) -> None:
    if any_code and code == ANY_CODE:
        return
    if len(code) > MAX_CODE or not CODE_PATTERN.fullmatch(code):
        raise InvalidInput("bad_code", field="code", limit=MAX_CODE)


def _refuse_agents(actor: Actor) -> None:
    if actor.kind == "agent":
        raise Denied("agent_cannot_decide", field="actor")
