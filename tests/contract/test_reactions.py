"""Triggers that fire at the event of another turn, and that no loop comes of it (B2)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.automation import add, events, history, jobs
from tests.support.kit import AGENT, USER, OpenApp, at_once, interview, manual, rows, turn

from prowess import ManualClock, Prowess, TurnRequest
from prowess.automation.triggers.model import Trigger
from prowess.chat.model import ChatRef


def run_job(app: Prowess, job: dict[str, Any]) -> None:
    """The turn of a job, as the worker starts it: its id is the message's."""
    request = TurnRequest(
        job["tenant"],
        job["user_id"],
        job["agent_id"],
        job["payload"]["text"],
        job["id"],
        ChatRef(job["chat_kind"], job["chat_id"]).id,
        origin=f"trigger:{job['trigger_id']}",
    )
    app.finish(app.begin(request), "done")


def reaction(app: Prowess, name: str, **spec: Any) -> Trigger:
    return add(app, "reaction", {"events": ["turn.completed"], **spec}, name=name, prompt=f"{name} reacts.")


def test_b2_a_turn_of_the_owner_makes_it_fire_once(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    apps = [open_app(), open_app()]
    app = apps[0]
    trigger = reaction(app, "r")
    turn(app, "m1", "the canary sings")
    clock.advance(timedelta(seconds=3))
    at_once([each.react for each in apps for _ in range(2)])
    assert app.react() == len(events(app, "automation.triggered")) - 1  # nothing but what the firing itself wrote
    [job] = jobs(url)
    data = json.loads(job["payload"]["data"])
    assert {"type": "turn.completed", "agent": AGENT, "conversation": "c1", "message_id": "m1"}.items() <= data.items()
    assert (job["payload"]["text"], job["payload"]["source"]) == ("r reacts.", "event")
    assert "canary" not in json.dumps(job["payload"])
    assert history(app, trigger) == [("fired", None, 0)]


def test_only_the_owners_own_turns_count_and_only_since_it_is_active(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    turn(app, "m0", "before")
    clock.advance(timedelta(seconds=1))
    trigger = reaction(app, "r")
    turn(app, "m1", "hello", user="u2", conversation="c2")
    turn(app, "m1", "hello", tenant="other")
    app.react()
    assert jobs(url) == []
    app.pause_automation(trigger.id)
    turn(app, "m2", "while it is paused")
    clock.advance(timedelta(seconds=1))
    app.resume_automation(trigger.id)
    app.react()
    assert jobs(url) == []
    turn(app, "m3", "now")
    app.react()
    assert len(jobs(url)) == 1


@pytest.mark.parametrize(
    ("spec", "fires"),
    [
        ({"agent": AGENT}, True),
        ({"agent": "nova"}, False),
        ({"conversation": "c1"}, True),
        ({"conversation": "c9"}, False),
        ({"events": ["run.recorded"], "skill": "Be_Kind"}, True),
        ({"events": ["run.recorded"], "skill": "other"}, False),
        ({"events": ["turn.failed"]}, False),
        ({"events": ["session.completed", "turn.completed"]}, True),
    ],
)
def test_filters(open_app: OpenApp, url: str, spec: dict[str, Any], fires: bool) -> None:
    app = open_app(manual("be-kind"))
    reaction(app, "r", **spec)
    turn(app, "m1", "/be-kind now")
    app.react()
    assert len(jobs(url)) == int(fires)


def test_a_workflow_that_ends_makes_it_fire(open_app: OpenApp, url: str) -> None:
    app = open_app(interview(questions=1))
    reaction(app, "r", events=["session.completed"], skill="interview")
    turn(app, "m1", "/interview")
    app.react()
    assert jobs(url) == []
    turn(app, "m2", "an answer")
    app.react()
    [job] = jobs(url)
    assert json.loads(job["payload"]["data"])["skill"] == "interview"


def test_a_turn_that_a_trigger_started_never_fires_that_trigger(app: Prowess, url: str) -> None:
    trigger = reaction(app, "r")
    turn(app, "m1", "hello")
    app.react()
    [job] = jobs(url)
    run_job(app, job)
    app.react()
    app.react()
    assert len(jobs(url)) == 1
    assert [event["reason"] for event in events(app, "automation.rate_limited")] == ["loop"]
    assert [entry[0] for entry in history(app, trigger)] == ["fired", "rate_limited"]


def test_at_most_three_triggers_lead_to_one_another(app: Prowess, url: str) -> None:
    """Two reactions that answer each other: each job makes the other fire, until the third."""
    for name in ("ping", "pong"):
        reaction(app, name)
    turn(app, "m1", "hello")
    done: set[str] = set()
    for _ in range(10):
        app.react()
        waiting = [job for job in jobs(url) if job["id"] not in done]
        if not waiting:
            break
        for job in waiting:
            run_job(app, job)
            done.add(job["id"])
    depths = [row["depth"] for row in rows(url, "SELECT depth FROM automation_fires WHERE status = 'fired'")]
    assert sorted(depths) == [0, 0, 1, 1, 2, 2]
    assert {event["reason"] for event in events(app, "automation.rate_limited")} == {"loop"}


def test_a_turn_of_a_trigger_whose_job_is_not_known_counts_as_its_latest(app: Prowess, url: str) -> None:
    trigger = reaction(app, "r")
    app.fire_automation(trigger.id, user=USER)
    request = TurnRequest("default", USER, AGENT, "hello", "unknown", "c5", origin=f"trigger:{trigger.id}")
    app.finish(app.begin(request), "done")
    app.react()
    assert len(jobs(url)) == 1
    assert [event["reason"] for event in events(app, "automation.rate_limited")] == ["loop"]


def test_c54_a_corrupted_reaction_does_not_stop_the_others(app: Prowess, url: str) -> None:
    from tests.support.kit import execute

    bad, good = reaction(app, "bad"), reaction(app, "good")
    execute(url, f"UPDATE automation_triggers SET spec = '{{}}' WHERE id = '{bad.id}'")
    turn(app, "m1", "hello")
    app.react()
    assert [job["trigger_id"] for job in jobs(url)] == [good.id]


def test_b13_the_end_of_an_automation_makes_another_fire_and_not_itself(app: Prowess, url: str) -> None:
    first = add(app, "cron", {"cron": "0 0 1 1 *"}, name="first")
    second = add(app, "reaction", {"events": ["automation.completed"]}, name="second")
    app.fire_automation(first.id, user=USER)
    for _ in range(3):
        app.work()
        app.react()
    assert [job.status for job in app.jobs(trigger=first.id)] == ["completed"]
    assert [job.status for job in app.jobs(trigger=second.id)] == ["completed"]
    assert [event["reason"] for event in events(app, "automation.rate_limited")] == ["loop"]
