"""Tool calls: order, honesty, idempotency (X1–X4, G3, G4, U7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.kit import (
    LIMIT,
    Answer,
    OpenApp,
    Question,
    Recorder,
    ScriptedVoice,
    at_once,
    recaller,
    request,
    rows,
    tool,
    turn,
)

from prowess import Instruction, Prowess, ToolContext, TurnResult
from prowess.kernel.canonical import digest
from prowess.kernel.clock import ManualClock


def run_of(result: TurnResult) -> str:
    assert result.run is not None
    return result.run.status


def executions(url: str) -> list[dict[str, Any]]:
    return rows(url, "SELECT * FROM skill_tool_executions ORDER BY tool_id, message_id, ordinal")


def story(app: Prowess, message_id: str) -> list[tuple[str, str | None, Any]]:
    return [
        (event.type, event.decision, event.data.get("reason", event.data.get("error_code")))
        for event in app.events()
        if event.message_id == message_id and event.type.startswith("tool.")
    ]


# --- the course of a call (X2) ---------------------------------------------------------------------------------------


def test_x2_x3_a_call_leaves_its_record(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder))
    result = turn(app, "m1", "/lookup where is it?")
    assert result.reply == "answer 1 to where is it?"
    assert result.instruction == "Say: answer 1 to where is it?"
    assert [(call.tool, call.status) for call in result.tool_calls] == [("tool.lookup", "succeeded")]
    assert result.decision is not None
    assert (result.decision.effect, result.decision.layer, result.decision.missing) == ("allow", None, ())
    assert run_of(result) == "completed"
    (row,) = executions(url)
    assert row["input_digest"] == digest({"text": "where is it?", "number": 0.0})
    assert (row["id"], row["status"], row["error_code"], row["ordinal"]) == (
        result.tool_calls[0].id,
        "succeeded",
        None,
        0,
    )
    assert result.run is not None
    assert (row["run_id"], row["skill_id"], row["skill_version"], row["tool_id"]) == (
        result.run.id,
        "lookup",
        "1.0.0",
        "tool.lookup",
    )
    assert row["duration_ms"] >= 0
    assert recorder.contexts[0].now == clock.now()
    assert story(app, "m1") == [("tool.decided", "allowed", "allowed"), ("tool.finished", "succeeded", None)]


def test_x2_u2_the_context_is_made_by_the_server_and_immutable(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder))
    turn(app, "m1", "/lookup 你好", user="u7", agent="nova", tenant="t3")
    (context,) = recorder.contexts
    assert (context.tenant, context.user, context.agent, context.language) == ("t3", "u7", "nova", "zh")
    assert context.memories is None
    with pytest.raises(AttributeError):
        context.user = "u1"  # type: ignore[misc]


def test_x2_the_gate_comes_before_anything_else(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    built: list[str] = []

    def build(turn_: Any) -> dict[str, str]:
        built.append(turn_.text)
        return {"text": turn_.text}

    app = open_app(tool("lookup", recorder, build_input=build, permissions=[("notes:read", "L1")]))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), built, recorder.calls, executions(url)) == ("denied", [], [], [])
    assert result.decision is not None
    assert (result.decision.layer, result.decision.missing) == ("consent", ("notes:read",))
    assert "lookup" in result.reply
    assert "notes:read" in result.reply
    assert "answer" not in result.reply
    assert story(app, "m1") == [("tool.decided", "denied", "consent_missing")]
    (decided,) = app.audit(user="u1", decision="denied")
    assert decided.data == {
        "tool": "tool.lookup",
        "reason": "consent_missing",
        "layer": "consent",
        "missing": ["notes:read"],
        "grants": [],
        "rule": None,
    }
    assert [run.error_code for run in app.runs(user="u1")] == ["consent_missing"]


def test_x2_r2_an_allowed_call_names_its_grant(open_app: OpenApp) -> None:
    app = open_app(recaller())
    granted = app.grant(user="u1", skill="recaller", code="memory:read")
    turn(app, "m1", "/recaller x")
    (decided,) = [event for event in app.events() if event.type == "tool.decided"]
    assert decided.data["grants"] == [granted.id]


@pytest.mark.parametrize(
    ("built", "faults"),
    [
        ({}, [("text", "missing")]),
        ({"text": 7}, [("text", "string_type")]),
        ({"text": "x", "number": "secret"}, [("number", "float_parsing")]),
        ({"text": "x", "extra": "secret"}, [("extra", "extra_forbidden")]),
        ({"text": "x", "number": float("nan")}, [("arguments", "unusable")]),
        ({"text": "x", "number": float("inf")}, [("arguments", "unusable")]),
        ({"text": "\ud800"}, [("arguments", "unusable")]),
        (None, [("arguments", "unusable")]),
        (7, [("arguments", "unusable")]),
    ],
    ids=["missing", "type", "number", "extra", "nan", "inf", "surrogate", "none", "seven"],
)
def test_x2_invalid_input_never_reaches_the_handler(
    open_app: OpenApp, url: str, built: Any, faults: list[tuple[str, str]]
) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder, build_input=lambda _turn: built))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), recorder.calls, executions(url)) == ("failed", [], [])
    assert "could not use" in result.reply
    assert story(app, "m1") == [("tool.decided", "allowed", "allowed"), ("tool.refused", "failed", "invalid_input")]
    assert [run.error_code for run in app.runs(user="u1")] == ["invalid_input"]

    plan = app.begin(request("m2", "hello"))
    outcome = app.call(plan, "tool.lookup", built)
    assert (outcome.status, outcome.error_code, outcome.output) == ("invalid_input", "invalid_input", None)
    assert [(fault["place"], fault["fault"]) for fault in outcome.detail] == faults
    assert recorder.calls == []


def test_x2_input_that_cannot_be_built_is_invalid(open_app: OpenApp) -> None:
    def build(_turn: Any) -> dict[str, str]:
        raise LookupError("secret")

    app = open_app(tool("lookup", build_input=build))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), result.tool_calls[0].status) == ("failed", "invalid_input")
    assert "secret" not in str(result)


def raise_it(error: BaseException) -> Callable[[ToolContext, Question], Any]:
    def handler(_context: ToolContext, _question: Question) -> Any:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "status", "code"),
    [
        (raise_it(ValueError("secret")), "failed", "tool_error"),
        (raise_it(SystemExit(3)), "failed", "tool_error"),
        (lambda _c, _q: {"text": 7}, "failed", "invalid_output"),
        (lambda _c, _q: None, "failed", "invalid_output"),
    ],
    ids=["raises", "exits", "wrong-type", "nothing"],
)
def test_x2_a_call_that_fails_is_recorded_and_told_honestly(
    open_app: OpenApp, url: str, handler: Any, status: str, code: str
) -> None:
    app = open_app(tool("lookup", handler))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), result.tool_calls[0].status) == ("failed", status)
    assert result.reply == "“lookup” failed, so I have no result to give you."
    assert [(row["status"], row["error_code"]) for row in executions(url)] == [(status, code)]
    assert story(app, "m1") == [("tool.decided", "allowed", "allowed"), ("tool.finished", "failed", code)]
    assert [run.error_code for run in app.runs(user="u1")] == [code]
    assert turn(app, "m1", "/lookup x").replayed
    assert "没有结果可以给你" in turn(app, "m2", "/lookup 你好").reply


def test_x2_an_instruction_that_cannot_be_built_is_told_honestly(open_app: OpenApp) -> None:
    def instruct(_output: Any, _language: str) -> Instruction:
        raise KeyError("secret")

    app = open_app(tool("lookup", build_system_instruction=instruct))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), result.tool_calls[0].status) == ("failed", "succeeded")
    assert result.reply == "“lookup” failed, so I have no result to give you."
    assert [run.error_code for run in app.runs(user="u1")] == ["instruction_failed"]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets handlers go that would wait for ever."""
    event = threading.Event()
    yield event
    event.set()


