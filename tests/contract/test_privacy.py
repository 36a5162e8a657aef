"""What people say stays where it belongs (X3, R3): a canary is looked for in every column of every table."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.support.kit import (
    Answer,
    OpenApp,
    Question,
    Recorder,
    ScriptedVoice,
    interview,
    manual,
    places_of,
    recaller,
    request,
    tool,
    turn,
)

from prowess import Instruction, ToolContext
from prowess.errors import ProwessError

CANARY = "Kanarienvogel金丝雀"


def echo(_context: ToolContext, question: Question) -> Answer:
    return Answer(text=f"{CANARY} answers {question.text}")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Any:
    """No canary in what is logged, in any test of this file."""
    with caplog.at_level(logging.DEBUG, logger="prowess"):
        yield
    assert CANARY not in caplog.text


def silent() -> ScriptedVoice:
    """A voice that does not repeat what it was told."""
    voice = ScriptedVoice()
    voice.reply = "understood"
    return voice


@pytest.mark.parametrize("words", [CANARY, f"/notes {CANARY}", f"/lookup {CANARY}", f"/cancel-skill {CANARY}"])
def test_r3_what_a_user_says_is_stored_as_a_message_and_nowhere_else(open_app: OpenApp, url: str, words: str) -> None:
    app = open_app(manual("notes"), tool("lookup"), voice=silent())
    turn(app, "m1", words)
    assert places_of(url, CANARY) == {"messages.text"}


def test_r3_what_an_agent_replies_is_stored_as_a_message_and_nowhere_else(open_app: OpenApp, url: str) -> None:
    voice = ScriptedVoice()
    voice.reply = CANARY
    app = open_app(manual("notes"), interview(), voice=voice)
    for number, words in enumerate(["hello", "/notes", "/interview", "one"]):
        turn(app, f"m{number}", words)
    assert places_of(url, CANARY) == {"messages.text"}


def test_r3_w12_answers_to_a_workflow_stay_in_its_state_and_instructions(open_app: OpenApp, url: str) -> None:
    def ask(turn_: Any) -> Any:
        plain = interview().run_turn(turn_)
        said = Instruction(f"The user said {turn_.text}.", ("noted",), "en")
        return type(plain)(plain.state, plain.step, plain.status, plain.pending_question, said)

    app = open_app(interview(run_turn=ask), voice=silent())
    turn(app, "m1", "/interview")
    turn(app, "m2", CANARY)
    turn(app, "m3", f"/interview {CANARY}")
    turn(app, "m4", "/cancel-skill")
    assert places_of(url, CANARY) == {"messages.text", "skill_sessions.state_json", "turns.instruction"}
    assert CANARY not in str([session.to_json() for session in app.sessions(user="u1")])


def test_x3_tool_input_and_output_are_never_stored(open_app: OpenApp, url: str) -> None:
    app = open_app(tool("lookup", echo), voice=silent())
    turn(app, "m1", "/lookup now")
    assert places_of(url, CANARY) == set()
    plan = app.begin(request("m2", "hello"))
    outcome = app.call(plan, "tool.lookup", {"text": f"input {CANARY}"})
    assert outcome.output == Answer(text=f"{CANARY} answers input {CANARY}")
    app.finish(plan, "done")
    assert places_of(url, CANARY) == set()


def test_x3_a_recalled_memory_is_stored_where_it_was_and_nowhere_else(open_app: OpenApp, url: str) -> None:
    app = open_app(recaller(), voice=silent())
    app.grant(user="u1", skill="recaller", code="memory:read")
    app.add_memory("u1", "mira", f"{CANARY} likes tea")
    result = turn(app, "m1", "/recaller tea")
    assert CANARY in str(result.instruction)
    assert places_of(url, CANARY) == {"memories.text"}
    voiced = turn(open_app(recaller()), "m2", "/recaller tea")
    assert CANARY in voiced.reply
    assert places_of(url, CANARY) == {"memories.text", "messages.text"}


def test_x3_the_words_of_a_failure_are_never_stored(open_app: OpenApp, url: str) -> None:
    def fail(_context: ToolContext, question: Question) -> Answer:
        raise ValueError(f"{CANARY} {question.text}")

    def refuse(_turn: Any) -> Any:
        raise LookupError(CANARY)

    def wrong(_context: ToolContext, _question: Question) -> Any:
        return {"text": {CANARY: CANARY}}

    def instruct(_output: Any, _language: str) -> Instruction:
        raise KeyError(CANARY)

    skills = [
        tool("fail", fail),
        tool("refuse", build_input=refuse),
        tool("wrong", wrong),
        tool("silent", build_system_instruction=instruct),
        tool("strict", build_input=lambda _turn: {"text": "x", CANARY: CANARY, "number": CANARY}),
    ]
    voice = silent()
    app = open_app(*skills, voice=voice)
    for skill in skills:
        assert CANARY not in str(turn(app, skill.manifest.id, f"/{skill.manifest.id}"))
    voice.error = ConnectionError(CANARY)
    with pytest.raises(ProwessError) as failed:
        turn(app, "m9", "hello")
    assert CANARY not in str(failed.value.to_json())
    assert places_of(url, CANARY) == set()


def test_x3_a_handler_over_its_time_leaves_nothing(open_app: OpenApp, url: str) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder), voice=silent())
    plan = app.begin(request("m1", "hello"))
    for arguments in ({"text": CANARY}, {"text": CANARY, "number": CANARY}, {CANARY: 1}, {"text": [CANARY]}):
        app.call(plan, "tool.lookup", arguments)
    app.finish(plan, "done")
    assert places_of(url, CANARY) == set()


def test_r3_the_audit_view_holds_no_words_at_all(open_app: OpenApp, url: str) -> None:
    app = open_app(recaller(), tool("lookup", echo), interview(), manual("notes"))
    app.grant(user="u1", skill="recaller", code="memory:read")
    memory = app.add_memory("u1", "mira", f"{CANARY} likes tea")
    app.correct_memory(user="u1", memory_id=memory.id, text=f"{CANARY} likes coffee")
    app.create_agent("nova", persona=CANARY)
    for number, words in enumerate(["/interview", CANARY, "/recaller coffee", f"/lookup {CANARY}", "/cancel-skill"]):
        turn(app, f"m{number}", words)
    app.export_memories(user="u1")
    found = places_of(url, CANARY)
    assert {"memories.text", "messages.text", "agents.persona", "skill_sessions.state_json"} <= found
    forbidden = {"events", "skill_audit_events", "skill_runs", "skill_tool_executions", "skill_permission_grants"}
    assert {place for place in found if place.split(".")[0] in forbidden} == set()
    assert CANARY not in str([event.to_json() for event in app.audit(limit=1000)])
    assert CANARY not in str([run.to_json() for run in app.runs(user="u1")])
    assert len(app.audit(limit=1000)) >= 8
