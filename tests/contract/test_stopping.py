"""Stop means stop: a stopped turn leaves no tool, delegate, approval, job or model running, in any process (U10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kit import AGENT, CHAT, LIMIT, USER, Answer, OpenApp, Question, Recorder, request, rows, tool
from tests.support.model_server import ModelServer, hang, text, tool_calls

import prowess
from prowess import Conflict, InvalidInput, NotFound, Prowess, ToolContext, TurnPlan, TurnResult
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.adapters.voices.providers import model_voice
from prowess.automation.delegation.model import Stopped

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
ENGLISH = "Stopped, as you asked. What was done before that stays done."
EFFECTS = (
    "approval.requested", "approval.approved", "approval.used", "run.recorded", "session.created", "session.advanced",
    "skill.selected", "skill.loaded", "task.delegated", "tool.locked", "tools.equipped", "turn.completed",
    "turn.continued", "turn.started", "turn.waiting", "turn.failed",
)  # fmt: skip


class Obedient:
    """A handler that works until its token is set."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.calls: list[str] = []

    def __call__(self, context: ToolContext, question: Question) -> Answer:
        self.calls.append(question.text)
        self.begun.set()
        waited = threading.Event()
        while not context.cancel.cancelled:
            assert not waited.wait(0.01)
        self.ended.set()
        return Answer(text="half")