def test_x2_a_timeout_is_told_honestly_and_the_handler_is_told_to_stop(
    open_app: OpenApp, url: str, release: threading.Event
) -> None:
    stopped = threading.Event()

    def hang(context: ToolContext, _question: Question) -> Answer:
        release.wait(LIMIT)
        if context.cancel.cancelled:
            stopped.set()
        return Answer(text="invented")

    app = open_app(tool("lookup", hang, timeout=timedelta(milliseconds=100)))
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), result.tool_calls[0].status) == ("failed", "timeout")
    assert result.reply == "“lookup” took too long, so I have no result to give you."
    release.set()
    assert stopped.wait(LIMIT)
    assert [(row["status"], row["error_code"]) for row in executions(url)] == [("timeout", "timeout")]
    assert "invented" not in str(rows(url, "SELECT text FROM messages"))
    assert story(app, "m1")[-1] == ("tool.finished", "failed", "timeout")


def test_x2_no_transaction_is_open_while_a_tool_runs(open_app: OpenApp) -> None:
    """Rule 2 of the house. A handler that writes through the same runtime would wait for the turn's transaction."""
    apps: list[Prowess] = []

    def remember(_context: ToolContext, question: Question) -> Answer:
        apps[0].add_memory("u1", "mira", question.text)
        return Answer(text="noted")

    apps.append(open_app(tool("remember", remember, effect="write")))
    assert turn(apps[0], "m1", "/remember tea").reply == "noted"
    assert [memory.text for memory in apps[0].memories(user="u1")] == ["tea"]


