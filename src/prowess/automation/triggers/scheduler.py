"""Firing what is due: once for each slot, whatever the number of schedulers and restarts (B10 to B12)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from prowess.automation.triggers.firing import Firing, Occasion, emit_trigger
from prowess.automation.triggers.model import Fire, FireStatus, Kind, Status, Trigger
from prowess.automation.triggers.schedule import Due, Schedule, Slot, compile_schedule, next_slot, plan_due
from prowess.automation.triggers.specs import read_spec
from prowess.automation.triggers.store import (
    break_trigger,
    due_triggers,
    first_due,
    other_zone_data,
    replace_trigger,
)
from prowess.automation.zones import data_version
from prowess.errors import ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM
from prowess.kernel.clock import iso, to_ms

logger = logging.getLogger(__name__)

BATCH = 100
"""Triggers that one call serves at most."""


class Swept(NamedTuple):
    """What one call did."""

    fires: tuple[Fire, ...]
    """with their jobs; those over their rate or refused have none"""
    more: bool
    """whether the batch was full, so that more may be due at once"""


class Scheduler:
    """Fires time triggers. Any number of them over one database; each slot has one job."""

    def __init__(self, log: EventLog, firing: Firing, zone_data: Callable[[], str] = data_version) -> None:
        self._log = log
        self._firing = firing
        self._zone_data = zone_data

    def look_after(self) -> datetime | None:
        """Fire what is due, a batch at a time; returns when there is next something to do. A duty of the worker."""
        return self._log.clock.now() if self.fire_due().more else self.next_due()

    def next_due(self) -> datetime | None:
        """When there is next something to do; null where nothing is planned."""
        with self._log.database.read() as connection:
            return first_due(connection)

    def fire_due(self, limit: int = BATCH) -> Swept:
        """Fire what is due now, at most ``limit`` triggers, one of each tenant in turn.

        A trigger that cannot be read is flagged and the others go on (C54).
        """
        self._find_anew(limit)
        with self._log.database.read() as connection:
            due = due_triggers(connection, to_ms(self._log.clock.now()), limit)
        found: list[Fire] = []
        for trigger in due:
            found.extend(self._serve(trigger))
        return Swept(tuple(found), len(due) == limit)

    def _serve(self, trigger: Trigger) -> list[Fire]:
        schedule = self._schedule(trigger)
        if schedule is None or trigger.next_fire_at is None:
            return []
        plan = plan_due(schedule, trigger.next_fire_at, self._log.clock.now(), trigger.misfire, trigger.misfire_bound)
        with self._log.transaction(trigger.tenant) as transaction:
            after = self._after(trigger, plan, transaction.now)
            if not replace_trigger(transaction.connection, after, expected=trigger):
                return []  # another scheduler was faster, or the trigger was changed
            if plan.missed is not None:
                first, last, count, complete = plan.missed
                self._firing.note_missed(transaction, trigger, first, last, count, complete=complete)
            made = [self._fire(transaction, trigger, schedule, slot) for slot in plan.run]
        self._firing.announce(made)
        return [fire for fire in made if fire is not None]

    def _fire(self, transaction: Transaction, trigger: Trigger, schedule: Schedule, slot: Slot) -> Fire | None:
        late = transaction.now - slot.at > schedule.grace
        if slot.note:
            logger.info("trigger %s fires at %s: %s", trigger.id, iso(slot.at), slot.note)
        occasion = Occasion(
            slot=iso(slot.at) or "",
            source="schedule",
            planned=slot.at,
            note=" ".join(filter(None, (slot.note, "catch_up" if late else ""))),
        )
        fire = self._firing.fire(transaction, trigger, occasion)
        if fire is not None and fire.status is FireStatus.REFUSED:
            logger.warning("trigger %s was refused: its owner may not use agent %s", trigger.id, trigger.agent)
        return fire

    def _after(self, trigger: Trigger, plan: Due, now: datetime) -> Trigger:
        """The trigger once its slots are served."""
        after = replace(trigger, next_fire_at=plan.next, zone_data=self._zone_data())
        if plan.next is None:
            after = replace(after, status=Status.FINISHED, reason="no_further_fire", changed_at=now)
        return after

    def _schedule(self, trigger: Trigger) -> Schedule | None:
        """The trigger's schedule; null where it cannot be read, which is then flagged."""
        reason = trigger.reason or "row_unreadable" if trigger.status is Status.BROKEN else None
        if reason is None:
            try:
                return compile_schedule(trigger.kind, read_spec(trigger.kind, trigger.spec), trigger.anchor)
            except ProwessError as error:
                reason = error.code
        with self._log.transaction(trigger.tenant) as transaction:
            if break_trigger(transaction.connection, trigger, reason, transaction.now_ms):
                logger.warning("trigger %s is broken: %s", trigger.id, reason)
                emit_trigger(transaction, "automation.broken", trigger, SYSTEM, "failed", reason=reason)
        return None

    def _find_anew(self, limit: int) -> None:
        """Next fires that were found with other zone data. Nothing is fired here (C87).

        Those that are due already are left to ``_serve``, which reads their slots with the new data anyway.
        """
        version = self._zone_data()
        with self._log.database.read() as connection:
            stale = other_zone_data(connection, version, limit)
        for trigger in stale:
            now = self._log.clock.now()
            if trigger.next_fire_at is None or trigger.next_fire_at <= now:
                continue
            schedule = self._schedule(trigger)
            if schedule is None:
                continue
            # What is due once and for all stays due, though its time may now have passed.
            since = trigger.anchor if trigger.kind is Kind.ONCE else now
            after = replace(trigger, next_fire_at=next_slot(schedule, since), zone_data=version)
            if after.next_fire_at is None:
                after = replace(after, status=Status.FINISHED, reason="no_further_fire", changed_at=now)
            with self._log.transaction(trigger.tenant) as transaction:
                moved = replace_trigger(transaction.connection, after, expected=trigger)
                if moved and after.next_fire_at != trigger.next_fire_at:
                    was, becomes = iso(trigger.next_fire_at), iso(after.next_fire_at)
                    emit_trigger(transaction, "automation.rescheduled", trigger, SYSTEM, was=was, next=becomes)
