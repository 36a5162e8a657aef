"""Jobs that start a turn because a trigger fired: the ordinary entry, the ordinary gate, the ordinary log (B1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from prowess.access.model import Mode
from prowess.automation.jobs.ledger import emit_job
from prowess.automation.jobs.model import Job, JobStatus
from prowess.automation.jobs.outcome import STOPPED, Outcome
from prowess.automation.jobs.runner import Hold, Runner
from prowess.events.log import Transaction
from prowess.kernel.clock import to_ms
from prowess.kernel.untrusted import Untrusted
from prowess.turns.engine import TurnEngine
from prowess.turns.options import CallOptions, Unattended
from prowess.turns.request import TRIGGER_PREFIX, TurnRequest, TurnResult
from prowess.turns.runs import RunStatus

AdmitTrigger = Callable[[Connection, str], str | None]
"""(connection, trigger id) → why it may not run now; null where it may"""

UNANSWERED, DENIED = "permission_timeout", "denied"
"""outcomes of approvals: nobody answered, and somebody said no; neither is an incident"""


class TurnRunner(Runner):
    """Starts turns. The job's id is the message's id, so a second attempt is a replay of the same turn (B8, B16)."""

    def __init__(self, engine: TurnEngine, admit: AdmitTrigger) -> None:
        self._engine = engine
        self._admit = admit

    def admit(self, transaction: Transaction, jobs: Sequence[Job], prepared: Mapping[str, Any]) -> Mapping[str, str]:
        """Whether the trigger may still run, on behalf of its owner (C31, G4)."""
        refused: dict[str, str] = {}
        for job in jobs:
            reason = "trigger_not_found" if job.trigger is None else self._admit(transaction.connection, job.trigger)
            if reason is not None:
                refused[job.id] = reason
            decided = "allowed" if reason is None else "denied"
            emit_job(transaction, "job.decided", job, decision=decided, reason=reason or "allowed", trigger=job.trigger)
        return refused

    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """One turn; parked where it waits for a person (U6). Raises what a turn raises."""
        request = request_of(job)
        result = self._engine.turn(request, options_of(job, hold))
        return Outcome("failed", STOPPED, job.id) if self._engine.is_stopped(request) else turn_outcome(result)

    def ended(self, transaction: Transaction, job: Job, outcome: Outcome, status: JobStatus) -> None:
        """The events of B13."""
        tell_automation(transaction, job, outcome, status)


def request_of(job: Job) -> TurnRequest:
    """The turn that a job starts."""
    assert job.chat is not None
    assert job.agent is not None
    data = job.payload.get("data")
    return TurnRequest(
        tenant=job.tenant,
        user=job.user,
        agent=job.agent,
        text=str(job.payload["text"]),
        message_id=job.id,
        conversation=job.chat.id if job.chat.kind == "conversation" else None,
        group=job.chat.id if job.chat.kind == "group" else None,
        origin=f"{TRIGGER_PREFIX}{job.trigger}",
        data=None if data is None else Untrusted(str(data), str(job.payload.get("source") or "trigger")),
    )


def options_of(job: Job, hold: Hold) -> CallOptions:
    """The policy of the trigger."""
    mode = job.payload.get("mode")
    unattended = Unattended(frozenset(map(str, job.payload.get("preapproved") or ())))
    return CallOptions(mode=None if mode is None else Mode(mode), unattended=unattended, fence=hold.fence)


def turn_outcome(result: TurnResult) -> Outcome:
    """How a turn that nobody watches went: what was verified, not what was intended (U7)."""
    if result.pending_approvals:
        return Outcome("waiting", result=result.message_id)
    if "command.unknown" in result.events:  # the skill is not there for this turn: nothing of it was done
        return Outcome("failed", "skill_not_found", result.message_id)
    run = result.run
    if run is not None and run.status in (RunStatus.DENIED, RunStatus.FAILED):
        denied = result.decision is not None and result.decision.effect == "deny"
        code = result.decision.reason if denied and result.decision is not None else "turn_failed"
        return Outcome("failed", code, result.message_id)
    return Outcome("done", result=result.message_id)


def tell_automation(transaction: Transaction, job: Job, outcome: Outcome, status: JobStatus) -> None:
    """What became of a fire: deferred, skipped, completed with its outcome, and an incident where it failed."""
    said: dict[str, Any] = {"trigger": job.trigger, "slot": job.slot, "error_code": outcome.error_code}
    if status is JobStatus.RETRYING and outcome.kind == "deferred":
        until = None if outcome.until is None else to_ms(outcome.until)
        emit_job(transaction, "automation.deferred", job, **said, until=until)
    elif status is JobStatus.COMPLETED:
        emit_job(transaction, "automation.completed", job, decision="succeeded", **said, outcome="ok")
    elif status is JobStatus.FAILED:
        if outcome.error_code == UNANSWERED:
            emit_job(transaction, "automation.skipped", job, decision="denied", **said)
        emit_job(transaction, "automation.completed", job, decision="failed", **said, outcome="failed")
        if outcome.error_code not in (UNANSWERED, DENIED, STOPPED):
            emit_job(transaction, "incident.opened", job, decision="failed", **said, attempts=job.attempts)
