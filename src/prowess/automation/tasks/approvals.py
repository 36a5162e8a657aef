"""Jobs that go on where a person's yes was needed: first the call, then the turn (G13, U6, C44).

Whoever answers an approval only records the answer. What follows is work like any other: found in the log, claimed,
leased, retried, and done once, in whichever process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from prowess.access.approvals.model import TurnKey
from prowess.access.approvals.service import ApprovalService
from prowess.automation.jobs.ledger import JobLedger, emit_job
from prowess.automation.jobs.model import Job, JobStatus, NewJob, Task
from prowess.automation.jobs.outcome import Outcome
from prowess.automation.jobs.runner import Hold, Runner
from prowess.automation.jobs.store import change_job, find_job
from prowess.automation.tasks.turns import DENIED, UNANSWERED, tell_automation, turn_outcome
from prowess.chat.model import ChatRef
from prowess.errors import Conflict, NotFound
from prowess.events.followers import Follower
from prowess.events.log import EventLog, Transaction, events
from prowess.events.model import Event
from prowess.turns.locks import BUSY
from prowess.turns.options import CallOptions
from prowess.turns.resuming import ResumingEngine
from prowess.turns.suspended import forget_suspended

_APPROVED, _SETTLED = _FOLLOWED = ("approval.approved", "turn.settled")
_REFUSED = ("denied", "not_found", "invalid_input")
_EXPIRED_AT_ONCE = 1_000
_FORGETTING = timedelta(hours=1)
_GONE = ("turn_not_waiting", "turn_still_waiting")


class CallRunner(Runner):
    """Runs an approved call, at most once. Every layer is asked anew, so the claim itself refuses nothing."""

    def __init__(self, engine: ResumingEngine) -> None:
        self._engine = engine

    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """What the call came to. A write whose outcome is unknown is not repeated."""
        approval = str(job.payload["approval"])
        outcome = self._engine.resume_call(job.tenant, approval, options=CallOptions(fence=hold.fence))
        if outcome.status in ("succeeded", "pending") or (outcome.status == "recorded" and not outcome.error_code):
            return Outcome("done", result=approval)
        if outcome.error_code == BUSY:  # nothing was done: the approval stands
            return Outcome("retry", BUSY, approval)
        reason = outcome.error_code or (outcome.decision.reason if outcome.decision else outcome.status)
        # A handler that failed may have done half of it: only a person can say whether to ask for it again.
        return Outcome("failed", reason if outcome.status in (*_REFUSED, "recorded") else outcome.status, approval)


class ContinueRunner(Runner):
    """Lets a turn go on whose approvals are settled; its words are stored under the job's id (B8)."""

    def __init__(self, engine: ResumingEngine, approvals: ApprovalService) -> None:
        self._engine = engine
        self._approvals = approvals

    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """Nothing is to be done where the turn goes on elsewhere, or waits for something else again."""
        assert job.chat is not None
        assert job.agent is not None
        message_id, options = str(job.payload["message_id"]), CallOptions(fence=hold.fence)
        try:
            result = self._engine.continue_turn(job.tenant, job.chat, message_id, job.agent, job.id, options)
        except (NotFound, Conflict) as error:
            if error.code not in _GONE:
                raise
            return Outcome("done")
        if result.pending_approvals:
            return Outcome("done", result="waiting")
        # This job has done its part; what the turn came to is the matter of the job that began it.
        code = self._unanswered(job, message_id) or turn_outcome(result).error_code
        return Outcome("done", code, job.id)

    def _unanswered(self, job: Job, message_id: str) -> str | None:
        """That a call was refused by silence or by a person: whatever the voice made of it, the turn is not done."""
        assert job.chat is not None
        assert job.agent is not None
        outcomes = {
            item.outcome for item in self._approvals.of_turn(TurnKey(job.tenant, job.chat, message_id, job.agent))
        }
        return next((code for code in (UNANSWERED, DENIED) if code in outcomes), None)

    def ended(self, transaction: Transaction, job: Job, outcome: Outcome, status: JobStatus) -> None:
        """End the job that began the turn, where a trigger did: done only if the turn was (U6, U7)."""
        if outcome.result == "waiting" or status not in (JobStatus.COMPLETED, JobStatus.FAILED):
            return
        begun = find_job(transaction.connection, str(job.payload["message_id"]))
        if begun is None or begun.tenant != job.tenant or begun.status is not JobStatus.WAITING:
            return
        code = outcome.error_code
        ended = Outcome("failed" if code else "done", code, begun.id)
        after = JobStatus.FAILED if code else JobStatus.COMPLETED
        if change_job(
            transaction.connection,
            begun,
            after,
            error_code=code,
            result=begun.id,
            finished_ms=transaction.now_ms,
        ):
            decision = "failed" if code else "succeeded"
            said: dict[str, Any] = {"error_code": code, "attempts": begun.attempts, "trigger": begun.trigger}
            emit_job(transaction, "job.finished", begun, decision=decision, **said)
            tell_automation(transaction, begun, ended, after)


