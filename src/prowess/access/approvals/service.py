"""Asking, answering, using and ending approvals (G13, U8, rulings 12.22, 12.25 to 12.29).

Who reacts follows the log: ``approval.approved`` says that a call may run, ``turn.settled`` that every approval of a
turn has an outcome. An overdue approval is ended by whoever comes upon it, or by ``expire_due``.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from prowess.access.approvals.model import (
    APPROVAL_LIFETIME,
    MAX_RESULT,
    RESULT_LIFETIME,
    RUNNING_LIMIT,
    Approval,
    ApprovalGone,
    ApprovalStatus,
    AskedCall,
    Seat,
    TurnKey,
    may_answer,
)
from prowess.access.approvals.store import (
    approvals_of,
    approve_pending,
    end_open,
    find_approval,
    find_open,
    find_pending_twin,
    forget_old_results,
    insert_answer,
    insert_approval,
    list_approvals,
    lock_turn,
    lost_approvals,
    overdue_approvals,
    set_outcome,
    use_approved,
)
from prowess.access.approvers.store import codes_of, list_approvers
from prowess.errors import Conflict, Denied, InvalidInput, NotFound, ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.clock import from_ms, iso
from prowess.kernel.ids import IdSource, check_id

MAX_ANSWERS = 1_000
MAX_LISTED = 1_000
MAX_TOLD = 50
"""approvers who are told of one request"""


class ApprovalService:
    """The use cases of approvals. Only people answer: an agent has no road here (G15)."""

    def __init__(self, log: EventLog, ids: IdSource, lifetime: timedelta = APPROVAL_LIFETIME) -> None:
        self._log = log
        self._ids = ids
        self._lifetime = lifetime

    # --- for the dispatcher, inside its transaction ---

    def request(self, transaction: Transaction, call: AskedCall, seats: int) -> Approval:
        """The open approval for this very call, made where there is none.

        An overdue one ends first (C43). Raises ``IntegrityError`` where another worker asks the same.
        """
        connection = transaction.connection
        known = find_open(connection, call.call_key) or find_pending_twin(connection, call)
        if known is not None:
            if known.overdue(transaction.now):
                self._expire(transaction, known)
            elif _same(known.call, call):
                return known
            else:  # of a version that no longer serves
                end_open(connection, known.id, ApprovalStatus.CANCELLED, "superseded")
                self._emit(transaction, "approval.cancelled", known, SYSTEM, "cancelled", reason="superseded")
        now = from_ms(transaction.now_ms)
        approval = Approval(
            self._ids.new("approval"), call, seats, ApprovalStatus.PENDING, now, now + self._lifetime, None, None, None
        )
        insert_approval(connection, approval)
        self._emit(
            transaction,
            "approval.requested",
            approval,
            Actor("agent", call.agent),
            tool=call.tool,
            verb=call.verb,
            codes=list(call.codes),
            risk=call.risk,
            destructive=call.destructive,
            rule=call.rule,
            seats=seats,
            approvers=_named(connection, approval),
            expires_at=iso(approval.expires_at),
        )
        return approval

    def use(self, transaction: Transaction, approval_id: str, tenant: str) -> None:
        """Use an approval up, once. Raises ``ApprovalGone`` where somebody else did, or its time is over."""
        if not use_approved(transaction.connection, approval_id, transaction.now_ms):
            raise ApprovalGone(approval_id)
        approval = self._require(transaction, tenant, approval_id)
        self._emit(transaction, "approval.used", approval, Actor("agent", approval.call.agent), "allowed")

    def settle(
        self, transaction: Transaction, tenant: str, approval_id: str, outcome: str, result: str | None = None
    ) -> None:
        """What came of the approved call; nothing where that is known already."""
        approval = self._require(transaction, tenant, approval_id)
        lock_turn(transaction.connection, approval.call.turn)
        if result is not None and len(result) > MAX_RESULT:
            result = None
        if set_outcome(transaction.connection, approval_id, outcome, result):
            self._tell_settled(transaction, approval)

    def withdraw(self, transaction: Transaction, turn: TurnKey, actor: Actor) -> tuple[str, ...]:
        """End whatever of a stopped turn waits, or was approved and has not run; their ids. The turn does not go on."""
        lock_turn(transaction.connection, turn)
        withdrawn: list[str] = []
        for found in approvals_of(transaction.connection, turn):
            if end_open(transaction.connection, found.id, ApprovalStatus.CANCELLED, "stopped"):
                self._emit(transaction, "approval.cancelled", found, actor, "cancelled", reason="stopped")
                withdrawn.append(found.id)
        return tuple(withdrawn)

    # --- for people ---

    def answer(self, *, actor: Actor, tenant: str, approval_id: str, approve: bool) -> Approval:
        """A person's yes or no. The first valid answer fills a seat; any no ends it (ruling 12.28).

        Raises ``InvalidInput('bad_id')``, ``NotFound('approval_not_found')``, ``Denied('not_an_approver')``, and
        ``Conflict``: ``approval_answered``, ``approval_expired``, ``seat_filled_by_you``.
        """
        check_id(approval_id, "approval")
        with self._log.transaction(tenant) as transaction:
            found = self._require(transaction, tenant, approval_id)
            lock_turn(transaction.connection, found.call.turn)
            found = self._require(transaction, tenant, approval_id)
            self._check_answerer(transaction, actor, found)
            overdue = found.overdue(transaction.now)
            if overdue:
                self._expire(transaction, found)
            else:
                self._take(transaction, actor, found, approve)
        if overdue:
            raise Conflict("approval_expired", id=approval_id)
        return self.find(tenant, approval_id, actor.id)

    def answer_all(self, *, actor: Actor, tenant: str, answers: Mapping[str, Any]) -> dict[str, Any]:
        """Many answers, each for itself: exactly true approves, exactly false denies, all else answers nothing (C80).

        Returns by id the approval's new status, or ``{"error": …}``. Raises ``InvalidInput`` (``wrong_type``,
        ``too_many_answers``).
        """
        if not isinstance(answers, Mapping):
            raise InvalidInput("wrong_type", field="answers", expected="mapping", got=type(answers).__name__)
        if len(answers) > MAX_ANSWERS:
            raise InvalidInput("too_many_answers", field="answers", limit=MAX_ANSWERS)
        said: dict[str, Any] = {}
        for approval_id, given in answers.items():
            try:
                if given is True or given is False:
                    status = self.answer(actor=actor, tenant=tenant, approval_id=approval_id, approve=given).status
                else:
                    status = self.find(tenant, approval_id, actor.id).status
                said[approval_id] = str(status)
            except ProwessError as error:
                said[approval_id] = error.to_json()
        return said

    def cancel(self, *, actor: Actor, tenant: str, approval_id: str, reason: str = "cancelled") -> Approval:
        """Withdraw what is pending, or approved and not run yet.

        By the person whose call it is, an approver, or the operator. Raises ``NotFound``, ``Denied``, ``Conflict``
        (``approval_answered``, ``approval_expired``).
        """
        check_id(approval_id, "approval")
        with self._log.transaction(tenant) as transaction:
            found = self._require(transaction, tenant, approval_id)
            lock_turn(transaction.connection, found.call.turn)
            if actor.kind not in ("operator", "system"):
                self._check_answerer(transaction, actor, found)
            overdue = found.overdue(transaction.now)
            if overdue:
                self._expire(transaction, found)
            elif end_open(transaction.connection, approval_id, ApprovalStatus.CANCELLED, reason):
                self._emit(transaction, "approval.cancelled", found, actor, "cancelled", reason=reason)
                self._tell_settled(transaction, found)
            else:
                raise Conflict("approval_answered", id=approval_id, status=_standing(found))
        if overdue:
            raise Conflict("approval_expired", id=approval_id)
        return self.find(tenant, approval_id, actor.id)

    def find(self, tenant: str, approval_id: str, viewer: str | None = None) -> Approval:
        """One approval as it stands now; its arguments only for a ``viewer`` who may answer.

        Raises ``NotFound('approval_not_found')``.
        """
        approval = self.current(tenant, approval_id)
        with self._log.database.read() as connection:
            codes = frozenset[str]() if viewer is None else codes_of(connection, tenant, viewer)
        if viewer is not None and may_answer(approval, viewer, codes):
            return approval
        return _masked(approval)

    def current(self, tenant: str, approval_id: str) -> Approval:
        """One approval as it stands now, with its arguments: for whoever runs the call. Raises ``NotFound``."""
        check_id(approval_id, "approval")
        with self._log.database.read() as connection:
            found = find_approval(connection, tenant, approval_id)
        if found is None:
            raise NotFound("approval_not_found", id=approval_id)
        if not found.overdue(self._log.clock.now()):
            return found
        self._expire_one(tenant, approval_id)
        return self.current(tenant, approval_id)

    def list(
        self,
        tenant: str,
        *,
        viewer: str | None = None,
        status: ApprovalStatus | None = None,
        user: str | None = None,
        limit: int = 100,
    ) -> builtins.list[Approval]:
        """Approvals, newest first, each once: with ``viewer`` those that this person may answer or asked for.

        Without one all of them, without arguments: for the operator.
        """
        self.expire_due()
        limit = max(1, min(limit, MAX_LISTED))
        with self._log.database.read() as connection:
            codes = frozenset[str]() if viewer is None else codes_of(connection, tenant, viewer)
            own = viewer if viewer is not None and not codes else user
            # An approver's are picked out of all of them, so more are read than are shown.
            found = list_approvals(connection, tenant, status=status, user=own, limit=MAX_LISTED if codes else limit)
        if viewer is None:
            return [_masked(approval) for approval in found]
        return [item for item in found if may_answer(item, viewer, codes) and user in (None, item.call.user)][:limit]

    def of_turn(self, turn: TurnKey) -> builtins.list[Approval]:
        """Every approval of a turn as it stands now, in the order of asking."""
        now = self._log.clock.now()
        with self._log.database.read() as connection:
            found = approvals_of(connection, turn)
        overdue = [approval for approval in found if approval.overdue(now)]
        for approval in overdue:
            self._expire_one(turn.tenant, approval.id)
        return self.of_turn(turn) if overdue else found

    def expire_due(self, limit: int = 100) -> int:
        """End what nobody answered in time, of every tenant; returns how many.

        A used one whose process is gone gets the outcome ``outcome_unknown``: it never runs again.
        """
        now = self._log.clock.now()
        with self._log.database.read() as connection:
            overdue = overdue_approvals(connection, now, limit)
            lost = lost_approvals(connection, now - RUNNING_LIMIT, limit)
        for tenant, approval_id in lost:
            with self._log.transaction(tenant) as transaction:
                self.settle(transaction, tenant, approval_id, "outcome_unknown")
        return sum(self._expire_one(tenant, approval_id) for tenant, approval_id in overdue)

    def forget_results(self) -> int:
        """Forget results that no turn asked for within a day; returns how many."""
        with self._log.transaction(None) as transaction:
            return forget_old_results(transaction.connection, transaction.now - RESULT_LIFETIME)

    def _expire_one(self, tenant: str, approval_id: str) -> bool:
        with self._log.transaction(tenant) as transaction:
            approval = self._require(transaction, tenant, approval_id)
            if not approval.overdue(transaction.now):
                return False
            return self._expire(transaction, approval)

    def _expire(self, transaction: Transaction, approval: Approval) -> bool:
        lock_turn(transaction.connection, approval.call.turn)
        unanswered = approval.status is ApprovalStatus.PENDING
        reason = "permission_timeout" if unanswered else "approval_unused"
        if not end_open(transaction.connection, approval.id, ApprovalStatus.EXPIRED, reason):
            return False
        self._emit(transaction, "approval.expired", approval, SYSTEM, "denied", reason=reason)
        self._tell_settled(transaction, approval)
        return True

    def _take(self, transaction: Transaction, actor: Actor, found: Approval, approve: bool) -> None:
        """Fill a seat, and end the question where that decides it."""
        if found.status is not ApprovalStatus.PENDING:
            raise Conflict("approval_answered", id=found.id, status=_standing(found))
        if any(seat.by == actor.id for seat in found.answers):
            raise Conflict("seat_filled_by_you", id=found.id)
        connection = transaction.connection
        seat = Seat(len(found.answers) + 1, actor.id, approve, from_ms(transaction.now_ms))
        insert_answer(connection, found.id, seat)
        word = "allowed" if approve else "denied"
        self._emit(transaction, "approval.answered", found, actor, word, seat=seat.number, seats=found.seats)
        if not approve:
            end_open(connection, found.id, ApprovalStatus.DENIED, "denied")
            self._emit(transaction, "approval.denied", found, actor, "denied", by=actor.id)
            self._tell_settled(transaction, found)
        elif seat.number == found.seats:
            until = from_ms(transaction.now_ms) + self._lifetime
            if not approve_pending(connection, found.id, transaction.now_ms, until):
                raise Conflict("approval_answered", id=found.id, status=str(found.status))
            people = [*(earlier.by for earlier in found.answers), actor.id]
            self._emit(transaction, "approval.approved", found, actor, "allowed", by=people)

    @staticmethod
    def _check_answerer(transaction: Transaction, actor: Actor, approval: Approval) -> None:
        """A refusal says nothing of the approval but that it is not theirs to answer (C45)."""
        codes = codes_of(transaction.connection, approval.call.tenant, actor.id)
        if actor.kind != "user" or not may_answer(approval, actor.id, codes):
            raise Denied("not_an_approver", id=approval.id)

    @staticmethod
    def _require(transaction: Transaction, tenant: str, approval_id: str) -> Approval:
        found = find_approval(transaction.connection, tenant, approval_id)
        if found is None:
            raise NotFound("approval_not_found", id=str(approval_id)[:200])
        return found

    def _tell_settled(self, transaction: Transaction, approval: Approval) -> None:
        """Where nothing of its turn is open any more, say so."""
        if not lock_turn(transaction.connection, approval.call.turn):
            tell_turn_settled(transaction, approval.call.turn, approval.call.user)

    @staticmethod
    def _emit(
        transaction: Transaction, kind: str, approval: Approval, actor: Actor, decision: str | None = None, **data: Any
    ) -> None:
        call = approval.call
        transaction.emit(
            kind,
            tenant=call.tenant,
            actor=actor,
            user=call.user,
            agent=call.agent,
            chat=call.chat,
            message_id=call.message_id,
            skill=(call.skill_id, call.skill_version),
            run_id=call.run_id,
            target=approval.id,
            decision=decision,
            call=call.call_id,
            **data,
        )


def _named(connection: Connection, approval: Approval) -> list[str]:
    """Who may answer beside the person whose call it is, to be told of it (U8)."""
    codes: dict[str, set[str]] = {}
    for user, code in list_approvers(connection, approval.call.turn.tenant):
        codes.setdefault(user, set()).add(code)
    others = (user for user in codes if user != approval.call.user)
    return [user for user in others if may_answer(approval, user, frozenset(codes[user]))][:MAX_TOLD]


def tell_turn_settled(transaction: Transaction, turn: TurnKey, user: str) -> None:
    """Every approval of the turn has an outcome: it can go on."""
    transaction.emit(
        "turn.settled",
        tenant=turn.tenant,
        actor=SYSTEM,
        user=user,
        agent=turn.agent,
        chat=turn.chat,
        message_id=turn.message_id,
    )


def _same(known: AskedCall, asked: AskedCall) -> bool:
    return (known.input_digest, known.skill_id, known.skill_version) == (
        asked.input_digest,
        asked.skill_id,
        asked.skill_version,
    )


def _standing(approval: Approval) -> str:
    return "used" if approval.used_at is not None else str(approval.status)


def _masked(approval: Approval) -> Approval:
    return replace(approval, call=replace(approval.call, arguments=None, resource=None), result=None)
