"""The chat through a pipe, and what it does with each command. The terminal itself is in tests/e2e."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from typer.testing import Result

import prowess
from prowess.cli import output
from prowess.cli.chat import Chat

Run = Callable[..., Result]


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_script_gets_a_document_for_every_line(run: Run) -> None:
    said = "Help me plan my goals for the next three months\n\nOne hour a day\n/new\n/exit\nnever read\n"
    result = run("chat", "--json", stdin=said)
    assert (result.exit_code, result.stderr) == (0, "")
    first, second, begun = lines(result)
    assert first["session"]["id"] == second["session"]["id"]
    assert second["session"]["revision"] == 2
    assert begun["conversation"].startswith("chat-")


def test_replies_alone_are_on_standard_output(run: Run) -> None:
    result = run("chat", stdin="Help me plan my goals for the next three months\n")
    assert "used long-term-goal-planning" in result.stderr
    assert "used long-term-goal-planning" not in result.stdout
    assert ">" not in result.stdout


def test_a_line_that_cannot_be_served_does_not_end_the_chat(run: Run) -> None:
    result = run("chat", "--json", stdin="a\x07b\nhello\n")
    refused, served = lines(result)
    assert refused["error"]["code"] == "control_character"
    assert served["reply"]
    assert result.exit_code == 1


def test_own_commands_are_answered_without_a_turn(run: Run) -> None:
    run("memory", "add", "--text", "I like tea")
    result = run("chat", "--json", stdin="/help\n/skills\n/memory\n/skill memory\n")
    listed, skills, memories, turn = lines(result)
    meanings = {item["command"]: item["meaning"] for item in listed["commands"]}
    assert meanings["/help"] == "what can be typed here"
    assert {"/cancel-skill", "/exit", "/memory", "/memory-recall", "/new", "/skills"} <= meanings.keys()
    assert all(meanings.values())
    assert [item["command"] for item in skills["skills"]] == [
        "/daily-planning", "/daily-report", "/long-term-goal-planning", "/meeting-minutes",
        "/memory-recall", "/propose-automation",
    ]  # fmt: skip
    assert [item["text"] for item in memories["memories"]] == ["I like tea"]
    assert "turn.completed" in turn["events"]  # C21: /skill reaches past a command of the same name


def test_the_lists_are_readable_in_chinese(run: Run) -> None:
    result = run("chat", "--lang", "zh", stdin="/help\n/memory\n/new\n")
    assert "取消正在进行的任务" in result.stdout
    assert "还没有记忆" in result.stdout
    assert "新会话：chat-" in result.stdout


class Interrupted:
    """An app whose reply is stopped by Ctrl-C after its first piece, which holds what a terminal would obey."""

    async def stream(self, **_asked: Any) -> AsyncIterator[str]:
        yield "half a\x1b[2J reply"
        raise KeyboardInterrupt


def test_ctrl_c_stops_the_reply_and_not_the_chat(capsys: pytest.CaptureFixture[str]) -> None:
    output.set_language("en")
    app: Any = Interrupted()

    def chat(interactive: bool) -> Chat:
        return Chat(app, tenant="default", user="me", agent="mira", conversation="main", interactive=interactive)

    assert chat(interactive=True).handle("hello") is True
    printed = capsys.readouterr().out
    assert r"half a\x1b[2J reply" in printed
    assert printed.endswith("\nStopped.\n")
    with pytest.raises(KeyboardInterrupt):
        chat(interactive=False).handle("hello")


def test_own_commands_store_nothing() -> None:
    with prowess.open("sqlite://") as app:
        chat = Chat(app, tenant="default", user="me", agent="mira", conversation="main")
        assert [chat.handle(text) for text in ("/help", "/skills", "/memory", "/new", "/exit", "/quit")] == [
            True, True, True, True, False, False,
        ]  # fmt: skip
        assert app.events() == []
