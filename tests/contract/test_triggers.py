"""Triggers: who may make one, when it fires, and what becomes of what was missed (B2, B10 to B15, C31, C50 to C64)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.automation import add, at, events, history, jobs
from tests.support.kit import AGENT, USER, OpenApp, at_once, execute, manual, recaller, rows, tool

from prowess import (
    CapabilitySurface,
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    ManualClock,
    NotFound,
    Prowess,
    ProwessError,
)
from prowess.automation.triggers.model import Status, Trigger
from prowess.automation.triggers.scheduler import Scheduler
from prowess.events.model import Actor

MINUTELY = {"cron": "* * * * *"}


def refused(call: Callable[[], Any]) -> tuple[str, Any]:
    with pytest.raises(ProwessError) as caught:
        call()
    return caught.value.code, caught.value.detail.get("field")


# --- who may ---------------------------------------------------------------------------------------------------------


def test_c31_an_agent_of_somebody_else_cannot_be_scheduled_and_losing_it_stops_the_firing(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    app.create_agent("theirs", owner="u2")
    assert refused(lambda: add(app, "cron", MINUTELY, agent="theirs")) == ("agent_not_found", None)
    assert rows(url, "SELECT * FROM automation_triggers") == []
    app.create_agent("shared")
    trigger = add(app, "cron", MINUTELY, agent="shared")
    clock.advance(timedelta(minutes=1))
    assert [fire.status for fire in app.fire_due().fires] == ["fired"]
    with app._parts.database.read() as connection:
        assert app._parts.automations.triggers.admit(connection, trigger.id) is None
    execute(url, "UPDATE agents SET owner = 'u2' WHERE id = 'shared'")
    with app._parts.database.read() as connection:
        assert app._parts.automations.triggers.admit(connection, trigger.id) == "agent_not_usable"
    clock.advance(timedelta(minutes=1))
    assert [(fire.status, fire.job_id) for fire in app.fire_due().fires] == [("refused", None)]
    assert len(jobs(url)) == 1
    [denial] = [event for event in app.audit(decision="denied") if event.type == "automation.skipped"]
    assert (denial.user, denial.agent, denial.target, denial.data["reason"]) == (
        USER,
        "shared",
        trigger.id,
        "agent_not_usable",
    )


def test_c31_a_skill_that_is_not_granted_answers_like_one_that_is_not_there(open_app: OpenApp) -> None:
    class OnlyPlain:
        def resolve(self, _context: object) -> CapabilitySurface:
            return CapabilitySurface(skills=frozenset({"plain"}))

    app = open_app(manual("plain"), manual("hidden"), resolver=OnlyPlain())
    codes = []
    for name in ("hidden", "nothere"):
        with pytest.raises(NotFound) as caught:
            add(app, "cron", MINUTELY, skill=name)
        codes.append((caught.value.code, str(caught.value).replace(name, "")))
    assert codes[0] == codes[1]
    assert add(app, "cron", MINUTELY, skill="plain").text == "/plain Tell me."


def test_c31_a_conversation_of_somebody_else_is_refused(app: Prowess) -> None:
    app.turn(user="u2", agent=AGENT, conversation="theirs", message_id="m", text="hello")
    assert refused(lambda: add(app, "cron", MINUTELY, conversation="theirs")) == ("chat_not_found", None)


def test_c62_the_skill_of_a_trigger_is_spelled_in_one_way(open_app: OpenApp) -> None:
    app = open_app(manual("format-json"))
    trigger = add(app, "cron", MINUTELY, skill="Format_JSON", prompt="")
    assert (trigger.skill, trigger.text) == ("format-json", "/format-json")
    changed = app.change_automation(trigger.id, {"skill": "format_json"}, user=USER)
    assert (changed.skill, changed.revision) == ("format-json", 2)


def test_b14_only_what_reads_and_is_declared_can_be_approved_in_advance(open_app: OpenApp) -> None:
    app = open_app(
        recaller("reads"),
        tool("writes", permissions=[("notes:write", "L2")]),
        tool("both", permissions=[("memory:read", "L2")]),
    )
    assert add(app, "cron", MINUTELY, skill="reads", preapproved=["memory:read"]).preapproved == ("memory:read",)
    for skill, code in (
        ("writes", "notes:write"),
        ("reads", "notes:read"),
        ("both", "memory:read"),
        (None, "memory:read"),
    ):
        asked = lambda skill=skill, code=code: add(app, "cron", MINUTELY, skill=skill, preapproved=[code])  # noqa: E731
        assert refused(asked) == ("preapproval_not_readable", "preapproved"), (skill, code)


def test_g15_no_agent_adds_changes_or_fires(app: Prowess) -> None:
    trigger = add(app, "cron", MINUTELY)
    service = app._parts.automations.triggers
    agent = Actor("agent", AGENT)
    for call in (
        lambda: service.pause(actor=agent, tenant="default", trigger_id=trigger.id),
        lambda: service.fire(actor=agent, tenant="default", trigger_id=trigger.id),
        lambda: service.change(actor=agent, tenant="default", trigger_id=trigger.id, changes={"prompt": "x"}),
        lambda: service.remove(actor=agent, tenant="default", trigger_id=trigger.id),
    ):
        assert refused(call) == ("agent_may_not_schedule", None)
    assert app.automation(trigger.id).revision == 1


def test_a_trigger_is_its_owners_and_the_operators(app: Prowess) -> None:
    trigger = add(app, "cron", MINUTELY)
    for call in (
        app.automation,
        app.pause_automation,
        app.fire_automation,
        app.remove_automation,
        app.automation_history,
    ):
        assert refused(lambda call=call: call(trigger.id, user="u2")) == ("trigger_not_found", None)
        assert refused(lambda call=call: call(trigger.id, user=USER, tenant="other")) == ("trigger_not_found", None)
    assert app.automations(user="u2") == []
    assert [found.id for found in app.automations()] == [trigger.id]
    assert app.pause_automation(trigger.id).status is Status.PAUSED


# --- what may be asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "code"),
    [
        ("cron", {"cron": "0 0 31 2 *"}, "cron_never"),  # C61
        ("cron", {"cron": "* * * * *", "tz": "UTC+3"}, "unknown_zone"),  # C54
        ("cron", {"cron": "0 * * * * *"}, "cron_fields"),  # C64
        ("cron", {"cron": "0 10-5 * * *"}, "cron_field"),
        ("cron", {"cron": "0 0 ? * *"}, "cron_field"),
        ("cron", {"cron": "0 0 L * *"}, "cron_field"),
        ("cron", {"cron": "* " * 200}, "bad_trigger"),
        ("once", {"at": "2026-03-01T08:00:00Z"}, "time_in_past"),
        ("once", {"at": "2031-03-09T08:00:00Z"}, "time_too_far"),
        ("once", {"at": "2026-03-01T09:00:00"}, "bad_instant"),
        ("once", {"at": "2026-03-02T09:00:00Z", "local": "2026-03-02T09:00", "tz": "UTC"}, "once_time"),
        ("once", {"local": "2026-03-02T09:00"}, "once_time"),
        ("once", {}, "once_time"),
        ("once", {"local": "soon", "tz": "UTC"}, "bad_local_time"),
        ("once", {"local": "2026-03-02T09:00+01:00", "tz": "UTC"}, "bad_local_time"),
        ("once", {"local": "2026-03-02T09:00", "tz": "Mars/Base"}, "unknown_zone"),
        ("interval", {"seconds": 9}, "bad_trigger"),
        ("interval", {"seconds": 365 * 86_400 + 1}, "bad_trigger"),
        ("interval", {"seconds": "60"}, "bad_trigger"),
        ("interval", {}, "bad_trigger"),
        ("file", {"path": "notes"}, "watch_root_missing"),
        ("webhook", {"scheme": "standard", "secrets": ["HOOK"]}, "secret_missing"),
        ("webhook", {"scheme": "standard", "secrets": []}, "bad_trigger"),
        ("webhook", {"scheme": "plain", "secrets": ["HOOK"]}, "bad_trigger"),
        ("reaction", {"events": ["permission.granted"]}, "unknown_event"),
        ("reaction", {"events": []}, "bad_trigger"),
        ("weekly", {}, "bad_trigger"),
    ],
)
def test_b11_what_can_never_work_is_refused_when_it_is_made(
    app: Prowess, kind: str, spec: dict[str, Any], code: str
) -> None:
    with pytest.raises(ProwessError) as caught:
        add(app, kind, spec)
    assert caught.value.code == code
    assert caught.value.remedy() != f"remedy.{code}"
    assert app.automations() == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"prompt": ""}, "text_empty"),
        ({"prompt": "x" * 8_001}, "text_too_long"),
        ({"name": "n" * 121}, "text_too_long"),
        ({"name": "a\x00b"}, "control_character"),
        ({"agent": ""}, "bad_id"),
        ({"conversation": " c"}, "bad_id"),
        ({"skill": "a b"}, "bad_skill_name"),
        ({"preapproved": ["nonsense"]}, "bad_preapproval"),
        ({"preapproved": ["memory:read"] * 21}, "bad_trigger"),
        ({"max_attempts": 11}, "bad_trigger"),
        ({"max_attempts": 0}, "bad_trigger"),
        ({"misfire": "some"}, "bad_trigger"),
        ({"misfire_bound": 101}, "bad_trigger"),
        ({"mode": "root"}, "bad_trigger"),
        ({"rate": {"fires": 0, "seconds": 1}}, "bad_trigger"),
        ({"status": "active"}, "bad_trigger"),
        ({"spec": "text"}, "bad_trigger"),
    ],
)
def test_every_field_has_its_bounds(app: Prowess, fields: dict[str, Any], code: str) -> None:
    assert refused(lambda: add(app, "cron", **{"spec": MINUTELY, **fields}))[0] == code
    assert app.automations() == []


def test_a_person_has_a_bounded_number_of_triggers(app: Prowess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prowess.automation.triggers.service.MAX_TRIGGERS", 2)
    first, _ = (add(app, "cron", MINUTELY) for _ in range(2))
    assert refused(lambda: add(app, "cron", MINUTELY))[0] == "too_many_triggers"
    add(app, "cron", MINUTELY, user="u2")
    app.remove_automation(first.id, user=USER)
    add(app, "cron", MINUTELY)


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_b1_a_fire_is_one_job_of_a_turn_in_a_conversation_of_its_own(
    open_app: OpenApp, url: str, clock: ManualClock
) -> None:
    app = open_app(recaller("reads"))
    fields = {"skill": "reads", "preapproved": ["memory:read"], "mode": "dont_ask", "max_attempts": 5}
    trigger = add(app, "cron", {"cron": "*/5 * * * *"}, **fields)
    kept = add(app, "interval", {"seconds": 300}, conversation="c1")
    clock.advance(timedelta(minutes=10))
    app.fire_due()
    first, second = jobs(url, trigger.id)[0], jobs(url, kept.id)[0]
    assert (first["task"], first["user_id"], first["agent_id"], first["max_attempts"]) == ("turn", USER, AGENT, 5)
    assert first["slot"] == "2026-03-01T08:10:00.000Z"
    assert first["payload"] == {
        "text": "/reads Tell me.",
        "data": None,
        "source": None,
        "preapproved": ["memory:read"],
        "mode": "dont_ask",
        "depth": 0,
    }
    assert first["chat_id"].startswith(f"auto-{trigger.id}-")
    assert (second["chat_kind"], second["chat_id"]) == ("conversation", "c1")


def test_r3_no_event_holds_what_a_trigger_asks(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", MINUTELY, prompt="the canary sings")
    app.change_automation(trigger.id, {"prompt": "the canary sings twice"}, user=USER)
    clock.advance(timedelta(minutes=1))
    app.fire_due()
    assert not any("canary" in json.dumps(event.to_json()) for event in app.events())
    assert "canary" in jobs(url)[0]["payload"]["text"]


def test_a_rehearsal_shows_what_would_be_sent_and_stores_nothing(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", {"cron": "0 9 * * 1-5", "tz": "Asia/Shanghai"})
    before = rows(url, "SELECT count(*) AS n FROM events")
    shown = app.rehearse_automation(trigger.id, user=USER)
    assert (shown.text, shown.agent, shown.blocked) == ("Tell me.", AGENT, None)
    # C63: Monday to Friday, by the clock of Shanghai; 1 March 2026 is a Sunday.
    days = ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06"]
    assert [fire["utc"] for fire in shown.next_fires] == [f"{day}T01:00:00.000Z" for day in days]
    assert rows(url, "SELECT count(*) AS n FROM events") == before
    assert jobs(url) == []
    app.pause_automation(trigger.id, user=USER)
    assert app.rehearse_automation(trigger.id, user=USER).blocked == "paused"


# --- times -----------------------------------------------------------------------------------------------------------


def fire_between(app: Prowess, clock: ManualClock, start: str, end: str) -> list[tuple[str, str]]:
    """Move minute by minute, as a dispatcher would: (instant, note) of every fire."""
    clock.advance(at(start) - clock.now())
    found = []
    while clock.now() < at(end):
        due = app.next_due()
        if due is None or due > at(end):
            break
        clock.advance(max(timedelta(0), due - clock.now()))
        found += [(f"{fire.planned:%m-%d %H:%M}", fire.note) for fire in app.fire_due().fires]
    return found


def test_c50_a_local_time_fires_once_a_day_whatever_is_done_to_the_clock(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", {"cron": "30 1 * * *", "tz": "America/New_York"}, name="autumn")
    found = fire_between(app, clock, "2026-10-31 12:00", "2026-11-02 12:00")
    assert [fire for fire in found if fire[0].startswith("11")] == [("11-01 05:30", "first_pass"), ("11-02 06:30", "")]


def test_c50_a_skipped_time_fires_at_the_next_valid_minute_and_says_so(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", {"cron": "30 2 * * *", "tz": "America/New_York"})
    found = fire_between(app, clock, "2026-03-07 12:00", "2026-03-09 12:00")
    assert [fire for fire in found if fire[0] > "03-07 12"] == [("03-08 07:00", "after_gap"), ("03-09 06:30", "")]
    assert "after_gap" in [event["note"] for event in events(app, "automation.triggered")]


def test_c50_half_an_hour_on_lord_howe(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", {"cron": "15 2 * * *", "tz": "Australia/Lord_Howe"})
    found = fire_between(app, clock, "2026-10-03 00:00", "2026-10-05 00:00")
    assert [fire for fire in found if fire[0] > "10-03"] == [("10-03 15:30", "after_gap"), ("10-04 15:15", "")]


def test_c63_day_fields_are_either_or(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", {"cron": "0 0 1,15 * 5", "tz": "UTC"})
    found = fire_between(app, clock, "2026-03-01 08:00", "2026-04-01 12:00")
    assert [time[:5] for time, _ in found] == ["03-06", "03-13", "03-15", "03-20", "03-27", "04-01"]


@pytest.mark.parametrize(
    ("spec", "slot", "note"),
    [
        ({"at": "2026-03-02T09:00:00.250+01:00"}, "2026-03-02T08:00:00.250Z", ""),
        ({"local": "2026-03-08T02:30", "tz": "America/New_York"}, "2026-03-08T07:00:00.000Z", "after_gap"),
        ({"local": "2026-11-01T01:30", "tz": "America/New_York"}, "2026-11-01T05:30:00.000Z", ""),
    ],
)
def test_ruling_17_once_fires_once_and_is_finished(
    app: Prowess, url: str, clock: ManualClock, spec: dict[str, str], slot: str, note: str
) -> None:
    trigger = add(app, "once", spec)
    due = app.next_due()
    assert due is not None
    clock.advance(due - clock.now() - timedelta(milliseconds=1))
    assert app.fire_due().fires == ()
    clock.advance(timedelta(milliseconds=1))
    [fire] = app.fire_due().fires
    assert (fire.slot, fire.note, fire.late_ms) == (slot, note, 0)
    found = app.automation(trigger.id)
    assert (found.status, found.next_fire_at) == (Status.FINISHED, None)
    clock.advance(timedelta(days=400))
    assert app.fire_due().fires == ()
    assert len(jobs(url)) == 1
    with app._parts.database.read() as connection:  # its last job may run
        assert app._parts.automations.triggers.admit(connection, trigger.id) is None


def test_a_date_that_a_zone_skipped_is_refused(app: Prowess, clock: ManualClock) -> None:
    clock.advance(at("2011-12-29 00:00") - clock.now())
    spec = {"local": "2011-12-30T10:00", "tz": "Pacific/Apia"}
    assert refused(lambda: add(app, "once", spec)) == ("time_not_in_zone", "spec.local")


# --- misfires --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misfire", "ran", "missed"),
    [("skip", ["08:01:00"], 5), ("one", ["08:01:00"], 5), ("all", ["08:00:40", "08:00:50", "08:01:00"], 3)],
)
def test_c51_ten_seconds_and_a_minute_of_standstill(
    app: Prowess, url: str, clock: ManualClock, misfire: str, ran: list[str], missed: int
) -> None:
    trigger = add(app, "interval", {"seconds": 10}, misfire=misfire, misfire_bound=3)
    clock.advance(timedelta(seconds=60))
    assert [f"{fire.planned:%H:%M:%S}" for fire in app.fire_due().fires] == ran
    assert app.fire_due().fires == ()
    assert len(jobs(url)) == len(ran)
    [skipped] = events(app, "automation.skipped")
    assert (skipped["missed"], skipped["from"]) == (missed, "2026-03-01T08:00:10.000Z")
    assert [entry[2] for entry in history(app, trigger) if entry[0] == "missed"] == [missed]
    assert app.next_due() == at("2026-03-01 08:01:10")


def test_c51_skip_runs_nothing_stale(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", {"cron": "0 * * * *"}, misfire="skip")
    clock.advance(timedelta(hours=3, minutes=5))
    assert app.fire_due().fires == ()
    assert jobs(url) == []
    assert history(app, trigger) == [("missed", "11:00:00", 3)]


def test_c52_two_hours_down_is_one_catch_up_and_a_count_of_the_missed(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    trigger = add(app, "cron", {"cron": "*/5 * * * *"})
    clock.advance(timedelta(hours=2, minutes=3))
    [fire] = app.fire_due().fires
    assert (fire.planned, fire.note, fire.late_ms) == (at("2026-03-01 10:00"), "catch_up", 180_000)
    assert len(jobs(url)) == 1
    [skipped] = events(app, "automation.skipped")
    assert (skipped["missed"], skipped["from"], skipped["to"]) == (
        23,
        "2026-03-01T08:05:00.000Z",
        "2026-03-01T09:55:00.000Z",
    )
    assert history(app, trigger) == [("missed", "09:55:00", 23), ("fired", "10:00:00", 0)]
    [event] = events(app, "automation.triggered")
    assert event["late_ms"] == 180_000


def test_u7_more_missed_fires_than_are_counted_one_by_one_are_still_told(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    trigger = add(app, "interval", {"seconds": 10})
    clock.advance(timedelta(days=300))
    [fire] = app.fire_due().fires
    assert fire.planned == clock.now()
    [missed] = [entry for entry in app.automation_history(trigger.id) if entry.status == "missed"]
    assert (missed.note, missed.missed > 10_000) == ("at_least", True)
    assert app.next_due() == clock.now() + timedelta(seconds=10)


def test_b10_what_is_on_time_says_how_late_it_is(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", MINUTELY)
    clock.advance(timedelta(seconds=61, milliseconds=200))
    [fire] = app.fire_due().fires
    assert (fire.late_ms, fire.note) == (1_200, "")
    assert events(app, "automation.skipped") == []


def test_b10_batches_are_bounded_and_fair_across_tenants(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app()
    for _ in range(5):
        add(app, "cron", MINUTELY, tenant="greedy")
    clock.advance(timedelta(seconds=1))
    modest = add(app, "cron", MINUTELY, tenant="modest")
    clock.advance(timedelta(minutes=1))
    swept = app.fire_due(2)
    assert {fire.tenant for fire in swept.fires} == {"greedy", "modest"}
    assert swept.more
    assert modest.id in {fire.trigger for fire in swept.fires}
    assert len(app.fire_due(10).fires) == 4
    assert not app.fire_due(10).more


# --- once ------------------------------------------------------------------------------------------------------------


def test_c53_any_number_of_schedulers_make_one_job(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    apps = [open_app(), open_app(), open_app()]
    for _ in range(4):
        add(apps[0], "cron", MINUTELY)
    clock.advance(timedelta(minutes=1))
    results = at_once([app.fire_due for app in apps for _ in range(3)])
    assert [result for result in results if isinstance(result, Exception)] == []
    assert sum(len(result.fires) for result in results) == 4
    assert [row["slot"] for row in jobs(url)] == ["2026-03-01T08:01:00.000Z"] * 4
    assert len(events(apps[0], "automation.triggered")) == 4


_PROCESS = """
import sys, datetime
import prowess
clock = prowess.ManualClock(datetime.datetime.fromisoformat(sys.argv[2]))
with prowess.open(sys.argv[1], clock=clock) as app:
    sys.stdin.readline()
    print(len(app.fire_due().fires))
