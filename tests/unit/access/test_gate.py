"""The one gate (G3): every branch, every fault in the facts, and what must hold for all facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.access.capabilities import UNRESTRICTED
from prowess.access.gate import COULD_NOT_DECIDE, decide
from prowess.access.model import (
    ApprovalMode,
    CallApproval,
    Decision,
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
)

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
REQUEST = GateRequest("t1", "u1", "mira", "notes", "1.0.0", "tool:notes.read")

READ = PermissionRequirement("memory:read", Risk.L1)
WRITE = PermissionRequirement("memory:write", Risk.L2)
SEND = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
PAY = PermissionRequirement("card:charge", Risk.L4, ApprovalMode.PER_OPERATION)
FREE = PermissionRequirement("clock:read", Risk.L0, ApprovalMode.NONE)


def grant(code: str = "memory:read", **changed: Any) -> Grant:
    given = Grant(
        id="g1",
        tenant="t1",
        user="u1",
        skill_id="notes",
        skill_version="1.0.0",
        code=code,
        scope=GrantScope.USER,
        agent=None,
        resource=None,
        status=GrantStatus.ACTIVE,
        granted_at=NOW - timedelta(days=1),
        granted_by="u1",
    )
    return given._replace(**changed)


def facts(*requirements: PermissionRequirement, grants: tuple[Grant, ...] = (), **changed: Any) -> Facts:
    return replace(Facts(requirements, grants, enabled=True, now=NOW, reach=UNRESTRICTED), **changed)


# --- branches --------------------------------------------------------------------------------------------------------


def test_g3_what_needs_nothing_is_allowed() -> None:
    assert decide(REQUEST, facts()) == Decision("allow", None)
    assert decide(REQUEST, facts(FREE)) == Decision("allow", None)


def test_g3_a_disabled_skill_is_denied_before_anything_else() -> None:
    denied = decide(REQUEST, facts(PAY, READ, grants=(grant(),), enabled=False))
    assert denied == Decision("deny", Layer.BINDING, reason="skill_disabled")


def test_g1_g3_an_irreversible_operation_is_denied_whatever_was_granted() -> None:
    denied = decide(REQUEST, facts(READ, PAY, grants=(grant(), grant("card:charge", id="g2"))))
    assert denied == Decision("deny", Layer.CONSENT, reason="forbidden_risk")


def test_g3_without_a_grant_the_answer_is_no() -> None:
    assert decide(REQUEST, facts(READ)) == Decision(
        "deny", Layer.CONSENT, missing=("memory:read",), reason="consent_missing"
    )


def test_g3_every_missing_code_is_named_in_the_order_of_the_manifest() -> None:
    denied = decide(REQUEST, facts(WRITE, FREE, READ, SEND, grants=(grant(),)))
    assert denied.missing == ("memory:write", "mail:send")
    assert denied.grants == ()


def test_g2_a_grant_serves_and_is_named() -> None:
    assert decide(REQUEST, facts(READ, grants=(grant(),))) == Decision("allow", None, grants=(grant(),))


def test_g2_a_grant_of_another_version_serves_but_not_one_for_another_code() -> None:
    newer = replace(REQUEST, skill_version="1.4.0")
    assert decide(newer, facts(READ, grants=(grant(),))).allowed
    assert decide(newer, facts(READ, WRITE, grants=(grant(),))).missing == ("memory:write",)


def test_g3_grants_come_in_the_order_of_the_requirements() -> None:
    reading, writing = grant(), grant("memory:write", id="g2")
    assert decide(REQUEST, facts(WRITE, READ, grants=(reading, writing))).grants == (writing, reading)


def test_g1_g3_a_high_risk_operation_asks_once_more() -> None:
    consent = grant("mail:send")
    asked = decide(REQUEST, facts(SEND, grants=(consent,)))
    assert asked == Decision("ask", Layer.APPROVAL, grants=(consent,), reason="approval_required")
    assert decide(REQUEST, facts(SEND)).reason == "consent_missing"


def test_g1_l0_with_approval_needs_consent_too() -> None:
    careful = PermissionRequirement("clock:read", Risk.L0, ApprovalMode.PER_OPERATION)
    assert decide(REQUEST, facts(careful)).missing == ("clock:read",)
    assert decide(REQUEST, facts(careful, grants=(grant("clock:read"),))).effect == "ask"
    remembered = PermissionRequirement("clock:read", Risk.L0, ApprovalMode.PERSISTENT)
    assert decide(REQUEST, facts(remembered)).missing == ("clock:read",)


def test_g2_the_narrowest_then_oldest_grant_is_the_one_recorded() -> None:
    old = grant(id="g9", granted_at=NOW - timedelta(days=9))
    new = grant(id="g1", granted_at=NOW - timedelta(days=1))
    narrow = grant(id="g5", scope=GrantScope.AGENT, agent="mira", granted_at=NOW)
    for order in ([old, new, narrow], [narrow, new, old], [new, narrow, old]):
        assert decide(REQUEST, facts(READ, grants=tuple(order))).grants == (narrow,)
    assert decide(REQUEST, facts(READ, grants=(new, old))).grants == (old,)
    twin = old._replace(id="g2")
    assert decide(REQUEST, facts(READ, grants=(old, twin))).grants == (twin,)


# --- approvals, opened codes, nobody there ---------------------------------------------------------------------------

ASKED = replace(REQUEST, input_digest="d1")
YES = CallApproval(
    "y1", "t1", "u1", "mira", "notes", "1.0.0", "tool:notes.read", "d1", True, False, NOW + timedelta(minutes=1)
)
SENT = grant("mail:send")


def test_g13_a_yes_to_exactly_this_call_is_an_allow() -> None:
    known = facts(SEND, grants=(SENT,), approval=YES)
    assert decide(ASKED, known) == Decision("allow", None, grants=(SENT,), reason="approved", rule="y1")
    assert decide(ASKED, replace(known, mode=Mode.DONT_ASK)).reason == "approved"
    assert decide(ASKED, replace(known, grants=())).reason == "consent_missing"  # no yes stands in for consent


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "t2"},
        {"user": "u2"},
        {"agent": "nova"},
        {"skill_id": "note"},
        {"skill_version": "1.0.1"},
        {"action": "tool:notes.write"},
        {"approved": False},
        {"used": True},
        {"expires_at": NOW},
    ],
    ids=lambda other: next(iter(other)),
)
def test_g13_any_other_yes_is_none(other: dict[str, Any]) -> None:
    known = facts(SEND, grants=(SENT,), approval=YES._replace(**other))
    assert decide(ASKED, known).effect == "ask"


@pytest.mark.parametrize("digest", ["d2", None])
@pytest.mark.parametrize("approved", [True, False])
def test_c32_other_arguments_than_those_that_were_shown_are_denied(digest: str | None, approved: bool) -> None:
    known = facts(SEND, grants=(SENT,), approval=YES._replace(approved=approved))
    denied = decide(replace(REQUEST, input_digest=digest), known)
    assert denied == Decision("deny", Layer.APPROVAL, grants=(SENT,), reason="arguments_differ", rule="y1")


def test_g1_an_opened_irreversible_code_asks_whatever_was_allowed_in_general() -> None:
    known = facts(PAY, opened=frozenset({"card:charge"}))
    for changed in ({}, {"mode": Mode.BYPASS}, {"policy": RuleVerdict("allow", "all")}):
        assert decide(ASKED, replace(known, **changed)).effect == "ask"
    assert decide(ASKED, facts(PAY, opened=frozenset({"card:refund"}))).reason == "forbidden_risk"


def test_b14_what_is_preapproved_reads_and_is_named() -> None:
    careful = PermissionRequirement("memory:read", Risk.L1, ApprovalMode.PER_OPERATION)
    reading = replace(ASKED, verb="read")
    known = facts(careful, grants=(grant(),), unattended=frozenset({"memory:read"}))
    assert decide(reading, known) == Decision("allow", None, grants=(grant(),), reason="preapproved")
    assert decide(ASKED, known).effect == "ask"
    assert decide(reading, replace(known, unattended=frozenset())).effect == "ask"
    assert decide(reading, replace(known, destructive=True)).effect == "ask"
    assert decide(reading, replace(known, guards=(RuleVerdict("ask", "g"),))).effect == "ask"
    nothing = facts(policy=RuleVerdict("ask", "p"), unattended=frozenset({"memory:read"}))
    assert decide(reading, nothing).effect == "ask"  # it touches nothing that was named


# --- time, scope, resource -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead", "allowed"),
    [(timedelta(microseconds=1), True), (timedelta(0), False), (timedelta(microseconds=-1), False)],
)
def test_g2_expiry_is_half_open(ahead: timedelta, allowed: bool) -> None:
    """Ruling 12.29: ``now >= expires`` is expired."""
    assert decide(REQUEST, facts(READ, grants=(grant(expires_at=NOW + ahead),))).allowed is allowed


def test_g2_an_agents_grant_serves_that_agent_only() -> None:
    scoped = grant(scope=GrantScope.AGENT, agent="mira")
    assert decide(REQUEST, facts(READ, grants=(scoped,))).allowed
    assert not decide(replace(REQUEST, agent="nova"), facts(READ, grants=(scoped,))).allowed
    headless = grant(scope=GrantScope.AGENT, agent=None)
    assert not decide(REQUEST, facts(READ, grants=(headless,))).allowed


def test_g2_a_grant_for_a_resource_serves_that_resource_only() -> None:
    bound = grant(resource="https://a.example")
    assert decide(replace(REQUEST, resource="https://a.example"), facts(READ, grants=(bound,))).allowed
    assert not decide(replace(REQUEST, resource="https://a.example.evil"), facts(READ, grants=(bound,))).allowed
    assert not decide(REQUEST, facts(READ, grants=(bound,))).allowed
    assert decide(replace(REQUEST, resource="https://a.example"), facts(READ, grants=(grant(),))).allowed


@pytest.mark.parametrize(
    "other",
    [
        {"status": GrantStatus.REVOKED},
        {"tenant": "t2"},
        {"user": "u2"},
        {"skill_id": "note"},
        {"code": "memory:reader"},
        {"expires_at": NOW},
    ],
    ids=lambda other: next(iter(other)),
)
def test_g2_what_was_not_granted_here_does_not_serve(other: dict[str, Any]) -> None:
    assert decide(REQUEST, facts(READ, grants=(grant(**other),))).missing == ("memory:read",)


# --- faults in the facts ---------------------------------------------------------------------------------------------


class Broken:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        return "Broken()"


@pytest.mark.parametrize(
    "fault",
    [
        {"requirements": None},
        {"grants": None},
        {"enabled": None},
        {"now": None},
        {"requirements": ""},
        {"requirements": {}},
        {"requirements": 0},
        {"requirements": (None,)},
        {"requirements": (Broken(),)},
        {"requirements": ("memory:read",)},
        {"grants": "none"},
        {"grants": (None,)},
        {"grants": (Broken(),)},
        {"grants": (grant(expires_at="tomorrow"),)},
        {"grants": (grant(expires_at=datetime(2030, 1, 1)),)},
        {"enabled": "false"},
        {"enabled": 1},
        {"now": datetime(2026, 3, 1), "grants": (grant(expires_at=NOW + timedelta(days=1)),)},
        {"now": "2026-03-01"},
        {"now": 0, "grants": ()},
    ],
    ids=repr,
)
def test_g3_c39_a_fault_in_the_facts_is_a_deny(fault: dict[str, Any]) -> None:
    answer = decide(REQUEST, replace(facts(READ, grants=(grant(),)), **fault))
    assert answer == COULD_NOT_DECIDE
    assert not answer.allowed
    assert answer.reason == "could_not_decide"


@pytest.mark.parametrize("request_", [None, Broken(), "tool:notes.read"], ids=repr)
@pytest.mark.parametrize("known", [None, Broken(), {}], ids=repr)
def test_g3_c39_a_broken_question_is_a_deny(request_: Any, known: Any) -> None:
    assert decide(request_, known) == COULD_NOT_DECIDE


def test_g3_c39_a_broken_question_with_good_facts_is_a_deny() -> None:
    broken: Any = None
    assert decide(broken, facts(READ, grants=(grant(),))) == COULD_NOT_DECIDE


# --- for all facts ---------------------------------------------------------------------------------------------------

requirements = st.lists(
    st.sampled_from([READ, WRITE, SEND, PAY, FREE]), max_size=4, unique_by=lambda requirement: requirement.code
)
near = st.sampled_from([None, *(NOW + timedelta(seconds=seconds) for seconds in (-60, -1, 0, 1, 60))])
grants = st.builds(
    lambda number, scope, agent, **given: grant(
        id=f"g{number}", scope=scope, agent=agent if scope is GrantScope.AGENT else None, **given
    ),
    number=st.integers(1, 99),
    scope=st.sampled_from(GrantScope),
    agent=st.sampled_from(["mira", "nova"]),
    tenant=st.sampled_from(["t1", "t1", "t2"]),
    user=st.sampled_from(["u1", "u1", "u2"]),
    skill_id=st.sampled_from(["notes", "notes", "note"]),
    code=st.sampled_from(["memory:read", "memory:write", "mail:send", "card:charge"]),
    status=st.sampled_from([GrantStatus.ACTIVE, GrantStatus.ACTIVE, GrantStatus.REVOKED]),
    resource=st.sampled_from([None, None, "a", "b"]),
    granted_at=st.sampled_from([NOW - timedelta(days=days) for days in range(4)]),
    expires_at=near,
)
requests = st.builds(
    lambda **asked: replace(REQUEST, **asked),
    tenant=st.sampled_from(["t1", "t1", "t2"]),
    user=st.sampled_from(["u1", "u1", "u2"]),
    agent=st.sampled_from(["mira", "nova"]),
    skill_id=st.sampled_from(["notes", "notes", "note"]),
    resource=st.sampled_from([None, "a", "b"]),
)
known_facts = st.builds(
    lambda needed, given, enabled: Facts(tuple(needed), tuple(given), enabled, NOW, UNRESTRICTED),
    requirements,
    st.lists(grants, max_size=6),
    st.booleans(),
)


def serves(given: Grant, request: GateRequest) -> bool:
    """The law written out a second time, the other way round: what a serving grant must not be."""
    return not (
        given.status is not GrantStatus.ACTIVE
        or given.tenant != request.tenant
        or given.user != request.user
        or given.skill_id != request.skill_id
        or (given.expires_at is not None and given.expires_at <= NOW)
        or (given.scope is GrantScope.AGENT and given.agent != request.agent)
        or (given.resource is not None and given.resource != request.resource)
    )


@given(requests, known_facts)
def test_g3_an_allow_has_a_serving_grant_for_every_code(request: GateRequest, known: Facts) -> None:
    answer = decide(request, known)
    assert known.requirements is not None
    assert known.grants is not None
    needed = [item.code for item in known.requirements if item is not FREE]
    covered = {item.code for item in known.grants if serves(item, request)}
    if answer.effect in ("allow", "ask"):
        assert known.enabled
        assert PAY not in known.requirements
        assert [item.code for item in answer.grants] == needed
        assert all(serves(item, request) for item in answer.grants)
        assert (answer.effect == "ask") is (SEND in known.requirements)
    elif answer.reason == "consent_missing":
        assert list(answer.missing) == [code for code in needed if code not in covered]
    else:
        assert answer.reason in ("skill_disabled", "forbidden_risk")


@given(requests, known_facts, st.randoms(use_true_random=False))
def test_g3_the_order_of_grants_is_irrelevant(request: GateRequest, known: Facts, random: Any) -> None:
    assert known.grants is not None
    shuffled = list(known.grants)
    random.shuffle(shuffled)
    one, other = decide(request, known), decide(request, replace(known, grants=tuple(shuffled)))
    assert one.effect == other.effect
    assert one.missing == other.missing
    assert [item.id for item in one.grants] == [item.id for item in other.grants]


@given(requests, known_facts, st.data())
def test_g3_removing_a_grant_never_adds_an_allow(request: GateRequest, known: Facts, data: st.DataObject) -> None:
    assert known.grants is not None
    kept = tuple(item for item in known.grants if data.draw(st.booleans()))
    fewer = decide(request, replace(known, grants=kept))
    if fewer.effect != "deny":
        assert decide(request, known).effect == fewer.effect
    assert set(decide(request, known).missing) <= set(fewer.missing) or fewer.reason != "consent_missing"


@given(requests, known_facts)
def test_g3_revoking_all_leaves_no_allow_that_needed_consent(request: GateRequest, known: Facts) -> None:
    assert known.grants is not None
    revoked = tuple(item._replace(status=GrantStatus.REVOKED) for item in known.grants)
    answer = decide(request, replace(known, grants=revoked))
    assert answer.allowed is bool(known.enabled and all(item is FREE for item in known.requirements or ()))