class Deaf(Obedient):
    """A handler that does not look at its token."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def __call__(self, context: ToolContext, question: Question) -> Answer:
        self.begun.set()
        assert self.go.wait(LIMIT)
        self.ended.set()
        return Answer(text="done")


@contextmanager
def running(act: Callable[[], Any]) -> Iterator[list[Any]]:
    """``act`` in a thread of its own; its result, or what it raised, once the block has ended."""
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(act())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield results
    thread.join(LIMIT)
    assert not thread.is_alive()


def stop(app: Prowess, message: str = "m1", **choices: Any) -> Stopped:
    where: dict[str, Any] = {"user": USER, "agent": AGENT, "conversation": CHAT, "message_id": message}
    return app.stop_turn(**{**where, **choices})


def effects_after_stop(app: Prowess) -> list[str]:
    """Events of stopped turns that tell of an effect, written after the stop."""
    found, stopped = [], set[tuple[str | None, ...]]()
    for event in app.events():
        key = (event.chat_id, event.message_id, event.agent)
        if event.type == "turn.stopped":
            stopped.add(key)
        elif key in stopped:
            done = event.type == "tool.finished" and event.decision == "succeeded"
            allowed = event.type == "tool.decided" and event.decision == "allowed"
            if event.type in EFFECTS or done or allowed:
                found.append(event.type)
    return found


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises((Conflict, NotFound, InvalidInput)) as caught:
        act()
    return caught.value.code


def slow(handler: Any, id: str = "slow", **fields: Any) -> Any:
    return tool(id, handler, effect="write", timeout=timedelta(seconds=30), **fields)


# --- a tool ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
def test_u10_a_running_tool_is_told_and_the_turn_says_that_it_was_stopped(
    open_app: OpenApp, url: str, elsewhere: bool
) -> None:
    handler = Obedient()
    app = open_app(slow(handler, destructive=True))
    other = open_app(slow(handler, destructive=True)) if elsewhere else app
    with running(
        lambda: app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="/slow x")
    ) as results:
        assert handler.begun.wait(LIMIT)
        stopped = stop(other)
    assert (stopped.turns, stopped.tools, stopped.still_running, stopped.all_down) == (1, 1, (), True)
    assert handler.ended.is_set()
    (result,) = results
    assert isinstance(result, TurnResult)
    assert (result.reply, result.run and result.run.status) == (ENGLISH, "cancelled")
    assert [(item.author, item.text) for item in app.messages(CHAT)] == [(USER, "/slow x"), (AGENT, ENGLISH)]
    assert rows(url, "SELECT status, error_code FROM skill_tool_executions") == [
        {"status": "failed", "error_code": "stopped"}
    ]
    assert rows(url, "SELECT status, error_code FROM skill_runs") == [{"status": "cancelled", "error_code": "stopped"}]
    assert rows(url, "SELECT tool FROM tool_locks") == []
    assert effects_after_stop(app) == []
    again = app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="/slow x")
    assert (again.reply, again.replayed, handler.calls) == (ENGLISH, True, ["x"])


def test_u10_a_tool_that_does_not_heed_is_named(open_app: OpenApp) -> None:
    handler = Deaf()
    app = open_app(slow(handler))
    plan = app.begin(request("m1", "hello"))
    with running(lambda: app.call(plan, "tool.slow", {"text": "x"})) as results:
        assert handler.begun.wait(LIMIT)
        first = stop(app, limit=0.1)
        assert (first.tools, first.all_down) == (1, False)
        (name,) = first.still_running
        assert name.startswith("tool.slow (call-")
        handler.go.set()
        assert handler.ended.wait(LIMIT)
    again = stop(app)
    assert (again.turns, again.tools, again.all_down) == (0, 0, True)
    assert (results[0].status, results[0].error_code) == ("failed", "stopped")


def test_u10_a_stopped_turn_calls_nothing_more_in_any_process(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("writer", recorder, effect="write"))
    plan = app.begin(request("m1", "hello"))
    stop(open_app(tool("writer", recorder, effect="write")))
    for name in ("tool.writer", "load_skill_through_path", "reset_equipped_tools"):
        outcome = app.call(plan, name, {"text": "x"})
        assert (outcome.status, outcome.error_code) == ("denied", "stopped")
    app.create_agent("bo")
    assert refused(lambda: app.delegate(plan, "x", agent="bo")) == "turn_stopped"
    assert app.finish(plan, "I did it all.").reply == ENGLISH
    assert [event.data["reason"] for event in app.audit() if event.type == "tool.refused"] == ["stopped"] * 3
    assert recorder.calls == []
    assert effects_after_stop(app) == []


def test_u10_only_its_own_user_or_the_operator_stops_a_turn(open_app: OpenApp) -> None:
    app = open_app()
    app.begin(request("m1", "hello"))
    for asked in ({"user": "u2"}, {"message_id": "m9"}, {"agent": "bo"}, {"conversation": "c9"}):
        assert (
            refused(
                lambda asked=asked: app.stop_turn(
                    **{  # type: ignore[misc]
                        "user": USER,
                        "agent": AGENT,
                        "conversation": CHAT,
                        "message_id": "m1",
                        **asked,
                    }
                )
            )
            == "turn_not_found"
        )
    assert refused(lambda: stop(app, limit=601)) == "bad_stop_limit"
    assert refused(lambda: stop(app, group="g")) == "scope_missing"
    assert stop(app, user=None).turns == 1
    (event,) = [item for item in app.audit() if item.type == "turn.stopped"]
    assert (event.actor.kind, event.decision, event.user) == ("operator", "cancelled", USER)


def test_u10_the_reply_of_a_stopped_turn_is_in_the_users_language(open_app: OpenApp) -> None:
    app = open_app()
    plan = app.begin(request("m1", "你好，请帮我看看"))
    stop(app)
    assert app.finish(plan, "好的").reply == "已按您的要求停止。此前已完成的部分保持不变。"


def test_u10_what_is_finished_keeps_its_reply(open_app: OpenApp) -> None:
    app = open_app()
    app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="hello")
    assert stop(app).all_down
    assert [item.text for item in app.messages(CHAT)] == ["hello", "plain"]


# --- delegates, approvals, jobs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
def test_u10_a_stopped_turn_leaves_no_tool_delegate_approval_or_job(
    open_app: OpenApp, url: str, elsewhere: bool
) -> None:
    handler, sent = Obedient(), Recorder()
    skills = (slow(handler), tool("sender", sent, effect="write", permissions=[SENDING], max_calls_per_turn=4))
    app = open_app(*skills)
    other = open_app(*skills) if elsewhere else app
    app.grant(user=USER, skill="sender", code="mail:send")
    for name in ("bo", "cy"):
        app.create_agent(name)
    plan = app.begin(request("m1", "hello"))
    waits = app.call(plan, "tool.sender", {"text": "a"})
    approved = app.call(plan, "tool.sender", {"text": "b"})
    app.approve(str(approved.approval), by=USER)
    app._parts.worker.sweep()  # the approved call is a job now, which has not begun
    assert [(job.task, job.status) for job in app.jobs()] == [("call", "scheduled")]

    def hand_down() -> Any:
        """Two levels: bo's turn is begun here, and hands on to cy, whose tool runs."""
        made = app.delegate(plan, "x", agent="bo")
        with app._parts.log.transaction("default") as transaction:
            transaction.connection.exec_driver_sql(f"UPDATE delegations SET status = 'running' WHERE id = '{made.id}'")
        asked = request(made.id, "x", agent="bo", conversation=made.id, origin=f"agent:{AGENT}")
        return app.delegate(app.begin(asked, parent=plan), "/slow x", agent="cy")

    with running(hand_down) as results:
        assert handler.begun.wait(LIMIT)
        stopped = stop(other)
    assert stopped.to_json() == {
        "message_id": "m1",
        "turns": 3,
        "delegates": 2,
        "tools": 1,
        "approvals": 2,
        "jobs": 1,
        "still_running": [],
        "all_down": True,
    }
    (made,) = results
    assert (made.status, made.error_code, made.reply) == ("stopped", "stopped", ENGLISH)
    assert handler.ended.is_set()
    assert {item.status for item in app.tasks()} == {"stopped"}
    assert {(item.status, item.outcome) for item in app.approvals()} == {("cancelled", "stopped")}
    assert [job.status for job in app.jobs()] == ["cancelled"]
    assert app.resume_call(str(approved.approval)).status == "denied"
    assert refused(lambda: app.approve(str(waits.approval), by=USER)) == "approval_answered"
    app.work()
    assert sent.calls == []
    assert effects_after_stop(app) == []
    assert {node.status for node in app.task_graph("m1", agent=AGENT, conversation=CHAT).nodes} >= {"stopped"}


