"""The command line as a stranger uses it: real processes on a database of their own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]


def own_environment(url: str) -> dict[str, str]:
    """This process's own, with a database and a language; compiled modules are kept, as on a user's machine."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PROWESS_DB": url, "PROWESS_LANG": "en", "TERM": "xterm"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("turn", "--text", …)`` on a fresh database, in English."""
    environment = own_environment(f"sqlite:///{tmp_path / 'cli.db'}")

    def call(*args: str, stdin: str | None = None, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "prowess", *args],
            input=stdin,
            capture_output=True,
            text=True,
            env=environment | extra,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )

    return call


def document(result: subprocess.CompletedProcess[str]) -> Any:
    """Standard output as the one JSON document that it must be."""
    return json.loads(result.stdout)


def error_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The error object of a refused command."""
    assert result.returncode == 1, result
    error: dict[str, Any] = document(result)["error"]
    assert set(error) == {"code", "message", "detail", "remedy"}
    assert error["message"]
    assert error["remedy"]
    assert "{" not in error["message"]
    return error


def turn(run: Run, message_id: str, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    return run(
        "turn", "--user", "u1", "--agent", "mira", "--conversation", "c1", "--message-id", message_id, "--text", text,
        "--json", *more,
    )  # fmt: skip


def test_the_story_of_consent(run: Run) -> None:
    assert run("memory", "add", "--user", "u1", "--text", "我喜欢手冲咖啡").returncode == 0
    denied = document(turn(run, "m1", "你还记得我喜欢什么吗"))
    assert denied["decision"] == {
        "effect": "deny", "layer": "consent", "missing": ["memory:read"], "reason": "consent_missing",
    }  # fmt: skip
    assert "手冲" not in denied["reply"]
    grant = ("permissions", "grant", "--user", "u1", "--skill", "memory_recall", "--code", "memory:read", "--json")
    assert document(run(*grant))["skill"] == "memory-recall"
    allowed = document(turn(run, "m2", "你还记得我喜欢什么吗"))
    assert allowed["run"]["status"] == "completed"
    assert "手冲咖啡" in allowed["reply"]
    revoke = ("permissions", "revoke", "--user", "u1", "--skill", "memory-recall", "--code", "memory:read", "--json")
    assert document(run(*revoke))["revoked"] == 1
    assert document(turn(run, "m3", "你还记得我喜欢什么吗"))["decision"]["effect"] == "deny"
    events = document(run("audit", "list", "--user", "u1", "--json"))["events"]
    decided = [event["decision"] for event in events if event["type"] == "tool.decided"]
    assert decided == ["denied", "allowed", "denied"]
    assert "手冲" not in json.dumps(events, ensure_ascii=False)


def test_w5_a_message_sent_twice_is_served_once(run: Run) -> None:
    first = document(turn(run, "m1", "帮我规划未来三个月的英语学习目标。"))
    again = document(turn(run, "m1", "帮我规划未来三个月的英语学习目标。"))
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert (again["reply"], again["session"], again["run"]) == (first["reply"], first["session"], first["run"])
    assert len(document(run("runs", "list", "--user", "u1", "--json"))["runs"]) == 1
    assert error_of(turn(run, "m1", "something else"))["code"] == "message_id_reused"


def test_w8_sessions_are_listed_without_state_and_cancelled(run: Run) -> None:
    session = document(turn(run, "m1", "帮我规划未来三个月的英语学习目标。"))["session"]
    listed = document(run("sessions", "list", "--user", "u1", "--json"))["sessions"]
    assert [item["id"] for item in listed] == [session["id"]]
    assert "英语" not in json.dumps(listed, ensure_ascii=False).replace(listed[0]["pending_question"], "")
    assert error_of(run("sessions", "cancel", session["id"], "--user", "u2", "--json"))["code"] == "session_not_found"
    assert document(run("sessions", "cancel", session["id"], "--user", "u1", "--json"))["status"] == "cancelled"
    assert error_of(run("sessions", "cancel", session["id"], "--user", "u1", "--json"))["code"] == "session_not_live"


def test_skills_are_added_shown_disabled_exported_and_removed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "tea-guide"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tea-guide\ndescription: How to brew tea.\n---\nBrew it.\n")
    (folder / "scripts" / "brew.py").write_text("print('tea')\n")
    added = document(run("skills", "add", str(folder), "--json"))
    assert (added["id"], added["version"], added["state"]) == ("tea-guide", "0.1.0", "added")
    assert [note["code"] for note in added["notes"]] == ["scripts_not_run"]
    used = document(turn(run, "m1", "/tea-guide green"))
    assert used["selection"]["trigger"] == "explicit"
    assert "Brew it." in used["instruction"]
    assert document(run("skills", "disable", "tea-guide", "--user", "u1", "--json"))["enabled"] is False
    assert document(turn(run, "m2", "/tea-guide green"))["selection"] is None
    exported = document(run("skills", "export", "tea-guide", str(tmp_path / "out"), "--json"))
    assert (Path(exported["path"]) / "scripts" / "brew.py").read_text() == "print('tea')\n"
    assert document(run("skills", "remove", "tea-guide", "--json"))["removed"] == 1
    assert error_of(run("skills", "show", "tea-guide", "--json"))["code"] == "skill_not_found"
    assert error_of(run("skills", "remove", "memory-recall", "--json"))["code"] == "skill_built_in"


def test_select_stores_nothing_and_goes_on_after_a_bad_line(run: Run, tmp_path: Path) -> None:
    lines = '{"text": "帮我安排明天计划"}\nnot json\n{"text": "/nothing"}\n{"text": "hi", "scope": "moon"}\n'
    result = run("select", "--input", "-", stdin=lines)
    assert result.returncode == 1
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert answers[0]["selection"]["skill_id"] == "daily-planning"
    assert answers[1]["error"]["detail"]["line"] == 2
    assert answers[2] == {"selection": None}
    assert answers[3]["error"]["code"] == "bad_scope"
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "text_empty"), (" \n ", "text_empty"), ("x" * 40_000, "text_too_long"), ("a\x07b", "control_character")],
)
def test_bad_text_is_refused_and_nothing_is_stored(run: Run, text: str, code: str) -> None:
    assert error_of(turn(run, "m1", text))["code"] == code
    assert document(turn(run, "m1", "hello"))["replayed"] is False