# --- revocation (G4) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["revoke", "disable", "expire"])
def test_g4_x2_what_is_taken_back_between_the_two_checks_stops_the_call(
    open_app: OpenApp, url: str, clock: ManualClock, how: str
) -> None:
    recorder = Recorder()
    apps: list[Prowess] = []

    def build(turn_: Any) -> dict[str, str]:
        if how == "revoke":
            apps[0].revoke(user="u1", skill="lookup", code="notes:read")
        elif how == "disable":
            apps[0].bind_skill("lookup", user="u1", enabled=False)
        else:
            clock.advance(timedelta(hours=1))
        return {"text": turn_.text}

    apps.append(open_app(tool("lookup", recorder, build_input=build, permissions=[("notes:read", "L1")])))
    apps[0].grant(user="u1", skill="lookup", code="notes:read", expires_at=clock.now() + timedelta(hours=1))
    result = turn(apps[0], "m1", "/lookup x")
    assert (run_of(result), recorder.calls, executions(url)) == ("denied", [], [])
    assert story(apps[0], "m1") == [
        ("tool.decided", "denied", "skill_disabled" if how == "disable" else "consent_missing")
    ]


def test_g4_revocation_while_a_tool_runs_lets_it_finish_and_stops_the_next(open_app: OpenApp) -> None:
    apps: list[Prowess] = []

    def revoke(_context: ToolContext, _question: Question) -> Answer:
        apps[0].revoke(user="u1", skill="lookup", code="notes:read")
        return Answer(text="the first stands")

    apps.append(open_app(tool("lookup", revoke, permissions=[("notes:read", "L1")], max_calls_per_turn=3)))
    app = apps[0]
    app.grant(user="u1", skill="lookup", code="notes:read")
    plan = app.begin(request("m1", "hello"))
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "succeeded"
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "denied"
    app.grant(user="u1", skill="lookup", code="notes:read")
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "succeeded"


def test_g3_c39_facts_that_cannot_be_read_are_a_deny_with_an_audit_row(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder, permissions=[("notes:read", "L1")]))
    app.grant(user="u1", skill="lookup", code="notes:read")
    monkeypatch.setattr("prowess.turns.questions.is_enabled", lambda *_given: None)
    result = turn(app, "m1", "/lookup x")
    assert (run_of(result), recorder.calls) == ("denied", [])
    assert story(app, "m1") == [("tool.decided", "denied", "could_not_decide")]
    assert result.reply == "“lookup” may not be used now."