def test_u10_a_suspended_turn_goes_on_no_more(open_app: OpenApp) -> None:
    sent = Recorder()
    app = open_app(tool("sender", sent, effect="write", permissions=[SENDING]))
    app.grant(user=USER, skill="sender", code="mail:send")
    waiting = app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="/sender x")
    stopped = stop(app)
    assert (stopped.approvals, stopped.all_down) == (1, True)
    assert [item.text for item in app.messages(CHAT)][1:] == [waiting.reply, ENGLISH]
    assert [run.status for run in app.runs(user=USER)] == ["cancelled"]
    where: dict[str, Any] = {"message_id": "m1", "agent": AGENT, "conversation": CHAT, "reply_id": "r1"}
    assert refused(lambda: app.continue_turn(**where)) == "turn_stopped"
    app.work()
    assert (sent.calls, effects_after_stop(app)) == ([], [])


def test_u10_a_job_that_runs_a_stopped_turn_fails_for_good_and_is_no_incident(open_app: OpenApp) -> None:
    handler = Obedient()
    app = open_app(slow(handler))
    made = app.add_automation(
        user=USER, name="n", agent=AGENT, kind="interval", spec={"seconds": 900}, prompt="x", skill="slow",
        conversation=CHAT,
    )  # fmt: skip
    app.fire_automation(made.id, user=USER)
    with running(app.work):
        assert handler.begun.wait(LIMIT)
        (job,) = app.jobs()
        stopped = stop(app, job.id)
    assert stopped.all_down
    (job,) = app.jobs()
    assert (job.status, job.error_code, job.attempts) == ("failed", "stopped", 1)
    assert [event.type for event in app.audit() if event.type == "incident.opened"] == []
    assert effects_after_stop(app) == []


def test_u10_a_parked_automation_ends_with_its_turn(open_app: OpenApp) -> None:
    app = open_app(tool("sender", Recorder(), effect="write", permissions=[SENDING]))
    app.grant(user=USER, skill="sender", code="mail:send")
    made = app.add_automation(
        user=USER, name="n", agent=AGENT, kind="interval", spec={"seconds": 900}, prompt="x", skill="sender",
        conversation=CHAT,
    )  # fmt: skip
    app.fire_automation(made.id, user=USER)
    app.work()
    (job,) = app.jobs()
    assert job.status == "waiting"
    assert (stop(app, job.id).approvals, app.job(job.id).status, app.job(job.id).error_code) == (1, "failed", "stopped")
    app.work()
    assert [event.type for event in app.audit() if event.type == "incident.opened"] == []


def test_u10_a_delegate_that_was_handed_over_and_has_not_begun_does_not_begin(open_app: OpenApp) -> None:
    app = open_app()
    app.create_agent("bo")
    plan = app.begin(request("m1", "hello"))
    made = app.delegate(plan, "x", agent="bo")
    with app._parts.log.transaction("default") as transaction:
        sql = transaction.connection.exec_driver_sql
        sql(f"UPDATE delegations SET status = 'running' WHERE id = '{made.id}'")
        sql(f"DELETE FROM turns WHERE message_id = '{made.id}'")
        sql(f"DELETE FROM messages WHERE chat_id = '{made.id}'")
    stop(app)
    asked = request(made.id, "x", agent="bo", conversation=made.id, origin=f"agent:{AGENT}")
    assert refused(lambda: app.begin(asked, parent=plan)) == "turn_stopped"