def test_a_megabyte_on_standard_input_is_refused(run: Run) -> None:
    result = run("turn", "--text", "-", "--json", stdin="x" * 1_000_000)
    assert error_of(result)["detail"] == {"field": "text", "limit": 32_000, "length": 1_000_000}


def test_unknown_ids_and_wrong_values_are_refused(run: Run) -> None:
    cases = {
        "skill_not_found": ("permissions", "grant", "--skill", "nope", "--code", "memory:read"),
        "code_not_declared": ("permissions", "grant", "--skill", "memory-recall", "--code", "fs:read"),
        "grant_not_found": ("permissions", "revoke", "--skill", "memory-recall", "--code", "memory:read"),
        "agent_not_found": (
            "permissions",
            "grant",
            "--skill",
            "memory-recall",
            "--code",
            "memory:read",
            "--agent",
            "x",
        ),
        "bad_instant": ("turn", "--text", "hi", "--now", "tomorrow"),
        "memory_not_found": ("memory", "delete", "nope"),
        "bad_importance": ("memory", "add", "--text", "x", "--importance", "7"),
        "bad_layer": ("memory", "add", "--text", "x", "--layer", "L9"),
        "not_readable": ("select", "--input", "/nonexistent"),
        "version_not_found": ("skills", "pin", "memory-recall", "9.9.9"),
        "unknown_suite": ("eval", "nope"),
        "bench_unknown": ("bench", "nope"),
    }
    for code, args in cases.items():
        assert error_of(run(*args, "--json"))["code"] == code


