"""Approvals that outlive the request: asked, answered, used once, and never for anything else (G13, U6, U8, B14)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import AGENT, CHAT, USER, OpenApp, Recorder, at_once, places_of, request, rows, tool, turn

from prowess import (
    Approval,
    Conflict,
    Denied,
    InvalidInput,
    ManualClock,
    Mode,
    NotFound,
    Prowess,
    ToolOutcome,
    TurnPlan,
    Unattended,
)
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.events.model import Actor
from prowess.secrets.keys import KeyRing

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
ASKING = PermissionRequirement("notes:read", Risk.L1, ApprovalMode.PER_OPERATION)
PAYING = PermissionRequirement("card:charge", Risk.L4, ApprovalMode.PER_OPERATION)
HALF_AN_HOUR = timedelta(minutes=30)


def sender(recorder: Recorder, **fields: Any) -> Any:
    defaults: dict[str, Any] = {"permissions": [SENDING], "effect": "write", "max_calls_per_turn": 4}
    return tool("sender", recorder, **{**defaults, **fields})


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def app(open_app: OpenApp, recorder: Recorder) -> Prowess:
    opened = open_app(sender(recorder))
    opened.grant(user=USER, skill="sender", code="mail:send")
    return opened


def ask(app: Prowess, text: str = "x", number: float = 100, *, message: str = "m1", **choices: Any) -> str:
    """The id of the approval that a fresh call waits for."""
    outcome = call(app.begin(request(message, "hello"), **choices), app, text, number)
    assert outcome.status == "pending", outcome
    assert outcome.approval is not None
    return outcome.approval


def call(plan: TurnPlan, app: Prowess, text: str = "x", number: float = 100, name: str = "sender") -> ToolOutcome:
    return app.call(plan, f"tool.{name}", {"text": text, "number": number})


def kinds(app: Prowess, *wanted: str) -> list[str]:
    return [event.type for event in app.events() if event.type in wanted or event.type.startswith("approval.")]


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises((Denied, Conflict, NotFound)) as caught:
        act()
    return caught.value.code


# --- asking and answering --------------------------------------------------------------------------------------------


def test_g13_what_needs_a_yes_waits_for_it_and_runs_once(app: Prowess, recorder: Recorder, url: str) -> None:
    plan = app.begin(request("m1", "hello"))
    asked = call(plan, app)
    again = call(plan, app)
    assert (asked.status, again.status, again.approval) == ("pending", "pending", asked.approval)
    result = app.finish(plan, "It waits.")
    assert result.pending_approvals == (asked.approval,)
    assert asked.to_json()["approval"] == asked.approval
    assert recorder.calls == []
    approval = app.approve(str(asked.approval), by=USER)
    assert (approval.status, approval.used_at, approval.call.arguments) == (
        "approved",
        None,
        '{"text":"x","number":100.0}',
    )
    ran = app.resume_call(approval.id)
    assert (ran.status, ran.decision and ran.decision.reason, recorder.calls) == ("succeeded", "approved", ["x"])
    assert app.resume_call(approval.id).status == "recorded"
    assert recorder.calls == ["x"]
    done = app.approval(approval.id, user=USER)
    assert (done.outcome, done.call.arguments, done.used_at is None) == ("succeeded", None, False)
    assert kinds(app, "turn.waiting", "turn.settled") == [
        "approval.requested",
        "turn.waiting",
        "approval.answered",
        "approval.approved",
        "approval.used",
        "turn.settled",
    ]
    (execution,) = rows(url, "SELECT id, status FROM skill_tool_executions")
    assert execution == {"id": asked.id, "status": "succeeded"}


def test_g13_x3_arguments_are_kept_only_while_the_call_waits(app: Prowess, url: str) -> None:
    approval = ask(app, "kanarienvogel")
    assert places_of(url, "kanarienvogel") == {"approvals.arguments"}
    app.deny(approval, by=USER)
    assert places_of(url, "kanarienvogel") == set()
    other = ask(app, "zeisig", message="m2")
    app.cancel_approval(other, by=USER)
    third = ask(app, "stieglitz", message="m3")
    app.approve(third, by=USER)
    app.resume_call(third)
    assert places_of(url, "zeisig") == set()
    assert places_of(url, "stieglitz") <= {"approvals.result"}  # the tool repeats what it was given


def test_u4_g13_arguments_that_hold_a_secret_cannot_wait(open_app: OpenApp, recorder: Recorder, url: str) -> None:
    app = open_app(sender(recorder), secret_keys=KeyRing([bytes(range(32))]))
    app.grant(user=USER, skill="sender", code="mail:send")
    app.set_secret("TOKEN", "sk-canary-0001", user=USER)
    outcome = call(app.begin(request("m1", "hello")), app, "use sk-canary-0001")
    assert (outcome.status, outcome.approval, recorder.calls) == ("denied", None, [])
    assert rows(url, "SELECT id FROM approvals") == []


def test_c32_approved_for_one_amount_and_resumed_with_another(app: Prowess, recorder: Recorder) -> None:
    approval = ask(app, number=100)
    app.approve(approval, by=USER)
    edited = app.resume_call(approval, {"text": "x", "number": 900})
    assert (edited.status, edited.decision and edited.decision.reason) == ("denied", "arguments_differ")
    assert (recorder.calls, app.approval(approval).status, app.approval(approval).used_at) == ([], "approved", None)
    same_plan = call(app.begin(request("m1", "hello")), app, number=900)
    assert (same_plan.status, same_plan.decision and same_plan.decision.reason) == ("denied", "arguments_differ")
    assert app.resume_call(approval, {"number": 100, "text": "x"}).status == "succeeded"
    for arguments in (None, {"text": "x", "number": 100}, {"text": "x", "number": 900}):
        assert app.resume_call(approval, arguments).status == "recorded"
    assert recorder.calls == ["x"]


def test_c32_g13_an_approval_serves_no_other_user_agent_message_or_version(
    open_app: OpenApp, recorder: Recorder
) -> None:
    app = open_app(sender(recorder))
    for user in (USER, "u2"):
        app.grant(user=user, skill="sender", code="mail:send")
    approval = ask(app)
    app.approve(approval, by=USER)
    for other in (
        request("m2", "hello"),
        request("m1", "hello", user="u2", conversation="c2"),
        request("m1", "hello", agent="nova", conversation="c3"),
    ):
        assert call(app.begin(other), app).status == "pending"
    newer = open_app(sender(recorder, version="2.0.0"))
    outcome = newer.resume_call(approval)
    assert (outcome.status, recorder.calls) == ("denied", [])
    assert newer.approval(approval).status == "cancelled"


def test_g13_the_same_call_of_the_same_message_uses_its_approval(app: Prowess, recorder: Recorder) -> None:
    """A loop that begins the message again, as after a crash, goes the same way as a resumed call, and no further."""
    approval = ask(app)
    app.approve(approval, by=USER)
    repeated = call(app.begin(request("m1", "hello")), app)
    assert (repeated.status, recorder.calls) == ("succeeded", ["x"])
    assert call(app.begin(request("m1", "hello")), app).status == "recorded"
    assert app.resume_call(approval).status == "recorded"
    assert recorder.calls == ["x"]


def test_g4_g13_rights_are_asked_anew_when_an_approved_call_runs(app: Prowess, recorder: Recorder) -> None:
    approval = ask(app)
    app.approve(approval, by=USER)
    app.revoke(user=USER, skill="sender", code="mail:send")
    outcome = app.resume_call(approval)
    assert (outcome.status, outcome.decision and outcome.decision.reason) == ("denied", "consent_missing")
    assert (recorder.calls, app.approval(approval).status) == ([], "cancelled")
    assert app.approval(approval).outcome == "consent_missing"
    app.grant(user=USER, skill="sender", code="mail:send")
    assert (app.resume_call(approval).status, recorder.calls) == ("denied", [])


def test_c43_no_answer_in_time_is_a_timeout_and_can_be_asked_again(
    app: Prowess, recorder: Recorder, clock: ManualClock
) -> None:
    approval = ask(app)
    clock.advance(HALF_AN_HOUR - timedelta(milliseconds=1))
    assert app.approval(approval).status == "pending"
    clock.advance(timedelta(milliseconds=1))
    assert refused(lambda: app.approve(approval, by=USER)) == "approval_expired"
    expired = app.approval(approval)
    assert (expired.status, expired.outcome, expired.answers) == ("expired", "permission_timeout", ())
    told = app.resume_call(approval)
    assert (told.status, told.error_code) == ("denied", "permission_timeout")
    assert told.message == "Not done: nobody answered in time. It was not refused; it can be asked for again."
    assert [event.data["reason"] for event in app.events() if event.type == "approval.expired"] == [
        "permission_timeout"
    ]
    assert "approval.denied" not in kinds(app)
    again = ask(app)
    assert again != approval
    app.approve(again, by=USER)
    assert (app.resume_call(again).status, recorder.calls) == ("succeeded", ["x"])


def test_c43_a_sweeper_ends_what_is_overdue_and_a_late_run_is_refused(
    app: Prowess, recorder: Recorder, clock: ManualClock
) -> None:
    waiting, given = ask(app), ask(app, message="m2")
    clock.advance(timedelta(minutes=29))
    app.approve(given, by=USER)
    clock.advance(timedelta(minutes=2))
    assert app.expire_approvals() == 1
    assert app.expire_approvals() == 0
    assert (app.approval(waiting).status, app.approval(given).status) == ("expired", "approved")
    clock.advance(timedelta(minutes=28))
    assert app.resume_call(given).error_code == "approval_unused"
    assert recorder.calls == []


def test_c44_an_approval_survives_a_restart_and_runs_once(open_app: OpenApp, app: Prowess, recorder: Recorder) -> None:
    approval = ask(app)
    app.close()
    reopened = open_app(sender(recorder))
    assert [item.id for item in reopened.approvals(user=USER, status="pending")] == [approval]
    reopened.approve(approval, by=USER)
    reopened.close()
    third = open_app(sender(recorder))
    assert (third.resume_call(approval).status, third.resume_call(approval).status) == ("succeeded", "recorded")
    assert recorder.calls == ["x"]


def test_c44_x4_a_crash_in_mid_call_never_runs_it_twice(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    def dies(*_: Any) -> Any:
        started.append("x")
        raise SystemExit

    started: list[str] = []
    app = open_app(sender(Recorder(dies)))
    app.grant(user=USER, skill="sender", code="mail:send")
    approval = ask(app)
    app.approve(approval, by=USER)
    # The process dies while the handler runs: nothing after the handler is written.
    app._parts.engine._dispatcher._finish = lambda *_: (_ for _ in ()).throw(MemoryError)  # type: ignore[method-assign]
    with pytest.raises(MemoryError):
        app.resume_call(approval)
    other = open_app(sender(Recorder(dies)))
    told = other.resume_call(approval)
    assert (told.status, told.error_code, started) == ("recorded", "outcome_unknown", ["x"])
    assert other.approval(approval).outcome is None
    clock.advance(timedelta(minutes=3))
    other.expire_approvals()
    assert other.approval(approval).outcome == "outcome_unknown"
    assert (other.resume_call(approval).error_code, started) == ("outcome_unknown", ["x"])


# --- who may answer --------------------------------------------------------------------------------------------------


def test_c45_a_member_of_a_shared_chat_may_not_answer(open_app: OpenApp, recorder: Recorder) -> None:
    app = open_app(sender(recorder, scopes=("single_chat", "group_chat")))
    for user in (USER, "u2"):
        app.grant(user=user, skill="sender", code="mail:send")
        turn(app, f"hi-{user}", "hi", user=user, group="g1")
    outcome = call(app.begin(request("m1", "hello", group="g1")), app)
    approval = str(outcome.approval)
    for act in (app.approve, app.deny, app.cancel_approval):
        assert refused(lambda act=act: act(approval, by="u2")) == "not_an_approver"  # type: ignore[misc]
    assert app.approvals(user="u2") == []
    seen = app.approval(approval, user="u2")
    assert (seen.call.arguments, seen.call.resource, seen.status) == (None, None, "pending")
    assert app.answer_all({approval: True}, by="u2")[approval]["error"]["code"] == "not_an_approver"
    assert (app.approval(approval).answers, recorder.calls) == ((), [])


def test_u8_a_named_approver_answers_for_the_codes_that_are_theirs(app: Prowess) -> None:
    approval = ask(app)
    assert app.add_approver("boss", code="notes:read")
    assert refused(lambda: app.approve(approval, by="boss")) == "not_an_approver"
    assert app.add_approver("boss", code="mail:send")
    assert not app.add_approver("boss", code="mail:send")
    assert [item.id for item in app.approvals(user="boss")] == [approval]
    assert app.approve(approval, by="boss").answers[0].by == "boss"
    assert refused(lambda: app.deny(approval, by=USER)) == "approval_answered"
    other = ask(app, message="m2")
    assert app.remove_approver("boss", code="mail:send")
    assert refused(lambda: app.deny(other, by="boss")) == "not_an_approver"
    assert app.approvers() == [("boss", "notes:read")]


def test_u8_every_decision_appears_once_on_every_list(app: Prowess) -> None:
    first, second = ask(app), ask(app, message="m2")
    app.add_approver(USER)
    app.add_approver(USER, code="mail:send")
    assert [item.id for item in app.approvals(user=USER)] == [second, first]
    assert [item.id for item in app.approvals()] == [second, first]
    assert {item.call.arguments for item in app.approvals()} == {None}
    app.deny(first, by=USER)
    assert [item.id for item in app.approvals(user=USER, status="pending")] == [second]


@pytest.mark.parametrize("given", [None, 1, "true", "yes", [], {"approved": True}, 1.0])
def test_c80_anything_but_true_approves_nothing(app: Prowess, recorder: Recorder, given: Any) -> None:
    approval = ask(app)
    assert app.answer_all({approval: given}, by=USER) == {approval: "pending"}
    assert (app.resume_call(approval).status, recorder.calls) == ("pending", [])


def test_c85_two_approvals_in_parallel_are_answered_apart(app: Prowess, recorder: Recorder) -> None:
    plan = app.begin(request("m1", "hello"))
    first, second = (str(call(plan, app, text).approval) for text in ("a", "b"))
    assert first != second
    said = app.answer_all({first: True, second: False, "absent": True}, by=USER)
    assert said.pop("absent")["error"]["code"] == "approval_not_found"
    assert said == {first: "approved", second: "denied"}
    assert (app.resume_call(second).status, app.resume_call(first).status) == ("denied", "succeeded")
    assert recorder.calls == ["a"]


def test_c80_a_map_is_limited_and_its_ids_are_checked(app: Prowess) -> None:
    said = app.answer_all({"": True, "x" * 300: True, 5: True}, by=USER)  # type: ignore[dict-item]
    assert [answer["error"]["code"] for answer in said.values()] == ["bad_id", "bad_id", "wrong_type"]
    with pytest.raises(InvalidInput) as caught:
        app.answer_all(dict.fromkeys(map(str, range(1_001)), True), by=USER)
    assert caught.value.code == "too_many_answers"


def test_g15_an_agent_answers_nothing_names_nobody_and_opens_nothing(app: Prowess) -> None:
    approval = ask(app)
    agent = Actor("agent", USER)  # even one that is called like the user
    service = app._parts.approvals
    for act in (
        lambda: service.answer(actor=agent, tenant="default", approval_id=approval, approve=True),
        lambda: service.cancel(actor=agent, tenant="default", approval_id=approval),
    ):
        assert refused(act) == "not_an_approver"
    assert refused(lambda: app.add_approver("mira", actor=agent)) == "agent_cannot_decide"
    assert refused(lambda: app.open_risk("card:charge", actor=agent)) == "agent_cannot_decide"
    assert (app.approval(approval).status, app.approvers(), app.opened_risks()) == ("pending", [], ())


def test_g13_an_approval_of_another_tenant_is_none(app: Prowess) -> None:
    approval = ask(app)
    assert refused(lambda: app.approve(approval, by=USER, tenant="other")) == "approval_not_found"


# --- irreversible operations -----------------------------------------------------------------------------------------


@pytest.fixture
def paying(open_app: OpenApp, recorder: Recorder) -> Prowess:
    return open_app(tool("payer", recorder, permissions=[PAYING], effect="write", max_calls_per_turn=4))


def pay(app: Prowess, message: str = "m1") -> ToolOutcome:
    return call(app.begin(request(message, "hello")), app, name="payer")


def test_g1_an_irreversible_operation_needs_two_people(paying: Prowess, recorder: Recorder) -> None:
    assert pay(paying).decision is not None
    assert pay(paying).decision.reason == "forbidden_risk"  # type: ignore[union-attr]
    assert paying.open_risk("card:charge")
    approval = str(pay(paying).approval)
    assert refused(lambda: paying.approve(approval, by="boss")) == "not_an_approver"
    assert paying.approve(approval, by=USER).status == "pending"
    assert refused(lambda: paying.approve(approval, by=USER)) == "seat_filled_by_you"
    assert refused(lambda: paying.deny(approval, by=USER)) == "seat_filled_by_you"
    assert (paying.resume_call(approval).status, recorder.calls) == ("pending", [])
    paying.add_approver("boss", code="card:charge")
    done = paying.approve(approval, by="boss")
    assert (done.status, [(seat.number, seat.by) for seat in done.answers]) == ("approved", [(1, USER), (2, "boss")])
    assert (paying.resume_call(approval).status, recorder.calls) == ("succeeded", ["x"])


def test_g1_u8_any_denial_ends_a_two_person_approval(paying: Prowess, recorder: Recorder) -> None:
    paying.open_risk("card:charge")
    paying.add_approver("boss")
    approval = str(pay(paying).approval)
    paying.approve(approval, by=USER)
    assert paying.deny(approval, by="boss").status == "denied"
    assert (paying.resume_call(approval).status, recorder.calls) == ("denied", [])


def test_g1_a_code_that_is_closed_again_stops_what_was_approved(paying: Prowess, recorder: Recorder) -> None:
    paying.open_risk("card:charge")
    paying.add_approver("boss")
    approval = str(pay(paying).approval)
    paying.approve(approval, by=USER)
    paying.approve(approval, by="boss")
    assert paying.close_risk("card:charge")
    outcome = paying.resume_call(approval)
    assert (outcome.decision and outcome.decision.reason, recorder.calls) == ("forbidden_risk", [])
    assert [event.type for event in paying.audit() if event.type.startswith("risk.")] == ["risk.closed", "risk.opened"]


# --- nobody there ----------------------------------------------------------------------------------------------------


@pytest.fixture
def unattended(open_app: OpenApp, recorder: Recorder, tmp_path: Path) -> Callable[..., Prowess]:
    def make(**fields: Any) -> Prowess:
        defaults: dict[str, Any] = {"permissions": [ASKING], "effect": "read", "max_calls_per_turn": 4}
        opened = open_app(tool("reader", recorder, **{**defaults, **fields}))
        opened.grant(user=USER, skill="reader", code="notes:read")
        return opened

    return make


def unasked(app: Prowess, *codes: str, message: str = "m1", **choices: Any) -> ToolOutcome:
    asked = request(message, "hello", origin="trigger:t1")
    plan = app.begin(asked, unattended=Unattended(frozenset(codes)), **choices)
    return call(plan, app, name="reader")


def test_b14_what_a_trigger_preapproved_runs_where_it_only_reads(unattended: Callable[..., Prowess]) -> None:
    app = unattended()
    outcome = unasked(app, "notes:read")
    assert (outcome.status, outcome.decision and outcome.decision.reason) == ("succeeded", "preapproved")
    assert unasked(app, "mail:send", message="m2").status == "pending"
    assert unasked(app, message="m3").status == "pending"


def test_b14_writing_is_never_preapproved(unattended: Callable[..., Prowess], recorder: Recorder) -> None:
    assert unasked(unattended(effect="write"), "notes:read").status == "pending"
    assert recorder.calls == []


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
def test_b14_what_destroys_always_asks_where_nobody_is_there(
    unattended: Callable[..., Prowess], recorder: Recorder, mode: Mode
) -> None:
    needs = [PermissionRequirement("notes:read", Risk.L2)]
    app = unattended(destructive=True, permissions=needs)
    app.always_allow(user=USER, agent=AGENT, tool="tool.reader", arguments={"text": "x", "number": 100})
    assert unasked(app, "notes:read", mode=mode).status == "pending"
    assert recorder.calls == []
    attended = call(app.begin(request("m2", "hello")), app, name="reader")
    assert attended.status == "succeeded"


def test_b14_b17_a_delegate_of_an_unattended_turn_is_unattended(unattended: Callable[..., Prowess]) -> None:
    app = unattended()
    plan = app.begin(request("m1", "hello"), unattended=Unattended(frozenset({"notes:read"})))
    child = app.begin(request("k1", "hi", agent="kid", conversation="k"), parent=plan, unattended=Unattended())
    assert call(child, app, name="reader").status == "pending"
    same = app.begin(request("k2", "hi", agent="kid", conversation="k"), parent=plan)
    assert call(same, app, name="reader").status == "succeeded"


def test_u6_a_parked_run_is_told_of_and_runs_once_when_answered_after_a_restart(
    open_app: OpenApp, recorder: Recorder
) -> None:
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    plan = app.begin(request("m1", "/sender x", origin="trigger:t1"), unattended=Unattended())
    result = app.finish(plan, plan.reply or "")
    (approval,) = result.pending_approvals
    assert result.run is not None
    assert result.run.status == "waiting_user"
    (told,) = [event for event in app.events() if event.type == "turn.waiting"]
    assert (told.user, told.data) == (USER, {"origin": "trigger:t1", "approvals": [approval]})
    app.close()
    reopened = open_app(sender(recorder))
    reopened.approve(approval, by=USER)
    assert reopened.resume_call(approval).status == "succeeded"
    done = reopened.continue_turn(message_id="m1", agent=AGENT, conversation=CHAT, reply_id="r1")
    assert (done.reply, done.run and done.run.status, recorder.calls) == ("answer 1 to x", "completed", ["x"])


# --- turns that wait -------------------------------------------------------------------------------------------------


def go_on(app: Prowess, reply: str = "r1", message: str = "m1") -> Any:
    return app.continue_turn(message_id=message, agent=AGENT, conversation=CHAT, reply_id=reply)


@pytest.mark.parametrize(
    ("words", "waits"),
    [
        ("/sender hello", "“sender” needs a person's yes first; nothing was done yet. Approval: "),
        ("/sender 你好", "“sender”需要先有人批准，目前什么都没有做。批准编号："),
    ],
)
def test_g13_a_turn_that_waits_says_so_and_goes_on_once(
    app: Prowess, recorder: Recorder, words: str, waits: str
) -> None:
    result = turn(app, "m1", words)
    (approval,) = result.pending_approvals
    assert result.reply == f"{waits}{approval}"
    assert turn(app, "m1", words).pending_approvals == (approval,)
    assert refused(lambda: go_on(app)) == "turn_still_waiting"
    app.approve(approval, by=USER)
    app.resume_call(approval)
    done = go_on(app)
    assert (done.reply, done.pending_approvals) == (f"answer 1 to {words[8:]}", ())
    repeated = go_on(app)
    assert (repeated.reply, repeated.replayed) == (done.reply, True)
    assert refused(lambda: go_on(app, "r2")) == "turn_not_waiting"
    said = [(item.id, item.reply_to) for item in app.messages(CHAT) if item.author_kind == "agent"]
    assert said[1:] == [("r1", "m1")]
    assert [run.status for run in app.runs(user=USER)] == ["completed"]
    assert recorder.calls == [words[8:]]


@pytest.mark.parametrize(
    ("end", "says", "status"),
    [
        ("deny", "“sender” was not done: a person said no.", "denied"),
        ("expire", "“sender” was not done: nobody answered in time. You can ask for it again.", "denied"),
        ("cancel", "“sender” was not done: the question was withdrawn, or it may not be done any more.", "denied"),
    ],
)
def test_c43_u7_a_turn_goes_on_with_the_truth(
    app: Prowess, recorder: Recorder, clock: ManualClock, end: str, says: str, status: str
) -> None:
    (approval,) = turn(app, "m1", "/sender hello").pending_approvals
    if end == "deny":
        app.deny(approval, by=USER)
    elif end == "cancel":
        app.cancel_approval(approval, by=USER)
    else:
        clock.advance(HALF_AN_HOUR)
        assert app.expire_approvals() == 1
    assert kinds(app, "turn.settled")[-1] == "turn.settled"
    done = go_on(app)
    assert (done.reply, done.run and done.run.status, recorder.calls) == (says, status, [])


def test_g13_a_turn_is_settled_with_its_last_approval_and_not_before(app: Prowess) -> None:
    plan = app.begin(request("m1", "hello"))
    first, second = (str(call(plan, app, text).approval) for text in ("a", "b"))
    app.finish(plan, "two wait")
    app.approve(first, by=USER)
    assert "turn.settled" not in kinds(app, "turn.settled")
    app.resume_call(first)
    assert "turn.settled" not in kinds(app, "turn.settled")
    app.deny(second, by=USER)
    assert kinds(app, "turn.settled").count("turn.settled") == 1
    assert go_on(app).reply == "answer 1 to a\n“sender” was not done: a person said no."


def test_g13_a_turn_whose_calls_were_answered_while_it_spoke_goes_on_too(app: Prowess) -> None:
    plan = app.begin(request("m1", "hello"))
    approval = str(call(plan, app).approval)
    app.deny(approval, by=USER)
    app.finish(plan, "It waits.")
    assert kinds(app, "turn.waiting", "turn.settled")[-2:] == ["turn.waiting", "turn.settled"]
    assert go_on(app).reply == "“sender” was not done: a person said no."


def test_g13_r3_what_a_call_returned_is_forgotten_when_the_turn_has_gone_on(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    (approval,) = turn(app, "m1", "/sender zeisig").pending_approvals
    app.approve(approval, by=USER)
    app.resume_call(approval)
    assert "approvals.result" in places_of(url, "zeisig")
    go_on(app)
    assert places_of(url, "zeisig") == {"messages.text"}
    (other,) = turn(app, "m2", "/sender stieglitz").pending_approvals
    app.approve(other, by=USER)
    app.resume_call(other)
    clock.advance(timedelta(days=8))
    app.expire_approvals()
    assert places_of(url, "stieglitz") == {"messages.text"}
    assert refused(lambda: go_on(app, "r2", "m2")) == "turn_not_waiting"
    assert rows(url, "SELECT message_id FROM suspended_turns") == []


# --- races -----------------------------------------------------------------------------------------------------------


def test_c46_many_that_resume_one_approval_run_it_once(app: Prowess, recorder: Recorder, url: str) -> None:
    approval = ask(app)
    app.approve(approval, by=USER)
    outcomes = at_once([lambda: app.resume_call(approval)] * 50)
    assert sorted({outcome.status for outcome in outcomes}) == ["recorded", "succeeded"]
    assert [outcome.status for outcome in outcomes].count("succeeded") == 1
    assert recorder.calls == ["x"]
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'approval.used'")) == 1
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'turn.settled'")) == 1


def test_u8_c46_many_that_answer_at_once_have_one_first(app: Prowess, url: str) -> None:
    people = [USER, *(f"boss{number}" for number in range(24))]
    for person in people[1:]:
        app.add_approver(person)
    approval = ask(app)
    acts = [lambda by=by, act=act: act(approval, by=by) for by in people for act in (app.approve, app.deny)]
    answered = at_once(acts)
    won = [item for item in answered if isinstance(item, Approval)]
    assert len(won) == 1
    assert {getattr(item, "code", None) for item in answered if item is not won[0]} == {"approval_answered"}
    assert len(rows(url, "SELECT seat FROM approval_answers")) == 1


def test_c46_many_that_ask_the_same_wait_for_one_approval(app: Prowess, url: str) -> None:
    plans = [app.begin(request("m1", "hello")) for _ in range(12)]
    outcomes = at_once([lambda plan=plan: call(plan, app) for plan in plans])
    assert len({outcome.approval for outcome in outcomes}) == 1
    assert len(rows(url, "SELECT id FROM approvals")) == 1


def test_g13_many_that_end_the_calls_of_one_turn_settle_it_once(app: Prowess, url: str) -> None:
    plan = app.begin(request("m1", "hello"))
    asked = [str(call(plan, app, text).approval) for text in "abcd"]
    app.finish(plan, "four wait")
    at_once([lambda name=name: app.deny(name, by=USER) for name in asked])
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'turn.settled'")) == 1
    replies = at_once([lambda: go_on(app)] * 8)
    assert len({getattr(reply, "reply", reply) for reply in replies}) == 1
    assert len(rows(url, "SELECT seq FROM events WHERE type = 'turn.continued'")) == 1
