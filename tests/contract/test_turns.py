"""The turn as a whole: order, selection record, runs, events, replays (T1–T3, T8, T13)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.kit import (
    OpenApp,
    ScriptedVoice,
    everything,
    execute,
    interview,
    manual,
    request,
    rows,
    tool,
    turn,
)

import prowess
from prowess import Prowess
from prowess.errors import InvalidInput
from prowess.events.model import EVENT_TYPES
from prowess.kernel.clock import ManualClock
from prowess.runtime.app import result_to_json
from prowess.turns.request import Selection
from prowess.turns.safety import SafetyPolicy

WORDS = ("quartz", "zebra")
SKILLS = (
    interview(keywords=WORDS),
    tool("lookup", keywords=("quartz", "opal")),
    manual("notes", keywords=("quartz", "onyx")),
)


@pytest.fixture(params=["slow", "instant"])
def voice(request: pytest.FixtureRequest) -> ScriptedVoice:
    return ScriptedVoice(instant=request.param == "instant")


@pytest.fixture
def app(open_app: OpenApp, voice: ScriptedVoice) -> Prowess:
    return open_app(*SKILLS, voice=voice)


# --- T1 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"text": ""}, "text_empty"),
        ({"text": "x" * 32_001}, "text_too_long"),
        ({"text": "nul \x00"}, "control_character"),
        ({"message_id": ""}, "bad_id"),
        ({"user": "\x00"}, "bad_id"),
        ({"tenant": ""}, "bad_id"),
        ({"conversation": None}, "scope_missing"),
        ({"group": "g1"}, "scope_missing"),
    ],
    ids=["empty", "long", "nul", "message", "user", "tenant", "nowhere", "both"],
)
def test_t1_what_cannot_be_a_turn_stores_nothing(app: Prowess, url: str, changed: dict[str, Any], code: str) -> None:
    fields = {"user": "u1", "agent": "mira", "conversation": "c1", "message_id": "m1", "text": "hello", **changed}
    with pytest.raises(InvalidInput) as refused:
        app.turn(**fields)
    assert refused.value.code == code
    assert all(found == [] for found in everything(url).values())


def test_t1_the_longest_message_and_every_script_are_stored_as_they_are(app: Prowess) -> None:
    for number, text in enumerate(
        ["x" * 32_000, "你好，世界 🌍\n\tمرحبا", "'; DROP TABLE turns; --", "%s {} \\n ?", "\u200b"]
    ):
        turn(app, f"m{number}", text)
        assert app.messages("c1", limit=2)[0].text == text


# --- T2, T3 ----------------------------------------------------------------------------------------------------------


def test_t2_t3_the_first_that_applies_serves(app: Prowess) -> None:
    served = {
        text: turn(app, f"m {text}", text, conversation=f"c {text}").selection
        for text in ("quartz zebra opal onyx", "quartz opal onyx", "quartz onyx", "quartz")
    }
    assert list(served.values()) == [
        Selection("interview", "1.0.0", "workflow", "rule", 0.7, "keywords quartz, zebra"),
        Selection("lookup", "1.0.0", "tool", "rule", 0.7, "keywords quartz, opal"),
        Selection("notes", "1.0.0", "prompt", "rule", 0.7, "keywords quartz, onyx"),
        None,
    ]


def test_t2_an_active_session_goes_before_new_work(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    result = turn(app, "m2", "quartz opal onyx zebra")
    assert result.selection is not None
    assert (result.selection.skill_id, result.selection.trigger) == ("interview", "session")


DANGER = "I want to kill myself tonight"


def test_t2_the_safety_response_goes_before_everything(app: Prowess, url: str) -> None:
    expected = SafetyPolicy().assess(DANGER)
    assert expected is not None
    result = turn(app, "m1", f"/interview {DANGER}")
    assert result.reply == expected.reply
    assert (result.selection, result.session, result.run, result.instruction) == (None, None, None, None)
    assert result.events == (
        "agent.created",
        "conversation.created",
        "turn.started",
        "safety.responded",
        "turn.completed",
    )
    assert rows(url, "SELECT * FROM skill_sessions") == rows(url, "SELECT * FROM skill_runs") == []
    (event,) = app.audit(user="u1")
    assert (event.type, event.decision, event.actor.kind) == ("safety.responded", "denied", "system")
    assert event.data == {"category": expected.category, "rule": expected.rule}
    assert [message.text for message in app.messages("c1")] == [f"/interview {DANGER}", expected.reply]


def test_t2_the_safety_response_leaves_a_session_as_it_is(app: Prowess, voice: ScriptedVoice) -> None:
    turn(app, "m1", "/interview")
    (before,) = app.sessions(user="u1")
    asked = len(voice.prompts)
    result = turn(app, "m2", DANGER)
    assert result.session is None
    assert app.sessions(user="u1") == [before]
    assert len(voice.prompts) == asked
    assert turn(app, "m2", DANGER).replayed
    assert turn(app, "m3", "one").reply == "interview question 2?"


def test_t2_the_safety_response_is_final_for_every_loop(app: Prowess) -> None:
    expected = SafetyPolicy().assess(DANGER)
    assert expected is not None
    plan = app.begin(request("m1", DANGER))
    assert (plan.reply, plan.instruction, plan.tools) == (expected.reply, None, ())
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "not_found"
    assert app.finish(plan, "something that nobody checked").reply == expected.reply
    assert app.messages("c1")[-1].text == expected.reply


def test_t2_safety_rules_can_be_replaced_whole(open_app: OpenApp) -> None:
    app = open_app(safety=SafetyPolicy([]))
    assert turn(app, "m1", DANGER).reply == "plain"


def test_t2_a_replay_goes_before_new_facts(app: Prowess) -> None:
    turn(app, "m1", "quartz onyx")
    app.bind_skill("notes", user="u1", enabled=False)
    again = turn(app, "m1", "quartz onyx")
    assert again.replayed
    assert again.selection is not None
    assert again.selection.skill_id == "notes"
    assert turn(app, "m2", "quartz onyx").selection is None


def test_t7_single_chat_skills_never_fire_in_a_group(app: Prowess) -> None:
    for number, text in enumerate(["quartz zebra", "quartz opal", "/interview", "/lookup x"]):
        result = turn(app, f"m{number}", text, group="g1")
        assert result.selection is None
    result = turn(app, "m9", "quartz onyx", group="g1")
    assert result.selection is not None
    assert app.runs(user="u1")[0].chat == ("group", "g1")


def test_t5_the_same_conversation_again_gives_the_same_results(open_app: OpenApp, url: str) -> None:
    talk = ["hello", "quartz onyx", "/interview", "one", "/lookup x", "two", "three", "quartz opal", "/nosuch"]

    def play(app: Prowess, tenant: str) -> list[Any]:
        results = [turn(app, f"m{number}", words, tenant=tenant) for number, words in enumerate(talk)]
        return [(result.reply, result.selection, result.events, result.instruction) for result in results]

    assert play(open_app(*SKILLS), "t1") == play(open_app(*reversed(SKILLS)), "t2")


# --- T8 --------------------------------------------------------------------------------------------------------------


def test_t8_every_used_skill_writes_one_run(app: Prowess, clock: ManualClock, voice: ScriptedVoice) -> None:
    for number, text in enumerate(["hello", "/notes", "/lookup x", "/interview", "one", "/nosuch", "/help"]):
        clock.advance(timedelta(seconds=1))
        turn(app, f"m{number}", text)
    runs = list(reversed(app.runs(user="u1")))
    assert [(run.message_id, run.selection.skill_id, run.selection.kind, run.selection.trigger) for run in runs] == [
        ("m1", "notes", "prompt", "explicit"),
        ("m2", "lookup", "tool", "explicit"),
        ("m3", "interview", "workflow", "explicit"),
        ("m4", "interview", "workflow", "session"),
    ]
    assert [str(run.status) for run in runs] == ["completed", "completed", "waiting_user", "waiting_user"]
    assert [run.session_id is None for run in runs] == [True, True, False, False]
    assert {run.duration_ms for run in runs} == {0}
    assert {run.error_code for run in runs} == {None}
    assert app.runs(user="u1", skill="notes") == [runs[0]]
    assert app.runs(user="u1", limit=1) == [runs[3]]
    assert app.runs(user="u2") == []
    shown = runs[2].to_json()
    assert (shown["session_id"], shown["skill_kind"], shown["version"]) == (runs[2].session_id, "workflow", "1.0.0")
    assert shown["started_at"] == "2026-03-01T08:00:04.000Z"


def test_t8_a_run_lasts_until_the_reply_is_stored(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "/notes"))
    assert str(app.runs(user="u1")[0].status) == "running"
    clock.advance(timedelta(milliseconds=1500))
    app.finish(plan, "here they are")
    assert app.runs(user="u1")[0].duration_ms == 1500
    plan = app.begin(request("m2", "/notes"))
    clock.advance(timedelta(seconds=-5))
    app.finish(plan, "the clock was set back")
    assert {run.duration_ms for run in app.runs(user="u1")} == {0, 1500}


def _drop(url: str) -> None:
    execute(url, "DROP TABLE skill_runs")


def _refuse(url: str) -> None:
    """A trigger that refuses every run."""
    if url.startswith("sqlite"):
        for when in ("INSERT", "UPDATE"):
            execute(
                url,
                f"CREATE TRIGGER refuse_{when} BEFORE {when} ON skill_runs BEGIN SELECT RAISE(ABORT, 'refused'); END",
            )
        return
    execute(
        url,
        "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON skill_runs FOR EACH ROW EXECUTE FUNCTION refuse()",
    )


@pytest.mark.parametrize("break_runs", [_drop, _refuse], ids=["table", "trigger"])
def test_t8_a_run_that_cannot_be_written_is_logged_and_the_turn_succeeds(
    app: Prowess, url: str, caplog: pytest.LogCaptureFixture, break_runs: Callable[[str], None]
) -> None:
    turn(app, "m0", "hello")
    break_runs(url)
    with caplog.at_level(logging.ERROR):
        started = turn(app, "m1", "/interview")
    assert started.reply == "interview question 1?"
    assert started.run is not None
    assert f"run {started.run.id} was not recorded" in caplog.text
    assert started.session is not None
    assert "run.recorded" not in started.events
    for words, reply in (("one", "interview question 2?"), ("/notes", None), ("/lookup x", "answer to x")):
        result = turn(app, words, words)
        assert reply is None or result.reply == reply
        assert turn(app, words, words).replayed
    assert turn(app, "m9", "/cancel-skill").reply.startswith("All right")
    assert len(app.messages("c1")) == 12
    assert [str(session.status) for session in app.sessions(user="u1")] == ["cancelled"]


# --- T13, R1, R2 -----------------------------------------------------------------------------------------------------


def test_t13_r1_a_turn_tells_its_whole_story(app: Prowess, clock: ManualClock) -> None:
    for number, words in enumerate(["/interview", "one", "/lookup x", "/nosuch", "/cancel-skill", "bye"]):
        clock.advance(timedelta(seconds=1))
        result = turn(app, f"m{number}", words)
        told = [event.type for event in app.events() if event.message_id == f"m{number}"]
        assert [kind for kind in result.events if kind not in ("agent.created", "conversation.created")] == told
    assert [event.type for event in app.events() if event.message_id == "m0"] == [
        "turn.started",
        "session.created",
        "skill.selected",
        "run.recorded",
        "turn.completed",
    ]
    assert [event.type for event in app.events() if event.message_id == "m2"] == [
        "turn.started",
        "skill.selected",
        "run.recorded",
        "tool.decided",
        "tool.finished",
        "turn.completed",
    ]
    for event in app.events():
        assert event.type in EVENT_TYPES
        assert event.tenant == "default"
        assert event.seq > 0
        if event.message_id is not None:
            assert (event.user, event.agent, event.chat_kind, event.chat_id) == ("u1", "mira", "conversation", "c1")


def test_r2_decisions_and_outcomes_are_separate_events(app: Prowess) -> None:
    result = turn(app, "m1", "/lookup x")
    decided, finished = [event for event in app.events() if event.type.startswith("tool.")]
    assert (decided.type, decided.decision, decided.data["reason"]) == ("tool.decided", "allowed", "allowed")
    assert (finished.type, finished.decision, finished.data["error_code"]) == ("tool.finished", "succeeded", None)
    assert decided.target == finished.target == result.tool_calls[0].id
    assert decided.actor == finished.actor == ("agent", "mira")
    assert decided.skill_id == "lookup"


def test_r1_a_turn_that_cannot_be_stored_leaves_no_trace(
    app: Prowess, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn(app, "m0", "/interview")
    before = everything(url)

    def fail(*_given: Any, **_fields: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("prowess.turns.commit.insert_turn", fail)
    with pytest.raises(ZeroDivisionError):
        turn(app, "m1", "one")
    assert everything(url) == before
    monkeypatch.undo()
    assert turn(app, "m1", "one").reply == "interview question 2?"


def test_t13_events_can_be_watched_from_a_place_on(app: Prowess) -> None:
    turn(app, "m1", "hello")
    last = app.events()[-1].seq
    turn(app, "m2", "hello")
    assert [event.type for event in app.events(after=last)] == ["turn.started", "turn.completed"]
    assert len(app.events(limit=3)) == 3
    seen: list[str] = []
    follower = app.follow("watcher", lambda _transaction, events: seen.extend(event.type for event in events))
    assert follower.catch_up() == 6
    assert seen == [event.type for event in app.events()]


def test_the_result_as_json_has_the_shape_of_the_contract(app: Prowess) -> None:
    shown = result_to_json(turn(app, "m1", "/interview"))
    assert shown["message_id"] == "m1"
    assert shown["selection"] == {
        "skill_id": "interview",
        "version": "1.0.0",
        "kind": "workflow",
        "trigger": "explicit",
        "score": 1.0,
        "reason": "command",
    }
    assert set(shown["session"]) == {"id", "status", "step", "revision", "pending_question"}
    assert set(shown["run"]) == {"id", "status"}
    assert (shown["decision"], shown["tool_calls"], shown["pending_approvals"], shown["replayed"]) == (
        None,
        (),
        (),
        False,
    )


def test_x1_definitions_that_registration_refuses_do_not_open(url: str, clock: ManualClock) -> None:
    good = tool("lookup")
    for wrong, code in (
        ([replace(good, max_calls_per_turn=9)], "tool_bounds"),
        ([good, good], "skill_exists"),
        ([good, tool("lookup", keywords=("else",))], "skill_digest_differs"),
        ([good, interview("lookup", version="1.1.0")], "skill_kind_differs"),
    ):
        with pytest.raises(prowess.ProwessError) as refused:
            prowess.open(url, clock=clock, skills=wrong)
        assert refused.value.code == code