# --- repetition (X4) -------------------------------------------------------------------------------------------------


def test_x4_a_repeated_read_runs_again_without_a_second_record(open_app: OpenApp, url: str) -> None:
    recorder, voice = Recorder(), ScriptedVoice()
    app = open_app(tool("lookup", recorder), voice=voice)
    voice.error = ConnectionError()
    with pytest.raises(Exception, match="voice_failed"):
        turn(app, "m1", "/lookup x")
    voice.error = None
    result = turn(app, "m1", "/lookup x")
    assert (result.replayed, result.reply, run_of(result)) == (True, "answer 2 to x", "completed")
    assert recorder.calls == ["x", "x"]
    assert [(row["message_id"], row["status"]) for row in executions(url)] == [("m1", "succeeded")]
    assert result.tool_calls[-1].id == executions(url)[0]["id"]
    assert len(app.runs(user="u1")) == 1


def test_x4_a_repeated_write_is_not_run_and_tells_its_recorded_outcome(open_app: OpenApp, url: str) -> None:
    recorder, voice = Recorder(), ScriptedVoice()
    app = open_app(tool("remember", recorder, effect="write"), voice=voice)
    voice.error = ConnectionError()
    with pytest.raises(Exception, match="voice_failed"):
        turn(app, "m1", "/remember x")
    voice.error = None
    result = turn(app, "m1", "/remember x")
    assert recorder.calls == ["x"]
    assert (result.replayed, run_of(result)) == (True, "completed")
    assert result.reply == "“remember” was done already; I have not repeated it."
    assert result.tool_calls[-1].status == "recorded"
    assert [row["status"] for row in executions(url)] == ["succeeded"]
    assert [kind for kind, *_ in story(app, "m1")] == ["tool.decided", "tool.finished", "tool.decided"]


@pytest.mark.parametrize(
    ("handler", "code"),
    [(raise_it(ValueError()), "tool_error"), (lambda _c, _q: None, "invalid_output")],
    ids=["raises", "output"],
)
def test_x4_a_repeated_write_that_failed_is_told_as_failed(open_app: OpenApp, handler: Any, code: str) -> None:
    recorder, voice = Recorder(handler), ScriptedVoice()
    app = open_app(tool("remember", recorder, effect="write"), voice=voice)
    voice.error = ConnectionError()
    with pytest.raises(Exception, match="voice_failed"):
        turn(app, "m1", "/remember x")
    voice.error = None
    result = turn(app, "m1", "/remember x")
    assert (len(recorder.calls), run_of(result), result.tool_calls[-1].status) == (1, "failed", "recorded")
    assert [run.error_code for run in app.runs(user="u1")] == [code]
    assert "done already" not in result.reply


def test_x4_u7_a_write_that_died_in_the_middle_has_an_unknown_outcome(open_app: OpenApp, url: str) -> None:
    class Killed(BaseException):
        pass

    class Dying:
        """Stands for a process that dies after the effect and before its record."""

        def __init__(self, app: Prowess) -> None:
            self.app = app

        def __enter__(self) -> None:
            def die(*_given: Any) -> Any:
                raise Killed

            self.finish = self.app._parts.engine._dispatcher._finish
            self.app._parts.engine._dispatcher._finish = die  # type: ignore[method-assign]

        def __exit__(self, *_given: Any) -> None:
            self.app._parts.engine._dispatcher._finish = self.finish  # type: ignore[method-assign]

    recorder = Recorder()
    app = open_app(tool("remember", recorder, effect="write"))
    with Dying(app), pytest.raises(Killed):
        turn(app, "m1", "/remember x")
    result = turn(app, "m1", "/remember x")
    assert (recorder.calls, run_of(result)) == (["x"], "failed")
    assert [row["status"] for row in executions(url)] == ["running"]
    assert [run.error_code for run in app.runs(user="u1")] == ["outcome_unknown"]
    assert result.reply == "“remember” failed, so I have no result to give you."

    read = open_app(tool("lookup", recorder))
    with Dying(read), pytest.raises(Killed):
        turn(read, "m2", "/lookup y")
    again = turn(read, "m2", "/lookup y")
    assert (recorder.calls, run_of(again)) == (["x", "y", "y"], "completed")


