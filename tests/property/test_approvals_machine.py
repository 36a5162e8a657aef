"""Approvals against a small model: at most one execution, and never without a yes to exactly these arguments (G13, U8)."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.kit import Answer, ScriptedVoice, request, tool

import prowess
from prowess import ProwessError
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
PAYING = PermissionRequirement("card:charge", Risk.L4, ApprovalMode.PER_OPERATION)
PEOPLE = {"u1": True, "boss": True, "guest": False}
"""who may answer"""
AMOUNTS = [100, 900]
Key = tuple[str, str]
"""skill and message"""


class Approvals(RuleBasedStateMachine):
    """Two tools, one of them irreversible; few messages and two amounts, so that calls meet each other often."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.ran: Counter[tuple[str, str, int]] = Counter()
        self.now_running: str | None = None

        def execute(context: Any, question: Any) -> Answer:
            assert self.now_running is not None, "nothing runs but by an approval"
            self.ran[self.now_running, question.text, int(question.number)] += 1
            return Answer(text="done")

        skills = [
            tool(name, execute, permissions=[needs], effect="write", max_calls_per_turn=1)
            for name, needs in (("sender", SENDING), ("payer", PAYING))
        ]
        self.app = prowess.open(
            "sqlite://", clock=self.clock, ids=SequentialIds(), skills=skills, voice=ScriptedVoice()
        )
        self.app.grant(user="u1", skill="sender", code="mail:send")
        self.app.open_risk("card:charge")
        self.app.add_approver("boss")
        self.asked: dict[str, tuple[str, str, int]] = {}
        """approval → skill, message, amount"""
        self.yes: dict[str, set[str]] = {}
        self.no: set[str] = set()
        self.born: dict[str, datetime] = {}
        self.given: dict[str, datetime] = {}
        self.used: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    @rule(skill=st.sampled_from(["sender", "payer"]), message=st.sampled_from("12"), amount=st.sampled_from(AMOUNTS))
    def ask(self, skill: str, message: str, amount: int) -> None:
        """A call of the turn itself: it waits, or uses the yes that it has."""
        plan = self.app.begin(request(f"{skill}{message}", "hello"))
        mine = [name for name, known in self.asked.items() if known == (skill, message, amount) and self.may_run(name)]
        self.now_running = mine[0] if mine else None
        outcome = self.app.call(plan, f"tool.{skill}", {"text": message, "number": amount})
        if outcome.status == "succeeded":
            self.used.add(mine[0])
        elif outcome.status == "pending":
            assert not mine
            name = str(outcome.approval)
            if name in self.asked:
                assert self.asked[name] == (skill, message, amount)
            else:
                self.asked[name], self.yes[name], self.born[name] = (skill, message, amount), set(), self.clock.now()
        else:
            assert outcome.status in ("denied", "recorded")

    @rule(data=st.data(), by=st.sampled_from(sorted(PEOPLE)), said=st.sampled_from([True, True, False, None, "yes"]))
    def answer(self, data: st.DataObject, by: str, said: Any) -> None:
        if not self.asked:
            return
        name = data.draw(st.sampled_from(sorted(self.asked)))
        waits = self.waits(name)
        status = self.app.answer_all({name: said}, by=by)[name]
        counts = waits and PEOPLE[by] and by not in self.yes[name] and said in (True, False)
        assert isinstance(status, str) is (counts or said not in (True, False))
        if counts and said is False:
            self.no.add(name)
        elif counts:
            self.yes[name].add(by)
            if len(self.yes[name]) == self.seats(name):
                self.given[name] = self.clock.now()

    @rule(data=st.data(), amount=st.sampled_from([None, None, *AMOUNTS]))
    def resume(self, data: st.DataObject, amount: int | None) -> None:
        if not self.asked:
            return
        name = data.draw(st.sampled_from(sorted(self.asked)))
        _, message, wanted = self.asked[name]
        self.now_running = name if self.may_run(name) and amount in (None, wanted) else None
        arguments = None if amount is None else {"text": message, "number": amount}
        status = self.app.resume_call(name, arguments).status
        assert (status == "succeeded") is (self.now_running is not None and not self.key_ran(name))
        if status in ("succeeded", "recorded") and self.now_running is not None:
            self.used.add(name)
        self.now_running = None

    @rule(minutes=st.sampled_from([1, 10, 29, 30]))
    def wait(self, minutes: int) -> None:
        self.clock.advance(timedelta(minutes=minutes))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.asked:
            return
        name = data.draw(st.sampled_from(sorted(self.asked)))
        with contextlib.suppress(ProwessError):
            self.app.cancel_approval(name, by="u1")
            assert self.waits(name) or self.may_run(name)
            self.no.add(name)

    def seats(self, name: str) -> int:
        return 2 if self.asked[name][0] == "payer" else 1

    def waits(self, name: str) -> bool:
        young = self.clock.now() < self.born[name] + timedelta(minutes=30)
        return young and name not in self.no and name not in self.given

    def may_run(self, name: str) -> bool:
        fresh = name in self.given and self.clock.now() < self.given[name] + timedelta(minutes=30)
        return fresh and name not in self.no and name not in self.used

    def key_ran(self, name: str) -> bool:
        skill, message, _ = self.asked[name]
        return any(
            self.asked[other][:2] == (skill, message) and other != name
            for other, _, _ in self.ran
            if other in self.asked
        )

    @invariant()
    def nothing_ran_twice_or_without_a_yes_to_these_arguments(self) -> None:
        if not hasattr(self, "app"):
            return
        for (name, text, amount), times in self.ran.items():
            _, message, wanted = self.asked[name]
            assert (times, text, amount) == (1, message, wanted)
            assert len(self.yes[name]) == self.seats(name)
            assert all(PEOPLE[person] for person in self.yes[name])
        by_key = Counter(self.asked[name][:2] for name, _, _ in self.ran)
        assert not by_key or max(by_key.values()) == 1


@pytest.mark.timeout(600)  # when it fails, hypothesis takes its time to shorten the example
def test_g13_u8_approvals_keep_to_the_model() -> None:
    run_state_machine_as_test(Approvals, settings=settings(max_examples=40, stateful_step_count=40))
