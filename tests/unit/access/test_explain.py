"""Why the gate decided so: each layer's answer, and what the answer hangs on (G14)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from prowess.access.capabilities import NOT_ACTIVE, NOT_GRANTED, UNRESTRICTED
from prowess.access.explain import explain
from prowess.access.gate import decide
from prowess.access.model import (
    ApprovalMode,
    EffectiveAction,
    Facts,
    GateRequest,
    Grant,
    GrantScope,
    GrantStatus,
    Layer,
    Mode,
    PermissionRequirement,
    Risk,
    RuleVerdict,
    StandingApproval,
    Verdict,
)

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
REQUEST = GateRequest("t1", "u1", "mira", "notes", "1.0.0", "tool:notes.read")
READ = PermissionRequirement("memory:read", Risk.L1)
SEND = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
CAREFUL = PermissionRequirement("memory:read", Risk.L1, ApprovalMode.PER_OPERATION)
ALWAYS = StandingApproval("s1", "t1", "u1", "mira", "notes", EffectiveAction("notes.read", "read", "a"), NOW)
ORDER = ["filter", "entitlement", "activation", "binding", "policy", "guard", "consent", "approval", "quota"]


def grant(id: str = "g1", code: str = "memory:read", scope: GrantScope = GrantScope.USER) -> Grant:
    agent = "mira" if scope is GrantScope.AGENT else None
    return Grant(id, "t1", "u1", "notes", "1.0.0", code, scope, agent, None, GrantStatus.ACTIVE, NOW, "u1")


def facts(*requirements: PermissionRequirement, **changed: Any) -> Facts:
    known = Facts(requirements, (), True, NOW, Verdict(True, None, "granted", ("skill", "notes")))
    return replace(known, **changed)


def test_g14_each_layer_answers_in_order() -> None:
    explanation = explain(REQUEST, facts(READ, grants=(grant(),)))
    assert [str(step.layer) for step in explanation.steps] == ORDER
    assert [step.answer for step in explanation.steps] == [
        "allow", "allow", "allow", "allow", "silent", "silent", "allow", "silent", "silent",
    ]  # fmt: skip
    by = {step.layer: step.by for step in explanation.steps}
    assert (by[Layer.ENTITLEMENT], by[Layer.CONSENT]) == ("skill:notes", "g1")


@pytest.mark.parametrize(
    ("changed", "layer", "reason", "by"),
    [
        ({"reach": NOT_GRANTED}, "entitlement", "not_granted", None),
        ({"reach": NOT_ACTIVE}, "activation", "not_active", None),
        ({"enabled": False}, "binding", "skill_disabled", None),
        ({"policy": RuleVerdict("deny", "never")}, "policy", "policy_denies", "never"),
        ({"mode": Mode.EXPLORE}, "policy", "explore_mode", None),
        ({"guards": (RuleVerdict("deny", "careful"),)}, "guard", "guard_denies", "careful"),
        ({"guards": (RuleVerdict(None, "broken"),)}, "guard", "could_not_decide", "broken"),
        ({}, "consent", "consent_missing", "memory:read"),
    ],
)
def test_g14_the_layer_that_said_no_is_named_and_no_later_one_is_asked(
    changed: dict[str, Any], layer: str, reason: str, by: str | None
) -> None:
    explanation = explain(REQUEST, facts(READ, **changed))
    steps = {str(step.layer): step for step in explanation.steps}
    assert sorted(steps) == sorted(ORDER)
    assert steps[layer][1:] == ("deny", reason, by)
    assert [step.layer for step in explanation.steps if step.answer == "deny"] == [layer]
    for later in ORDER[ORDER.index(layer) + 1 :]:
        assert steps[later][1:3] == ("silent", "not_asked")
    assert explanation.decisive == ()


def test_g14_the_only_grant_is_decisive() -> None:
    assert explain(REQUEST, facts(READ, grants=(grant(),))).decisive == ("g1",)


def test_g14_where_another_grant_would_serve_too_there_is_none() -> None:
    both = (grant(), grant("g2", scope=GrantScope.AGENT))
    explanation = explain(REQUEST, facts(READ, grants=both))
    assert [item.id for item in explanation.decision.grants] == ["g2"]
    assert explanation.decisive == ()


def test_g14_each_of_two_grants_for_two_codes_is_decisive() -> None:
    writing = PermissionRequirement("memory:write", Risk.L2)
    assert explain(REQUEST, facts(READ, writing, grants=(grant(), grant("g2", "memory:write")))).decisive == (
        "g1",
        "g2",
    )


def test_g14_a_grant_is_decisive_for_an_ask_as_well() -> None:
    explanation = explain(REQUEST, facts(SEND, grants=(grant(code="mail:send"),)))
    assert explanation.decision.effect == "ask"
    assert {str(step.layer): step for step in explanation.steps}["approval"][1:3] == ("ask", "approval_required")
    assert explanation.decisive == ("g1",)


def test_g14_u5_the_only_standing_approval_is_decisive_and_one_of_two_is_not() -> None:
    known = facts(CAREFUL, grants=(grant(),), standing=(ALWAYS,))
    explanation = explain(REQUEST, known)
    assert explanation.decision.allowed
    assert explanation.decisive == ("g1", "s1")
    assert (Layer.APPROVAL, "allow", "always_allowed", "s1") in explanation.steps
    two = replace(known, standing=(ALWAYS, replace(ALWAYS, id="s2")))
    assert explain(REQUEST, two).decisive == ("g1",)


def test_g14_u9_a_budget_that_is_used_up_is_the_last_layer_to_say_no() -> None:
    explanation = explain(REQUEST, facts(READ, grants=(grant(),), over_budget="quota-1"))
    assert explanation.steps[-1] == (Layer.QUOTA, "deny", "quota_exhausted", "quota-1")
    assert explanation.decision.effect == "deny"
    assert explain(REQUEST, facts(READ, over_budget="quota-1")).decision.reason == "consent_missing"


def test_g14_what_needs_nothing_says_so() -> None:
    explanation = explain(REQUEST, facts(reach=UNRESTRICTED))
    assert explanation.decisive == ()
    assert {step.layer: step.reason for step in explanation.steps}[Layer.CONSENT] == "nothing_protected"


@pytest.mark.parametrize(
    "changed", [{"now": None}, {"grants": None}, {"policy": None}, {"mode": None}, {"guards": None}]
)
def test_g3_g14_explaining_never_raises_and_a_fault_explains_nothing(changed: dict[str, Any]) -> None:
    explanation = explain(REQUEST, facts(READ, **changed))
    assert (explanation.decision.reason, explanation.steps, explanation.decisive) == ("could_not_decide", (), ())


def test_g14_an_explanation_decides_as_the_gate_does() -> None:
    for known in (facts(READ), facts(READ, grants=(grant(),)), facts(SEND), facts(enabled=False)):
        assert explain(REQUEST, known).decision == decide(REQUEST, known)


def test_g14_an_explanation_as_json() -> None:
    shown = explain(REQUEST, facts(READ, grants=(grant(),))).to_json()
    assert list(shown) == ["decision", "steps", "decisive"]
    assert shown["steps"][1] == {"layer": "entitlement", "answer": "allow", "reason": "granted", "by": "skill:notes"}
    assert shown["decisive"] == ["g1"]
