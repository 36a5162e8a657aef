"""``turn`` and ``select``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Call = Callable[..., Any]


def test_a_line_break_of_the_shell_is_no_part_of_what_is_said(document: Call) -> None:
    first = document("turn", "--text", "-", "--message-id", "m1", stdin="hello\n")
    again = document("turn", "--text", "hello", "--message-id", "m1")
    assert (first["replayed"], again["replayed"]) == (False, True)


def test_the_result_is_for_people_without_json(run: Run) -> None:
    result = run("turn", "--text", "Help me plan my goals for the next three months")
    assert "three months" in result.stdout
    assert result.stderr == "  used long-term-goal-planning · waiting for your answer\n"


def test_the_clock_stands_where_it_is_told_to(document: Call) -> None:
    document("turn", "--text", "/daily-planning", "--now", "2026-03-01T09:00:00+08:00")
    assert document("runs", "list")["runs"][0]["started_at"] == "2026-03-01T01:00:00.000Z"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "text_empty"),
        (" \n ", "text_empty"),
        ("x" * 40_000, "text_too_long"),
        ("a\x07b", "control_character"),
        ("a\udcffb", "control_character"),
    ],
)
def test_bad_text_is_refused_and_nothing_is_stored(document: Call, error: Call, text: str, code: str) -> None:
    assert error("turn", "--text", text, "--message-id", "m1")["code"] == code
    assert document("agents", "list")["agents"] == []
    assert document("turn", "--text", "hello", "--message-id", "m1")["replayed"] is False


def test_a_message_id_used_for_another_text_is_refused(document: Call, error: Call) -> None:
    before = document("turn", "--text", "hello", "--message-id", "m1")
    assert error("turn", "--text", "something else", "--message-id", "m1")["code"] == "message_id_reused"
    assert document("turn", "--text", "hello", "--message-id", "m1")["reply"] == before["reply"]


def select(run: Run, lines: str | bytes, tmp_path: Path) -> list[dict[str, Any]]:
    source = tmp_path / "lines.jsonl"
    source.write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    result = run("select", "--input", str(source))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == any("error" in answer for answer in answers)
    assert not list(tmp_path.glob("*.db"))
    return answers


def test_a_bad_line_is_answered_in_its_place_and_the_others_go_on(run: Run, tmp_path: Path) -> None:
    lines = (
        b'\xef\xbb\xbf{"text": "Help me plan my day tomorrow"}\r\n'  # as some editors begin and end a file
        b"not json\n\n[]\n"
        b'{"text": "a\xffb"}\n{"text": 7}\n{}\n{"text": "hi", "scope": ["moon"]}\n{"text": "/nothing"}'
    )
    answers = select(run, lines, tmp_path)
    assert answers[0]["selection"]["skill_id"] == "daily-planning"
    assert [(a["error"]["code"], a["error"]["detail"]["line"]) for a in answers[1:-1]] == [
        ("bad_json_line", 2),
        ("bad_json_line", 4),
        ("control_character", 5),
        ("wrong_type", 6),
        ("wrong_type", 7),
        ("bad_scope", 8),
    ]
    assert answers[-1] == {"selection": None}


def test_select_shows_c20_to_c24(run: Run, tmp_path: Path) -> None:
    texts = {
        "C20": "/resolve fix the deploy skill",
        "C21 command": "/help",
        "C21 skill": "/skill memory-recall",
        "C22": "the linear growth on github last week",
        "C23 latin": "用docker部署",
        "C23 chinese": "你还记得我喜欢什么吗",
        "C24": "xyzzy 随便说说 plugh",
    }
    answers = select(run, "\n".join(json.dumps({"text": text}) for text in texts.values()), tmp_path)
    chosen = [answer["selection"] and answer["selection"]["skill_id"] for answer in answers]
    assert dict(zip(texts, chosen, strict=True)) == {
        "C20": None,
        "C21 command": None,
        "C21 skill": "memory-recall",
        "C22": None,
        "C23 latin": None,
        "C23 chinese": "memory-recall",
        "C24": None,
    }


def test_select_shows_t7_a_single_chat_skill_never_fires_in_a_group(run: Run, tmp_path: Path) -> None:
    line = {"text": "你还记得我喜欢什么吗"}
    lines = "\n".join(json.dumps(line | {"scope": scope}) for scope in ("single_chat", "group_chat"))
    one, many = select(run, lines, tmp_path)
    assert one["selection"]["skill_id"] == "memory-recall"
    assert many == {"selection": None}
