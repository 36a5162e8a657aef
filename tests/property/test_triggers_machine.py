"""Steering a trigger in any order, against a small model: what fires is what was active, once a slot (B12, G4, G15)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import prowess
from prowess import Conflict, ManualClock, NotFound
from prowess.automation.triggers.model import Status
from prowess.kernel.ids import SequentialIds

STEPS = ["wait", "wait", "fire_due", "fire_due", "pause", "resume", "change", "fire", "remove"]
EVERY = [60, 90, 600]


class Triggers(RuleBasedStateMachine):
    """One interval trigger under rule ``one``; the model knows its status, anchor and next fire."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.app = prowess.open("sqlite://", clock=self.clock, ids=SequentialIds())
        self.every = 60
        self.trigger = self.app.add_automation(
            user="u1", name="t", agent="mira", kind="interval", spec={"seconds": 60}, prompt="x",
            rate={"fires": 10_000, "seconds": 60},
        )  # fmt: skip
        self.anchor = self.clock.now()
        self.status = Status.ACTIVE
        self.next: datetime | None = self.anchor + timedelta(seconds=60)
        self.fired = self.missed = self.by_hand = 0
        self.revision = 1

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    @rule(
        step=st.sampled_from(STEPS), seconds=st.sampled_from([1, 30, 60, 61, 200, 1_000]), every=st.sampled_from(EVERY)
    )
    def act(self, step: str, seconds: int, every: int) -> None:
        if step == "wait":
            self.clock.advance(timedelta(seconds=seconds))
        elif step == "remove" and self.fired < 3:
            return  # rarely, or there is nothing left to steer
        else:
            getattr(self, step)(every)

    def fire_due(self, _every: int) -> None:
        made = self.app.fire_due().fires
        now = self.clock.now()
        if self.next is None or self.next > now:
            assert made == ()
            return
        passed = (now - self.next) // timedelta(seconds=self.every) + 1
        latest = self.next + (passed - 1) * timedelta(seconds=self.every)
        assert [fire.planned for fire in made] == [latest]
        self.fired += 1
        self.missed += passed - 1
        self.next = latest + timedelta(seconds=self.every)

    def pause(self, _every: int) -> None:
        if self.done(self.status is Status.ACTIVE, self.app.pause_automation):
            self.status, self.next = Status.PAUSED, None

    def resume(self, _every: int) -> None:
        if self.done(self.status is Status.PAUSED, self.app.resume_automation):
            self.status, self.next = Status.ACTIVE, self.following()

    def change(self, every: int) -> None:
        changes = {"spec": {"seconds": every}}
        changed = self.done(self.status is not Status.REMOVED, self.app.change_automation, changes)
        if changed and every != self.every:
            self.every, self.anchor = every, self.clock.now()
            self.next = self.following() if self.status is Status.ACTIVE else None

    def fire(self, _every: int) -> None:
        if self.done(self.status is Status.ACTIVE, self.app.fire_automation, revises=False):
            self.by_hand += 1

    def remove(self, _every: int) -> None:
        if self.done(self.status is not Status.REMOVED, self.app.remove_automation):
            self.status, self.next = Status.REMOVED, None

    def following(self) -> datetime:
        every = timedelta(seconds=self.every)
        return self.anchor + ((self.clock.now() - self.anchor) // every + 1) * every

    def done(self, may: bool, call: Any, *words: Any, revises: bool = True) -> bool:
        """Carry out the step; whether it was one that may be. One that may not be changes nothing."""
        if may:
            call(self.trigger.id, *words, user="u1")
            self.revision += int(revises)
            return True
        with pytest.raises((Conflict, NotFound)):
            call(self.trigger.id, *words, user="u1")
        return False

    @invariant()
    def the_store_agrees(self) -> None:
        if not hasattr(self, "app"):
            return
        found = self.app.automation(self.trigger.id, user="u1")
        assert (found.status, found.next_fire_at, found.revision) == (self.status, self.next, self.revision)
        entries = self.app.automation_history(self.trigger.id, limit=1_000)
        fired = [entry for entry in entries if entry.status == "fired"]
        assert len(fired) == self.fired + self.by_hand
        assert sum(entry.missed for entry in entries) == self.missed
        assert len({entry.slot for entry in entries}) == len(entries)


def test_b12_steering_a_trigger_in_any_order() -> None:
    run_state_machine_as_test(Triggers, settings=settings(max_examples=40, stateful_step_count=30))  # type: ignore[no-untyped-call]