"""


def test_c53_two_processes_within_the_due_minute_make_one_job(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", MINUTELY)
    words = [sys.executable, "-c", _PROCESS, url, clock.advance(timedelta(seconds=75)).isoformat()]
    started = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    counts = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    assert counts == ["0", "1"]
    # restarted within the same minute
    assert subprocess.run(words, input="\n", capture_output=True, text=True, check=True, timeout=60).stdout == "0\n"
    assert [row["slot"] for row in jobs(url, trigger.id)] == ["2026-03-01T08:01:00.000Z"]


def test_b12_a_slot_that_has_fired_never_fires_again(app: Prowess, url: str, clock: ManualClock) -> None:
    """Even where the next fire was set back behind Prowess's back, as by a restored backup."""
    add(app, "cron", MINUTELY)
    clock.advance(timedelta(minutes=1))
    app.fire_due()
    execute(url, "UPDATE automation_triggers SET next_fire_at = next_fire_at - 60000")
    assert app.fire_due().fires == ()
    assert len(jobs(url)) == 1


def test_c87_a_restart_runs_nothing_that_is_due_later(open_app: OpenApp, clock: ManualClock) -> None:
    clock.advance(timedelta(hours=2, minutes=57))
    app = open_app()
    trigger = add(app, "cron", {"cron": "30 19 * * *"})
    app.close()
    again = open_app()
    assert again.fire_due().fires == ()
    assert again.next_due() == at("2026-03-01 19:30")
    assert history(again, trigger) == []


