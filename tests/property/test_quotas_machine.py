"""Budgets against a small reference model: reserving, settling, dying and time, in any order (U9)."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.kit import ScriptedVoice

import prowess
from prowess.access.quotas.model import Exhausted, Quota, Reservation, Resource, Use, window_start
from prowess.kernel.clock import ManualClock, to_ms
from prowess.kernel.ids import SequentialIds

LIMITS = {"calls": 5, "model_tokens": 900}
STEPS = [*["reserve"] * 5, *["settle"] * 3, "die", "wait"]

Count = tuple[str, str, int]
"""quota, counter, start of its window"""


class Budgets(RuleBasedStateMachine):
    """Three budgets over two users: one for all, one for each user, one of tokens an hour."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 23, 30, tzinfo=UTC))
        self.app = prowess.open("sqlite://", clock=self.clock, ids=SequentialIds(), voice=ScriptedVoice(instant=True))
        self.quotas: list[Quota] = [
            self.app.set_quota("calls", LIMITS["calls"], window="day"),
            self.app.set_quota("calls", 3, window="hour", user="*"),
            self.app.set_quota("model_tokens", LIMITS["model_tokens"], window="hour", user="*"),
        ]
        self.taken: dict[Count, int] = defaultdict(int)
        self.running: list[tuple[Reservation, dict[Resource, int], list[Count]]] = []

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    def counts(self, user: str) -> list[tuple[Quota, Count]]:
        now = to_ms(self.clock.now())
        use = Use("default", user, "mira")
        return [(quota, (quota.id, quota.counter(use) or "", window_start(quota.window, now))) for quota in self.quotas]

    @rule(
        step=st.sampled_from(STEPS), user=st.sampled_from(["u1", "u2"]), amount=st.integers(0, 400), pick=st.integers()
    )
    def act(self, step: str, user: str, amount: int, pick: int) -> None:
        if step == "wait":
            self.clock.advance(timedelta(minutes=amount % 50 + 1))
        elif step == "reserve":
            self.reserve(user, {Resource.CALLS: 1, Resource.MODEL_TOKENS: amount})
        elif self.running:
            reservation, wanted, counts = self.running.pop(pick % len(self.running))
            if step == "settle":
                self.settle(reservation, wanted, counts, amount)

    def reserve(self, user: str, wanted: dict[Resource, int]) -> None:
        known = self.counts(user)
        fits = all(self.taken[count] + wanted[quota.resource] <= quota.limit for quota, count in known)
        service, use = self.app._parts.quotas, Use("default", user, "mira")
        with self.app._parts.log.transaction("default") as transaction:
            limited = service.concerning(transaction.connection, use)
            held = service.reserve(transaction, use, limited, wanted)
        assert isinstance(held, Reservation if fits else Exhausted)
        if isinstance(held, Reservation):
            for quota, count in known:
                self.taken[count] += wanted[quota.resource]
            self.running.append((held, wanted, [count for _, count in known]))

    def settle(self, reservation: Reservation, wanted: dict[Resource, int], counts: list[Count], amount: int) -> None:
        used = {Resource.CALLS: 1, Resource.MODEL_TOKENS: min(amount, wanted[Resource.MODEL_TOKENS])}
        with self.app._parts.log.transaction("default") as transaction:
            self.app._parts.quotas.settle(transaction, reservation, used)
        for quota, count in zip(self.quotas, counts, strict=True):
            self.taken[count] += used[quota.resource] - wanted[quota.resource]

    @invariant()
    def the_counts_are_the_models_and_never_over_the_limit(self) -> None:
        if not hasattr(self, "app"):
            return
        now = to_ms(self.clock.now())
        for item in self.app.quota_usage():
            start = window_start(item.quota.window, now)
            mine = sum(
                taken
                for (quota, counter, since), taken in self.taken.items()
                if (quota, since) == (item.quota.id, start) and counter == str(list(item.counter)).replace("'", '"')
            )
            assert item.used + item.reserved == mine
            assert 0 <= item.used + item.reserved <= item.quota.limit
            assert item.reserved >= 0


def test_u9_budgets_keep_to_the_model() -> None:
    run_state_machine_as_test(Budgets, settings=settings(max_examples=12, stateful_step_count=30, deadline=None))
