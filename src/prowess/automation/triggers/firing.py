"""The one place where a fire becomes a row, a job and an event, whatever made it fire (B1, B12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.jobs.model import NewJob, Task
from prowess.automation.triggers.model import Fire, FireStatus, Source, Trigger
from prowess.automation.triggers.store import fired_since, insert_fire, set_job
from prowess.chat.model import ChatRef
from prowess.chat.service import ChatService
from prowess.events.log import Transaction
from prowess.events.model import SYSTEM, Actor, DecisionWord
from prowess.kernel.canonical import text_digest
from prowess.kernel.clock import iso, to_ms
from prowess.kernel.ids import IdSource

MAX_DEPTH = 3
"""How many triggers may lead to one another (a reaction to a turn that a reaction started)."""
_QUOTED_AS = {"webhook": "webhook", "file": "file", "event": "event"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Why a trigger fires now."""

    slot: str
    source: Source
    planned: datetime | None = None
    data: str | None = None
    """what came with it; untrusted, quoted by the turn (B15)"""
    note: str = ""
    depth: int = 0


class Firing:
    """Makes fires, inside the transaction of whoever saw the occasion."""

    def __init__(self, ledger: JobLedger, ids: IdSource, chat: ChatService) -> None:
        self._ledger = ledger
        self._ids = ids
        self._chat = chat

    def fire(
        self, transaction: Transaction, trigger: Trigger, occasion: Occasion, actor: Actor = SYSTEM
    ) -> Fire | None:
        """Make the job of one occasion; null where this occasion has fired already.

        Over its rate, or where the owner may no longer use the agent, there is a row and an event and no job.
        """
        fire = self._row(transaction, trigger, occasion)
        if not insert_fire(transaction.connection, fire):
            return None
        if fire.status is FireStatus.RATE_LIMITED:
            return self._limited(transaction, trigger, fire, "rate")
        if fire.status is FireStatus.REFUSED:
            self._emit(transaction, "automation.skipped", trigger, fire, SYSTEM, "denied", reason="agent_not_usable")
            return fire
        job = self._ledger.add(transaction, self._job(transaction, trigger, occasion))
        if job is None:
            return None
        fire = replace(fire, job_id=job.id)
        set_job(transaction.connection, fire.id, job.id)
        self._emit(
            transaction,
            "automation.triggered",
            trigger,
            fire,
            actor,
            "allowed",
            job_id=job.id,
            late_ms=fire.late_ms,
            note=fire.note,
        )
        return fire

    def announce(self, fires: Iterable[Fire | None]) -> None:
        """Tell the engine of the jobs of fires that are committed now; what it is not told, its sweep finds."""
        told = [(fire.job_id, fire.at) for fire in fires if fire is not None and fire.job_id is not None]
        if told:
            self._ledger.wake(told)

    def stop_loop(self, transaction: Transaction, trigger: Trigger, occasion: Occasion) -> Fire | None:
        """Instead of a fire that would come back to itself, or lead too far: a row and an event."""
        fire = replace(self._new(transaction, trigger, occasion), status=FireStatus.RATE_LIMITED, note="loop")
        return self._limited(transaction, trigger, fire, "loop") if insert_fire(transaction.connection, fire) else None

    def over_rate(self, transaction: Transaction, trigger: Trigger) -> bool:
        """Whether the trigger has made all the jobs that it may make for now."""
        window = to_ms(transaction.now - timedelta(seconds=trigger.rate.seconds))
        return fired_since(transaction.connection, trigger.id, window) >= trigger.rate.fires

    def conversation(self, trigger: Trigger, slot: str) -> ChatRef:
        """Where the turn of a fire takes place."""
        return ChatRef("conversation", trigger.conversation or f"auto-{trigger.id}-{text_digest(slot)[:12]}")

    def _row(self, transaction: Transaction, trigger: Trigger, occasion: Occasion) -> Fire:
        fire = self._new(transaction, trigger, occasion)
        if not self._chat.may_use(transaction.connection, trigger.tenant, trigger.user, trigger.agent):
            return replace(fire, status=FireStatus.REFUSED, note="agent_not_usable")
        if not self.over_rate(transaction, trigger):
            return fire
        # A delivery that was turned away may come again, so it does not take its slot with it.
        slot = f"{fire.slot} over rate {fire.id}" if occasion.source == "webhook" else fire.slot
        return replace(fire, status=FireStatus.RATE_LIMITED, slot=slot)

    def _new(self, transaction: Transaction, trigger: Trigger, occasion: Occasion) -> Fire:
        late = None if occasion.planned is None else transaction.now - occasion.planned
        return Fire(
            id=self._ids.new("fire"),
            tenant=trigger.tenant,
            trigger=trigger.id,
            slot=occasion.slot,
            source=occasion.source,
            status=FireStatus.FIRED,
            at=transaction.now,
            planned=occasion.planned,
            late_ms=None if late is None else max(0, late // timedelta(milliseconds=1)),
            missed=0,
            missed_from=None,
            note=occasion.note,
            job_id=None,
            depth=occasion.depth,
        )

    def _job(self, transaction: Transaction, trigger: Trigger, occasion: Occasion) -> NewJob:
        return NewJob(
            tenant=trigger.tenant,
            user=trigger.user,
            task=Task.TURN,
            payload={
                "text": trigger.text,
                "data": occasion.data,
                "source": _QUOTED_AS.get(occasion.source),
                "preapproved": list(trigger.preapproved),
                "mode": None if trigger.mode is None else str(trigger.mode),
                "depth": occasion.depth,
            },
            due=transaction.now,
            agent=trigger.agent,
            chat=self.conversation(trigger, occasion.slot),
            max_attempts=trigger.max_attempts,
            trigger=trigger.id,
            slot=occasion.slot,
        )

    def _limited(self, transaction: Transaction, trigger: Trigger, fire: Fire, reason: str) -> Fire:
        limit = {"fires": trigger.rate.fires, "seconds": trigger.rate.seconds} if reason == "rate" else {}
        self._emit(transaction, "automation.rate_limited", trigger, fire, SYSTEM, "denied", reason=reason, **limit)
        return fire

    @staticmethod
    def _emit(
        transaction: Transaction,
        kind: str,
        trigger: Trigger,
        fire: Fire,
        actor: Actor,
        decision: DecisionWord,
        **data: Any,
    ) -> None:
        data |= {"fire_id": fire.id, "slot": fire.slot, "source": fire.source}
        emit_trigger(transaction, kind, trigger, actor, decision, **data)

    def note_missed(
        self, transaction: Transaction, trigger: Trigger, first: datetime, last: datetime, count: int, *, complete: bool
    ) -> None:
        """One row and one event for all the fires of a downtime that are not run (U7)."""
        occasion = Occasion(slot=f"missed {iso(first)}", source="schedule", planned=last)
        fire = replace(
            self._new(transaction, trigger, occasion),
            status=FireStatus.MISSED,
            missed=count,
            missed_from=first,
            note="" if complete else "at_least",
        )
        if insert_fire(transaction.connection, fire):
            span = {"missed": count, "from": iso(first), "to": iso(last), "complete": complete}
            self._emit(transaction, "automation.skipped", trigger, fire, SYSTEM, "cancelled", reason="missed", **span)


def emit_trigger(
    transaction: Transaction,
    kind: str,
    trigger: Trigger,
    actor: Actor,
    decision: DecisionWord | None = None,
    **data: Any,
) -> None:
    """An event about a trigger: whose it is and which, said once. Never its prompt or what came with it (R3)."""
    transaction.emit(
        kind,
        tenant=trigger.tenant,
        actor=actor,
        user=trigger.user,
        agent=trigger.agent,
        chat=None if trigger.conversation is None else ("conversation", trigger.conversation),
        target=trigger.id,
        decision=decision,
        **data,
    )