def test_c87_other_zone_data_moves_the_next_fire_and_fires_nothing(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", {"cron": "0 9 * * *", "tz": "Europe/Berlin"})
    assert app.next_due() == at("2026-03-02 08:00")
    # As if the stored instant had been found when Berlin was an hour behind what it is now.
    execute(url, "UPDATE automation_triggers SET next_fire_at = next_fire_at + 3600000, zone_data = 'older'")
    assert app.fire_due().fires == ()
    found = app.automation(trigger.id)
    assert (found.next_fire_at, found.zone_data != "older") == (at("2026-03-02 08:00"), True)
    [moved] = events(app, "automation.rescheduled")
    assert moved == {"was": "2026-03-02T09:00:00.000Z", "next": "2026-03-02T08:00:00.000Z"}
    clock.advance(timedelta(days=1))
    assert [fire.planned for fire in app.fire_due().fires] == [at("2026-03-02 08:00")]


def test_c87_zone_data_that_changed_while_nobody_was_there(app: Prowess, clock: ManualClock) -> None:
    """What is due by the old data and not by the new is not fired; the new time is."""
    trigger = add(app, "cron", {"cron": "0 9 * * *", "tz": "Europe/Berlin"})
    with app._parts.log.transaction(None) as transaction:
        transaction.connection.exec_driver_sql(
            "UPDATE automation_triggers SET next_fire_at = next_fire_at - 3600000, zone_data = 'older'"
        )
    clock.advance(at("2026-03-02 07:30") - clock.now())
    assert app.fire_due().fires == ()
    assert app.next_due() == at("2026-03-02 08:00")
    clock.advance(timedelta(minutes=30))
    assert [fire.slot for fire in app.fire_due().fires] == ["2026-03-02T08:00:00.000Z"]
    assert [entry[0] for entry in history(app, trigger)] == ["fired"]


# --- broken ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("spec = 'not json'", "row_unreadable: spec"),
        ("spec = '{}'", "bad_trigger"),
        ("""spec = '{"cron": "* * * * *", "tz": "UTC+3"}'""", "unknown_zone"),
        ("""spec = '{"cron": "0 0 31 2 *"}'""", None),
        ("kind = 'weekly'", "row_unreadable: kind"),
        ("misfire = 'some'", "row_unreadable: misfire"),
        ("preapproved = '{'", "row_unreadable: preapproved"),
        ("anchor_at = -5", "row_unreadable: anchor_at"),
    ],
)
def test_c54_a_corrupted_row_is_flagged_and_the_others_fire(
    app: Prowess, url: str, clock: ManualClock, damage: str, reason: str | None
) -> None:
    bad = add(app, "cron", MINUTELY, name="bad")
    good = add(app, "cron", MINUTELY, name="good")
    execute(url, f"UPDATE automation_triggers SET {damage} WHERE id = '{bad.id}'")
    clock.advance(timedelta(minutes=1))
    assert [fire.trigger for fire in app.fire_due().fires] == [good.id]
    found = app.automation(bad.id)
    if reason is None:  # it can be read and never fires again
        assert (found.status, found.reason) == (Status.FINISHED, "no_further_fire")
        return
    assert (found.status, found.reason) == (Status.BROKEN, reason)
    [event] = [event for event in app.audit() if event.type == "automation.broken"]
    assert (event.target, event.data["reason"]) == (bad.id, reason)
    assert {trigger.name for trigger in app.automations(user=USER)} == {"bad", "good"}
    clock.advance(timedelta(minutes=1))
    assert [fire.trigger for fire in app.fire_due().fires] == [good.id]
    if damage.startswith("spec"):
        mended = app.change_automation(bad.id, {"spec": MINUTELY}, user=USER)
        assert (mended.status, mended.reason) == (Status.ACTIVE, None)
    else:
        app.remove_automation(bad.id, user=USER)


