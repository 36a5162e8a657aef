"""A secret reaches the tool that declares it, and nothing that is stored, logged, exported or told to a model (U4)."""

from __future__ import annotations

import base64
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.kit import (
    AGENT,
    CHAT,
    USER,
    OpenApp,
    ScriptedVoice,
    interview,
    manual,
    places_of,
    request,
    tool,
    turn,
)

from prowess import InvalidInput, Prowess, ProwessError, SecretOwner, ToolContext
from prowess.secrets.keys import KeyRing

CANARY = 'sk-Canary/7f3a"9Q\\x é#0001'
FORMS = (
    CANARY,
    json.dumps(CANARY)[1:-1],
    json.dumps(CANARY, ensure_ascii=False)[1:-1],
    base64.b64encode(CANARY.encode()).decode(),
    CANARY.encode().hex(),
)


class Anything(BaseModel):
    """A tool that takes what it is given."""

    text: str = ""
    config: dict[str, Any] = {}


class Told(BaseModel):
    """And returns something."""

    text: str
    nested: dict[str, Any] = {}


def leak(context: ToolContext, asked: Anything) -> Any:
    value = context.secrets["API_KEY"].get_secret_value()
    print(value)
    os.write(2, value.encode())
    if asked.text == "raise":
        raise RuntimeError(f"cannot use {value}")
    return {"text": f"used {value}", "nested": {value: [value, {"url": f"https://h/?k={value}"}]}}


def leaking(**changed: Any) -> Any:
    fields: dict[str, Any] = {
        "input_schema": Anything,
        "output_schema": Told,
        "max_calls_per_turn": 4,
        "secrets": [("API_KEY", "user")],
        "build_input": lambda asked: {"text": asked.text},
    }
    return tool("leaky", leak, **{**fields, **changed})


@pytest.fixture
def keys() -> KeyRing:
    return KeyRing([bytes(range(32))])


@pytest.fixture
def voice() -> ScriptedVoice:
    return ScriptedVoice(history_length=20)


@pytest.fixture
def app(open_app: OpenApp, keys: KeyRing, voice: ScriptedVoice) -> Prowess:
    opened = open_app(leaking(), manual("notes"), interview("survey"), voice=voice, secret_keys=keys)
    opened.set_secret("API_KEY", CANARY, user=USER)
    return opened


