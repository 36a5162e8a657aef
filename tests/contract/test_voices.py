"""The voice is a port: it speaks between transactions, and its failure loses nothing (T9, T10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.kit import OpenApp, Recorder, ScriptedVoice, everything, interview, manual, request, rows, tool, turn

from prowess import Prompt, Prowess, TurnResult
from prowess.errors import VoiceError


@pytest.fixture
def voice() -> ScriptedVoice:
    return ScriptedVoice()


def run_rows(url: str) -> list[tuple[str, str | None]]:
    return [(row["status"], row["error_code"]) for row in rows(url, "SELECT status, error_code FROM skill_runs")]


@pytest.fixture(params=["slow", "instant"])
def failing(request: pytest.FixtureRequest) -> ScriptedVoice:
    return ScriptedVoice(instant=request.param == "instant")


@pytest.mark.parametrize("words", ["/interview", "/notes", "/lookup x", "hello"])
def test_t10_a_voice_that_fails_loses_nothing(open_app: OpenApp, url: str, failing: ScriptedVoice, words: str) -> None:
    app = open_app(interview(), manual("notes"), tool("lookup"), voice=failing)
    failing.error = ConnectionError("secret address of the model")
    with pytest.raises(VoiceError) as refused:
        turn(app, "m1", words)
    assert (refused.value.code, refused.value.detail) == ("voice_failed", {"cause": "ConnectionError"})
    assert "secret" not in str(refused.value)
    expected_runs = [] if words == "hello" else [("failed", "voice_failed")]
    assert run_rows(url) == expected_runs
    assert [event.type for event in app.events()].count("turn.failed") == 1
    assert [message.author_kind for message in app.messages("c1")] == ["user"]

    failing.error = None
    result = turn(app, "m1", words)
    assert result.replayed
    assert [message.text for message in app.messages("c1")] == [words, result.reply]
    assert [status for status, _ in run_rows(url)] == ([] if words == "hello" else [result.run and result.run.status])
    assert {error for _, error in run_rows(url)} <= {None}
    assert [event.type for event in app.events()].count("turn.completed") == 1
    if words == "/interview":
        assert [session.revision for session in app.sessions(user="u1")] == [1]


def test_t10_an_error_of_the_port_keeps_its_code(open_app: OpenApp, voice: ScriptedVoice) -> None:
    app = open_app(voice=voice)
    voice.error = VoiceError("voice_failed", cause="quota")
    with pytest.raises(VoiceError) as refused:
        turn(app, "m1", "hello")
    assert refused.value is voice.error
    (failed,) = [event for event in app.events() if event.type == "turn.failed"]
    assert failed.data == {"error_code": "voice_failed", "origin": "user"}


@pytest.mark.parametrize("reply", ["", "  \n", "bell \x07", "x" * 200_001], ids=["empty", "space", "control", "long"])
def test_t10_a_reply_that_cannot_be_stored_is_the_voices_failure(
    open_app: OpenApp, url: str, failing: ScriptedVoice, reply: str
) -> None:
    app = open_app(manual("notes"), voice=failing)
    failing.reply = reply
    with pytest.raises(VoiceError) as refused:
        turn(app, "m1", "/notes")
    assert refused.value.code == "voice_failed"
    assert run_rows(url) == [("failed", "voice_failed")]
    with pytest.raises(VoiceError):
        asyncio.run(_aturn(app, "m1", "/notes"))
    failing.reply = "better"
    assert turn(app, "m1", "/notes").reply == "better"
    assert run_rows(url) == [("completed", None)]


def test_t9_the_voice_gets_the_agents_manner_and_the_instruction(open_app: OpenApp, voice: ScriptedVoice) -> None:
    app = open_app(manual("notes"), voice=voice)
    app.create_agent("mira", name="Mira Bell", persona="Dry wit.")
    turn(app, "m1", "/notes 给我看看")
    turn(app, "m2", "hello")
    noted, plain = voice.prompts
    assert (noted.agent_name, noted.persona, noted.language, noted.text) == (
        "Mira Bell",
        "Dry wit.",
        "zh",
        "/notes 给我看看",
    )
    assert noted.instruction is not None
    assert "Do as notes says." in noted.instruction.text
    assert replace(plain, toolbox=None, skills=(), stop=None) == Prompt(
        "Mira Bell", "Dry wit.", "en", "hello", None, ()
    )


def test_t10_a_voice_gets_as_much_history_as_it_wants(open_app: OpenApp) -> None:
    voice = ScriptedVoice(history_length=3)
    app = open_app(voice=voice)
    for number in range(4):
        turn(app, f"m{number}", f"words {number}")
    assert [(line.role, line.text) for line in voice.prompts[0].history] == []
    assert [(line.role, line.text) for line in voice.prompts[-1].history] == [
        ("agent", "plain"),
        ("user", "words 2"),
        ("agent", "plain"),
    ]


def test_t9_no_transaction_is_open_while_the_voice_speaks(open_app: OpenApp) -> None:
    """Rule 2 of the house. A voice that writes through the same runtime would wait for itself."""

    class Noting(ScriptedVoice):
        app: Prowess

        def speak(self, prompt: Prompt) -> str:
            self.app.add_memory("u1", "mira", f"heard {len(self.app.memories(user='u1'))}")
            return super().speak(prompt)

    for instant in (False, True):
        voice = Noting(instant=instant)
        voice.app = open_app(manual("notes"), voice=voice)
        turn(voice.app, f"m {instant}", "/notes")
    assert len(voice.app.memories(user="u1")) == 2


def test_t10_the_name_of_the_voice_is_recorded(open_app: OpenApp, voice: ScriptedVoice) -> None:
    app = open_app(voice=voice)
    turn(app, "m1", "hello")
    assert [event.data for event in app.events() if event.type == "turn.completed"] == [{"voice": "scripted"}]


# --- the asynchronous edge -------------------------------------------------------------------------------------------


async def _aturn(app: Prowess, message_id: str, words: str, **changed: Any) -> TurnResult:
    asked = request(message_id, words, **changed)
    return await app.aturn(
        user=asked.user,
        agent=asked.agent,
        conversation=asked.conversation,
        group=asked.group,
        message_id=message_id,
        text=words,
    )


async def _stream(app: Prowess, message_id: str, words: str) -> list[Any]:
    return [
        piece
        async for piece in app.stream(user="u1", agent="mira", conversation="c1", message_id=message_id, text=words)
    ]


def test_t1_aturn_is_the_twin_of_turn(open_app: OpenApp) -> None:
    app = open_app(interview(), tool("lookup"))
    for number, words in enumerate(["hello", "/interview", "one", "/lookup x", "/nosuch"]):
        one = turn(app, f"m{number}", words)
        other = asyncio.run(_aturn(app, f"m{number}", words, conversation="c2"))
        assert (other.reply.strip(), other.selection, other.instruction) == (one.reply, one.selection, one.instruction)
        assert asyncio.run(_aturn(app, f"m{number}", words)).replayed
    assert len(app.messages("c2")) == 10


def test_t1_a_stream_gives_pieces_and_then_the_result(open_app: OpenApp) -> None:
    app = open_app(interview())
    *pieces, result = asyncio.run(_stream(app, "m1", "/interview"))
    assert pieces == ["interview ", "question ", "1? "]
    assert isinstance(result, TurnResult)
    assert result.reply == "".join(pieces) == app.messages("c1")[-1].text
    *pieces, again = asyncio.run(_stream(app, "m1", "/interview"))
    assert (pieces, again.replayed) == ([result.reply], True)


def test_t10_a_stream_that_breaks_off_can_be_taken_up_again(open_app: OpenApp, url: str) -> None:
    class Breaking(ScriptedVoice):
        async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
            yield "interview "
            if self.error is not None:
                raise self.error

    voice = Breaking()
    voice.error = TimeoutError()
    app = open_app(interview(), voice=voice)
    with pytest.raises(VoiceError) as refused:
        asyncio.run(_stream(app, "m1", "/interview"))
    assert refused.value.detail == {"cause": "TimeoutError"}
    assert run_rows(url) == [("failed", "voice_failed")]
    voice.error = None
    assert asyncio.run(_stream(app, "m1", "/interview"))[-1].replayed
    assert run_rows(url) == [("waiting_user", None)]
    assert len(app.messages("c1")) == 2


def test_u7_a_listener_who_leaves_is_a_turn_without_a_reply(open_app: OpenApp, url: str) -> None:
    app = open_app(manual("notes", say={"en": ("one two three",)}))

    async def leave() -> None:
        stream = app.stream(user="u1", agent="mira", conversation="c1", message_id="m1", text="/notes")
        async for piece in stream:
            assert piece == "one "
            break
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert run_rows(url) == [("failed", "reply_abandoned")]
    assert [event.type for event in app.events()].count("turn.failed") == 1
    assert turn(app, "m1", "/notes").reply == "one two three"
    assert run_rows(url) == [("completed", None)]


def test_u7_a_turn_that_is_cancelled_is_a_turn_without_a_reply(open_app: OpenApp, url: str) -> None:
    class Hanging(ScriptedVoice):
        async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
            speaking.set()
            await asyncio.Event().wait()
            yield "never"

    speaking = asyncio.Event()
    app = open_app(manual("notes"), voice=Hanging())

    async def cancel() -> None:
        task = asyncio.create_task(_aturn(app, "m1", "/notes"))
        await asyncio.wait_for(speaking.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert run_rows(url) == [("failed", "reply_abandoned")]


def test_t1_many_turns_at_once_in_one_loop(open_app: OpenApp) -> None:
    app = open_app(interview())

    async def many() -> list[TurnResult]:
        return await asyncio.gather(
            *(_aturn(app, "m1", "/interview", conversation=f"c{number}") for number in range(12))
        )

    results = asyncio.run(many())
    assert {result.reply.strip() for result in results} == {"interview question 1?"}
    assert len(app.sessions(user="u1")) == 12


def test_t10_without_a_model_the_offline_voice_says_so(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder), voice=None)
    first = turn(app, "m1", "/lookup where?")
    assert "answer 1 to where?" in first.reply
    before = everything(url)
    assert turn(app, "m1", "/lookup where?").reply == first.reply
    assert everything(url) == before
    assert recorder.calls == ["where?"]
