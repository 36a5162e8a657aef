"""Agents handing tasks to agents: rights, routing, loops, tools for one at a time, changes that conflict (B17)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.support.kit import (
    AGENT,
    CHAT,
    LIMIT,
    USER,
    Answer,
    OpenApp,
    Question,
    Recorder,
    ScriptedVoice,
    at_once,
    places_of,
    request,
    rows,
    tool,
)

from prowess import (
    CapabilitySurface,
    Conflict,
    Denied,
    InvalidInput,
    LimitExceeded,
    ManualClock,
    Mode,
    NotFound,
    Prowess,
    ToolContext,
    TurnPlan,
    Unattended,
    VoiceError,
)
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)


def peers(app: Prowess, *names: str, **fields: Any) -> None:
    for name in names:
        app.create_agent(name, **fields)


def told(app: Prowess, *kinds: str) -> list[Any]:
    return [event for event in app.events() if event.type in kinds]


def refused(act: Callable[[], Any]) -> str:
    with pytest.raises((Denied, Conflict, NotFound, LimitExceeded, InvalidInput)) as caught:
        act()
    return caught.value.code


def start(app: Prowess, message: str = "m1", **choices: Any) -> TurnPlan:
    return app.begin(request(message, "hello"), **choices)


# --- handing over ----------------------------------------------------------------------------------------------------


def test_b17_a_task_is_an_ordinary_turn_of_another_agent(open_app: OpenApp, url: str) -> None:
    voice = ScriptedVoice()
    voice.reply = "Canary-Reply"
    app = open_app(voice=voice)
    peers(app, "bo")
    plan = start(app)
    made = app.delegate(plan, "Canary-Task", agent="bo")
    assert (made.status, made.reply, made.agent, made.depth, made.error_code) == (
        "completed",
        "Canary-Reply",
        "bo",
        1,
        None,
    )
    said = app.messages(made.id, user=USER)
    assert [(item.author_kind, item.author, item.text) for item in said] == [
        ("user", USER, "Canary-Task"),
        ("agent", "bo", "Canary-Reply"),
    ]
    (turn,) = rows(url, "SELECT user_id, origin, agent_id FROM turns WHERE message_id = :id", id=made.id)
    assert turn == {"user_id": USER, "origin": f"agent:{AGENT}", "agent_id": "bo"}
    handed, done = told(app, "task.delegated", "task.completed_by_peer")
    assert (handed.actor.id, handed.target, handed.data["parent_message"]) == (AGENT, made.id, "m1")
    assert (done.actor.id, done.decision, done.data["status"]) == ("bo", "succeeded", "completed")
    assert {"task.delegated", "task.completed_by_peer"} <= {event.type for event in app.audit()}
    assert places_of(url, "Canary-Task") == {"messages.text"}
    assert places_of(url, "Canary-Reply") == {"messages.text"}


def test_b17_the_same_handing_over_said_again_is_the_same_task(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    app = open_app(tool("writer", recorder, effect="write"))
    peers(app, "bo", "cy")
    plan = start(app)
    first = app.delegate(plan, "/writer x", agent="bo", message_id="t1")
    assert app.delegate(plan, "/writer x", agent="bo", message_id="t1") == first
    assert recorder.calls == ["x"]
    assert len(rows(url, "SELECT id FROM delegations")) == 1
    assert [event.type for event in told(app, "task.delegated", "task.completed_by_peer")] == [
        "task.delegated",
        "task.completed_by_peer",
    ]
    assert refused(lambda: app.delegate(plan, "/writer y", agent="bo", message_id="t1")) == "message_id_reused"
    assert refused(lambda: app.delegate(plan, "/writer x", agent="cy", message_id="t1")) == "message_id_reused"
    assert app.delegate(plan, "/writer x", message_id="t1") == first
    assert app.delegate(start(app, "m2"), "/writer x", agent="bo", message_id="t1").id != first.id


def test_b17_the_same_handing_over_by_many_at_once_is_one_task(open_app: OpenApp, url: str) -> None:
    app = open_app()
    peers(app, "bo")
    plan = start(app)
    made = at_once([lambda: app.delegate(plan, "x", agent="bo", message_id="t1")] * 4)
    assert {(item.id, item.status) for item in made} == {(made[0].id, "completed")}
    assert len(app.messages(made[0].id)) == 2
    assert [event.type for event in told(app, "task.delegated", "task.completed_by_peer")] == [
        "task.delegated",
        "task.completed_by_peer",
    ]


@pytest.mark.parametrize("choices", [{"surface": CapabilitySurface(tools=["tool.lookup"])}, {"mode": Mode.EXPLORE}])
def test_b17_a_delegate_never_has_more_than_its_parent(open_app: OpenApp, choices: dict[str, Any]) -> None:
    recorder = Recorder()
    app = open_app(tool("ledger", recorder, effect="write"), tool("lookup"))
    peers(app, "bo", "cy")
    plan = start(app, **choices)
    app.delegate(plan, "/ledger x", agent="bo")
    child = app.begin(request("k1", "hello", agent="bo", conversation="k"), parent=plan)
    app.delegate(child, "/ledger y", agent="cy")
    assert recorder.calls == []
    assert app.delegate(start(app, "m2"), "/ledger x", agent="bo").status == "completed"
    assert recorder.calls == ["x"]


def test_b17_nobody_hands_back_up_nor_too_deep(open_app: OpenApp) -> None:
    app = open_app()
    peers(app, AGENT, *(f"a{number}" for number in range(7)))
    plan = start(app)
    for number in range(5):
        assert refused(partial(app.delegate, plan, "x", agent=AGENT)) == "delegation_loop"
        made = app.delegate(plan, "x", agent=f"a{number}", message_id="t")
        assert made.depth == number + 1
        asked = request(made.id, "x", agent=f"a{number}", conversation=made.id, origin=plan_origin(plan))
        plan = app.begin(asked, parent=plan)
    assert refused(lambda: app.delegate(plan, "x", agent="a6")) == "delegation_depth"
    assert refused(lambda: app.delegate(start(app, "m2"), "x", agent="nobody")) == "agent_not_found"
    assert refused(lambda: app.delegate(start(app, "m3"), "x")) == "needs_missing"


def plan_origin(plan: TurnPlan) -> str:
    return f"agent:{plan.request.agent}"


def test_b17_roles_say_who_gets_a_task(open_app: OpenApp) -> None:
    app = open_app()
    peers(app, "tax", good_at=["Tax", "law"])
    peers(app, "law", good_at=["law"])
    peers(app, "private", good_at=["tax", "law"], owner="u2")
    plan = start(app)
    assert app.delegate(plan, "x", needs=["tax", "law"]).agent == "tax"
    assert app.delegate(plan, "x", needs=["law"]).agent == "law"
    assert refused(lambda: app.delegate(plan, "x", needs=["cooking"])) == "no_agent_for"
    app.design_agent("tax", not_for=["law"], good_at=["tax"])
    assert app.delegate(plan, "x", needs=["tax"]).agent == "tax"
    assert app.delegate(plan, "x", needs=["tax", "law"]).agent == "law"
    assert refused(lambda: app.design_agent("law", not_for=["law"])) == "tag_in_both"
    assert refused(lambda: app.design_agent("law")) == "design_missing"
    assert refused(lambda: app.delegate(plan, "x", needs=["two words"])) == "bad_tag"
    assert refused(lambda: app.delegate(plan, "x", needs=[f"t{n}" for n in range(33)])) == "too_many_tags"


def test_u7_a_task_that_fails_says_so_and_can_be_tried_again(open_app: OpenApp) -> None:
    voice = ScriptedVoice()
    app = open_app(voice=voice)
    peers(app, "bo")
    plan = start(app)
    voice.error = VoiceError("voice_failed", cause="x")
    made = app.delegate(plan, "x", agent="bo", message_id="t")
    assert (made.status, made.error_code, made.reply) == ("failed", "voice_failed", None)
    voice.error = None
    assert app.delegate(plan, "x", agent="bo", message_id="t").status == "completed"
    assert [event.data["status"] for event in told(app, "task.completed_by_peer")] == ["failed", "completed"]


def test_b17_a_delegate_that_waits_is_ended_when_it_has_gone_on(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("sender", recorder, effect="write", permissions=[SENDING]))
    app.grant(user=USER, skill="sender", code="mail:send")
    peers(app, "bo")
    made = app.delegate(start(app), "/sender x", agent="bo")
    assert made.status == "waiting"
    assert told(app, "task.completed_by_peer") == []
    (approval,) = app.approvals(user=USER, status="pending")
    app.approve(approval.id, by=USER)
    app.work()
    assert recorder.calls == ["x"]
    app.work()
    (known,) = app.tasks(user=USER)
    assert (known.status, known.finished_at is None) == ("completed", False)
    assert [event.data["status"] for event in told(app, "task.completed_by_peer")] == ["completed"]


def test_b17_the_graph_of_a_task_shows_all_of_it_from_anywhere(open_app: OpenApp) -> None:
    app = open_app()
    peers(app, "bo", "cy", "di")
    plan = app.begin(request("m1", "hello", origin="trigger:t1"), unattended=Unattended())
    first = app.delegate(plan, "x", agent="bo")
    child = app.begin(request(first.id, "x", agent="bo", conversation=first.id, origin=f"agent:{AGENT}"), parent=plan)
    second = app.delegate(child, "x", agent="cy")
    third = app.delegate(plan, "x", agent="di")
    app.finish(plan, "done")
    graph = app.task_graph("m1", agent=AGENT, conversation=CHAT, user=USER).to_json()
    assert graph["root"] == "m1"
    assert {(node["id"], node["kind"], node["agent"], node["status"]) for node in graph["nodes"]} == {
        ("t1", "trigger", None, "fired"),
        ("m1", "turn", AGENT, "completed"),
        (first.id, "turn", "bo", "completed"),
        (second.id, "turn", "cy", "completed"),
        (third.id, "turn", "di", "completed"),
    }
    assert {(edge["from"], edge["to"], edge["kind"]) for edge in graph["edges"]} == {
        ("t1", "m1", "triggered"),
        ("m1", first.id, "delegated"),
        (first.id, second.id, "delegated"),
        ("m1", third.id, "delegated"),
    }
    assert app.task_graph(second.id, agent="cy", conversation=second.id).to_json() == graph
    assert refused(lambda: app.task_graph("m1", agent=AGENT, conversation=CHAT, user="u2")) == "turn_not_found"
    assert refused(lambda: app.task_graph("m9", agent=AGENT, conversation=CHAT)) == "turn_not_found"
    assert [item.id for item in app.tasks(user="u2")] == []


def test_b2_b17_a_trigger_does_not_fire_itself_by_way_of_a_delegate(open_app: OpenApp) -> None:
    app = open_app()
    peers(app, "bo")
    made = app.add_automation(
        user=USER, name="n", agent=AGENT, kind="reaction", prompt="x",
        spec={"events": ["task.completed_by_peer", "turn.completed"]}, conversation=CHAT,
    )  # fmt: skip
    app.fire_automation(made.id, user=USER)

    def notes() -> list[str]:
        app._parts.automations.reactions.catch_up()
        return [str(fire.note) for fire in app.automation_history(made.id, user=USER)]

    plan = app.begin(request("m1", "hello", origin=f"trigger:{made.id}"), unattended=Unattended())
    app.delegate(plan, "x", agent="bo")
    assert notes() == ["loop", "loop", ""]
    app.delegate(app.begin(request("m2", "hello", conversation="c2")), "x", agent="bo")
    assert sorted(notes()) == ["", "", "", "loop", "loop"]


# --- one destructive tool, one user at a time ------------------------------------------------------------------------


class Gatekept:
    """A handler that says that it has begun, and goes on when it is let."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.calls: list[str] = []

    def __call__(self, context: ToolContext, question: Question) -> Answer:
        self.calls.append(question.text)
        self.begun.set()
        assert self.go.wait(LIMIT)
        return Answer(text="done")


