"""Whole governed turns with a model behind a real HTTP server (T10–T12, U1, U10)."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import vcr
from tests.support.kit import (
    AGENT,
    CHAT,
    LIMIT,
    USER,
    OpenApp,
    Recorder,
    manual,
    places_of,
    recaller,
    rows,
    tool,
    turn,
)
from tests.support.model_server import (
    ModelServer,
    Request,
    Step,
    cut,
    endless,
    hang,
    malformed,
    status,
    text,
    tool_calls,
)

from prowess import (
    CapabilitySurface,
    Prowess,
    ToolGroup,
    TurnLimits,
    TurnResult,
    Voice,
    VoiceError,
    VoiceLimits,
    model_voice,
)
from prowess.adapters.voices.providers import model_voice as adapter_voice
from prowess.adapters.voices.retries import RetryBudget
from prowess.secrets.keys import KeyRing

NO_RETRY = RetryBudget(attempts=1)
SKILLS = (
    manual("sailing", body="# Sailing\n\nMind the wind."),
    manual("secret-plan", body="# Hidden treasure"),
    recaller(),
)


def speaking(server: ModelServer, **options: Any) -> Voice:
    return adapter_voice("test", base_url=server.url, api_key="k", **options)


def said(app: Prowess, message_id: str, words: str, **choices: Any) -> TurnResult:
    return app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id=message_id, text=words, **choices)


def streamed(app: Prowess, message_id: str, words: str) -> list[Any]:
    async def run() -> list[Any]:
        stream = app.stream(user=USER, agent=AGENT, conversation=CHAT, message_id=message_id, text=words)
        return [piece async for piece in stream]

    return asyncio.run(run())


def answers(server: ModelServer, index: int = -1) -> list[Any]:
    """The tool answers in a request, parsed."""
    return [json.loads(item["content"]) for item in server.requests[index].body["messages"] if item["role"] == "tool"]


def test_t10_t11_a_model_calls_a_granted_tool_and_answers(open_app: OpenApp) -> None:
    recorder = Recorder()
    with ModelServer([tool_calls(("c1", "tool_lookup", '{"text": "tide"}')), text("It is ", "high.")]) as server:
        app = open_app(tool("lookup", recorder), *SKILLS, voice=speaking(server))
        result = said(app, "m1", "how is the tide?")
    assert (result.reply, recorder.calls) == ("It is high.", ["tide"])
    assert [(item.tool, item.status) for item in result.tool_calls] == [("tool.lookup", "succeeded")]
    assert answers(server) == [{"status": "ok", "output": {"text": "answer 1 to tide"}}]
    assert set(server.requests[0].tools) == {
        "load_skill_through_path",
        "reset_equipped_tools",
        "agent-memory_search",
        "automations_propose",
        "daily-report_compose",
        "tool_lookup",
        "tool_recaller",
    }
    (message,) = [item for item in app.messages(CHAT) if item.author_kind == "agent"]
    assert message.text == "It is high."
    completed = next(event for event in app.events() if event.type == "turn.completed")
    assert completed.data["voice"] == "test"


def test_t10_a_stream_is_governed_alike(open_app: OpenApp) -> None:
    recorder = Recorder()
    script = [tool_calls(("c1", "tool_lookup", '{"text": "tide"}')), text("It ", "is ", "high.")]
    with ModelServer(script) as server:
        app = open_app(tool("lookup", recorder), voice=speaking(server))
        *pieces, result = streamed(app, "m1", "how is the tide?")
    assert "".join(pieces) == result.reply == "It is high."
    assert len(pieces) > 1
    assert [(item.tool, item.status) for item in result.tool_calls] == [("tool.lookup", "succeeded")]
    assert app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="how is the tide?").replayed


def test_u1_g8_a_hidden_tool_named_anyway_is_one_that_does_not_exist(open_app: OpenApp) -> None:
    recorder = Recorder()
    script = [
        tool_calls(
            ("c1", "tool_ledger", '{"text": "x"}'), ("c2", "tool.ledger", '{"text": "x"}'), ("c3", "tool.absent", "{}")
        ),
        tool_calls(
            ("c4", "load_skill_through_path", '{"skill_id": "secret-plan"}'),
            ("c5", "load_skill_through_path", '{"skill_id": "absent-plan"}'),
        ),
        text("I cannot."),
    ]
    with ModelServer(script) as server:
        app = open_app(tool("ledger", recorder), *SKILLS, voice=speaking(server))
        result = said(app, "m1", "use the ledger", surface=CapabilitySurface(skills=["sailing"]))
        assert server.requests[0].tools == ["load_skill_through_path", "reset_equipped_tools"]
        system = json.dumps(server.requests[0].body["messages"][0])
    assert recorder.calls == []
    assert {item.status for item in result.tool_calls} == {"not_found"}
    shown = [
        json.dumps(answer).replace(name, "□")
        for answer, name in zip(
            answers(server), ["tool_ledger", "tool.ledger", "tool.absent", "secret-plan", "absent-plan"], strict=True
        )
    ]
    assert len(set(shown[:3])) == 1
    assert shown[3] == shown[4]
    assert ("sailing" in system, "secret-plan" in system, "ledger" in system) == (True, False, False)
    denied = app.audit(user=USER, decision="denied")
    assert [row.type for row in denied] == ["tool.refused"] * 5


def test_t11_loading_a_skill_equips_its_tools_for_the_next_request(open_app: OpenApp) -> None:
    script = [
        tool_calls(("c1", "load_skill_through_path", '{"skill_id": "sailing"}')),
        tool_calls(("c2", "tool_helm", '{"text": "north"}')),
        text("Done."),
    ]
    with ModelServer(script) as server:
        group = ToolGroup(name="deck", tools=("tool.helm",), activate_on_skill="sailing")
        app = open_app(tool("helm"), *SKILLS, groups=[group], voice=speaking(server))
        result = said(app, "m1", "sail north")
    assert ["tool_helm" in seen.tools for seen in server.requests] == [False, True, True]
    assert answers(server)[0]["output"]["content"] == "# Sailing\n\nMind the wind."
    assert [item.status for item in result.tool_calls] == ["succeeded", "succeeded"]


def test_x2_parallel_calls_have_exactly_one_true_outcome_each(open_app: OpenApp, url: str) -> None:
    calls = [
        ("c1", "tool_lookup", '{"text": "a"}'),
        ("c2", "tool_recaller", '{"text": "b"}'),
        ("c3", "tool_lookup", "{broken"),
        ("c4", "tool_lookup", '{"text": "d"}'),
        ("c5", "tool_lookup", '{"text": "e"}'),
    ]
    with ModelServer([tool_calls(*calls), text("ok")]) as server:
        app = open_app(tool("lookup", max_calls_per_turn=2), *SKILLS, voice=speaking(server))
        result = said(app, "m1", "all at once")
    ids = [item["tool_call_id"] for item in server.requests[1].body["messages"] if item["role"] == "tool"]
    assert ids == ["c1", "c2", "c3", "c4", "c5"]
    assert [item.status for item in result.tool_calls] == [
        "succeeded",
        "denied",
        "invalid_input",
        "succeeded",
        "over_limit",
    ]
    assert len(rows(url, "SELECT id FROM skill_tool_executions")) == 2


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param([status(429)], "voice_rate_limited", id="429"),
        pytest.param([status(503)], "voice_unavailable", id="503"),
        pytest.param([status(401)], "voice_rejected", id="401"),
        pytest.param([cut("It ", "is", after=1)], "voice_unavailable", id="cut"),
        pytest.param([malformed()], "voice_malformed", id="malformed"),
        pytest.param([text()], "voice_empty", id="empty"),
    ],
)
def test_t10_what_goes_wrong_is_recorded_and_the_message_can_be_sent_again(
    open_app: OpenApp, script: list[Step], code: str
) -> None:
    with ModelServer([*script, text("Now it works.")]) as server:
        app = open_app(voice=speaking(server, retries=NO_RETRY))
        with pytest.raises(VoiceError) as caught:
            said(app, "m1", "hello")
        assert caught.value.code == code
        failed = [event for event in app.events() if event.type == "turn.failed"]
        assert [event.data["error_code"] for event in failed] == [caught.value.code]
        assert said(app, "m1", "hello").reply == "Now it works."
    assert [message.text for message in app.messages(CHAT)] == ["hello", "Now it works."]


def test_t10_a_cut_stream_is_no_reply(open_app: OpenApp) -> None:
    with ModelServer([cut("It ", "is ", "so", after=2), text("Whole.")]) as server:
        app = open_app(voice=speaking(server, retries=NO_RETRY))
        with pytest.raises(VoiceError) as caught:
            streamed(app, "m1", "hello")
        assert caught.value.code == "voice_cut"
        assert [message.text for message in app.messages(CHAT)] == ["hello"]
        assert streamed(app, "m1", "hello")[-1].reply == "Whole."


def test_t12_a_model_that_never_stops_calling_is_stopped(open_app: OpenApp) -> None:
    recorder = Recorder()
    limits = TurnLimits(tool_calls=5, voice=VoiceLimits(requests=4))
    with ModelServer(endless("tool_lookup", '{"text": "again"}')) as server:
        app = open_app(tool("lookup", recorder, max_calls_per_turn=4), voice=speaking(server), limits=limits)
        with pytest.raises(VoiceError) as caught:
            said(app, "m1", "hello")
        assert (caught.value.code, caught.value.detail["limit"]) == ("voice_limit", "requests")
        assert len(server.requests) == 4
        assert server.requests[-1].tools == []
    assert recorder.calls == ["again"] * 3  # the fourth request has no tools to call
    assert [event.data for event in app.events() if event.type == "turn.limited"] == [{"limit": "requests"}]


def test_t12_tokens_are_limited(open_app: OpenApp) -> None:
    script = [tool_calls(("c", "tool_lookup", '{"text": "x"}'), usage=(900, 200)), text("never shown")]
    with ModelServer(script) as server:
        app = open_app(tool("lookup"), voice=speaking(server), limits=TurnLimits(voice=VoiceLimits(tokens=1000)))
        with pytest.raises(VoiceError) as caught:
            said(app, "m1", "hello")
    assert caught.value.detail["limit"] == "tokens"
    assert [event.data for event in app.events() if event.type == "turn.limited"] == [{"limit": "tokens"}]


def test_u10_a_reply_that_nobody_waits_for_is_given_up(open_app: OpenApp) -> None:
    release = threading.Event()
    recorder = Recorder()
    with ModelServer([hang(release, "It ", "is ", "long", after=1)]) as server:
        app = open_app(tool("lookup", recorder), voice=speaking(server))

        async def leave() -> None:
            stream = app.stream(user=USER, agent=AGENT, conversation=CHAT, message_id="m1", text="hello")
            assert await anext(stream) == "It "
            await stream.aclose()  # type: ignore[attr-defined]

        asyncio.run(asyncio.wait_for(leave(), LIMIT))
        release.set()
    assert [event.data["error_code"] for event in app.events() if event.type == "turn.failed"] == ["reply_abandoned"]
    assert [message.text for message in app.messages(CHAT)] == ["hello"]
    assert recorder.calls == []


def test_r3_what_a_model_says_and_is_told_is_in_messages_alone(open_app: OpenApp, url: str) -> None:
    canary, answer = "Canary-Question-77", "Canary-Answer-88"
    with ModelServer([tool_calls(("c1", "tool_lookup", json.dumps({"text": canary}))), text(answer)]) as server:
        app = open_app(tool("lookup"), voice=speaking(server))
        said(app, "m1", f"what about {canary}?")
    assert places_of(url, canary) == {"messages.text"}
    assert places_of(url, answer) == {"messages.text"}


def test_u4_no_secret_reaches_the_model(open_app: OpenApp) -> None:
    secret = "Sk-Canary-0001-xyz"

    def leak(context: Any, _: Any) -> Any:
        return {"text": f"key {context.secrets['API_KEY'].get_secret_value()}"}

    script = [tool_calls(("c1", "tool_leaky", '{"text": "x"}')), text("done"), text("again")]
    with ModelServer(script) as server:
        app = open_app(
            tool("leaky", leak, secrets=[("API_KEY", "user")]),
            voice=speaking(server),
            secret_keys=KeyRing([bytes(32)]),
        )
        app.set_secret("API_KEY", secret, user=USER)
        said(app, "m1", f"my key is {secret}")
        said(app, "m2", "hello")
        told = json.dumps([seen.body for seen in server.requests])
    assert secret not in told
    assert answers(server, 1) == [{"status": "ok", "output": {"text": "key [secret]"}}]


def test_t1_several_agents_of_a_group_answer_one_message(open_app: OpenApp) -> None:
    def answer(seen: Request) -> Step:
        system = seen.body["messages"][0]["content"]
        return text("Ahoy." if "Mira" in system else "Moin.")

    with ModelServer(answer) as server:
        app = open_app(manual("sailing"), voice=speaking(server))
        for agent in ("mira", "nova"):
            app.turn(user=USER, agent=agent, group="crew", message_id=f"join-{agent}", text="hello")
        results = app.group_turn(user=USER, group="crew", message_id="m1", text="/sailing who is there?")
        assert [result.reply for result in results] == ["Ahoy.", "Moin."]
        history = json.dumps(server.requests[-1].body["messages"])
        assert "mira: Ahoy." in history  # what one says the next can see, with its name
        (only,) = app.group_turn(user=USER, group="crew", message_id="m2", text="@nova alone?")
        assert only.reply == "Moin."
        again = app.group_turn(user=USER, group="crew", message_id="m1", text="/sailing who is there?")
        assert [(result.reply, result.replayed) for result in again] == [("Ahoy.", True), ("Moin.", True)]
    replies = [message for message in app.messages(group="crew") if message.reply_to == "m1"]
    runs = {run.id: run.agent for run in app.runs(user=USER)}
    assert [(message.author, runs.get(message.run_id or "")) for message in replies] == [
        ("mira", "mira"),
        ("nova", "nova"),
    ]


def test_t10_the_public_name_makes_the_same_voice(open_app: OpenApp) -> None:
    with ModelServer([text("Hello.")]) as server:
        app = open_app(voice=model_voice("any", base_url=server.url, api_key="k"))
        assert turn(app, "m1", "hello").reply == "Hello."


# --- recorded conversations ------------------------------------------------------------------------------------------

CASSETTES = Path(__file__).parent.parent / "cassettes"


def play(name: str, script: Iterable[Step], act: Callable[[str], Any]) -> Any:
    """Run ``act`` with the address of a recorded model; the result, and what reached the server in its place.

    A recording is a cassette of vcrpy, made by this project against its own server, and holds no key. It is made anew
    from ``script`` with ``PROWESS_RECORD=1``, and never otherwise: a missing or differing one is a failure.
    """
    recorder = vcr.VCR(
        filter_headers=["authorization", "user-agent", "x-stainless-os", "x-stainless-arch", "host"],
        match_on=["method", "path", "body"],
        record_mode=vcr.mode.ALL if os.environ.get("PROWESS_RECORD") else vcr.mode.NONE,
    )
    with ModelServer(script) as server, recorder.use_cassette(str(CASSETTES / f"{name}.yaml")):
        return act(server.url), server.requests


def test_t10_a_recorded_conversation_is_a_whole_governed_turn(open_app: OpenApp) -> None:
    script = [
        tool_calls(
            ("c1", "tool_ledger", '{"text": "all"}'), ("c2", "load_skill_through_path", '{"skill_id": "sailing"}')
        ),
        tool_calls(("c3", "tool_lookup", '{"text": "tide"}')),
        text("High tide ", "at noon; ", "mind the wind."),
    ]

    def act(url: str) -> TurnResult:
        app = open_app(
            tool("lookup"), tool("ledger"), *SKILLS, voice=adapter_voice("recorded", base_url=url, api_key="k")
        )
        surface = CapabilitySurface(skills=["sailing", "lookup"])
        return said(app, "m1", "When is high tide?", surface=surface)

    result, asked = play("governed-turn", script, act)
    assert result.reply == "High tide at noon; mind the wind."
    assert [(item.tool, item.status) for item in result.tool_calls] == [
        ("tool_ledger", "not_found"),
        ("load_skill_through_path", "succeeded"),
        ("tool.lookup", "succeeded"),
    ]
    assert asked == [] or os.environ.get("PROWESS_RECORD")  # the recording answered, not the server
    assert "Bearer" not in (CASSETTES / "governed-turn.yaml").read_text()


def test_t10_a_conversation_that_differs_from_its_recording_fails(open_app: OpenApp) -> None:
    def act(url: str) -> TurnResult:
        app = open_app(
            tool("lookup"),
            tool("ledger"),
            *SKILLS,
            voice=adapter_voice("recorded", base_url=url, api_key="k", retries=NO_RETRY),
        )
        return said(app, "m1", "When is LOW tide?", surface=CapabilitySurface(skills=["sailing", "lookup"]))

    with pytest.raises(VoiceError):
        play("governed-turn", [text("not recorded")], act)
