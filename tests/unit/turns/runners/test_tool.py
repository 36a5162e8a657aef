"""Running a handler: time limit, cancellation, honest failures (X2). Nothing here sleeps: handlers wait for events."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator
from tests.support.kit import LIMIT, Answer, Question, tool

from prowess.kernel.clock import ManualClock
from prowess.turns.definitions import CancelToken, ToolContext, ToolSkill
from prowess.turns.runners.tool import ToolFailure, execute, failure_instruction, input_faults, validate_input


@pytest.fixture
def context(clock: ManualClock) -> ToolContext:
    return ToolContext("default", "u1", "mira", "en", clock.now(), CancelToken())


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets handlers go that would wait for ever."""
    event = threading.Event()
    yield event
    event.set()


def failure(skill: ToolSkill, context: ToolContext) -> str:
    with pytest.raises(ToolFailure) as failed:
        execute(skill, context, Question(text="x"))
    return failed.value.code


@pytest.mark.parametrize(
    "returned",
    [Answer(text="yes"), {"text": "yes"}, type("Row", (), {"text": "yes"})()],
    ids=["model", "map", "object"],
)
def test_x2_output_is_validated_whatever_its_form(context: ToolContext, returned: Any) -> None:
    assert execute(tool("t", lambda _c, _q: returned), context, Question(text="x")) == Answer(text="yes")
    assert not context.cancel.cancelled


@pytest.mark.parametrize(
    "returned",
    [None, {}, {"text": 7}, "yes", object(), {"txt": "yes"}],
    ids=["none", "empty", "7", "text", "object", "key"],
)
def test_x2_an_invalid_output_is_a_failure(context: ToolContext, returned: Any) -> None:
    assert failure(tool("t", lambda _c, _q: returned), context) == "invalid_output"


def test_x2_an_output_schema_that_raises_is_a_failure(context: ToolContext) -> None:
    class Fussy(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def _fuss(cls, value: str) -> str:
            raise KeyError(value)

    class Row:
        @property
        def text(self) -> str:
            raise RuntimeError("gone")

    assert failure(tool("t", output_schema=Fussy), context) == "invalid_output"
    assert failure(tool("t", lambda _c, _q: Row()), context) == "invalid_output"


@pytest.mark.parametrize(
    "error", [ValueError("secret"), KeyError("secret"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=repr
)
def test_x2_a_handler_that_raises_is_a_failure(
    context: ToolContext, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_it(_context: ToolContext, _question: Any) -> Any:
        raise error

    with caplog.at_level(logging.DEBUG):
        assert failure(tool("t", raise_it), context) == "tool_error"
    assert "secret" not in caplog.text
    assert type(error).__name__ in caplog.text


def test_x2_a_handler_over_its_time_is_told_and_its_result_thrown_away(
    context: ToolContext, release: threading.Event
) -> None:
    told = threading.Event()

    def wait(context: ToolContext, _question: Any) -> Answer:
        release.wait(LIMIT)
        if context.cancel.cancelled:
            told.set()
        return Answer(text="too late")

    assert failure(tool("t", wait, timeout=timedelta(milliseconds=100)), context) == "timeout"
    assert context.cancel.cancelled
    release.set()
    assert told.wait(LIMIT)


def test_x2_a_handler_runs_in_a_thread_that_does_not_keep_the_process(context: ToolContext) -> None:
    seen: list[threading.Thread] = []

    def note(_context: ToolContext, _question: Any) -> Answer:
        seen.append(threading.current_thread())
        return Answer(text="x")

    execute(tool("t", note), context, Question(text="x"))
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon


def test_x2_faults_name_places_and_never_values() -> None:
    with pytest.raises(ValidationError) as refused:
        validate_input(tool("t"), {"text": 7, "number": "much", "secret-key": "secret-value"})
    faults = input_faults(refused.value)
    assert sorted((fault["place"], fault["fault"]) for fault in faults) == [
        ("number", "float_parsing"),
        ("secret-key", "extra_forbidden"),
        ("text", "string_type"),
    ]
    assert "secret-value" not in str(faults)
    assert "much" not in str(faults)


@pytest.mark.parametrize("arguments", [None, 7, "text", [("text",)]], ids=repr)
def test_x2_arguments_that_are_no_mapping_are_refused(arguments: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        validate_input(tool("t"), arguments)


@pytest.mark.parametrize("code", ["timeout", "tool_error", "invalid_output", "invalid_input", "anything"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_x2_a_failure_is_told_honestly_in_both_languages(code: str, language: str) -> None:
    said = failure_instruction(tool("t", display_name="Lookup"), code, language)
    assert said.language == language
    assert "Lookup" in said.text
    assert "Lookup" in said.say[0]
    assert not said.text.startswith("instruct.")
    assert not said.say[0].startswith("say.")
