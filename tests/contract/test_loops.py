"""A turn in pieces, for somebody else's agent loop: begin, call, finish (T11, T12, X1)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kit import (
    OpenApp,
    Question,
    Recorder,
    at_once,
    everything,
    interview,
    manual,
    recaller,
    request,
    rows,
    tool,
    turn,
)

from prowess.errors import Conflict, InvalidInput

SKILLS = (interview(), manual("notes"), tool("lookup", max_calls_per_turn=2), recaller())
TALK = ["hello", "/interview", "one", "/notes", "/lookup x", "/recaller x", "/nosuch", "/pause-skill", "/cancel-skill"]
IGNORED = ("events", "messages", "agents", "conversations")


def test_t1_in_pieces_it_is_the_same_turn(open_app: OpenApp, url: str) -> None:
    app = open_app(*SKILLS)
    whole, pieces = [], []
    for number, words in enumerate(TALK):
        whole.append(turn(app, f"m{number}", words, tenant="t1"))
        plan = app.begin(request(f"m{number}", words, tenant="t2"))
        say = plan.reply or ("plain" if plan.instruction is None else "\n".join(plan.instruction.say))
        pieces.append(app.finish(plan, say))
    for one, other in zip(whole, pieces, strict=True):
        assert one.reply == other.reply
        assert (one.selection, one.instruction, one.decision) == (other.selection, other.instruction, other.decision)
        assert (one.run and one.run.status) == (other.run and other.run.status)
        assert (one.session and one.session.revision) == (other.session and other.session.revision)
        assert one.events == other.events
    counts = {
        table: {tenant: sum(row.get("tenant") == tenant for row in found) for tenant in ("t1", "t2")}
        for table, found in everything(url).items()
    }
    for table, count in counts.items():
        assert count["t1"] == count["t2"], table
    assert counts["messages"]["t1"] == 2 * len(TALK)


def test_t11_a_plan_offers_the_tools_that_are_enabled_here(open_app: OpenApp) -> None:
    grouped = tool("grouped", scopes=["group_chat"])
    app = open_app(*SKILLS, grouped)
    built_in = {offer.name for offer in open_app().begin(request("m0", "hello")).tools}

    def offered(message_id: str, **changed: Any) -> list[str]:
        plan = app.begin(request(message_id, "hello", **changed))
        return [offer.name for offer in plan.tools if offer.name not in built_in]

    assert offered("m1") == ["tool.lookup", "tool.recaller"]
    assert offered("m1", group="g1") == ["tool.grouped"]
    app.bind_skill("lookup", user="u1", enabled=False)
    app.bind_skill("recaller", agent="mira", enabled=False)
    assert offered("m2") == []
    plan = app.begin(request("m3", "hello", user="u2", agent="nova", conversation="c3"))
    (lookup,) = [offer for offer in plan.tools if offer.name == "tool.lookup"]
    assert (lookup.skill_id, lookup.description) == ("lookup", "Answers by lookup.")
    assert lookup.input_schema == Question.model_json_schema()


def test_x2_tools_can_be_called_in_any_turn(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "hello"))
    outcome = app.call(plan, "tool.lookup", {"text": "x"})
    assert outcome.to_json() == {
        "id": outcome.id,
        "tool": "tool.lookup",
        "status": "succeeded",
        "output": {"text": "answer to x"},
        "decision": {"effect": "allow", "layer": None, "missing": [], "reason": "allowed"},
        "error_code": None,
        "message": None,
        "detail": [],
        "approval": None,
    }
    denied = app.call(plan, "tool.recaller", {"text": "x"})
    assert (denied.status, denied.output, denied.error_code) == ("denied", None, None)
    result = app.finish(plan, "done")
    assert [(call.tool, call.status) for call in result.tool_calls] == [
        ("tool.lookup", "succeeded"),
        ("tool.recaller", "denied"),
    ]
    assert result.events == (
        "agent.created",
        "conversation.created",
        "turn.started",
        "tool.decided",
        "tool.finished",
        "tool.decided",
        "turn.completed",
    )
    assert turn(app, "m1", "hello").tool_calls == result.tool_calls


def test_x1_t12_one_call_too_many_is_refused_and_audited(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder, max_calls_per_turn=2))
    plan = app.begin(request("m1", "hello"))
    statuses = [app.call(plan, "tool.lookup", {"text": str(number)}).status for number in range(4)]
    assert statuses == ["succeeded", "succeeded", "over_limit", "over_limit"]
    assert recorder.calls == ["0", "1"]
    refused = [event for event in app.audit(user="u1") if event.type == "tool.refused"]
    assert [(event.target, event.decision, event.data) for event in refused] == [
        ("tool.lookup", "denied", {"reason": "over_limit"})
    ] * 2
    assert [row["ordinal"] for row in rows(url, "SELECT ordinal FROM skill_tool_executions ORDER BY ordinal")] == [0, 1]
    assert app.call(app.begin(request("m2", "hello")), "tool.lookup", {"text": "x"}).status == "succeeded"


def test_x1_the_message_that_selected_a_tool_has_used_a_call(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("once", recorder), tool("twice", recorder, max_calls_per_turn=2))
    plan = app.begin(request("m1", "/once x"))
    assert app.call(plan, "tool.once", {"text": "y"}).status == "over_limit"
    assert app.call(plan, "tool.twice", {"text": "y"}).status == "succeeded"
    assert recorder.calls == ["x", "y"]


def test_x1_calls_at_the_same_moment_are_counted(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder, max_calls_per_turn=3))
    plan = app.begin(request("m1", "hello"))
    outcomes = at_once([lambda: app.call(plan, "tool.lookup", {"text": "x"})] * 8)
    assert sorted(outcome.status for outcome in outcomes) == ["over_limit"] * 5 + ["succeeded"] * 3
    assert len(recorder.calls) == 3
    assert len(app.finish(plan, "done").tool_calls) == 8


@pytest.mark.parametrize(
    "name",
    ["tool.nosuch", "", "lookup", "x" * 5_000, "tool.\x00lookup", "工具", "\ud800"],
    ids=["absent", "empty", "skill", "long", "nul", "script", "surrogate"],
)
def test_g8_an_unknown_tool_is_not_found_and_audited(open_app: OpenApp, name: str) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "hello"))
    outcome = app.call(plan, name, {"text": "x"})
    assert (outcome.status, outcome.error_code, outcome.decision) == ("not_found", "not_found", None)
    (refused,) = [event for event in app.audit(user="u1") if event.type == "tool.refused"]
    assert refused.data == {"reason": "not_found", "layer": "filter"}
    assert refused.target is not None
    assert len(refused.target) <= 200


def test_g8_a_disabled_tool_and_one_that_never_was_answer_alike(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    app.bind_skill("lookup", user="u1", enabled=False)
    plan = app.begin(request("m1", "hello"))
    disabled, absent = (app.call(plan, name, {"text": "x"}).to_json() for name in ("tool.lookup", "tool.lookip"))
    assert disabled["message"].replace("lookup", "") == absent["message"].replace("lookip", "")
    blank = {"id": "", "tool": "", "message": ""}
    assert {**disabled, **blank} == {**absent, **blank}
    one, other = [event for event in app.audit(user="u1") if event.type == "tool.refused"]
    assert (one.data, one.decision, one.skill_id) == (other.data, other.decision, other.skill_id)


def test_t1_the_first_reply_is_the_one_that_is_kept(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "hello"))
    assert app.finish(plan, "first").reply == "first"
    assert app.finish(plan, "second").reply == "first"
    other = app.begin(request("m1", "hello"))
    assert (other.replayed, other.reply) == (True, "first")
    assert app.finish(other, "third").reply == "first"
    assert [message.text for message in app.messages("c1")] == ["hello", "first"]


def test_t1_of_two_loops_that_finish_one_turn_the_first_wins(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    app.begin(request("m1", "/interview"))
    plans = [app.begin(request("m1", "/interview")) for _ in range(5)]
    results = at_once([lambda plan=plan: app.finish(plan, f"loop {id(plan)}") for plan in plans])
    (reply,) = {result.reply for result in results}
    assert app.messages("c1")[-1].text == reply
    assert len(app.messages("c1")) == 2
    assert sum(event.type == "turn.completed" for event in app.events()) == 1
    assert [str(run.status) for run in app.runs(user="u1")] == ["waiting_user"]


@pytest.mark.parametrize(
    "reply", ["", "   ", "bell \x07", "x" * 200_001, None], ids=["empty", "space", "control", "long", "none"]
)
def test_t1_a_reply_that_cannot_be_stored_leaves_the_turn_open(open_app: OpenApp, reply: Any) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "hello"))
    with pytest.raises(InvalidInput) as refused:
        app.finish(plan, reply)
    assert refused.value.detail["field"] == "reply"
    assert app.finish(plan, "better").reply == "better"


def test_t1_a_loop_that_gives_up_says_so_and_may_come_back(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "/interview"))
    app.fail(plan, RuntimeError("secret"))
    (failed,) = [event for event in app.events() if event.type == "turn.failed"]
    assert failed.data == {"error_code": "voice_failed", "origin": "user"}
    assert [(str(run.status), run.error_code) for run in app.runs(user="u1")] == [("failed", "voice_failed")]
    assert app.finish(app.begin(request("m1", "/interview")), "here").reply == "here"
    assert [(str(run.status), run.error_code) for run in app.runs(user="u1")] == [("waiting_user", None)]


def test_t1_giving_up_after_the_reply_changes_nothing(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "/interview"))
    app.finish(plan, "here")
    app.fail(plan, RuntimeError("too late"))
    assert [(str(run.status), run.error_code) for run in app.runs(user="u1")] == [("waiting_user", None)]
    assert turn(app, "m1", "/interview").reply == "here"
    assert "turn.failed" not in [event.type for event in app.events()]


def test_t1_a_turn_that_was_begun_blocks_its_id_but_not_the_chat(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    app.begin(request("m1", "hello"))
    with pytest.raises(Conflict):
        app.begin(request("m1", "other words"))
    assert turn(app, "m2", "/notes").selection is not None