# --- a model ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_u10_a_model_that_is_speaking_is_cut_off(open_app: OpenApp, elsewhere: bool, streamed: bool) -> None:
    release, heard = threading.Event(), list[Any]()
    with ModelServer([hang(release, "It ", "is ", "long", after=1 if streamed else -1)]) as server:
        app = open_app(voice=model_voice("test", base_url=server.url, api_key="k"))
        other = open_app() if elsewhere else app

        async def listen() -> list[Any]:
            where: dict[str, Any] = {"user": USER, "agent": AGENT, "conversation": CHAT, "message_id": "m1"}
            async for piece in app.stream(**where, text="hello"):
                heard.append(piece)
            return heard

        def speak() -> Any:
            if streamed:
                *pieces, result = asyncio.run(listen())
                assert "".join(pieces) == f"It \n\n{ENGLISH}"
                return result
            return app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="hello")

        with running(speak) as results:
            waited = threading.Event()
            while not (heard if streamed else server.requests):
                assert not waited.wait(0.01)
            stopped = stop(other)
        if streamed:
            assert server.requests[0].closed_early.wait(LIMIT)
        assert len(server.requests) == 1
        release.set()
    assert stopped.turns == 1
    assert isinstance(results[0], TurnResult), results
    assert results[0].reply == ENGLISH
    assert [item.text for item in app.messages(CHAT)] == ["hello", ENGLISH]
    assert effects_after_stop(app) == []


def test_u10_a_model_asks_nothing_more_after_a_stop_in_the_middle_of_its_tool(open_app: OpenApp) -> None:
    handler = Obedient()
    with ModelServer([tool_calls(("c1", "tool_slow", '{"text": "x"}')), text("never")]) as server:
        app = open_app(slow(handler), voice=model_voice("test", base_url=server.url, api_key="k"))
        with running(
            lambda: app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="hello")
        ) as results:
            assert handler.begun.wait(LIMIT)
            assert stop(app).all_down
        assert len(server.requests) == 1
    assert results[0].reply == ENGLISH
    assert effects_after_stop(app) == []


# --- whatever is done ------------------------------------------------------------------------------------------------

ACTS = st.lists(
    st.sampled_from(["write", "ask", "approve", "work", "delegate", "finish", "continue", "load", "stop"]), max_size=12
)


@settings(max_examples=40)
@given(before=ACTS, after=ACTS)
def test_u10_after_stop_no_effect_of_the_turn_is_written(before: list[str], after: list[str]) -> None:
    recorder = Recorder()
    skills = (
        tool("writer", recorder, effect="write", destructive=True, max_calls_per_turn=4),
        tool("sender", recorder, effect="write", permissions=[SENDING], max_calls_per_turn=4),
    )
    with prowess.open("sqlite://", skills=skills) as app:
        app.grant(user=USER, skill="sender", code="mail:send")
        app.create_agent("bo")
        plan = app.begin(request("m1", "hello"))
        for number, act in enumerate(before):
            _act(app, plan, act, number)
        stop(app)
        done = list(recorder.calls)
        for number, act in enumerate(after, len(before)):
            _act(app, plan, act, number)
        assert effects_after_stop(app) == []
        assert recorder.calls == done
        assert stop(app).all_down


def _act(app: Prowess, plan: TurnPlan, act: str, number: int) -> None:
    """One step of somebody's; refusals are answers."""
    where: dict[str, Any] = {"message_id": "m1", "agent": AGENT, "conversation": CHAT}
    try:
        match act:
            case "write" | "ask":
                app.call(plan, f"tool.{'writer' if act == 'write' else 'sender'}", {"text": "x", "number": number})
            case "approve":
                for approval in app.approvals(user=USER, status="pending"):
                    app.approve(approval.id, by=USER)
            case "work":
                app.work()
            case "delegate":
                app.delegate(plan, "/writer x", agent="bo")
            case "finish":
                app.finish(plan, "done")
            case "continue":
                app.continue_turn(**where, reply_id=f"r{number}")
            case "load":
                app.call(plan, "load_skill_through_path", {"skill_id": "daily-planning"})
            case _:
                stop(app)
    except (Conflict, NotFound):
        pass