class ApprovalKeeper:
    """Ends what nobody answered in time, and forgets what nobody continued; a duty of the worker."""

    def __init__(self, log: EventLog, approvals: ApprovalService) -> None:
        self._log = log
        self._approvals = approvals
        self._forgot_at: datetime | None = None

    def look_after(self) -> datetime | None:
        """Whoever looks at an overdue approval ends it too; this is for those that nobody looks at."""
        self._approvals.expire_due(_EXPIRED_AT_ONCE)
        now = self._log.clock.now()
        if self._forgot_at is None or now - self._forgot_at >= _FORGETTING:
            self._forgot_at = now
            self._forget()
        return None

    def expire(self, limit: int) -> int:
        """End at most ``limit`` overdue approvals of all tenants; returns how many."""
        ended = self._approvals.expire_due(limit)
        self._forget()
        return ended

    def _forget(self) -> None:
        self._approvals.forget_results()
        with self._log.transaction(None) as transaction:
            forget_suspended(transaction.connection, transaction.now)


class ApprovalFollower:
    """Makes a job of every approved call and of every turn whose approvals are settled; a duty of the worker."""

    def __init__(self, log: EventLog, ledger: JobLedger) -> None:
        self._ledger = ledger
        self._added: list[Job] = []
        self._follower = Follower(log, "approved-work", self._handle, only=events.c.type.in_(_FOLLOWED))

    def look_after(self) -> datetime | None:
        """Catch up with the log. What is added is due at once, and found by whoever looks at the ledger next."""
        self._follower.catch_up()
        self._ledger.announce(self._added)
        self._added.clear()
        return None

    def _handle(self, transaction: Transaction, found: Sequence[Event]) -> None:
        for event in found:
            new = _job_of(event, transaction.now)
            if new is not None and (job := self._ledger.add(transaction, new)) is not None:
                self._added.append(job)


def _job_of(event: Event, now: datetime) -> NewJob | None:
    if event.type == _APPROVED and event.target is not None:
        return _new_job(event, Task.CALL, {"approval": event.target}, now)
    if event.type == _SETTLED and event.message_id is not None:
        return _new_job(event, Task.CONTINUE, {"message_id": event.message_id}, now)
    return None


def _new_job(event: Event, task: Task, payload: Mapping[str, Any], now: datetime) -> NewJob:
    chat = None
    if event.chat_kind in ("conversation", "group") and event.chat_id is not None:
        chat = ChatRef(event.chat_kind, event.chat_id)  # type: ignore[arg-type]  # narrowed by the line above
    return NewJob(
        tenant=event.tenant,
        user=event.user or "",
        agent=event.agent,
        chat=chat,
        task=task,
        payload=payload,
        due=now,
    )
