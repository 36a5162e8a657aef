"""A model's loop that stops for a person's yes and goes on, in this process or another (G13, C36, C43, C86)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.kit import AGENT, CHAT, USER, OpenApp, Recorder, ScriptedVoice, rows, tool
from tests.support.model_server import ModelServer, Step, text, tool_calls

from prowess import ManualClock, Prowess, ToolSkill, TurnLimits, TurnResult, VoiceError, VoiceLimits
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.adapters.voices.providers import model_voice
from prowess.adapters.voices.suspending import load_state
from prowess.turns.ports import Resumed

SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)
PARALLEL = tool_calls(
    ("c1", "tool_lookup", '{"text": "tide"}'),
    ("c2", "tool_sender", '{"text": "a"}'),
    ("c3", "tool_sender", '{"text": "b"}'),
    say=["Let me see."],
)
WAITING = "“sender” needs a person's yes first; nothing was done yet. Approval: "


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def skills(recorder: Recorder) -> list[ToolSkill]:
    sender = tool("sender", recorder, permissions=[SENDING], effect="write", max_calls_per_turn=4)
    return [tool("lookup", max_calls_per_turn=4), sender]


def opened(open_app: OpenApp, recorder: Recorder, server: ModelServer, **options: Any) -> Prowess:
    app = open_app(*skills(recorder), voice=model_voice("test", base_url=server.url, api_key="k"), **options)
    app.grant(user=USER, skill="sender", code="mail:send")
    return app


def said(app: Prowess, words: str = "send both") -> TurnResult:
    return app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text=words)


def go_on(app: Prowess, reply: str = "r1") -> TurnResult:
    return app.continue_turn(message_id="m1", agent=AGENT, conversation=CHAT, reply_id=reply)


def answers(server: ModelServer, index: int = -1) -> dict[str, Any]:
    """Call id → answer, of every tool message of a request; each id once."""
    found = [
        (item["tool_call_id"], json.loads(item["content"]))
        for item in server.requests[index].body["messages"]
        if item["role"] == "tool"
    ]
    assert len({call for call, _ in found}) == len(found)
    return dict(found)


def test_c36_c86_each_parallel_call_has_exactly_one_true_outcome(open_app: OpenApp, recorder: Recorder) -> None:
    with ModelServer([PARALLEL, text("The tide is known; ", "one was sent, one was refused.")]) as server:
        app = opened(open_app, recorder, server)
        result = said(app)
        first, second = result.pending_approvals
        assert result.reply == f"Let me see.\n\n{WAITING}{first}\n{WAITING}{second}"
        assert [(item.tool, item.status) for item in result.tool_calls] == [
            ("tool.lookup", "succeeded"),
            ("tool.sender", "pending"),
            ("tool.sender", "pending"),
        ]
        app.approve(first, by=USER)
        assert app.resume_call(first).status == "succeeded"
        assert [app.approval(name).outcome for name in (first, second)] == ["succeeded", None]
        assert len(server.requests) == 1
        app.deny(second, by=USER)
        done = go_on(app)
        assert done.reply == "The tide is known; one was sent, one was refused."
        assert answers(server) == {
            "c1": {"status": "ok", "output": {"text": "answer to tide"}},
            "c2": {"status": "ok", "output": {"text": "answer 1 to a"}},
            "c3": {"status": "denied", "error": "denied", "message": "Not done: a person was asked and said no."},
        }
        assert server.requests[1].messages[:2] == server.requests[0].messages[:2]
        repeated = go_on(app)
        assert (repeated.reply, repeated.replayed, len(server.requests)) == (done.reply, True, 2)
    assert recorder.calls == ["a"]


def test_g13_u6_another_process_goes_on_where_the_loop_stopped(open_app: OpenApp, recorder: Recorder, url: str) -> None:
    with ModelServer([PARALLEL, text("Both are sent.")]) as server:
        app = opened(open_app, recorder, server)
        first, second = said(app).pending_approvals
        app.close()
        other = opened(open_app, recorder, server)
        assert other.answer_all({first: True, second: True}, by=USER) == {first: "approved", second: "approved"}
        assert {other.resume_call(name).status for name in (first, second)} == {"succeeded"}
        other.close()
        third = opened(open_app, recorder, server)
        assert go_on(third).reply == "Both are sent."
        assert [answer["output"]["text"] for answer in answers(server).values()] == [
            "answer to tide",
            "answer 1 to a",
            "answer 2 to b",
        ]
    assert (recorder.calls, rows(url, "SELECT message_id FROM suspended_turns")) == (["a", "b"], [])


def test_c43_the_model_is_told_that_nobody_answered(open_app: OpenApp, recorder: Recorder, clock: ManualClock) -> None:
    with ModelServer([PARALLEL, text("Nobody answered.")]) as server:
        app = opened(open_app, recorder, server)
        said(app)
        clock.advance(timedelta(minutes=30))
        assert app.expire_approvals() == 2
        assert go_on(app).reply == "Nobody answered."
        assert answers(server)["c2"] == {
            "status": "expired",
            "error": "permission_timeout",
            "message": "Not done: nobody answered in time. It was not refused; it can be asked for again.",
        }
    assert recorder.calls == []


def test_g13_a_turn_can_stop_again_and_its_calls_keep_their_places(open_app: OpenApp, recorder: Recorder) -> None:
    script = [
        tool_calls(("c1", "tool_sender", '{"text": "a"}')),
        tool_calls(("c2", "tool_sender", '{"text": "b"}'), ("c3", "tool_sender", '{"text": "b"}')),
        text("Both are sent."),
    ]
    with ModelServer(script) as server:
        app = opened(open_app, recorder, server)
        (first,) = said(app).pending_approvals
        app.approve(first, by=USER)
        app.resume_call(first)
        again = go_on(app)
        (second,) = again.pending_approvals
        assert again.reply == f"{WAITING}{second}"
        assert go_on(app).pending_approvals == (second,)  # the same reply, told once more
        app.approve(second, by=USER)
        app.resume_call(second)
        assert go_on(app, "r2").reply == "Both are sent."
        told = answers(server)
        assert told["c2"] == told["c3"] == {"status": "ok", "output": {"text": "answer 2 to b"}}
    assert recorder.calls == ["a", "b"]
    assert [message.id for message in app.messages(CHAT) if message.author_kind == "agent"][1:] == ["r1", "r2"]


def test_g13_a_stream_stops_with_fixed_words(open_app: OpenApp, recorder: Recorder) -> None:
    async def pieces() -> list[Any]:
        stream = app.stream(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="send both")
        return [piece async for piece in stream]

    with ModelServer([PARALLEL, text("Done.")]) as server:
        app = opened(open_app, recorder, server)
        *heard, result = asyncio.run(pieces())
        first, second = result.pending_approvals
        assert "".join(heard) == result.reply == f"Let me see.\n\n{WAITING}{first}\n{WAITING}{second}"
        app.answer_all({first: False, second: False}, by=USER)
        assert go_on(app).reply == "Done."
    assert recorder.calls == []


def test_g13_a_model_that_fails_to_go_on_can_be_asked_again(open_app: OpenApp, recorder: Recorder) -> None:
    script = [PARALLEL, Step(status=400, body=b"{}"), text("Neither was sent.")]
    with ModelServer(script) as server:
        app = opened(open_app, recorder, server)
        for name in said(app).pending_approvals:
            app.deny(name, by=USER)
        with pytest.raises(VoiceError) as caught:
            go_on(app)
        assert caught.value.code == "voice_rejected"
        assert go_on(app).reply == "Neither was sent."


def test_g13_t12_what_was_used_before_the_stop_counts(open_app: OpenApp, recorder: Recorder) -> None:
    limits = TurnLimits(voice=VoiceLimits(requests=2))
    with ModelServer([PARALLEL, text("Neither was sent.")]) as server:
        app = opened(open_app, recorder, server, limits=limits)
        for name in said(app).pending_approvals:
            app.deny(name, by=USER)
        assert go_on(app).reply == "Neither was sent."
        assert server.requests[1].tools == []  # the last request is made without tools


def test_g13_a_voice_without_a_state_says_the_outcomes(open_app: OpenApp, recorder: Recorder) -> None:
    with ModelServer([PARALLEL]) as server:
        app = opened(open_app, recorder, server)
        first, second = said(app).pending_approvals
        app.approve(first, by=USER)
        app.resume_call(first)
        app.deny(second, by=USER)
    plain = open_app(*skills(recorder), voice=ScriptedVoice())
    assert go_on(plain).reply == "answer 1 to a\n“sender” was not done: a person said no."


@pytest.mark.parametrize("state", ["", "{}", "[]", "null", '{"version": 2}', '{"version": 1, "messages": []}'])
def test_g13_a_state_that_is_none_is_a_clear_error(state: str) -> None:
    with pytest.raises(VoiceError) as caught:
        load_state(Resumed(state, {}))
    assert caught.value.code == "voice_state"
