"""Workflow sessions as a user meets them, over the database (W1–W9, W12)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from tests.support.kit import (
    OpenApp,
    ScriptedVoice,
    at_once,
    everything,
    execute,
    interview,
    manual,
    request,
    rows,
    tool,
    turn,
)

from prowess import Prowess, TurnResult, WorkflowSkill
from prowess.errors import Conflict, LimitExceeded, NotFound
from prowess.kernel.clock import ManualClock
from prowess.turns.sessions.model import Session
from prowess.turns.sessions.store import insert_session

OTHER = interview("other", questions=2)
SURVEY = interview("survey", questions=1, scopes=["single_chat", "group_chat"])


@pytest.fixture(params=["slow", "instant"])
def voice(request: pytest.FixtureRequest) -> ScriptedVoice:
    """A voice to be waited for, and one that is asked before the commit: one transaction then tells all."""
    return ScriptedVoice(instant=request.param == "instant")


@pytest.fixture
def app(open_app: OpenApp, voice: ScriptedVoice) -> Prowess:
    return open_app(interview(), OTHER, SURVEY, manual("notes"), tool("lookup"), voice=voice)


def session_of(result: TurnResult) -> Any:
    assert result.session is not None
    return result.session


def only(app: Prowess, **changed: Any) -> Session:
    (session,) = app.sessions(user="u1", **changed)
    return session


def statuses(app: Prowess) -> dict[str, str]:
    return {session.skill.id: str(session.status) for session in app.sessions(user="u1")}


def run_statuses(app: Prowess, skill: str | None = None) -> list[str]:
    return sorted(str(run.status) for run in app.runs(user="u1", skill=skill))


def kinds(app: Prowess, prefix: str) -> list[str]:
    return [event.type for event in app.events() if event.type.startswith(prefix)]


# --- the course of a session (W1, W2) --------------------------------------------------------------------------------


def test_w1_w2_from_the_first_question_to_the_end(app: Prowess, clock: ManualClock) -> None:
    first = turn(app, "m1", "/interview")
    assert first.selection is not None
    assert (first.selection.kind, first.selection.trigger, first.selection.version) == ("workflow", "explicit", "1.0.0")
    assert first.reply == "interview question 1?"
    begun = only(app)
    assert (begun.status, begun.step, begun.revision, begun.pending_question) == (
        "waiting_user",
        "ask_1",
        1,
        "interview question 1?",
    )
    assert (begun.created_at, begun.expires_at) == (clock.now(), clock.now() + timedelta(days=14))

    clock.advance(timedelta(hours=1))
    second = turn(app, "m2", "one")
    assert second.selection is not None
    assert (second.selection.trigger, second.selection.reason) == ("session", "active session")
    assert (session_of(second).revision, session_of(second).step) == (2, "ask_2")
    turn(app, "m3", "two")
    clock.advance(timedelta(hours=1))
    last = turn(app, "m4", "three")
    assert last.reply == "interview done"
    assert (session_of(last).status, session_of(last).revision, session_of(last).pending_question) == (
        "completed",
        4,
        None,
    )
    ended = only(app)
    assert ended.state == {"answers": ["one", "two", "three"]}
    assert (ended.completed_at, ended.cancelled_at, ended.last_message_id) == (clock.now(), None, "m4")
    assert turn(app, "m5", "more").session is None
    assert run_statuses(app) == ["completed", "waiting_user", "waiting_user", "waiting_user"]
    assert {run.session_id for run in app.runs(user="u1")} == {ended.id}
    assert kinds(app, "session.") == ["session.created", *["session.advanced"] * 3, "session.completed"]


def test_w1_two_definitions_serve_beside_each_other(app: Prowess) -> None:
    assert turn(app, "m1", "/interview").reply == "interview question 1?"
    assert turn(app, "m1", "/other", conversation="c2").reply == "other question 1?"
    assert turn(app, "m2", "a", conversation="c2").reply == "other question 2?"
    assert turn(app, "m2", "b").reply == "interview question 2?"
    assert turn(app, "m3", "c", conversation="c2").reply == "other done"
    assert statuses(app) == {"interview": "waiting_user", "other": "completed"}


def test_w2_a_session_survives_a_restart(app: Prowess, open_app: OpenApp) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "one")
    app.close()
    again = open_app(interview())
    assert turn(again, "m3", "two").reply == "interview question 3?"
    assert only(again).state == {"answers": ["one", "two"]}


def test_w1_chinese_answers_are_kept_as_they_are(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "我想在三个月内学会游泳 🏊")
    assert only(app).state == {"answers": ["我想在三个月内学会游泳 🏊"]}


# --- one place a chat (W3) -------------------------------------------------------------------------------------------


def test_w3_the_database_holds_one_live_session_a_chat(app: Prowess, url: str) -> None:
    turn(app, "m1", "/interview")
    live = only(app)
    second = replace(live, id="a second one")
    with pytest.raises(IntegrityError), app._parts.database.write() as connection:
        insert_session(connection, second)
    with app._parts.database.write() as connection:
        insert_session(connection, replace(second, parked_at=live.created_at))
        insert_session(connection, replace(second, id="in another chat", chat=live.chat._replace(id="c2")))
        insert_session(connection, replace(second, id="of another kind", chat=live.chat._replace(kind="group")))
        insert_session(connection, replace(second, id="of another user", user="u2"))
        insert_session(connection, replace(second, id="of another tenant", tenant="t2"))
    assert len(rows(url, "SELECT id FROM skill_sessions")) == 6


def test_w3_a_chat_with_a_place_that_is_free_again(app: Prowess) -> None:
    turn(app, "m1", "/survey")
    turn(app, "m2", "done")
    assert session_of(turn(app, "m3", "/survey")).revision == 1
    assert run_statuses(app, "survey") == ["completed", "waiting_user", "waiting_user"]


def test_w3_sessions_of_different_chats_users_and_tenants_do_not_meet(app: Prowess) -> None:
    where: list[dict[str, Any]] = [
        {},
        {"conversation": "c2"},
        {"conversation": "c3", "user": "u2"},
        {"tenant": "t2"},
        {"group": "c1"},
    ]
    for place in where:
        assert session_of(turn(app, "m1", "/survey", **place)).revision == 1
    for place in where:
        assert session_of(turn(app, "m2", "done", **place)).status == "completed"


def test_w3_when_two_start_at_once_one_gets_the_place(app: Prowess, url: str) -> None:
    turn(app, "m0", "hello")
    results = at_once([lambda number=number: turn(app, f"m{number}", "/interview") for number in range(1, 7)])
    started = [result for result in results if isinstance(result, TurnResult)]
    lost = [result for result in results if not isinstance(result, TurnResult)]
    assert {str(getattr(item, "code", item)) for item in lost} <= {"session_changed"}
    live = rows(url, "SELECT id FROM skill_sessions WHERE status = 'waiting_user' AND parked_at IS NULL")
    assert len(live) == 1
    assert len(rows(url, "SELECT id FROM skill_sessions")) == len(started)
    assert len(app.runs(user="u1")) == len(started)


# --- pinned (W4) -----------------------------------------------------------------------------------------------------


def test_w4_a_running_session_keeps_its_version(open_app: OpenApp) -> None:
    old = interview(version="1.0.0")
    turn(open_app(old), "m1", "/interview")
    both = open_app(old, interview(version="2.0.0", questions=9))
    second = turn(both, "m2", "one")
    assert second.selection is not None
    assert second.selection.version == "1.0.0"
    turn(both, "m3", "two")
    assert session_of(turn(both, "m4", "three")).status == "completed"
    fresh = turn(both, "m5", "/interview")
    assert fresh.selection is not None
    assert fresh.selection.version == "2.0.0"


def test_w4_a_missing_version_fails_honestly_and_is_never_upgraded(open_app: OpenApp) -> None:
    turn(open_app(interview(version="1.0.0")), "m1", "/interview")
    app = open_app(interview(version="1.0.1"))
    result = turn(app, "m2", "one")
    assert (session_of(result).status, session_of(result).pending_question) == ("failed", None)
    assert result.run is not None
    assert result.run.status == "failed"
    assert "fault on my side" in result.reply
    run = app.runs(user="u1")[0]
    assert {(run.error_code, str(run.status)) for run in app.runs(user="u1")} == {
        ("workflow_version_missing", "failed"),
        (None, "waiting_user"),
    }
    assert run.selection.version == "1.0.0"
    assert kinds(app, "session.") == ["session.created", "session.failed"]
    assert turn(app, "m3", "hello").session is None


@pytest.mark.parametrize("state", ["{}", "[]", "null", "not json", '{"answers": 7}'])
def test_w4_a_state_that_cannot_be_read_fails(app: Prowess, url: str, state: str) -> None:
    turn(app, "m1", "/interview")
    execute(url, f"UPDATE skill_sessions SET state_json = '{state}'")
    result = turn(app, "m2", "one")
    assert session_of(result).status == "failed"
    assert [run.error_code for run in app.runs(user="u1") if run.status == "failed"] == ["workflow_state_invalid"]
    replay = turn(app, "m2", "one")
    assert (replay.replayed, replay.reply) == (True, result.reply)
    assert len(app.runs(user="u1")) == 2


def test_w9_a_state_is_migrated_from_one_version_to_the_next(open_app: OpenApp, url: str) -> None:
    turn(open_app(interview()), "m1", "/interview")

    def migrate(state: Any, version: int) -> Any:
        assert version == 1
        return {"answers": [*state["answers"], "migrated"]}

    app = open_app(interview(state_version=2, migrate_state=migrate))
    result = turn(app, "m2", "one")
    assert session_of(result).status == "waiting_user"
    assert only(app).state == {"answers": ["migrated", "one"]}
    assert rows(url, "SELECT state_version FROM skill_sessions") == [{"state_version": 2}]
    turn(app, "m3", "two")
    assert only(app).state == {"answers": ["migrated", "one", "two"]}


def test_w4_without_a_migration_another_state_version_fails(open_app: OpenApp) -> None:
    turn(open_app(interview()), "m1", "/interview")
    app = open_app(interview(state_version=2))
    assert session_of(turn(app, "m2", "one")).status == "failed"


def test_w4_disabling_the_binding_leaves_the_running_session(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    app.bind_skill("interview", user="u1", enabled=False)
    app.bind_skill("interview", agent="mira", enabled=False)
    assert turn(app, "m2", "one").reply == "interview question 2?"
    turn(app, "m3", "two")
    assert session_of(turn(app, "m4", "three")).status == "completed"
    assert turn(app, "m5", "/interview").selection is None


# --- replay (W5) -----------------------------------------------------------------------------------------------------


def test_w5_any_earlier_message_is_answered_as_it_was(app: Prowess, url: str) -> None:
    said = [("m1", "/interview"), ("m2", "one"), ("m3", "two"), ("m4", "three"), ("m5", "hello")]
    first = {message_id: turn(app, message_id, words) for message_id, words in said}
    before = everything(url)
    for message_id, words in [*said, *reversed(said)]:
        again, once = turn(app, message_id, words), first[message_id]
        assert again.replayed
        assert (again.reply, again.instruction, again.run, again.session, again.selection) == (
            once.reply,
            once.instruction,
            once.run,
            once.session,
            once.selection,
        )
        assert again.events == once.events
    assert everything(url) == before


def test_w5_the_turn_table_of_a_session_has_a_row_for_every_revision(app: Prowess, url: str) -> None:
    for number, words in enumerate(["/interview", "one", "/notes", "two", "one", "three"]):
        turn(app, f"m{number}", words)
    query = "SELECT message_id, session_revision FROM turns WHERE session_id IS NOT NULL ORDER BY session_revision"
    assert [tuple(row.values()) for row in rows(url, query)] == [("m0", 1), ("m1", 2), ("m3", 3), ("m4", 4)]


def test_w5_a_turn_that_got_no_reply_is_finished_with_its_own_instruction(open_app: OpenApp) -> None:
    voice = ScriptedVoice()
    app = open_app(interview(), voice=voice)
    turn(app, "m1", "/interview")
    plan = app.begin(request("m2", "one"))
    assert plan.instruction is not None
    again = app.begin(request("m2", "one"))
    assert (again.replayed, again.instruction, again.reply) == (True, plan.instruction, None)
    result = turn(app, "m2", "one")
    assert (result.replayed, result.instruction, result.reply) == (
        True,
        plan.instruction.text,
        "interview question 2?",
    )
    assert only(app).revision == 2
    assert run_statuses(app) == ["waiting_user", "waiting_user"]


def test_w5_a_message_id_with_another_text_is_a_conflict(app: Prowess, url: str) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "one")
    before = everything(url)
    for message_id, words in (("m1", "/interview again"), ("m2", "two"), ("m2", "one ")):
        with pytest.raises(Conflict) as refused:
            turn(app, message_id, words)
        assert refused.value.code == "message_id_reused"
    assert everything(url) == before


def test_w5_the_same_id_in_another_chat_is_another_message(app: Prowess) -> None:
    """Ruling 12.26."""
    turn(app, "m1", "/interview")
    other = turn(app, "m1", "/interview", conversation="c2")
    assert not other.replayed
    assert len(app.runs(user="u1")) == 2


def test_w5_the_same_message_at_the_same_moment_advances_once(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    results = at_once([lambda: turn(app, "m2", "one")] * 8)
    assert {getattr(result, "reply", result) for result in results} == {"interview question 2?"}
    assert {session_of(result).revision for result in results} == {2}
    assert len({result.run for result in results}) == 1
    assert only(app).state == {"answers": ["one"]}
    assert run_statuses(app) == ["waiting_user", "waiting_user"]
    assert len(app.messages("c1")) == 4


def test_w5_in_a_group_one_message_advances_a_session_once(app: Prowess) -> None:
    """Two agents answer the same message; the session is the one agent's."""
    turn(app, "m1", "/survey", group="g1")
    plain = turn(app, "m1", "/survey", group="g1", agent="nova")
    assert plain.session is None
    session = only(app)
    assert (session.agent, session.revision) == ("mira", 1)
    assert turn(app, "m2", "done", group="g1", agent="nova").session is None
    assert turn(app, "m2", "done", group="g1").reply == "survey done"
    assert only(app).revision == 2
    assert run_statuses(app) == ["completed", "waiting_user"]