def test_b17_a_destructive_tool_has_one_user_at_a_time(open_app: OpenApp, url: str) -> None:
    handler = Gatekept()
    wiper = tool("wiper", handler, effect="write", destructive=True)
    app, other = open_app(wiper), open_app(wiper)
    mine = app.begin(request("m1", "hello"))
    theirs = other.begin(request("m1", "hello", user="u2", agent="bo", conversation="c2"))
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(app.call(mine, "tool.wiper", {"text": "a"})))
    thread.start()
    assert handler.begun.wait(LIMIT)
    busy = other.call(theirs, "tool.wiper", {"text": "b"})
    assert (busy.status, busy.error_code, handler.calls) == ("failed", "tool_busy", ["a"])
    assert "nobody" not in str(busy.message)
    handler.go.set()
    thread.join(LIMIT)
    assert outcomes[0].status == "succeeded"
    assert rows(url, "SELECT tool FROM tool_locks") == []
    assert other.call(theirs, "tool.wiper", {"text": "b"}).status == "succeeded"
    assert [event.type for event in told(app, "tool.locked", "tool.unlocked", "tool.busy")] == [
        "tool.locked",
        "tool.busy",
        "tool.unlocked",
        "tool.locked",
        "tool.unlocked",
    ]
    (audited,) = [event for event in app.audit() if event.type == "tool.busy"]
    assert (audited.decision, audited.user, audited.data["holder"]) == ("denied", "u2", outcomes[0].id)