def test_databases_that_cannot_be_used_are_refused_untouched(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("this is no database, but it is long enough to look like one" * 20)
    newer = tmp_path / "newer.db"
    assert run("migrate", "--db", f"sqlite:///{newer}").returncode == 0
    with contextlib.closing(sqlite3.connect(newer, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (text.read_bytes(), newer.read_bytes())
    for url, code in (
        (f"sqlite:///{text}", "database_unavailable"),
        (f"sqlite:///{newer}", "database_newer"),
        (f"sqlite:///{tmp_path}", "database_unavailable"),
        ("sqlite:////nonexistent/folder/x.db", "database_unavailable"),
        ("mysql://somewhere/else", "database_url"),
        ("what is this", "database_url"),
    ):
        assert error_of(run("turn", "--text", "hi", "--db", url, "--json"))["code"] == code, url
    assert (text.read_bytes(), newer.read_bytes()) == before


def test_wrong_usage_exits_2_and_speaks_on_standard_error(run: Run) -> None:
    for args in ((), ("nope",), ("turn",), ("turn", "--text"), ("memory", "list", "--limit", "0")):
        result = run(*args)
        assert result.returncode == 2, args
        assert "Traceback" not in result.stderr


def test_sentences_follow_the_language(run: Run) -> None:
    args = ("turn", "--text", "", "--json")
    assert error_of(run(*args, PROWESS_LANG="zh"))["remedy"] == "请写点内容。"
    assert error_of(run("--lang", "en", *args, PROWESS_LANG="zh"))["remedy"] == "Write something."
    plain = run("turn", "--text", "", PROWESS_LANG="zh")
    assert plain.stdout == ""
    assert plain.stderr.splitlines() == ["错误: text 为空", "  请写点内容。"]


def test_help_imports_no_framework() -> None:
    program = (
        "import sys\n"
        "sys.argv = ['prowess', '--help']\n"
        "from prowess.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "heavy = ('sqlalchemy', 'pydantic', 'langgraph', 'langchain_core', 'alembic', 'fastapi', 'prompt_toolkit')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"
    assert "permissions" in result.stdout


def test_checking_skills_needs_neither_database_nor_sqlalchemy(tmp_path: Path) -> None:
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Tea.\n---\nBrew.\n")
    program = (
        "import sys\n"
        f"sys.argv = ['prowess', 'skills', 'check', '--json', {str(tmp_path)!r}]\n"
        "from prowess.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('sqlalchemy', 'langgraph', 'alembic') if name in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"
    report = json.loads(result.stdout)
    assert (report["id"], report["ok"], report["verdict"]) == ("tea", True, "pass")


def test_the_tour_shows_every_step(run: Run) -> None:
    told = document(run("tour", "--json"))
    assert told["ok"] is True
    assert [step["name"] for step in told["steps"]] == [
        "plan-goal", "resume-after-restart", "recall-denied", "recall-granted", "recall-revoked",
    ]  # fmt: skip
    assert all(step["ok"] and step["shows"] for step in told["steps"])


def test_doctor_knows_what_is_missing(run: Run, tmp_path: Path) -> None:
    assert run("migrate").returncode == 0
    report = document(run("doctor", "--json"))
    assert report["ok"] is True
    assert {row["check"]: row["state"] for row in report["checks"]}["database"] == "ok"
    broken = run("doctor", "--db", f"sqlite:///{tmp_path}", "--json")
    assert broken.returncode == 1
    assert document(broken)["ok"] is False


def test_a_script_can_talk_through_a_pipe(run: Run) -> None:
    result = run("chat", stdin="帮我规划未来半年的健身目标\n/nothing here\n/exit\nnever read\n")
    assert result.returncode == 0
    assert "「半年」" in result.stdout
    assert "/nothing" in result.stdout
    assert "never read" not in result.stdout


def test_the_chat_completes_commands_and_streams(tmp_path: Path) -> None:
    environment = own_environment(f"sqlite:///{tmp_path / 'chat.db'}")
    chat = pexpect.spawn(
        sys.executable, ["-m", "prowess", "chat"], env=environment, encoding="utf-8", timeout=30, dimensions=(30, 120)
    )
    chat.expect("me>")
    chat.send("/memory-r")
    chat.expect("memory-recall")  # the menu
    chat.send("\t")
    chat.expect("memory-recall")  # the line
    chat.send("\r")
    chat.expect("you have not allowed it")
    chat.expect("used memory-recall")
    chat.expect("me>")
    chat.send("Help me plan my goals for the next three months\r")
    chat.expect("waiting for your answer")
    chat.expect("me>")
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0