def test_x4_u7_a_write_with_other_input_is_not_taken_for_the_recorded_one(open_app: OpenApp, url: str) -> None:
    """A loop that repeats a message may ask for something else the second time: not run, and not claimed as done."""
    recorder = Recorder()
    app = open_app(tool("send", recorder, effect="write", max_calls_per_turn=2))
    first = app.call(app.begin(request("m1", "hello")), "tool.send", {"text": "send 100"})
    again = app.call(app.begin(request("m1", "hello")), "tool.send", {"text": "send 900"})
    assert (first.status, again.status, again.error_code) == ("succeeded", "recorded", "input_differs")
    same = app.call(app.begin(request("m1", "hello")), "tool.send", {"text": "send 100"})
    assert (same.status, same.error_code, same.id) == ("recorded", None, first.id)
    assert recorder.calls == ["send 100"]
    assert len(executions(url)) == 1


def test_x4_the_key_is_tenant_user_agent_chat_tool_message_and_ordinal(open_app: OpenApp, url: str) -> None:
    """Ruling 12.26: the same message id elsewhere is another call."""
    recorder = Recorder()
    both = tool("send", recorder, effect="write", max_calls_per_turn=2, scopes=["single_chat", "group_chat"])
    app = open_app(both)
    places: list[dict[str, Any]] = [
        {},
        {"conversation": "c2"},
        {"group": "c1"},
        {"group": "c1", "agent": "nova"},
        {"conversation": "c3", "user": "u2"},
        {"tenant": "t2"},
    ]
    for place in places:
        plan = app.begin(request("m1", "hello", **place))
        for _ in range(2):
            assert app.call(plan, "tool.send", {"text": "x"}).status == "succeeded"
    assert len(recorder.calls) == 12
    assert len({row["idempotency_key"] for row in executions(url)}) == 12


def test_x4_the_same_write_in_two_workers_runs_once(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    app = open_app(tool("send", recorder, effect="write"))
    turn(app, "m0", "hello")
    results = at_once([lambda: turn(app, "m1", "/send x")] * 6)
    assert recorder.calls == ["x"]
    assert len(executions(url)) == len(app.runs(user="u1")) == 1
    assert all(isinstance(result, TurnResult) for result in results)
    assert len({result.reply for result in results}) == 1
    assert len(app.messages("c1")) == 4


def test_x4_the_same_read_in_two_workers_has_one_record(open_app: OpenApp, url: str) -> None:
    app = open_app(tool("lookup", max_calls_per_turn=1))
    app.begin(request("m1", "hello"))
    plans = [app.begin(request("m1", "hello")) for _ in range(6)]
    outcomes = at_once([lambda plan=plan: app.call(plan, "tool.lookup", {"text": "x"}) for plan in plans])
    assert {outcome.status for outcome in outcomes} == {"succeeded"}
    assert len(executions(url)) == 1


def test_x2_u7_a_tool_turn_whose_skill_is_gone_is_not_told_as_done(open_app: OpenApp, url: str) -> None:
    first = open_app(tool("lookup"), voice=ScriptedVoice())
    first._parts.engine.voice.error = ConnectionError()  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="voice_failed"):
        turn(first, "m1", "/lookup x")
    without = open_app()
    result = turn(without, "m1", "/lookup x")
    assert (run_of(result), result.replayed) == ("failed", True)
    assert "no result" in result.reply
    assert [run.error_code for run in without.runs(user="u1")] == ["tool_missing"]