def test_b17_an_approved_call_that_finds_the_tool_busy_is_tried_again(open_app: OpenApp, clock: ManualClock) -> None:
    handler = Gatekept()
    wiper = tool("wiper", handler, effect="write", destructive=True, permissions=[SENDING])
    app = open_app(wiper)
    for user in (USER, "u2"):
        app.grant(user=user, skill="wiper", code="mail:send")
    asked = [
        app.call(app.begin(request("m1", "hi", user=user, conversation=f"c-{user}")), "tool.wiper", {"text": user})
        for user in (USER, "u2")
    ]
    for outcome, user in zip(asked, (USER, "u2"), strict=True):
        app.approve(str(outcome.approval), by=user)
    thread = threading.Thread(target=lambda: app.resume_call(str(asked[0].approval)))
    thread.start()
    assert handler.begun.wait(LIMIT)
    assert app.resume_call(str(asked[1].approval)).error_code == "tool_busy"
    app.work()
    (second,) = [job for job in app.jobs(user="u2") if job.task == "call"]
    assert (second.status, second.error_code) == ("retrying", "tool_busy")
    handler.go.set()
    thread.join(LIMIT)
    clock.advance(timedelta(minutes=6))
    app.work()
    assert handler.calls == [USER, "u2"]
    assert app.approval(str(asked[1].approval)).outcome == "succeeded"


