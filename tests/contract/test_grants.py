"""Consent: who may grant what to whom, for how long (G2, G5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.kit import OpenApp, at_once, everything, recaller, rows, tool, turn

from prowess import Prowess, TurnResult
from prowess.errors import InvalidInput, NotFound, ProwessError
from prowess.events.model import Actor
from prowess.kernel.clock import ManualClock

MAIL = tool("mail", permissions=[("mail:send", "L3"), ("memory:read", "L1")])
PAY = tool("pay", permissions=[("card:charge", "L4")])
NOTES = tool("notes", permissions=[("notes:read", "L1")])


@pytest.fixture
def app(open_app: OpenApp) -> Prowess:
    app = open_app(recaller(), MAIL, PAY, NOTES)
    app.create_agent("mira")
    app.create_agent("nova", owner="u2")
    return app


def ask(app: Prowess, message_id: str, **changed: Any) -> TurnResult:
    changed.setdefault("conversation", f"c-{changed.get('user', 'u1')}-{changed.get('agent', 'mira')}")
    return turn(app, message_id, "/notes read", **changed)


def status(result: TurnResult) -> str:
    assert result.run is not None
    return result.run.status


# --- G2 --------------------------------------------------------------------------------------------------------------


def test_g2_a_grant_has_the_fields_of_the_specification(app: Prowess, clock: ManualClock) -> None:
    expires = clock.now() + timedelta(days=30)
    granted = app.grant(user="u1", skill="notes", code="notes:read", agent="mira", resource="a", expires_at=expires)
    (listed,) = app.grants(user="u1")
    assert listed == granted
    assert (granted.tenant, granted.user, granted.skill_id, granted.skill_version) == (
        "default",
        "u1",
        "notes",
        "1.0.0",
    )
    assert (granted.code, granted.scope, granted.agent, granted.resource) == ("notes:read", "agent", "mira", "a")
    assert (granted.status, granted.granted_by, granted.granted_at) == ("active", "u1", clock.now())
    assert (granted.expires_at, granted.revoked_at) == (expires, None)


def test_g2_a_minor_upgrade_keeps_the_grant(open_app: OpenApp) -> None:
    old = tool("notes", version="1.0.0", permissions=[("notes:read", "L1")])
    new = tool("notes", version="1.1.0", permissions=[("notes:read", "L1")])
    before = open_app(old)
    before.grant(user="u1", skill="notes", code="notes:read")
    assert status(ask(before, "m1")) == "completed"

    after = open_app(new)
    result = ask(after, "m2")
    assert result.selection is not None
    assert (result.selection.version, status(result)) == ("1.1.0", "completed")
    assert [grant.skill_version for grant in after.grants(user="u1")] == ["1.0.0"]


def test_g2_a_new_code_needs_its_own_grant(open_app: OpenApp) -> None:
    open_app(NOTES).grant(user="u1", skill="notes", code="notes:read")
    wider = open_app(tool("notes", version="1.1.0", permissions=[("notes:read", "L1"), ("notes:write", "L2")]))
    result = ask(wider, "m1")
    assert status(result) == "denied"
    assert result.decision is not None
    assert result.decision.missing == ("notes:write",)
    wider.grant(user="u1", skill="notes", code="notes:write")
    assert status(ask(wider, "m2")) == "completed"


def test_g2_a_grant_to_one_skill_serves_no_other(app: Prowess) -> None:
    app.grant(user="u1", skill="mail", code="memory:read")
    result = turn(app, "m1", "/recaller anything")
    assert status(result) == "denied"


def test_g2_scope_of_one_agent_and_of_all(app: Prowess) -> None:
    app.create_agent("luna")
    app.grant(user="u1", skill="notes", code="notes:read", agent="mira")
    assert status(ask(app, "m1")) == "completed"
    assert status(ask(app, "m2", agent="luna")) == "denied"
    app.grant(user="u1", skill="notes", code="notes:read")
    assert status(ask(app, "m3", agent="luna")) == "completed"
    assert len(app.grants(user="u1")) == 2


def test_g2_other_users_and_tenants_gain_nothing(app: Prowess) -> None:
    app.grant(user="u1", skill="notes", code="notes:read")
    assert status(ask(app, "m1", user="u2")) == "denied"
    assert status(ask(app, "m1", tenant="t2")) == "denied"
    assert app.grants(user="u2") == []
    assert app.grants(user="u1", tenant="t2") == []


def test_g2_expiry_is_half_open(app: Prowess, clock: ManualClock) -> None:
    """Ruling 12.29: ``now >= expires`` is expired."""
    app.grant(user="u1", skill="notes", code="notes:read", expires_at=clock.now() + timedelta(seconds=1))
    clock.advance(timedelta(milliseconds=999))
    assert status(ask(app, "m1")) == "completed"
    clock.advance(timedelta(milliseconds=1))
    assert status(ask(app, "m2")) == "denied"


def test_g2_granting_again_changes_nothing_or_renews(app: Prowess, clock: ManualClock, url: str) -> None:
    first = app.grant(user="u1", skill="notes", code="notes:read")
    before = everything(url)
    assert app.grant(user="u1", skill="notes", code="notes:read") == first
    assert everything(url) == before

    clock.advance(timedelta(days=1))
    expires = clock.now() + timedelta(days=1)
    second = app.grant(user="u1", skill="notes", code="notes:read", expires_at=expires)
    assert second.id != first.id
    assert app.grants(user="u1") == [second]
    old = next(grant for grant in app.grants(user="u1", with_revoked=True) if grant.id == first.id)
    assert (old.status, old.revoked_at) == ("revoked", clock.now())

    clock.advance(timedelta(days=2))
    third = app.grant(user="u1", skill="notes", code="notes:read", expires_at=clock.now() + timedelta(days=1))
    assert app.grants(user="u1") == [third]
    kinds = [event.type for event in app.events() if event.type.startswith("permission.")]
    assert kinds == [
        "permission.granted",
        "permission.revoked",
        "permission.granted",
        "permission.revoked",
        "permission.granted",
    ]


def test_g2_a_finer_clock_does_not_make_two_grants_of_one(app: Prowess, clock: ManualClock) -> None:
    expires = clock.now() + timedelta(days=1, microseconds=1234)
    first = app.grant(user="u1", skill="notes", code="notes:read", expires_at=expires)
    assert app.grant(user="u1", skill="notes", code="notes:read", expires_at=expires) == first
    assert app.grants(user="u1", with_revoked=True) == [first]


def test_g2_a_revoked_grant_never_revives(app: Prowess, clock: ManualClock) -> None:
    """Ruling 12.29."""
    first = app.grant(user="u1", skill="notes", code="notes:read")
    assert app.revoke(user="u1", skill="notes", code="notes:read") == 1
    assert status(ask(app, "m1")) == "denied"
    second = app.grant(user="u1", skill="notes", code="notes:read")
    assert second.id != first.id
    assert {(grant.id, grant.status) for grant in app.grants(user="u1", with_revoked=True)} == {
        (first.id, "revoked"),
        (second.id, "active"),
    }


def test_g2_revoking_takes_all_or_those_of_one_agent(app: Prowess) -> None:
    app.create_agent("luna")
    app.grant(user="u1", skill="notes", code="notes:read", agent="mira")
    app.grant(user="u1", skill="notes", code="notes:read", agent="luna")
    app.grant(user="u1", skill="notes", code="notes:read")
    app.grant(user="u1", skill="notes", code="notes:read", resource="a")
    assert app.revoke(user="u1", skill="notes", code="notes:read", agent="mira") == 1
    assert app.revoke(user="u1", skill="notes", code="notes:read") == 3
    with pytest.raises(NotFound) as refused:
        app.revoke(user="u1", skill="notes", code="notes:read")
    assert refused.value.code == "grant_not_found"


def test_g4_c30_revocation_stops_the_next_operation_and_the_first_stands(app: Prowess) -> None:
    app.grant(user="u1", skill="notes", code="notes:read")
    first = ask(app, "m1")
    app.revoke(user="u1", skill="notes", code="notes:read")
    second = ask(app, "m2")
    assert (status(first), status(second)) == ("completed", "denied")
    assert second.decision is not None
    assert (second.decision.effect, second.decision.layer, second.decision.reason) == (
        "deny",
        "consent",
        "consent_missing",
    )
    assert status(ask(app, "m1")) == "completed"


def test_g2_who_granted_and_who_revoked_is_in_the_audit(app: Prowess) -> None:
    operator = Actor("operator", "root")
    granted = app.grant(user="u1", skill="notes", code="notes:read", actor=operator)
    app.revoke(user="u1", skill="notes", code="notes:read")
    revoked, given = app.audit(user="u1")
    assert (given.type, given.actor, given.target, given.decision) == (
        "permission.granted",
        operator,
        granted.id,
        "allowed",
    )
    assert (revoked.type, revoked.actor, revoked.target) == ("permission.revoked", Actor("user", "u1"), granted.id)
    assert given.data == revoked.data == {"code": "notes:read", "scope": "user"}


# --- G5 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code": "notes:write"}, "code_not_declared"),
        ({"code": "memory:read"}, "code_not_declared"),
        ({"code": ""}, "code_not_declared"),
        ({"skill": "pay", "code": "card:charge"}, "code_not_grantable"),
        ({"skill": "ghost"}, "skill_not_found"),
        ({"skill": "../notes"}, "skill_not_found"),
        ({"agent": "nova"}, "agent_not_found"),
        ({"agent": "ghost"}, "agent_not_found"),
        ({"agent": ""}, "agent_not_found"),
        ({"user": ""}, "bad_id"),
        ({"resource": ""}, "bad_resource"),
        ({"resource": "a\nb"}, "bad_resource"),
        ({"expires_at": datetime(2026, 3, 1, 8, 0, tzinfo=UTC)}, "expiry_in_past"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expiry_in_past"),
        ({"expires_at": datetime(2030, 1, 1)}, "bad_instant"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ascii(next(iter(value.items())))[:40],
)
def test_g5_what_cannot_be_granted(app: Prowess, url: str, changed: dict[str, Any], error: str) -> None:
    before = everything(url)
    with pytest.raises(ProwessError) as refused:
        app.grant(**{"user": "u1", "skill": "notes", "code": "notes:read", **changed})
    assert refused.value.code == error
    assert everything(url) == before


def test_g5_a_refusal_names_what_may_be_granted(app: Prowess) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.grant(user="u1", skill="mail", code="mail:read")
    assert refused.value.detail["declared"] == ["mail:send", "memory:read"]


def test_g5_the_owner_may_scope_to_their_agent(app: Prowess) -> None:
    assert app.grant(user="u2", skill="notes", code="notes:read", agent="nova").agent == "nova"


def test_ruling_1_a_skill_is_named_in_any_spelling(open_app: OpenApp) -> None:
    app = open_app(tool("read-notes", permissions=[("notes:read", "L1")]))
    assert app.grant(user="u1", skill="Read_Notes", code="notes:read").skill_id == "read-notes"
    assert app.revoke(user="u1", skill="read_notes", code="notes:read") == 1


def test_g1_a_high_risk_tool_is_not_run_on_consent_alone(app: Prowess) -> None:
    app.grant(user="u1", skill="mail", code="mail:send")
    app.grant(user="u1", skill="mail", code="memory:read")
    result = turn(app, "m1", "/mail hello")
    assert status(result) == "waiting_user"
    assert result.decision is not None
    assert (result.decision.effect, result.decision.reason) == ("ask", "approval_required")


# --- races -----------------------------------------------------------------------------------------------------------


def test_g2_many_that_grant_at_once_make_one_grant(app: Prowess, url: str) -> None:
    granted = at_once([lambda: app.grant(user="u1", skill="notes", code="notes:read")] * 8)
    assert len({grant.id for grant in granted}) == 1
    assert len(rows(url, "SELECT id FROM skill_permission_grants")) == 1
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'permission.granted'")) == 1


def test_g2_many_that_revoke_at_once_revoke_once(app: Prowess, url: str) -> None:
    app.grant(user="u1", skill="notes", code="notes:read")
    revoked = at_once([lambda: app.revoke(user="u1", skill="notes", code="notes:read")] * 8)
    assert sorted(str(getattr(item, "code", item)) for item in revoked) == ["1", *["grant_not_found"] * 7]
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'permission.revoked'")) == 1