# --- rate ------------------------------------------------------------------------------------------------------------


def test_b15_the_rate_of_a_trigger_is_a_limit_with_rows_and_events(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", MINUTELY, rate={"fires": 2, "seconds": 300})
    for _ in range(6):
        clock.advance(timedelta(minutes=1))
        app.fire_due()
    assert [entry[0] for entry in history(app, trigger)] == ["fired"] * 2 + ["rate_limited"] * 3 + ["fired"]
    assert len(jobs(url)) == 3
    assert [event["reason"] for event in events(app, "automation.rate_limited")] == ["rate"] * 3
    with pytest.raises(LimitExceeded, match="trigger_rate_limited"):
        app.fire_automation(trigger.id, user=USER)
    clock.advance(timedelta(seconds=61))
    app.fire_automation(trigger.id, user=USER)


# --- steering --------------------------------------------------------------------------------------------------------


def test_pause_and_resume_let_nothing_pile_up(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", MINUTELY, misfire="all")
    app.pause_automation(trigger.id, user=USER)
    clock.advance(timedelta(hours=5, seconds=30))
    assert app.fire_due().fires == ()
    resumed = app.resume_automation(trigger.id, user=USER)
    assert (resumed.status, resumed.next_fire_at) == (Status.ACTIVE, at("2026-03-01 13:01"))
    assert app.fire_due().fires == ()
    assert history(app, trigger) == []
    assert [event.type for event in app.audit() if event.target == trigger.id] == [
        "automation.resumed",
        "automation.paused",
        "automation.created",
    ]


def test_steering_what_is_not_there_to_be_steered(app: Prowess) -> None:
    trigger = add(app, "cron", MINUTELY)
    assert refused(lambda: app.resume_automation(trigger.id))[0] == "trigger_not_paused"
    assert refused(lambda: app.confirm_automation(trigger.id, user=USER))[0] == "trigger_not_proposed"
    app.pause_automation(trigger.id)
    assert refused(lambda: app.pause_automation(trigger.id))[0] == "trigger_not_active"
    assert refused(lambda: app.fire_automation(trigger.id))[0] == "trigger_not_active"
    assert refused(lambda: app.change_automation(trigger.id, {"kind": "interval", "spec": {"seconds": 60}})) == (
        "trigger_kind_fixed",
        "kind",
    )
    app.remove_automation(trigger.id)
    assert refused(lambda: app.resume_automation(trigger.id))[0] == "trigger_not_found"
    assert app.automations() == []
    assert app.automations(with_removed=True)[0].status is Status.REMOVED
    assert app.automation_history(trigger.id) == []


def test_a_change_is_a_new_revision_and_counts_an_interval_anew(app: Prowess, clock: ManualClock) -> None:
    trigger = add(app, "interval", {"seconds": 100})
    clock.advance(timedelta(seconds=50))
    renamed = app.change_automation(trigger.id, {"name": "other"}, user=USER)
    assert (renamed.revision, renamed.next_fire_at) == (2, at("2026-03-01 08:01:40"))
    moved = app.change_automation(trigger.id, {"spec": {"seconds": 200}}, user=USER)
    assert (moved.revision, moved.next_fire_at) == (3, at("2026-03-01 08:04:10"))
    assert [event["fields"] for event in events(app, "automation.changed")] == [["name"], ["spec"]]


def test_of_two_changes_at_once_one_is_told(open_app: OpenApp) -> None:
    apps = [open_app(), open_app()]
    trigger = add(apps[0], "cron", MINUTELY)
    results = at_once([lambda app=app: app.change_automation(trigger.id, {"name": "x"}) for app in apps * 2])
    lost = [result for result in results if isinstance(result, Exception)]
    assert all(isinstance(error, Conflict) for error in lost)
    assert apps[0].automation(trigger.id).revision == 1 + len(results) - len(lost)


def test_fire_now_is_beside_the_schedule(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = add(app, "cron", {"cron": "0 12 * * *"})
    fires = [app.fire_automation(trigger.id, user=USER) for _ in range(2)]
    assert len({fire.job_id for fire in fires}) == 2
    assert app.automation(trigger.id).next_fire_at == at("2026-03-01 12:00")
    assert [event["source"] for event in events(app, "automation.triggered")] == ["manual", "manual"]
    assert len(jobs(url, trigger.id)) == 2


@pytest.mark.parametrize(
    ("steer", "why"),
    [("pause_automation", "paused"), ("remove_automation", "removed"), (None, None)],
)
def test_g4_a_job_that_waits_is_asked_about_again_when_it_runs(
    app: Prowess, clock: ManualClock, steer: str | None, why: str | None
) -> None:
    trigger = add(app, "cron", MINUTELY)
    clock.advance(timedelta(minutes=1))
    app.fire_due()
    if steer is not None:
        getattr(app, steer)(trigger.id)
    with app._parts.database.read() as connection:
        assert app._parts.automations.triggers.admit(connection, trigger.id) == why
        assert app._parts.automations.triggers.admit(connection, "nothing") == "removed"


# --- proposals -------------------------------------------------------------------------------------------------------


def propose(app: Prowess, **fields: Any) -> Trigger:
    from prowess.automation.triggers.specs import read_draft

    asked = {"name": "mine", "agent": AGENT, "prompt": "Tell me.", "kind": "cron", "spec": MINUTELY}
    draft = read_draft(asked)
    origin = fields.pop("origin", "user")
    return app._parts.automations.triggers.propose(tenant="default", user=USER, agent=AGENT, origin=origin, draft=draft)


def test_b15_a_proposal_does_nothing_until_its_owner_says_yes(app: Prowess, url: str, clock: ManualClock) -> None:
    trigger = propose(app)
    assert (trigger.status, trigger.next_fire_at, trigger.created_by) == (Status.PROPOSED, None, Actor("agent", AGENT))
    clock.advance(timedelta(hours=1))
    assert app.fire_due().fires == ()
    assert refused(lambda: app.fire_automation(trigger.id, user=USER))[0] == "trigger_not_active"
    assert refused(lambda: app.resume_automation(trigger.id, user=USER))[0] == "trigger_not_paused"
    assert refused(lambda: app.confirm_automation(trigger.id, user="u2"))[0] == "trigger_not_found"
    operator = Actor("operator", "operator")
    with pytest.raises(Denied, match="only_the_owner"):
        app._parts.automations.triggers.confirm(actor=operator, tenant="default", trigger_id=trigger.id)
    with app._parts.database.read() as connection:
        assert app._parts.automations.triggers.admit(connection, trigger.id) == "proposed"
    confirmed = app.confirm_automation(trigger.id, user=USER)
    assert (confirmed.status, confirmed.next_fire_at) == (Status.ACTIVE, at("2026-03-01 09:01"))
    assert [event.type for event in app.audit() if event.target == trigger.id] == [
        "automation.confirmed",
        "automation.proposed",
    ]
    clock.advance(timedelta(minutes=1))
    assert len(app.fire_due().fires) == 1
    assert len(jobs(url)) == 1


def test_b15_a_rejected_proposal_is_gone(app: Prowess) -> None:
    trigger = propose(app)
    app.reject_automation(trigger.id, user=USER)
    assert refused(lambda: app.confirm_automation(trigger.id, user=USER))[0] == "trigger_not_found"
    assert app.automations(with_removed=True)[0].reason == "rejected"


def test_g15_a_turn_that_a_trigger_started_proposes_nothing(app: Prowess, url: str) -> None:
    with pytest.raises(Denied, match="proposal_in_trigger_turn"):
        propose(app, origin="trigger:trigger-1")
    assert rows(url, "SELECT * FROM automation_triggers") == []


def test_g15_changing_a_proposal_does_not_make_it_active(app: Prowess) -> None:
    trigger = propose(app)
    changed = app.change_automation(trigger.id, {"prompt": "Something else."}, user=USER)
    assert (changed.status, changed.next_fire_at) == (Status.PROPOSED, None)


def test_schedulers_take_the_zone_data_that_they_are_given(app: Prowess, clock: ManualClock) -> None:
    add(app, "cron", MINUTELY)
    parts = app._parts
    scheduler = Scheduler(parts.log, parts.automations.firing, zone_data=lambda: "2099z")
    scheduler.fire_due()
    assert app.automations()[0].zone_data == "2099z"
    assert events(app, "automation.rescheduled") == []


def test_bad_input_names_field_and_remedy(app: Prowess) -> None:
    with pytest.raises(InvalidInput) as caught:
        add(app, "interval", {"seconds": 3})
    assert caught.value.detail["field"] == "spec.seconds"
    assert "docs/automations.md" in caught.value.remedy()
    assert refused(lambda: app.automation_history("x", limit=0)) == ("bad_count", "limit")
