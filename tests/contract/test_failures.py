"""A failure injected at each stage (start, model, tool, delivery, webhook): never an ok status, always an alert (U7)."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.automation import add
from tests.support.kit import (
    AGENT,
    CHAT,
    LIMIT,
    USER,
    OpenApp,
    Question,
    ScriptedVoice,
    execute,
    many_check_ins,
    tool,
    turn,
)
from tests.support.notices import emit
from tests.support.receiver import receiver

from prowess import ManualClock, Prowess, ToolContext, VoiceError
from prowess.automation.jobs.model import Job
from prowess.automation.triggers.model import Trigger
from prowess.builtin.goal_check_in_reminder import CODE, SKILL_ID
from prowess.secrets.keys import KeyRing

FOR_GOOD = timedelta(hours=2)
"""longer than all attempts of a job together"""
REFUSING = {
    "sqlite": (
        "CREATE TRIGGER full_store BEFORE INSERT ON messages WHEN NEW.author_kind = 'agent'"
        " BEGIN SELECT RAISE(FAIL, 'full'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION full_store() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full'; END $$",
        "CREATE TRIGGER full_store BEFORE INSERT ON messages FOR EACH ROW WHEN (NEW.author_kind = 'agent')"
        " EXECUTE FUNCTION full_store()",
    ),
}
"""a message store that takes nothing from agents"""


def fire(app: Prowess, **fields: Any) -> Trigger:
    """A trigger of the usual user that has just fired, for once."""
    trigger = add(app, "cron", {"cron": "0 0 1 1 *"}, **{"conversation": CHAT, **fields})
    app.fire_automation(trigger.id)
    return trigger


def failed_honestly(app: Prowess, trigger: Trigger, code: str, attempts: int) -> None:
    """Nothing calls it done, its history leads to the failure, and its owner and the operators are alerted."""
    [job] = app.jobs(trigger=trigger.id)
    assert (str(job.status), job.error_code, job.attempts) == ("failed", code, attempts)
    [row] = app.automation_history(trigger.id)
    assert (row.job_id, str(row.status)) == (job.id, "fired")
    ends = [event for event in app.events() if event.type in ("job.finished", "automation.completed")]
    assert {event.decision for event in ends} == {"failed"}
    assert {event.data.get("outcome") for event in ends if event.type == "automation.completed"} == {"failed"}
    for inbox in (USER, None):
        told = [(item.notice.kind, str(item.notice.severity)) for item in app.notifications(user=inbox)]
        assert ("automation.failed", "alert") in told, (inbox, told)
    assert "incident.opened" in {item.notice.kind for item in app.alerts()}
    assert not any(str(item.notice.kind).endswith("completed") for item in app.notifications(user=USER))


# --- start -----------------------------------------------------------------------------------------------------------


def test_u7_start_an_agent_that_its_owner_lost(app: Prowess, url: str, clock: ManualClock) -> None:
    turn(app, "m0", "hello")
    trigger = fire(app)
    execute(url, "UPDATE agents SET owner = 'u2'")
    app.work(until=clock.now() + FOR_GOOD)
    failed_honestly(app, trigger, "agent_not_usable", 1)


def test_u7_start_an_agent_that_is_gone(app: Prowess, open_app: OpenApp, url: str, clock: ManualClock) -> None:
    turn(app, "m0", "hello")
    trigger = fire(app)
    execute(url, f"DELETE FROM agents WHERE id = '{AGENT}'")
    strict = open_app(create_missing=False)
    strict.work(until=clock.now() + FOR_GOOD)
    failed_honestly(strict, trigger, "agent_not_usable", 1)


# --- model -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (VoiceError("voice_unavailable", provider="p"), "voice_unavailable"),
        (VoiceError("voice_cut", provider="p"), "voice_cut"),
        (RuntimeError("anything"), "voice_failed"),
    ],
)
def test_u7_model_a_voice_that_fails(error: Exception, code: str, open_app: OpenApp, clock: ManualClock) -> None:
    voice = ScriptedVoice()
    voice.error = error
    app = open_app(voice=voice)
    trigger = fire(app)
    app.work(until=clock.now() + FOR_GOOD)
    failed_honestly(app, trigger, code, 3)
    assert len(voice.prompts) == 3
    assert "turn.failed" in {item.notice.kind for item in app.alerts()}


def test_b16_model_a_quota_that_is_used_up_defers_and_costs_no_attempt(open_app: OpenApp, clock: ManualClock) -> None:
    voice = ScriptedVoice()
    voice.error = VoiceError("voice_rate_limited", provider="p", retry_after=5_400)
    app = open_app(voice=voice)
    trigger, began = fire(app), clock.now()
    app.work()
    [job] = app.jobs(trigger=trigger.id)
    assert (str(job.status), job.error_code, job.attempts) == ("retrying", "voice_rate_limited", 0)
    assert job.next_attempt_at == began + timedelta(seconds=5_400)
    [notice] = [item.notice for item in app.notifications(user=USER) if item.notice.kind == "automation.deferred"]
    assert (str(notice.severity), notice.subject.code) == ("warning", "voice_rate_limited")
    app.work(until=began + 5 * timedelta(seconds=5_400))
    [job] = app.jobs(trigger=trigger.id)
    assert (str(job.status), job.attempts, len(voice.prompts)) == ("retrying", 0, 6), "however often"
    assert [event for event in app.events() if event.type == "job.finished"] == []
    voice.error = None
    app.work(until=clock.now() + timedelta(seconds=5_400))
    [job] = app.jobs(trigger=trigger.id)
    assert (str(job.status), job.attempts, job.error_code) == ("completed", 1, None)


# --- tool ------------------------------------------------------------------------------------------------------------


def _raises(_context: ToolContext, _question: Question) -> Any:
    raise RuntimeError("broken")


def _times_out(context: ToolContext, _question: Question) -> Any:
    context.cancel.wait(LIMIT)
    threading.Event().wait(0.01)
    return {"text": "too late"}


def _answers_nonsense(_context: ToolContext, _question: Question) -> Any:
    return {"number": 7}


@pytest.mark.parametrize("handler", [_raises, _times_out, _answers_nonsense])
def test_u7_tool_one_that_fails(
    handler: Callable[[ToolContext, Question], Any], open_app: OpenApp, clock: ManualClock
) -> None:
    app = open_app(tool("asker", handler, timeout=timedelta(milliseconds=200)))
    trigger = fire(app, skill="asker")
    app.work(until=clock.now() + FOR_GOOD)
    failed_honestly(app, trigger, "turn_failed", 1)
    [run] = app.runs(user=USER)
    assert str(run.status) == "failed"


# --- delivery --------------------------------------------------------------------------------------------------------


def test_u7_delivery_a_store_that_takes_no_reply(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = fire(app)
    execute(url, *REFUSING[app.dialect])
    app.work(until=clock.now() + FOR_GOOD)
    [job] = app.jobs(trigger=trigger.id)
    failed_honestly(app, trigger, str(job.error_code), 3)
    assert [message.author_kind for message in app.messages(CHAT, user=USER) if message.author_kind == "agent"] == []


def test_u7_delivery_a_store_that_takes_no_reminder(app: Prowess, url: str, clock: ManualClock) -> None:
    app.grant(user=USER, skill=SKILL_ID, code=CODE)
    many_check_ins(app, 3, clock.now() + timedelta(minutes=2))
    execute(url, *REFUSING[app.dialect])
    app.work(until=clock.now() + FOR_GOOD)
    assert [(str(job.status), job.attempts) for job in app.jobs()] == [("failed", 3)] * 3
    assert all(job.error_code and job.result is None for job in app.jobs())
    _told_of_each(app, app.jobs())
    assert "succeeded" not in {event.decision for event in app.events() if event.type == "job.finished"}


def test_u7_delivery_a_reminder_waits_out_a_store_that_refuses_for_a_while(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    app.grant(user=USER, skill=SKILL_ID, code=CODE)
    [job] = many_check_ins(app, 1, clock.now() + timedelta(minutes=2))
    execute(url, *REFUSING[app.dialect])
    app.work(until=clock.now() + timedelta(minutes=3))
    assert str(app.job(job.id).status) == "retrying"
    execute(url, "DROP TRIGGER full_store" + (" ON messages" if app.dialect == "postgresql" else ""))
    app.work(until=clock.now() + FOR_GOOD)
    done = app.job(job.id)
    assert (str(done.status), done.attempts, done.result) == ("completed", 2, job.id)


def _told_of_each(app: Prowess, jobs: list[Job]) -> None:
    for inbox in (USER, None):
        alerts = [item.notice for item in app.notifications(user=inbox) if str(item.notice.severity) == "alert"]
        assert {alert.subject.job for alert in alerts if alert.kind == "job.failed"} == {job.id for job in jobs}


# --- webhook ---------------------------------------------------------------------------------------------------------


def test_u7_webhook_one_that_answers_500_until_no_attempt_is_left(open_app: OpenApp, clock: ManualClock) -> None:
    with receiver() as there:
        app = open_app(outgoing_hosts=[there.host], secret_keys=KeyRing([bytes(range(32))]))
        app.set_secret("HOOK_KEY", "whsec_" + base64.b64encode(bytes(range(100, 132))).decode(), user=USER)
        hook = app.add_hook(there.url, secret="HOOK_KEY", user=USER)
        there.status = 500
        emit(app._parts.database, clock.now(), "automation.proposed", user_id=USER, target="trigger-1")
        app.work(until=clock.now() + FOR_GOOD)
        [job] = app.jobs()
        assert (str(job.status), job.attempts, job.error_code) == ("failed", 3, "delivery_rejected")
        assert job.result is None
        assert len(there.received) == 3
        [found] = app.hooks(user=USER)
        assert (found.id, str(found.status)) == (hook.id, "failing")
        for inbox in (USER, None):
            told = [(item.notice.kind, str(item.notice.severity)) for item in app.notifications(user=inbox)]
            assert told.count(("hook.failing", "alert")) == 1, (inbox, told)
        decisions = {event.decision for event in app.events() if event.type == "job.finished"}
        assert decisions == {"failed"}
