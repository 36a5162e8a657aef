"""Why a standing approval serves or does not: nothing but equality serves (U5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations

import pytest

from prowess.access.capabilities import UNRESTRICTED
from prowess.access.gate import decide
from prowess.access.model import (
    ApprovalMode,
    EffectiveAction,
    Facts,
    GateRequest,
    Mode,
    PermissionRequirement,
    Risk,
    RuleVerdict,
    StandingApproval,
)
from prowess.access.standing.service import difference, matches

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
ACTION = EffectiveAction("mail.send", "write", "a@h.example")
ALWAYS = StandingApproval("s1", "t1", "u1", "mira", "mail", ACTION, NOW)


def test_u5_the_very_action_of_the_very_agent_is_served() -> None:
    assert difference(ALWAYS, "mira", ACTION) is None


@pytest.mark.parametrize(
    ("agent", "action", "differs"),
    [
        ("nova", ACTION, "agent"),
        ("Mira", ACTION, "agent"),
        ("mira", ACTION._replace(tool="mail.sender"), "tool"),
        ("mira", ACTION._replace(verb="read"), "verb"),
        ("mira", ACTION._replace(resource="b@h.example"), "resource"),
        ("mira", ACTION._replace(resource="a@h.example/x"), "resource"),
        ("mira", ACTION._replace(resource=""), "resource"),
        ("nova", EffectiveAction("x", "read", "y"), "agent"),
    ],
)
def test_u5_the_first_thing_that_differs_is_named(agent: str, action: EffectiveAction, differs: str) -> None:
    assert difference(ALWAYS, agent, action) == differs


def test_u5_those_that_serve_come_first_and_each_says_why() -> None:
    others = [replace(ALWAYS, id=f"s{number}", agent=agent) for number, agent in enumerate(("nova", "mira", "lyra"))]
    for order in permutations(others):
        found = matches(order, "mira", ACTION)
        assert found[0].approval.agent == "mira"
        assert [match.differs for match in found] == [None, "agent", "agent"]
    assert matches([], "mira", ACTION) == ()


def settled(risk: Risk, **changed: object) -> str:
    needed = PermissionRequirement("mail:send", risk, ApprovalMode.PER_OPERATION)
    request = GateRequest("t1", "u1", "mira", "mail", "1.0.0", "tool:mail.send")
    facts = Facts((needed,), (), True, NOW, UNRESTRICTED, standing=(ALWAYS,))
    return decide(request, replace(facts, **changed)).reason  # type: ignore[arg-type]


def test_u5_an_always_allow_replaces_no_consent_and_no_safety_ask() -> None:
    assert settled(Risk.L2) == "consent_missing"
    assert settled(Risk.L4) == "forbidden_risk"
    free = PermissionRequirement("clock:read", Risk.L0, ApprovalMode.NONE)
    asks = RuleVerdict("ask", "careful")
    assert settled(Risk.L0, requirements=(free,), policy=asks) == "allowed"
    assert settled(Risk.L0, requirements=(free,), policy=asks, standing=()) == "approval_required"
    assert settled(Risk.L0, requirements=(free,), guards=(asks,)) == "approval_required"
    assert settled(Risk.L0, requirements=(free,), policy=RuleVerdict("deny", "never")) == "policy_denies"
    assert settled(Risk.L0, requirements=(free,), mode=Mode.EXPLORE) == "explore_mode"