def test_u4_a_canary_on_every_road_leaves_no_trace(
    app: Prowess, url: str, voice: ScriptedVoice, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[Any] = []
    plan = app.begin(request("m1", "hello"))
    for arguments in (
        {"text": CANARY},
        {"text": "raise"},
        {"config": {"key": CANARY, "deep": [{"x": CANARY}]}},
        {"text": 5, "more": CANARY},
        CANARY,
    ):
        shown.append(app.call(plan, "tool.leaky", arguments).to_json())
    shown.append(app.call(plan, CANARY, {}).to_json())
    shown.append(app.finish(plan, f"I used {CANARY}").events)
    for number, text in enumerate([f"/leaky {CANARY}", f"my key is {CANARY}", f"/survey {CANARY}", f"answer {CANARY}"]):
        result = turn(app, f"t{number}", text)
        shown += [result.instruction, result.events, result.tool_calls]
    app.cancel_session(app.sessions(user=USER)[0].id, user=USER)
    app.add_memory(USER, AGENT, f"remember {CANARY} please")
    app.create_agent("nova", persona=f"Your key is {CANARY}.")
    turn(app, "again", f"my key is {CANARY}")

    hits = {form: places_of(url, form) for form in FORMS}
    assert hits == {form: set() for form in FORMS}
    exported = [
        [event.to_json() for event in app.events(limit=10_000)],
        [event.to_json() for event in app.audit(limit=10_000)],
        app.export_memories(user=USER),
        [message.text for message in app.messages(CHAT)],
        [info.to_json() for info in app.secrets()],
        [session.to_json() for session in app.sessions(user=USER)],
        [run.to_json() for run in app.runs(user=USER)],
        shown,
        [repr(prompt) for prompt in voice.prompts],
    ]
    told = json.dumps(exported, ensure_ascii=False, default=str)
    for form in FORMS:
        for part, piece in enumerate(exported):
            assert form not in json.dumps(piece, ensure_ascii=False, default=str), part
        assert form not in caplog.text
    assert "[secret]" in told  # it was there, and was taken out
    out, err = capfd.readouterr()
    assert CANARY in out + err  # the tool really had it, and said it to its own standard output


def test_u4_the_tool_gets_the_callers_own(open_app: OpenApp, keys: KeyRing) -> None:
    seen: list[tuple[str, str]] = []

    def note(context: ToolContext, asked: Anything) -> Any:
        seen.append((context.user, context.secrets["API_KEY"].get_secret_value()))
        assert "Secret-of" not in repr(context)
        return {"text": "done"}

    app = open_app(
        tool("shared", note, input_schema=Anything, output_schema=Told, secrets=[("API_KEY", "user")]), secret_keys=keys
    )
    for user in ("ann", "bob"):
        app.set_secret("API_KEY", f"Secret-of-{user}-1", user=user)
    for number, user in enumerate(["ann", "bob", "ann"]):
        plan = app.begin(request(f"m{number}", "hello", user=user, conversation=user))
        assert app.call(plan, "tool.shared", {}).status == "succeeded"
    assert seen == [("ann", "Secret-of-ann-1"), ("bob", "Secret-of-bob-1"), ("ann", "Secret-of-ann-1")]


def test_u4_missing_fails_and_never_falls_back(open_app: OpenApp, keys: KeyRing) -> None:
    ran: list[str] = []
    app = open_app(
        tool(
            "shared",
            lambda context, asked: ran.append(context.user),
            input_schema=Anything,
            output_schema=Told,
            secrets=[("API_KEY", "user")],
            max_calls_per_turn=4,
        ),
        secret_keys=keys,
    )
    app.set_secret("API_KEY", "Tenant-Secret-1")
    app.set_secret("API_KEY", "Skill-Secret-1", skill="shared")
    app.set_secret("API_KEY", "Other-Secret-1", user="bob")
    plan = app.begin(request("m1", "hello", user="ann", conversation="a"))
    outcome = app.call(plan, "tool.shared", {})
    assert (outcome.status, outcome.error_code, ran) == ("failed", "secret_missing", [])
    assert "credential" in (outcome.message or "")
    app.set_secret("API_KEY", "Ann-Secret-01", user="ann")
    app.delete_secret("API_KEY", user="ann")
    assert app.call(plan, "tool.shared", {}).error_code == "secret_missing"
    assert ran == []


def test_u4_tenant_and_skill_slots_serve_who_declares_them(open_app: OpenApp, keys: KeyRing) -> None:
    seen: dict[str, str] = {}

    def note(context: ToolContext, asked: Anything) -> Any:
        seen.update({name: value.get_secret_value() for name, value in context.secrets.items()})
        return {"text": "done"}

    slots = [("ORG_KEY", "tenant"), ("OWN_KEY", "skill")]
    app = open_app(tool("shared", note, input_schema=Anything, output_schema=Told, secrets=slots), secret_keys=keys)
    app.set_secret("ORG_KEY", "Org-Secret-01")
    app.set_secret("OWN_KEY", "Own-Secret-01", skill="shared")
    app.set_secret("API_KEY", "Api-Secret-01", user=USER)
    assert app.call(app.begin(request("m1", "hello")), "tool.shared", {}).status == "succeeded"
    assert seen == {"ORG_KEY": "Org-Secret-01", "OWN_KEY": "Own-Secret-01"}  # and nothing that was not declared
    assert [(info.owner, info.name) for info in app.secrets(skill="shared")] == [
        (SecretOwner("skill", "shared"), "OWN_KEY")
    ]


def test_u4_without_a_key_nothing_is_stored_and_tools_say_so(open_app: OpenApp) -> None:
    app = open_app(leaking())
    with pytest.raises(ProwessError) as caught:
        app.set_secret("API_KEY", CANARY, user=USER)
    assert caught.value.code == "secret_key_missing"
    assert CANARY not in str(caught.value)
    outcome = app.call(app.begin(request("m1", "hello")), "tool.leaky", {})
    assert outcome.error_code == "secret_missing"
    with pytest.raises(InvalidInput):
        app.set_secret("API_KEY", CANARY, user=USER, skill="leaky")


def test_u4_a_key_file_that_cannot_be_used_stops_the_start(open_app: OpenApp, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("not a key")
    file.chmod(0o600)
    for given, code in ((file, "secret_key_malformed"), (tmp_path / "absent", "secret_key_missing")):
        with pytest.raises(ProwessError) as caught:
            open_app(secret_keys=given)
        assert caught.value.code == code


def test_u2_u4_another_tenants_text_is_its_own(app: Prowess, url: str) -> None:
    app.turn(tenant="t2", user=USER, agent=AGENT, conversation="c2", message_id="m1", text=f"say {CANARY}")
    (said, *_) = app.messages("c2", tenant="t2")
    assert said.text == f"say {CANARY}"
    assert places_of(url, CANARY) == {"messages.text"}
