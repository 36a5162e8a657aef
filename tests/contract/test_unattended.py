"""Turns that nobody watches, from the trigger to the alert: triggers, approvals, jobs and inboxes together."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.automation import add
from tests.support.kit import LIMIT, USER, OpenApp, Recorder, ScriptedVoice, rows, tool, turn

from prowess import Conflict, ManualClock, Prompt, Prowess, SkillFilter, VoiceError
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.automation.jobs.model import Job, JobStatus
from prowess.automation.triggers.model import Trigger

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
LOOKING = PermissionRequirement("notes:read", Risk.L1, ApprovalMode.PER_OPERATION)
EVERY_MINUTE = {"seconds": 60}
HALF_AN_HOUR = timedelta(minutes=30)


def sender(recorder: Recorder, **fields: Any) -> Any:
    return tool("sender", recorder, **{"permissions": [SENDING], "effect": "write", **fields})


def fired(app: Prowess, clock: ManualClock, **fields: Any) -> tuple[Trigger, Job]:
    """A trigger that runs ``/sender`` once, and the job of its fire, after the worker has looked."""
    at = (clock.now() + timedelta(minutes=5)).isoformat()
    trigger = add(app, "once", {"at": at}, skill="sender", prompt="the letter", **fields)
    clock.advance(timedelta(minutes=5))
    app.work()
    (job,) = app.jobs(trigger=trigger.id)
    return trigger, job


def inbox(app: Prowess) -> list[tuple[str, str]]:
    return [(item.notice.kind, str(item.notice.severity)) for item in reversed(app.notifications(user=USER))]


def told(app: Prowess, prefix: str) -> list[tuple[str, Any]]:
    """(type, outcome or error code) of the events that begin so."""
    found = [event for event in app.events(limit=10_000) if event.type.startswith(prefix)]
    return [(event.type, event.data.get("outcome") or event.data.get("error_code")) for event in found]


# --- a question that nobody is there to answer -----------------------------------------------------------------------


def test_u6_a_question_parks_the_run_and_after_a_restart_it_runs_exactly_once(
    open_app: OpenApp, clock: ManualClock
) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    _, job = fired(app, clock)
    assert (job.status, job.error_code, job.finished_at) == (JobStatus.WAITING, None, None)
    assert recorder.calls == []
    assert inbox(app) == [("approval.requested", "warning")]
    assert told(app, "automation.completed") == []
    again = open_app(sender(recorder))
    (approval,) = again.approvals(user=USER, status="pending")
    assert approval.call.origin == f"trigger:{job.trigger}"
    again.approve(approval.id, by=USER)
    assert recorder.calls == []
    again.work()
    app.work()
    assert recorder.calls == ["the letter"]
    done = again.job(job.id)
    assert (done.status, done.error_code, done.result) == (JobStatus.COMPLETED, None, job.id)
    assert told(again, "automation.completed") == [("automation.completed", "ok")]
    assert told(again, "incident") == []
    assert job.chat is not None
    kinds = [(message.author_kind, message.reply_to) for message in again.messages(job.chat.id)]
    assert kinds == [("trigger", None), ("agent", job.id), ("agent", job.id)]
    assert again.messages(job.chat.id)[-1].text == "answer 1 to the letter"


def test_u6_b14_unanswered_it_expires_is_alerted_and_is_never_done(open_app: OpenApp, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    _, job = fired(app, clock)
    clock.advance(HALF_AN_HOUR - timedelta(milliseconds=1))
    app.work()
    assert app.job(job.id).status is JobStatus.WAITING
    clock.advance(timedelta(milliseconds=1))
    app.work()
    failed = app.job(job.id)
    assert (failed.status, failed.error_code, failed.attempts) == (JobStatus.FAILED, "permission_timeout", 1)
    assert recorder.calls == []
    assert told(app, "automation.completed") == [("automation.completed", "failed")]
    assert told(app, "automation.skipped") == [("automation.skipped", "permission_timeout")]
    assert told(app, "incident") == []
    assert ("approval.expired", "alert") in inbox(app)
    assert ("automation.failed", "alert") in inbox(app)
    app.work(until=clock.now() + timedelta(days=1))
    assert app.job(job.id).attempts == 1
    assert len(app.jobs(trigger=job.trigger)) == 1


def test_b7_a_job_that_waits_for_a_person_cannot_be_cancelled_from_beside(
    open_app: OpenApp, clock: ManualClock
) -> None:
    """It has begun, and its call may still be approved: only stopping the turn ends both."""
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    _, job = fired(app, clock)
    with pytest.raises(Conflict) as refused:
        app.cancel_job(job.id)
    assert (refused.value.code, refused.value.detail["status"]) == ("job_running", "waiting")
    assert job.chat is not None
    app.stop_turn(user=USER, message_id=job.id, agent="mira", conversation=job.chat.id)
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "stopped")
    assert [str(item.status) for item in app.approvals(user=USER)] == ["cancelled"]
    app.work()
    assert recorder.calls == []


def test_u6_a_person_who_says_no_ends_it_without_an_incident(open_app: OpenApp, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    _, job = fired(app, clock)
    (approval,) = app.approvals(user=USER, status="pending")
    app.deny(approval.id, by=USER)
    app.work()
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "denied")
    assert recorder.calls == []
    assert told(app, "incident") == []


def test_g4_an_approved_call_of_a_trigger_is_judged_again_when_it_runs(open_app: OpenApp, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    _, job = fired(app, clock)
    (approval,) = app.approvals(user=USER, status="pending")
    app.approve(approval.id, by=USER)
    app.revoke(user=USER, skill="sender", code="mail:send")
    app.work()
    assert recorder.calls == []
    failed = app.job(job.id)
    assert failed.status is JobStatus.FAILED
    assert failed.error_code is not None
    assert ("automation.failed", "alert") in inbox(app)


# --- what a trigger may approve beforehand ---------------------------------------------------------------------------


def test_b14_reading_that_is_pre_approved_asks_nobody(open_app: OpenApp, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder, permissions=[LOOKING], effect="read"))
    app.grant(user=USER, skill="sender", code="notes:read")
    _, job = fired(app, clock, preapproved=["notes:read"])
    assert (job.status, recorder.calls) == (JobStatus.COMPLETED, ["the letter"])


@pytest.mark.parametrize("mode", ["default", "bypass"])
def test_b14_what_destroys_always_asks_whatever_was_allowed(open_app: OpenApp, clock: ManualClock, mode: str) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder, permissions=[("notes:write", "L2")], destructive=True))
    app.grant(user=USER, skill="sender", code="notes:write")
    app.always_allow(user=USER, agent="mira", tool="tool.sender", arguments={"text": "the letter"})
    _, job = fired(app, clock, mode=mode)
    assert (job.status, recorder.calls) == (JobStatus.WAITING, [])


# --- one deny on every road ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["consent", "policy", "filter", "disabled"])
def test_u1_a_deny_holds_on_the_road_of_an_automation(
    open_app: OpenApp, clock: ManualClock, tmp_path: Path, how: str
) -> None:
    """Whatever says no in a chat says no here: zero effects, one denied row, never an ok status, an alert."""
    recorder = Recorder()
    options: dict[str, Any] = {}
    if how == "policy":
        file = tmp_path / "rules.yaml"
        file.write_text(
            "version: 1\nrules:\n"
            "  - {id: never, effect: deny, tools: [tool.sender], match: [{tool: tool.sender, skill: sender}]}\n"
        )
        options["policies"] = [file]
    app = open_app(sender(recorder, permissions=[("notes:write", "L2")]), **options)
    at = (clock.now() + timedelta(minutes=5)).isoformat()
    trigger = add(app, "once", {"at": at}, skill="sender", prompt="the letter")
    if how != "consent":
        app.grant(user=USER, skill="sender", code="notes:write")
    if how == "disabled":
        app.bind_skill("sender", user=USER, enabled=False)
    if how == "filter":
        app.create_agent("mira")
        app.design_agent("mira", SkillFilter.of("except", ["sender"]))
    clock.advance(timedelta(minutes=5))
    app.work()
    (job,) = app.jobs(trigger=trigger.id)
    assert recorder.calls == []
    # A skill that is not there for this turn is named by a command that is unknown.
    decided = {"consent": "consent_missing", "policy": "policy_denies"}
    kind, code = ("tool.decided", decided[how]) if how in decided else ("command.unknown", "skill_not_found")
    assert (job.status, job.error_code) == (JobStatus.FAILED, code)
    denied = [event for event in app.events(limit=1_000) if event.decision == "denied" and event.target != job.id]
    assert [event.type for event in denied if not event.type.startswith("automation.")] == [kind]
    assert told(app, "automation.completed") == [("automation.completed", "failed")]
    assert ("automation.failed", "alert") in inbox(app)


# --- quotas, crashes -------------------------------------------------------------------------------------------------


class FailingVoice(ScriptedVoice):
    """Fails as often as it is told to, then speaks."""

    def __init__(self, *errors: VoiceError) -> None:
        super().__init__()
        self.errors = list(errors)

    def speak(self, prompt: Prompt) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return super().speak(prompt)


def test_b16_an_exhausted_quota_puts_the_turn_off_and_costs_no_attempt(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(voice=FailingVoice(VoiceError("voice_rate_limited", provider="test")))
    at = clock.now() + timedelta(minutes=5)
    trigger = add(app, "once", {"at": at.isoformat()}, prompt="Tell me.")
    app.work(until=at)
    (job,) = app.jobs(trigger=trigger.id)
    assert (job.status, job.error_code, job.attempts) == (JobStatus.RETRYING, "voice_rate_limited", 0)
    assert (job.next_attempt_at.minute, job.next_attempt_at - clock.now() <= timedelta(hours=1)) == (0, True)
    assert told(app, "automation.deferred") == [("automation.deferred", "voice_rate_limited")]
    assert ("automation.deferred", "warning") in inbox(app)
    app.work(until=job.next_attempt_at)
    assert (app.job(job.id).status, app.job(job.id).attempts) == (JobStatus.COMPLETED, 1)


def test_b16_retries_that_are_used_up_open_an_incident(open_app: OpenApp, clock: ManualClock) -> None:
    errors = [VoiceError("voice_unavailable", provider="test") for _ in range(3)]
    app = open_app(voice=FailingVoice(*errors))
    at = clock.now() + timedelta(minutes=5)
    trigger = add(app, "once", {"at": at.isoformat()}, prompt="Tell me.")
    app.work(until=at + timedelta(days=1))
    (job,) = app.jobs(trigger=trigger.id)
    assert (job.status, job.error_code, job.attempts) == (JobStatus.FAILED, "voice_unavailable", 3)
    assert told(app, "incident") == [("incident.opened", "voice_unavailable")]
    assert ("incident.opened", "alert") in inbox(app)


def test_b16_a_turn_that_lost_its_worker_goes_on_and_repeats_no_effect(open_app: OpenApp, clock: ManualClock) -> None:
    """The first worker stalls after the tool has run; another takes the turn over and finishes it."""
    stalled, resumed = threading.Event(), threading.Event()

    class Stalling(ScriptedVoice):
        def speak(self, prompt: Prompt) -> str:
            stalled.set()
            assert resumed.wait(LIMIT)
            return "too late"

    recorder = Recorder()
    skill = sender(recorder, permissions=[("notes:write", "L2")])
    first = open_app(skill, voice=Stalling(), lease=timedelta(hours=1))
    second = open_app(skill)
    first.grant(user=USER, skill="sender", code="notes:write")
    at = clock.now() + timedelta(minutes=5)
    trigger = add(first, "once", {"at": at.isoformat()}, skill="sender", prompt="the letter")
    clock.advance(timedelta(minutes=5))
    thread = threading.Thread(target=first.work)
    thread.start()
    assert stalled.wait(LIMIT)
    clock.advance(timedelta(hours=2))
    second.work()
    resumed.set()
    thread.join(LIMIT)
    (job,) = second.jobs(trigger=trigger.id)
    assert (job.status, job.attempts) == (JobStatus.COMPLETED, 2)
    assert recorder.calls == ["the letter"]
    assert job.chat is not None
    said = [message.text for message in second.messages(job.chat.id) if message.author_kind == "agent"]
    assert len(said) == 1
    assert said != ["too late"]
    assert "job.fenced" in [event.type for event in second.events(limit=1_000)]


# --- a turn like any other -------------------------------------------------------------------------------------------


def test_b1_the_transcript_of_a_trigger_is_read_like_any_other(open_app: OpenApp, clock: ManualClock, url: str) -> None:
    app = open_app()
    turn(app, "m1", "hello")
    at = clock.now() + timedelta(minutes=5)
    trigger = add(app, "once", {"at": at.isoformat()}, prompt="What is on today?", conversation="c1")
    app.work(until=at)
    (job,) = app.jobs(trigger=trigger.id)
    shown = [(message.author_kind, message.author, message.text) for message in app.messages("c1", user=USER)]
    assert shown[2:] == [("trigger", trigger.id, "What is on today?"), ("agent", "mira", "plain")]
    assert rows(url, "SELECT origin FROM turns WHERE message_id = :id", id=job.id) == [
        {"origin": f"trigger:{trigger.id}"}
    ]
    # The same message id is served once, whoever sends it.
    with pytest.raises(Conflict):
        app.turn(user=USER, agent="mira", conversation="c1", message_id=job.id, text="something else")


def test_b13_every_fire_says_when_it_began_and_how_it_ended(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app()
    trigger = add(app, "interval", EVERY_MINUTE, prompt="Tell me.")
    app.work(until=clock.now() + timedelta(minutes=3))
    events = [event for event in app.events(limit=1_000) if event.type.startswith("automation.")]
    fired = [event for event in events if event.type == "automation.triggered"]
    ended = [event for event in events if event.type == "automation.completed"]
    assert len(fired) == len(ended) == len(app.jobs(trigger=trigger.id)) == 3
    assert {event.data["outcome"] for event in ended} == {"ok"}
    assert {event.data["trigger"] for event in ended} == {trigger.id}
    assert {event.target for event in ended} == {job.id for job in app.jobs(trigger=trigger.id)}


def test_u8_named_approvers_are_told_and_one_of_them_may_answer(open_app: OpenApp, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(sender(recorder))
    app.grant(user=USER, skill="sender", code="mail:send")
    for user, code in (("boss", "mail:send"), ("chief", "*"), ("cook", "kitchen:write")):
        app.add_approver(user, code=code)
    _, job = fired(app, clock)
    asked = {
        user: [item.notice.kind for item in app.notifications(user=user)] for user in (USER, "boss", "chief", "cook")
    }
    assert asked == {
        USER: ["approval.requested"], "boss": ["approval.requested"], "chief": ["approval.requested"], "cook": []
    }  # fmt: skip
    (approval,) = app.approvals(user="boss", status="pending")
    app.approve(approval.id, by="boss")
    app.work()
    assert (app.job(job.id).status, recorder.calls) == (JobStatus.COMPLETED, ["the letter"])
