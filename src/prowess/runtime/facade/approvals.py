"""Approvals, approvers, and what becomes of calls and turns that wait (G13, U6, U8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prowess.access.approvals.model import Approval, ApprovalStatus
from prowess.chat.model import ChatRef
from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.turns.outcome import ToolOutcome
from prowess.turns.request import TurnResult

ChatKind = Literal["conversation", "group"]


class Approvals(Facade):
    """Approvals, approvers, and what becomes of calls and turns that wait (G13, U6, U8)."""

    def approvals(
        self,
        *,
        user: str | None = None,
        status: ApprovalStatus | str | None = None,
        of: str | None = None,
        limit: int = 100,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Approval]:
        """Approvals, newest first: those that ``user`` may answer; without one all, for the operator.

        ``of``: only calls of this person. Arguments and resource are shown only to who may answer. Raises
        ``InvalidInput`` (``bad_choice``, ``bad_id``).
        """
        if user is not None:
            check_id(user, "user")
        wanted = None if status is None else _status(status)
        return self._parts.approvals.list(tenant, viewer=user, status=wanted, user=of, limit=limit)

    def approval(self, approval_id: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Approval:
        """One of them, as it stands now. Raises ``NotFound('approval_not_found')``."""
        return self._parts.approvals.find(tenant, approval_id, user)

    def approve(self, approval_id: str, *, by: str, tenant: str = DEFAULT_TENANT) -> Approval:
        """A person's yes to exactly this call. It runs when ``resume_call`` is asked to, within half an hour.

        Raises ``NotFound('approval_not_found')``, ``Denied('not_an_approver')``, ``Conflict``: ``approval_answered``,
        ``approval_expired``, ``seat_filled_by_you``.
        """
        actor = Actor("user", check_id(by, "by"))
        return self._parts.approvals.answer(actor=actor, tenant=tenant, approval_id=approval_id, approve=True)

    def deny(self, approval_id: str, *, by: str, tenant: str = DEFAULT_TENANT) -> Approval:
        """A person's no, which ends it. Raises as ``approve``."""
        actor = Actor("user", check_id(by, "by"))
        return self._parts.approvals.answer(actor=actor, tenant=tenant, approval_id=approval_id, approve=False)

    def answer_all(self, answers: Mapping[str, Any], *, by: str, tenant: str = DEFAULT_TENANT) -> dict[str, Any]:
        """Answers by approval id: exactly true approves, exactly false denies, anything else answers nothing (C80).

        Returns by id the status, or an error object. Raises ``InvalidInput`` (``wrong_type``, ``too_many_answers``).
        """
        actor = Actor("user", check_id(by, "by"))
        return self._parts.approvals.answer_all(actor=actor, tenant=tenant, answers=answers)

    def cancel_approval(self, approval_id: str, *, by: str, tenant: str = DEFAULT_TENANT) -> Approval:
        """Withdraw what nobody answered, or what was approved and has not run.

        Raises ``NotFound('approval_not_found')``, ``Denied('not_an_approver')``, ``Conflict('approval_answered')``.
        """
        actor = Actor("user", check_id(by, "by"))
        return self._parts.approvals.cancel(actor=actor, tenant=tenant, approval_id=approval_id)

    def expire_approvals(self, *, limit: int = 100) -> int:
        """End what nobody answered in time, of every tenant, and forget what nobody continued; returns how many ended.

        For a sweeper: whoever looks at an overdue approval ends it too.
        """
        return self._parts.approval_keeper.expire(limit)

    # --- going on ---

    def resume_call(
        self, approval_id: str, arguments: Mapping[str, Any] | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> ToolOutcome:
        """Run the approved call, once, as a new call whose rights are resolved anew (ruling 12.22).

        Who comes later gets status ``recorded``. ``arguments``: must be exactly the approved ones, else the call is
        denied and the approval stays (C32). Raises ``NotFound('approval_not_found')``,
        ``Denied('surface_unresolved')``.
        """
        return self._parts.engine.resume_call(tenant, approval_id, arguments)

    def continue_turn(
        self,
        *,
        message_id: str,
        agent: str,
        reply_id: str,
        conversation: str | None = None,
        group: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> TurnResult:
        """Let a turn whose calls waited go on; stores a further message of the agent under ``reply_id``, once.

        Raises ``InvalidInput('scope_missing')``, ``NotFound`` and ``Conflict`` (``turn_not_waiting``), ``Conflict``
        (``turn_still_waiting``, ``message_id_reused``), ``VoiceError``.
        """
        if (conversation is None) == (group is None):
            raise InvalidInput("scope_missing", field="conversation")
        chat = ChatRef("group", group) if group is not None else ChatRef("conversation", conversation or "")
        return self._parts.engine.continue_turn(tenant, chat, message_id, agent, reply_id)

    # --- approvers and irreversible codes ---

    def add_approver(
        self, user: str, *, code: str = "*", tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR
    ) -> bool:
        """Name a person who may answer for a code, or for all; false where they may.

        Raises ``InvalidInput`` (``bad_id``, ``bad_code``), ``Denied('agent_cannot_decide')``.
        """
        return self._parts.approvers.add(actor=actor, tenant=tenant, user=user, code=code)

    def remove_approver(
        self, user: str, *, code: str = "*", tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR
    ) -> bool:
        """Take it back, from the next answer on; false where they were none."""
        return self._parts.approvers.remove(actor=actor, tenant=tenant, user=user, code=code)

    def approvers(self, *, tenant: str = DEFAULT_TENANT) -> list[tuple[str, str]]:
        """(user, code) of each."""
        return self._parts.approvers.list(tenant)

    def open_risk(self, code: str, *, tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR) -> bool:
        """Let an irreversible (L4) code be asked for, with two people's yes each time; false where it is open (G1).

        Raises ``InvalidInput('bad_code')``, ``Denied('agent_cannot_decide')``.
        """
        return self._parts.approvers.open(actor=actor, tenant=tenant, code=code)

    def close_risk(self, code: str, *, tenant: str = DEFAULT_TENANT, actor: Actor = OPERATOR) -> bool:
        """Close it again: what waits or is approved does not run any more; false where it was not open."""
        return self._parts.approvers.close(actor=actor, tenant=tenant, code=code)

    def opened_risks(self, *, tenant: str = DEFAULT_TENANT) -> tuple[str, ...]:
        """The open codes."""
        return self._parts.approvers.opened(tenant)


def _status(status: ApprovalStatus | str) -> ApprovalStatus:
    try:
        return ApprovalStatus(status)
    except ValueError:
        raise InvalidInput("bad_choice", field="status", known=[str(known) for known in ApprovalStatus]) from None
