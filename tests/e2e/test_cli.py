"""The command line as a stranger uses it: real processes on a database of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pexpect
import pytest
from tests.support.kit import add_jobs
from tests.support.model_server import ModelServer, text, tool_calls

import prowess

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]


def own_environment(url: str) -> dict[str, str]:
    """This process's own, with a database and a language; compiled modules are kept, as on a user's machine."""
    settings = ("PROWESS_", "OPENAI_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    return {**kept, "PROWESS_DB": url, "PROWESS_LANG": "en", "TERM": "xterm"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run("turn", "--text", …)`` on a fresh database, in English."""
    environment = own_environment(f"sqlite:///{tmp_path / 'cli.db'}")

    def call(
        *args: str, stdin: str | None = None, stdout: IO[str] | int = subprocess.PIPE, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "prowess", *args],
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
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


def turn(run: Run, message_id: str, said: str, *more: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return run(
        "turn", "--user", "u1", "--agent", "mira", "--conversation", "c1", "--message-id", message_id, "--text", said,
        "--json", *more, **extra,
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


def test_a_skill_is_added_used_and_disabled(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "tea-guide"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: tea-guide\ndescription: How to brew tea.\n---\nBrew it.\n")
    added = document(run("skills", "add", str(folder), "--json"))
    assert (added["id"], added["version"], added["state"]) == ("tea-guide", "0.1.0", "added")
    used = document(turn(run, "m1", "/tea-guide green"))
    assert used["selection"]["trigger"] == "explicit"
    assert "Brew it." in used["instruction"]
    assert document(run("skills", "disable", "tea-guide", "--user", "u1", "--json"))["enabled"] is False
    assert document(turn(run, "m2", "/tea-guide green"))["selection"] is None


def test_a_hidden_skill_and_an_absent_one_read_alike_to_the_last_byte(run: Run) -> None:
    roles = {"PROWESS_RESOLVER": "roles"}
    assert run("roles", "set", "reader", "--skill", "daily-planning", **roles).returncode == 0
    assert run("roles", "assign", "reader", "--user", "u1", **roles).returncode == 0
    assert document(run("skills", "list", "--user", "u1", "--json", **roles))["skills"][0]["id"] == "daily-planning"
    assert document(turn(run, "m0", "/daily-planning", **roles))["selection"]["skill_id"] == "daily-planning"
    answers = []
    for name in ("memory-recall", "no-such-skill"):
        shown = run("skills", "show", name, "--user", "u1", **roles)
        said = turn(run, f"m-{name}", f"/{name} tea", **roles)
        texts = (shown.stdout, shown.stderr, said.stdout, said.stderr)
        answers.append((shown.returncode, said.returncode, [part.replace(name, "…") for part in texts]))
    assert answers[0] == answers[1]
    assert answers[0][:2] == (1, 0)
    # An unrestricted user, and the operator, do see it.
    assert document(run("skills", "show", "memory-recall", "--user", "u1", "--json"))["id"] == "memory-recall"
    assert document(run("skills", "show", "memory-recall", "--json", **roles))["id"] == "memory-recall"


def test_rules_are_checked_tried_out_and_then_hold(run: Run, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "version: 1\nrules:\n  - id: no-recall\n    effect: deny\n    skills: [memory-recall]\n"
        "    match: [{skill: memory-recall}]\n    not_match: [{skill: daily-planning}]\n"
    )
    assert turn(run, "m1", "hello").returncode == 0
    assert document(run("permissions", "check-policy", str(rules), "--json"))["rules"] == 1
    tried = document(run("permissions", "simulate", "--policy", str(rules), "--user", "u1", "--json"))
    assert (tried["gains"], [change["name"] for change in tried["changes"]]) == (0, ["memory-recall"])
    assert document(turn(run, "m2", "/memory-recall tea"))["selection"] is not None
    held = {"PROWESS_POLICIES": os.pathsep.join([str(rules)])}
    assert document(turn(run, "m3", "/memory-recall tea", **held))["selection"] is None
    rules.write_text("version: 1\nrulez: []\n")
    refused = run("skills", "list", "--json", **held)
    assert error_of(refused)["code"] == "policy_invalid"
    assert error_of(run("permissions", "check-policy", str(rules), "--json"))["detail"]["file"] == str(rules)


def test_a_model_of_the_environment_speaks_and_calls_tools(run: Run) -> None:
    run("memory", "add", "--user", "u1", "--text", "I like tea")
    run("permissions", "grant", "--user", "u1", "--skill", "memory-recall", "--code", "memory:read")
    steps = [tool_calls(("c1", "agent-memory_search", '{"query": "tea"}')), text("You like ", "tea."), text("Hello.")]
    with ModelServer(steps) as server:
        model = {"PROWESS_MODEL": "some-model", "PROWESS_MODEL_URL": server.url, "PROWESS_MODEL_KEY": "key-of-mine"}
        result = document(turn(run, "m1", "hello", **model))
        assert result["reply"] == "You like tea."
        assert [call["status"] for call in result["tool_calls"]] == ["succeeded"]
        said = run("chat", "--user", "u2", "--conversation", "c2", stdin="hello\n", **model)
        assert said.stdout == "Hello.\n"
        assert server.requests[0].body["model"] == "some-model"
    assert error_of(turn(run, "m2", "hello", PROWESS_MODEL="nope:nope"))["code"] == "voice_provider"
    # What does not speak needs no model.
    assert run("skills", "list", PROWESS_MODEL="nope:nope").returncode == 0


def test_a_secret_is_typed_unseen(tmp_path: Path, run: Run) -> None:
    made = document(run("secrets", "new-key", str(tmp_path / "key"), "--json"))
    environment = own_environment(f"sqlite:///{tmp_path / 'cli.db'}") | {"PROWESS_SECRET_KEY_FILE": made["file"]}
    command = ["-m", "prowess", "secrets", "set", "GITHUB_TOKEN"]
    typing = pexpect.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=30)
    typing.expect("Value of GITHUB_TOKEN")
    typing.waitnoecho()
    typing.sendline("ghp_4Zr9xQ2mLk7T")
    typing.expect("GITHUB_TOKEN is filled")
    typing.expect(pexpect.EOF)
    typing.close()
    assert typing.exitstatus == 0
    assert "ghp_" not in str(typing.before)
    (filled,) = document(run("secrets", "list", "--json"))["secrets"]
    assert filled["name"] == "GITHUB_TOKEN"
    assert error_of(run("secrets", "rotate", "--json"))["code"] == "secret_key_missing"
    assert b"ghp_4Zr9xQ2mLk7T" not in (tmp_path / "cli.db").read_bytes()


def test_table_tests_of_surfaces_exit_with_what_they_found(run: Run) -> None:
    asked = {
        "agent": {"skills": {"form": ["form.fill"]}, "tools": ["web/search"]},
        "surface": {"tools": ["web/search"]},
    }
    lines = [
        asked | {"ask": {"kind": "execute", "name": "web/search"}, "expect": True},
        asked | {"ask": {"kind": "skill", "name": "form"}, "expect": {"reason": "not_granted"}},
        asked | {"ask": {"kind": "skill", "name": "form"}, "expect": True},
    ]
    held = run("permissions", "test", "--input", "-", stdin="\n".join(map(json.dumps, lines[:2])))
    assert (held.returncode, held.stderr) == (0, "")
    assert [json.loads(line)["allowed"] for line in held.stdout.splitlines()] == [True, False]
    differs = run("permissions", "test", "--input", "-", stdin="\n".join(map(json.dumps, lines)))
    assert (differs.returncode, differs.stderr) == (1, "line 3: expected true\n")


def test_select_reads_standard_input_and_stores_nothing(run: Run, tmp_path: Path) -> None:
    lines = '{"text": "帮我安排明天计划"}\nnot json\n{"text": "/nothing"}\n'
    result = run("select", "--input", "-", "--db", f"sqlite:///{tmp_path / 'unused.db'}", stdin=lines)
    assert result.returncode == 1
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert answers[0]["selection"]["skill_id"] == "daily-planning"
    assert answers[1]["error"]["detail"]["line"] == 2
    assert answers[2] == {"selection": None}
    assert list(tmp_path.iterdir()) == []


def test_a_megabyte_on_standard_input_is_refused(run: Run) -> None:
    result = run("turn", "--text", "-", "--json", stdin="x" * 1_000_000)
    assert error_of(result)["detail"] == {"field": "text", "limit": 32_000, "length": 1_000_000}


def test_bytes_that_are_no_text_are_refused_by_name(run: Run) -> None:
    strict = {"LC_ALL": "", "LANG": "en_US.UTF-8"}
    piped = run("turn", "--text", "-", "--json", stdin="a\udcffb", **strict)
    assert error_of(piped)["code"] == "control_character"
    named = run("skills", "check", "a\udcffb", "--json", **strict)
    assert error_of(named)["detail"]["file"] == "a\udcffb"
    shown = run("skills", "check", "a\udcffb\x1b[31m", **strict)
    assert shown.stderr.splitlines()[0] == r"error: a\udcffb\x1b[31m cannot be read: no such file or folder."


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
    ):
        assert error_of(run("turn", "--text", "hi", "--db", url, "--json"))["code"] == code, url
    assert (text.read_bytes(), newer.read_bytes()) == before


def test_wrong_usage_exits_2_and_speaks_on_standard_error(run: Run) -> None:
    for args in (("nope",), ("memory", "list", "--limit", "0")):
        result = run(*args)
        assert (result.returncode, result.stdout) == (2, ""), args
        assert result.stderr.startswith("Usage: prowess ")
        assert "Traceback" not in result.stderr


def test_sentences_follow_the_locale(run: Run) -> None:
    plain = run("turn", "--text", "", PROWESS_LANG="", LC_ALL="", LANG="zh_CN.UTF-8")
    assert (plain.returncode, plain.stdout) == (1, "")
    assert plain.stderr.splitlines() == ["错误：text 为空", "  请写点内容。"]


def test_a_reader_that_goes_away_is_no_news(run: Run, tmp_path: Path) -> None:
    (tmp_path / "many.jsonl").write_text('{"text": "hello"}\n' * 20_000)
    command = [sys.executable, "-m", "prowess", "select", "--input", "many.jsonl"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline()) == {"selection": None}
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_ctrl_c_is_no_news(tmp_path: Path) -> None:
    environment = own_environment(f"sqlite:///{tmp_path / 'cli.db'}")
    command = [sys.executable, "-m", "prowess", "chat", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["reply"]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr.read() == b""


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_full_disk_is_said_where_it_still_can_be(run: Run, more: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        result = run("bench", *more, stdout=full)
    assert result.returncode == 1
    assert result.stderr.splitlines()[0] == "error: The system refused: No space left on device."
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_help_imports_no_framework() -> None:
    program = (
        "import sys\n"
        "sys.argv = ['prowess', '--help']\n"
        "from prowess.cli.main import run\n"
        "try: run()\n"
        "except SystemExit: pass\n"
        "heavy = ('sqlalchemy', 'pydantic', 'langgraph', 'langchain_core', 'alembic', 'fastapi', 'prompt_toolkit', 'rich')\n"
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
        "print([name for name in ('sqlalchemy', 'langgraph', 'alembic', 'rich') if name in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"
    report = json.loads(result.stdout)
    assert (report["id"], report["ok"], report["verdict"]) == ("tea", True, "pass")


def test_the_tour_shows_every_step(run: Run) -> None:
    told = document(run("tour", "--json"))
    assert told["ok"] is True
    assert [step["name"] for step in told["steps"]] == [
        "plan-goal", "resume-after-restart", "recall-denied", "recall-granted", "recall-revoked", "hidden-skill",
        "reminder-delivered", "reminder-cancelled", "reminder-revoked", "approval-once", "automation-session",
        "unsafe-skill-rejected", "audit-verified",
    ]  # fmt: skip
    assert all(step["ok"] and step["shows"] for step in told["steps"])


def test_doctor_knows_what_is_missing(run: Run, tmp_path: Path) -> None:
    report = document(run("doctor", "--json"))
    assert report["ok"] is True
    broken = run("doctor", "--db", f"sqlite:///{tmp_path}", "--json")
    assert broken.returncode == 1
    assert document(broken)["ok"] is False


def test_a_script_can_talk_through_a_pipe(run: Run) -> None:
    result = run("chat", stdin="帮我规划未来半年的健身目标\n/nothing here\n/exit\nnever read\n")
    assert result.returncode == 0
    assert "「半年」" in result.stdout
    assert "/nothing" in result.stdout
    assert "never read" not in result.stdout


def chat_on_a_terminal(tmp_path: Path, *args: str) -> pexpect.spawn[str]:
    environment = own_environment(f"sqlite:///{tmp_path / 'chat.db'}")
    command = ["-m", "prowess", "chat", *args]
    return pexpect.spawn(sys.executable, command, env=environment, encoding="utf-8", timeout=30, dimensions=(30, 120))


def test_b9_what_the_agent_says_of_its_own_accord_is_shown_at_the_prompt(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    chat = chat_on_a_terminal(tmp_path, "--user", "u1", "--agent", "mira", "--conversation", "c1")
    chat.expect("u1>")
    chat.send("hello\r")
    chat.expect("u1>")
    with prowess.open(url) as app:
        app.grant(user="u1", skill="goal-check-in-reminder", code="proactive_message:write")
        add_jobs(app, "goal-check-in-reminder", 1, note="tea")
    chat.expect("mira: It is time for the check-in")
    chat.expect("> tea")
    chat.send("/exit\r")
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0


def test_the_chat_completes_commands_and_streams(tmp_path: Path) -> None:
    chat = chat_on_a_terminal(tmp_path)
    chat.expect("me>")
    chat.send("/memory-r")
    chat.expect("memory-recall")  # the menu
    chat.send("\t")
    chat.expect("memory-recall")  # the line
    chat.send("\r")
    chat.expect("you have not allowed it")
    chat.expect("used memory-recall · not allowed")
    chat.expect("me>")
    chat.send("Help me plan my goals for the next three months\r")
    chat.expect("waiting for your answer")
    chat.expect("me>")
    chat.sendintr()  # at the prompt: the line is given up, the chat goes on
    chat.expect("me>")
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0


def test_the_chat_takes_a_paste_of_several_lines_as_one_message(tmp_path: Path, run: Run) -> None:
    chat = chat_on_a_terminal(tmp_path, "--lang", "zh")
    chat.expect("直接说话就行")
    chat.expect("me>")
    chat.send("/help\r")
    chat.expect("取消正在进行的任务")
    chat.expect("me>")
    chat.send("\x1b[200~帮我规划未来三个月的英语学习目标。\n工作日每天最多一小时。\x1b[201~\r")
    chat.expect("用到 long-term-goal-planning · 等你回答")
    chat.expect("me>")
    chat.send("/exit\r")
    chat.expect(pexpect.EOF)
    chat.close()
    assert chat.exitstatus == 0
    assert len(document(run("runs", "list", "--db", f"sqlite:///{tmp_path / 'chat.db'}", "--json"))["runs"]) == 1