@pytest.mark.parametrize("ending", ["fails", "times out"])
def test_b17_the_lock_is_given_back_however_the_call_ends(open_app: OpenApp, url: str, ending: str) -> None:
    def handler(context: ToolContext, _: Question) -> Answer:
        if ending == "fails":
            raise ValueError
        threading.Event().wait(0.3)
        return Answer(text="late")

    app = open_app(tool("wiper", handler, effect="write", destructive=True, timeout=timedelta(milliseconds=100)))
    outcome = app.call(start(app), "tool.wiper", {"text": "a"})
    assert outcome.status == ("failed" if ending == "fails" else "timeout")
    assert rows(url, "SELECT tool FROM tool_locks") == []


def test_b17_a_lock_whose_holder_is_gone_passes_on(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    handler = Recorder()
    app = open_app(tool("wiper", handler, effect="write", destructive=True, timeout=timedelta(seconds=30)))
    plan = start(app)
    with app._parts.log.transaction("default") as transaction:
        transaction.connection.exec_driver_sql(
            "INSERT INTO tool_locks (tenant, tool, call_id, user_id, agent_id, chat_kind, chat_id, message_id, until)"
            f" VALUES ('default', 'tool.wiper', 'gone', 'u9', 'x', 'conversation', 'c', 'm', {transaction.now_ms + 90_000})"
        )
    clock.advance(timedelta(seconds=89))
    assert app.call(plan, "tool.wiper", {"text": "a"}).error_code == "tool_busy"
    clock.advance(timedelta(seconds=1))
    assert app.call(start(app, "m2"), "tool.wiper", {"text": "a"}).status == "succeeded"
    assert handler.calls == ["a"]


def test_b17_of_many_at_once_one_has_the_tool(open_app: OpenApp) -> None:
    running, most, lock = [0], [0], threading.Lock()

    def handler(context: ToolContext, _: Question) -> Answer:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
        return Answer(text="done")

    app = open_app(tool("wiper", handler, effect="write", destructive=True))
    plans = [app.begin(request(f"m{n}", "hi", conversation=f"c{n}")) for n in range(8)]
    outcomes = at_once([partial(app.call, plan, "tool.wiper", {"text": "a"}) for plan in plans])
    assert most == [1]
    assert {(item.status, item.error_code) for item in outcomes} <= {("succeeded", None), ("failed", "tool_busy")}
    assert any(item.status == "succeeded" for item in outcomes)


# --- changes that conflict -------------------------------------------------------------------------------------------


@pytest.fixture
def writes() -> Recorder:
    return Recorder()


@pytest.fixture
def editing(open_app: OpenApp, writes: Recorder) -> Prowess:
    edit = tool(
        "edit", writes, effect="write", max_calls_per_turn=4, resource=lambda question: f"file:{int(question.number)}"
    )
    app = open_app(edit)
    peers(app, "bo", "cy")
    return app


def edit(app: Prowess, plan: TurnPlan, text: str, number: int = 1) -> Any:
    return app.call(plan, "tool.edit", {"text": text, "number": number})


def child_of(app: Prowess, plan: TurnPlan, agent: str) -> TurnPlan:
    """A delegate's turn that goes on: begun again, as its own loop has it."""
    made = app.delegate(plan, "x", agent=agent, message_id=f"to {agent}")
    asked = request(made.id, "x", agent=agent, conversation=made.id, origin=plan_origin(plan))
    return app.begin(asked, parent=plan)


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
def test_b17_a_conflicting_change_waits_for_a_person_and_then_runs_once(
    editing: Prowess, writes: Recorder, mode: Mode
) -> None:
    app = editing
    plan = start(app, mode=mode)
    mine = edit(app, plan, "mine")
    bo = child_of(app, plan, "bo")
    app.always_allow(user=USER, agent="bo", tool="tool.edit", arguments={"text": "theirs", "number": 1})
    theirs = edit(app, bo, "theirs")
    assert (theirs.status, theirs.decision and theirs.decision.reason) == ("pending", "conflicting_change")
    assert edit(app, bo, "elsewhere", 2).status == "succeeded"
    assert writes.calls == ["mine", "elsewhere"]
    approval = app.approval(str(theirs.approval), user=USER)
    assert approval.call.rule == f"conflicting_change:{AGENT}:{mine.id}"
    app.approve(approval.id, by=USER)
    assert app.resume_call(approval.id).status == "succeeded"
    assert app.resume_call(approval.id).status == "recorded"
    assert writes.calls == ["mine", "elsewhere", "theirs"]
    assert edit(app, bo, "again").status == "succeeded"
    assert edit(app, plan, "back").decision.reason == "conflicting_change"


def test_b17_a_candidate_that_is_denied_is_dropped(editing: Prowess, writes: Recorder) -> None:
    app = editing
    plan = start(app)
    edit(app, plan, "mine")
    theirs = edit(app, child_of(app, plan, "bo"), "theirs")
    app.deny(str(theirs.approval), by=USER)
    assert app.resume_call(str(theirs.approval)).status == "denied"
    assert writes.calls == ["mine"]


def test_b17_a_yes_is_for_the_rival_that_was_shown(editing: Prowess, writes: Recorder) -> None:
    app = editing
    plan = start(app)
    edit(app, plan, "mine")
    asked = edit(app, child_of(app, plan, "bo"), "bo's")
    app.approve(str(asked.approval), by=USER)
    edit(app, plan, "mine again")
    outcome = app.resume_call(str(asked.approval))
    assert (outcome.status, outcome.decision and outcome.decision.reason) == ("denied", "conflicting_change")
    assert app.approval(str(asked.approval)).outcome == "conflicting_change"
    assert writes.calls == ["mine", "mine again"]


def test_b17_where_nobody_is_to_be_asked_a_conflict_is_denied(editing: Prowess, writes: Recorder) -> None:
    app = editing
    plan = start(app, mode=Mode.DONT_ASK)
    edit(app, plan, "mine")
    assert edit(app, child_of(app, plan, "bo"), "theirs").status == "denied"
    assert writes.calls == ["mine"]


def test_b17_other_tasks_and_readers_do_not_conflict(editing: Prowess, writes: Recorder) -> None:
    app = editing
    edit(app, start(app), "mine")
    assert edit(app, start(app, "m2"), "mine too").status == "succeeded"
    other = app.begin(request("m3", "hello", agent="bo", conversation="c3"))
    assert edit(app, other, "alone").status == "succeeded"


def test_b17_of_two_agents_that_change_one_thing_at_once_one_waits(editing: Prowess, writes: Recorder) -> None:
    app = editing
    plan = start(app)
    plans = [child_of(app, plan, "bo"), child_of(app, plan, "cy")]
    outcomes = at_once([partial(edit, app, item, "x") for item in plans])
    assert sorted(item.status for item in outcomes) == ["pending", "succeeded"]
    assert writes.calls == ["x"]