def test_w8_in_a_group_only_the_agent_that_leads_a_session_is_steered(app: Prowess) -> None:
    turn(app, "m1", "/survey", group="g1")
    for words in ("/pause-skill", "/cancel-skill"):
        turn(app, f"nova {words}", words, group="g1", agent="nova")
        assert only(app).revision == 1
    turn(app, "m2", "/pause-skill", group="g1")
    turn(app, "m3", "/resume-skill", group="g1", agent="nova")
    assert only(app).parked_at is not None
    turn(app, "m3", "/resume-skill", group="g1")
    assert only(app).parked_at is None
    assert session_of(turn(app, "m4", "/cancel-skill", group="g1")).status == "cancelled"


# --- concurrency (W6) ------------------------------------------------------------------------------------------------


def test_w6_the_loser_of_two_answers_gets_a_conflict_and_may_try_again(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    results = at_once([lambda number=number: turn(app, f"a{number}", f"answer {number}") for number in range(2)])
    won = [result for result in results if isinstance(result, TurnResult)]
    lost = [number for number, result in enumerate(results) if isinstance(result, Conflict)]
    assert len(won) + len(lost) == 2
    assert only(app).revision == 1 + len(won)
    for number in lost:
        assert results[number].code == "session_changed"
        assert results[number].http_status == 409
        assert not turn(app, f"a{number}", f"answer {number}").replayed
    assert only(app).revision == 3
    assert set(only(app).state["answers"]) == {"answer 0", "answer 1"}


@pytest.mark.parametrize("change", ["answer", "cancel", "pause", "complete"])
def test_w6_a_newer_state_is_never_overwritten(
    app: Prowess, url: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loser has read, and decided, before the winner commits."""
    questions = 1 if change == "complete" else 3
    turn(app, "m1", "/survey" if questions == 1 else "/interview")
    executor = app._parts.engine._executor
    decide = executor.execute
    words = {"answer": "winner", "cancel": "/cancel-skill", "pause": "/pause-skill", "complete": "winner"}[change]

    def slow(*given: Any) -> Any:
        outcome = decide(*given)
        monkeypatch.undo()
        turn(app, "m2", words)
        return outcome

    monkeypatch.setattr(executor, "execute", slow)
    with pytest.raises(Conflict) as refused:
        turn(app, "m3", "loser")
    assert refused.value.code == "session_changed"
    assert "loser" not in str(everything(url))
    session = only(app)
    assert session.revision == 2
    assert session.state["answers"] == (["winner"] if words == "winner" else [])
    assert not rows(url, "SELECT id FROM messages WHERE id = 'm3'")


def test_w6_cancelling_by_the_api_loses_to_an_answer_cleanly(app: Prowess) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    results = at_once([lambda: app.cancel_session(session_id, user="u1"), lambda: turn(app, "m2", "one")])
    codes = {getattr(result, "code", "done") for result in results}
    assert codes <= {"done", "session_changed"}
    assert "done" in codes
    runs, session = app.runs(user="u1"), only(app)
    assert len(runs) == session.revision


# --- lifetime (W7) ---------------------------------------------------------------------------------------------------


def test_w7_a_session_expires_when_somebody_looks(app: Prowess, clock: ManualClock, url: str) -> None:
    turn(app, "m1", "/interview")
    clock.advance(timedelta(days=14) - timedelta(milliseconds=1))
    assert only(app).status == "waiting_user"
    clock.advance(timedelta(milliseconds=1))
    assert rows(url, "SELECT status FROM skill_sessions") == [{"status": "waiting_user"}]
    expired = only(app)
    assert (expired.status, expired.pending_question, expired.revision) == ("expired", None, 2)
    assert app.sessions(user="u1", live_only=True) == []
    (event,) = [event for event in app.events() if event.type == "session.expired"]
    assert (event.session_id, event.actor.kind) == (expired.id, "system")
    assert only(app).revision == 2
    assert run_statuses(app) == ["waiting_user"]


def test_w7_the_next_message_is_no_answer_to_an_expired_question(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "/interview")
    clock.advance(timedelta(days=14))
    result = turn(app, "m2", "one")
    assert (result.session, result.selection, result.reply) == (None, None, "plain")
    assert "session.expired" in result.events
    assert only(app).state == {"answers": []}


def test_w7_a_new_session_takes_the_place_of_an_expired_one(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "/interview")
    clock.advance(timedelta(days=15))
    assert session_of(turn(app, "m2", "/interview")).revision == 1
    assert sorted(str(session.status) for session in app.sessions(user="u1")) == ["expired", "waiting_user"]


def test_w7_every_answer_renews_the_lifetime(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "/interview")
    for number, words in enumerate(["one", "two"]):
        clock.advance(timedelta(days=13))
        turn(app, f"a{number}", words)
        assert only(app).expires_at == clock.now() + timedelta(days=14)
    clock.advance(timedelta(days=13))
    assert session_of(turn(app, "m4", "three")).status == "completed"


def test_w7_parked_sessions_expire_too(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "/pause-skill")
    clock.advance(timedelta(days=14))
    assert turn(app, "m3", "/resume-skill").session is None
    assert only(app).status == "expired"
    assert only(app).to_json()["parked"] is False


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_w7_an_ended_session_cannot_be_cancelled(app: Prowess, clock: ManualClock, end: str) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    if end == "expired":
        clock.advance(timedelta(days=14))
    else:
        app.cancel_session(session_id, user="u1")
    with pytest.raises(Conflict) as refused:
        app.cancel_session(session_id, user="u1")
    assert (refused.value.code, refused.value.detail["status"]) == ("session_not_live", end)
    assert only(app).status == end


# --- cancelling (W8) -------------------------------------------------------------------------------------------------

WAYS = ["/cancel-skill", "/cancel-workflow", "取消当前规划", "停止这次目标规划", "Please cancel the plan.", "api"]


@pytest.mark.parametrize("way", WAYS)
def test_w8_every_way_of_cancelling_writes_one_cancelled_run(app: Prowess, clock: ManualClock, way: str) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    turn(app, "m2", "one")
    clock.advance(timedelta(minutes=1))
    if way == "api":
        assert app.cancel_session(session_id, user="u1").status == "cancelled"
    else:
        result = turn(app, "m3", way)
        assert session_of(result).status == "cancelled"
        assert result.run is not None
        assert result.run.status == "cancelled"
        assert len(result.reply) < 80
        for internal in ("interview", session_id, "session", "workflow", "revision"):
            assert internal not in result.reply.lower()
        assert turn(app, "m3", way).replayed
    cancelled = only(app)
    assert (cancelled.status, cancelled.cancelled_at, cancelled.revision) == ("cancelled", clock.now(), 3)
    assert (cancelled.completed_at, cancelled.pending_question) == (None, None)
    assert run_statuses(app) == ["cancelled", "waiting_user", "waiting_user"]
    assert kinds(app, "session.c") == ["session.created", "session.cancelled"]
    assert app.audit(user="u1", decision="cancelled")[0].session_id == session_id
    assert turn(app, "m4", "two").session is None


def test_w8_nobody_cancels_another_users_session(app: Prowess, url: str) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    before = everything(url)
    for who in ({"user": "u2"}, {"user": "u1", "tenant": "t2"}):
        with pytest.raises(NotFound) as refused:
            app.cancel_session(session_id, **who)
        assert refused.value.code == "session_not_found"
    with pytest.raises(NotFound):
        app.cancel_session("no such session", user="u1")
    assert everything(url) == before


def test_w8_of_many_that_cancel_at_once_one_does(app: Prowess) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    results = at_once([lambda: app.cancel_session(session_id, user="u1")] * 6)
    codes = sorted(getattr(result, "code", "cancelled") for result in results)
    assert codes.count("cancelled") == 1
    assert set(codes) <= {"cancelled", "session_not_live", "session_changed"}
    assert run_statuses(app) == ["cancelled", "waiting_user"]
    assert kinds(app, "session.cancelled") == ["session.cancelled"]


def test_w8_without_a_session_there_is_nothing_to_cancel(app: Prowess) -> None:
    assert turn(app, "m1", "/cancel-skill").reply == "There is nothing running to cancel."
    assert turn(app, "m2", "取消当前规划").reply == "plain"
    assert app.runs(user="u1") == []


# --- pausing (W9) ----------------------------------------------------------------------------------------------------


def test_w9_a_user_switches_between_tasks(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "one")
    assert turn(app, "m3", "/other").reply == "other question 1?"
    parked = {session.skill.id: session.to_json()["parked"] for session in app.sessions(user="u1")}
    assert parked == {"interview": True, "other": False}
    turn(app, "m4", "a")
    assert turn(app, "m5", "b").reply == "other done"
    assert turn(app, "m6", "two").reply == "plain"
    assert turn(app, "m7", "继续刚才的规划").reply == "我们接着来。interview question 2?"
    assert turn(app, "m8", "two").reply == "interview question 3?"
    turn(app, "m9", "three")
    assert statuses(app) == {"interview": "completed", "other": "completed"}
    finished = next(session for session in app.sessions(user="u1") if session.skill.id == "interview")
    assert finished.state == {"answers": ["one", "two", "three"]}


def test_w9_pause_and_resume_write_no_run_and_replay(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    paused = turn(app, "m2", "pause the plan")
    assert turn(app, "m3", "an answer?").session is None
    resumed = turn(app, "m4", "resume the plan")
    assert resumed.reply == "Back to it. interview question 1?"
    assert turn(app, "m2", "pause the plan").reply == paused.reply
    assert turn(app, "m4", "resume the plan").replayed
    assert run_statuses(app) == ["waiting_user"]
    assert kinds(app, "session.") == ["session.created", "session.parked", "session.resumed"]
    assert only(app).revision == 3


def test_w9_the_last_set_aside_comes_back_first(app: Prowess, clock: ManualClock) -> None:
    for number, skill in enumerate(["interview", "other", "survey"]):
        clock.advance(timedelta(minutes=1))
        turn(app, f"m{number}", f"/{skill}")
    clock.advance(timedelta(minutes=1))
    order = []
    for number in range(3):
        order.append(session_of(turn(app, f"cancel {number}", "/cancel-skill")).id)
        turn(app, f"resume {number}", "/resume-skill")
        clock.advance(timedelta(minutes=1))
    ended = {session.id: session.skill.id for session in app.sessions(user="u1")}
    assert [ended[session_id] for session_id in order] == ["survey", "other", "interview"]


def test_w9_at_most_five_are_set_aside(app: Prowess, url: str, clock: ManualClock) -> None:
    for number in range(6):
        clock.advance(timedelta(minutes=1))
        turn(app, f"m{number}", "/interview")
    before = everything(url)
    for words in ("/other", "/pause-skill"):
        with pytest.raises(LimitExceeded) as refused:
            turn(app, "m9", words)
        assert (refused.value.code, refused.value.detail) == ("session_stack_full", {"limit": 5})
    assert everything(url) == before
    assert turn(app, "m9", "an answer").reply == "interview question 2?"
    assert len(app.sessions(user="u1", live_only=True)) == 6


def test_w9_a_parked_session_can_be_cancelled_by_the_api(app: Prowess) -> None:
    session_id = session_of(turn(app, "m1", "/interview")).id
    turn(app, "m2", "/pause-skill")
    cancelled = app.cancel_session(session_id, user="u1")
    assert cancelled.status == "cancelled"
    assert cancelled.to_json()["parked"] is False
    assert turn(app, "m3", "/resume-skill").reply.startswith("There is no task to return to")


def test_w9_cancelling_says_that_another_is_still_set_aside(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "/other")
    assert "set aside" in turn(app, "m3", "/cancel-skill").reply


# --- slash commands are no answers -----------------------------------------------------------------------------------


def test_t4_slash_commands_serve_and_leave_the_session_as_it_is(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    before = only(app)
    for number, (words, kind) in enumerate(
        [("/notes", "prompt"), ("/lookup x", "tool"), ("/nosuch", None), ("/help", None)]
    ):
        result = turn(app, f"s{number}", words)
        assert (result.selection and result.selection.kind) == kind
        assert result.session is None
    assert only(app) == before
    assert turn(app, "m2", "/ 2").reply == "interview question 2?"
    assert turn(app, "m3", "/etc/hosts").reply == "interview question 3?"


def test_c20_c21_a_skill_and_a_command_of_one_name_are_both_reached(open_app: OpenApp) -> None:
    app = open_app(interview(), manual("cancel-skill"), manual("resolve"), manual("deploy", keywords=("fix", "deploy")))
    turn(app, "m1", "/interview")
    named = turn(app, "m2", "/skill cancel-skill")
    assert named.selection is not None
    assert (named.selection.skill_id, named.selection.trigger) == ("cancel-skill", "explicit")
    assert only(app).status == "waiting_user"
    resolved = turn(app, "m3", "/resolve fix the deploy skill")
    assert resolved.selection is not None
    assert resolved.selection.skill_id == "resolve"
    assert session_of(turn(app, "m4", "/cancel-skill")).status == "cancelled"


# --- what is shown (W12) ---------------------------------------------------------------------------------------------


def test_w12_a_session_shows_neither_state_nor_words_nor_instruction(app: Prowess) -> None:
    turn(app, "m1", "/interview")
    turn(app, "m2", "my canary answer")
    (session,) = app.sessions(user="u1")
    shown = session.to_json()
    assert set(shown) == {
        "id",
        "skill_id",
        "version",
        "scope",
        "agent",
        "status",
        "step",
        "pending_question",
        "revision",
        "parked",
        "created_at",
        "updated_at",
        "expires_at",
        "completed_at",
        "cancelled_at",
    }
    assert "canary" not in str(shown)
    assert "Ask exactly this" not in str(shown)
    assert shown["scope"] == {"kind": "conversation", "id": "c1"}
    assert shown["created_at"] == "2026-03-01T08:00:00.000Z"


def test_w12_sessions_are_listed_for_their_user(app: Prowess, clock: ManualClock) -> None:
    for number, conversation in enumerate(["a", "b", "c"]):
        clock.advance(timedelta(minutes=1))
        turn(app, f"m{number}", "/interview", conversation=conversation)
    app.cancel_session(app.sessions(user="u1")[0].id, user="u1")
    assert [session.chat.id for session in app.sessions(user="u1")] == ["c", "b", "a"]
    assert [session.chat.id for session in app.sessions(user="u1", limit=2)] == ["c", "b"]
    assert [session.chat.id for session in app.sessions(user="u1", live_only=True)] == ["b", "a"]
    assert app.sessions(user="u2") == []


def test_w4_a_workflow_that_raises_in_mid_course_fails_honestly(open_app: OpenApp) -> None:
    good = interview()

    def run(turn_: Any) -> Any:
        if turn_.text == "boom":
            raise RuntimeError("internal wording")
        return good.run_turn(turn_)

    fragile: WorkflowSkill = interview("fragile", run_turn=run)
    app = open_app(fragile)
    turn(app, "m1", "/fragile")
    result = turn(app, "m2", "boom")
    assert (session_of(result).status, result.run and result.run.status) == ("failed", "failed")
    assert "internal wording" not in result.reply
    assert "fragile" not in result.reply
    assert turn(app, "m2", "boom").replayed
    assert turn(app, "m3", "hello").session is None
