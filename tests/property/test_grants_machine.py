"""Grants against a small reference model: consent, revocation and time, in any order (G2, G3, G4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.support.kit import ScriptedVoice, tool, turn

import prowess
from prowess.errors import InvalidInput, NotFound
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

CODES = {"notes": ("notes:read", "notes:write"), "mail": ("notes:read",)}
SKILLS = [tool(skill, permissions=[(code, "L1") for code in codes]) for skill, codes in CODES.items()]

LIFETIMES = [None, None, timedelta(hours=1), timedelta(hours=6), timedelta(0), timedelta(hours=-1)]
STEPS = [*["use"] * 4, *["grant"] * 3, "revoke", "wait"]

Key = tuple[str, str, str, str | None]


class Grants(RuleBasedStateMachine):
    """Two users, two agents, two skills that share a code. One rule, so that no kind of step is left out for long."""

    @initialize()
    def open(self) -> None:
        self.clock = ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))
        self.app = prowess.open(
            "sqlite://", clock=self.clock, ids=SequentialIds(), skills=SKILLS, voice=ScriptedVoice(instant=True)
        )
        for agent in ("mira", "nova"):
            self.app.create_agent(agent)
        self.granted: dict[Key, datetime | None] = {}
        self.revoked: set[str] = set()
        self.asked = 0

    def teardown(self) -> None:
        if hasattr(self, "app"):
            self.app.close()

    @rule(
        step=st.sampled_from(STEPS),
        user=st.sampled_from(["u1", "u1", "u2"]),
        agent=st.sampled_from([None, "mira", "nova"]),
        pair=st.sampled_from([(skill, code) for skill, codes in CODES.items() for code in codes]),
        lifetime=st.sampled_from(LIFETIMES),
    )
    def act(self, step: str, user: str, agent: str | None, pair: tuple[str, str], lifetime: timedelta | None) -> None:
        if step == "wait":
            self.clock.advance(lifetime or timedelta(hours=2))
        elif step == "grant":
            self.grant(user, pair, agent, lifetime)
        elif step == "revoke":
            self.revoke(user, pair, agent)
        else:
            self.use(user, agent or "mira", pair[0])

    def grant(self, user: str, pair: tuple[str, str], agent: str | None, lifetime: timedelta | None) -> None:
        skill, code = pair
        expires = None if lifetime is None else self.clock.now() + lifetime
        if lifetime is not None and lifetime <= timedelta(0):
            with pytest.raises(InvalidInput) as refused:
                self.app.grant(user=user, skill=skill, code=code, agent=agent, expires_at=expires)
            assert refused.value.code == "expiry_in_past"
            return
        made = self.app.grant(user=user, skill=skill, code=code, agent=agent, expires_at=expires)
        assert (made.agent, made.expires_at, made.status) == (agent, expires, "active")
        assert made.id not in self.revoked
        self.granted[user, skill, code, agent] = expires

    def revoke(self, user: str, pair: tuple[str, str], agent: str | None) -> None:
        skill, code = pair
        gone = [key for key in self.granted if key[:3] == (user, skill, code) and (agent is None or key[3] == agent)]
        try:
            count = self.app.revoke(user=user, skill=skill, code=code, agent=agent)
        except NotFound:
            count = 0
        assert count == len(gone)
        for key in gone:
            del self.granted[key]

    def use(self, user: str, agent: str, skill: str) -> None:
        self.asked += 1
        result = turn(self.app, f"m{self.asked}", f"/{skill} x", user=user, agent=agent, conversation=f"{user} {agent}")
        missing = tuple(code for code in CODES[skill] if not self.covered(user, skill, code, agent))
        assert result.decision is not None
        assert result.decision.missing == missing
        assert result.decision.effect == ("deny" if missing else "allow")
        assert result.run is not None
        assert result.run.status == ("denied" if missing else "completed")

    def covered(self, user: str, skill: str, code: str, agent: str) -> bool:
        keys: list[Key] = [(user, skill, code, None), (user, skill, code, agent)]
        found: list[Any] = [self.granted[key] for key in keys if key in self.granted]
        return any(expires is None or self.clock.now() < expires for expires in found)

    @invariant()
    def the_list_equals_the_model(self) -> None:
        if not hasattr(self, "app"):
            return
        for user in ("u1", "u2"):
            active = self.app.grants(user=user)
            keys = [(grant.user, grant.skill_id, grant.code, grant.agent) for grant in active]
            assert len(keys) == len(set(keys))
            assert {key: grant.expires_at for key, grant in zip(keys, active, strict=True)} == {
                key: expires for key, expires in self.granted.items() if key[0] == user
            }
            everything = self.app.grants(user=user, with_revoked=True)
            revoked = {grant.id for grant in everything if grant.status == "revoked"}
            assert revoked.isdisjoint(grant.id for grant in active)
            assert {grant_id for grant_id in self.revoked if grant_id in {grant.id for grant in everything}} <= revoked
            self.revoked |= revoked


@pytest.mark.timeout(600)  # when it fails, hypothesis takes its time to shorten the example
def test_g2_g3_g4_grants_keep_to_the_model() -> None:
    run_state_machine_as_test(Grants, settings=settings(max_examples=25, stateful_step_count=50))
