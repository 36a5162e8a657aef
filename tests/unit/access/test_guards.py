"""Guards: a yes must be said; whatever goes wrong is none (cases C39 and C81)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.access.capabilities import UNRESTRICTED
from prowess.access.gate import decide
from prowess.access.guards import MAX_GUARD_OUTPUT, CommandGuard, ask_guards
from prowess.access.model import Decision, Facts, GateRequest, Layer, RuleVerdict
from prowess.access.policies import Attempt
from prowess.kernel.clock import SystemClock

ATTEMPT = Attempt("u1", "mira", "notes", "tool.notes", "read", "a", frozenset({"r2", "r1"}))

Script = Callable[..., Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def make(body: str, interpreter: str = sys.executable) -> Path:
        path = tmp_path / "guard"
        path.write_text(f"#!{interpreter}\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


def says(*answers: Any) -> list[Any]:
    return [lambda _attempt, answer=answer: answer for answer in answers]


def decided(verdicts: tuple[RuleVerdict, ...]) -> Decision:
    request = GateRequest("t1", "u1", "mira", "notes", "1.0.0", "tool:notes")
    return decide(request, Facts((), (), True, SystemClock().now(), UNRESTRICTED, guards=verdicts))


def one(guard: Any, seconds: float = 20) -> str | None:
    (verdict,) = ask_guards([guard], ATTEMPT, seconds=seconds)
    assert decided((verdict,)).allowed is (verdict.effect == "allow")
    return verdict.effect


# --- in the process --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_c39_a_guards_word_counts(word: str) -> None:
    (verdict,) = ask_guards(says(word), ATTEMPT)
    assert (verdict.effect, decided((verdict,)).effect) == (word, word)


@pytest.mark.parametrize(
    "answer", [None, "", "Allow", "allow ", "yes", True, 1, ["allow"], {"effect": "allow"}, b"allow"]
)
def test_c39_anything_else_is_no_yes(answer: Any) -> None:
    verdicts = ask_guards(says("allow", answer), ATTEMPT)
    assert verdicts[1].effect is None
    decision = decided(verdicts)
    assert (decision.effect, decision.layer, decision.reason) == ("deny", Layer.GUARD, "could_not_decide")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, MemoryError, RecursionError])
def test_c39_a_guard_that_raises_is_a_deny(error: type[BaseException]) -> None:
    def guard(_attempt: Attempt) -> str:
        raise error("no")

    assert one(guard) is None


def test_c39_a_guard_that_hangs_is_a_deny_within_its_time() -> None:
    over = threading.Event()

    def guard(_attempt: Attempt) -> str:
        over.wait(60)
        return "allow"

    started = time.monotonic()
    assert one(guard, seconds=0.05) is None
    assert time.monotonic() - started < 30
    over.set()


def test_c39_a_guard_that_cannot_be_called_is_a_deny() -> None:
    assert one(None) is None
    assert one("allow") is None


def test_u1_a_deny_outweighs_an_ask_and_an_allow_in_any_order() -> None:
    for words in (("allow", "ask", "deny"), ("deny", "allow", "ask"), ("ask", "deny", "allow")):
        assert decided(ask_guards(says(*words), ATTEMPT)).reason == "guard_denies"
    assert decided(ask_guards(says("allow", "ask"), ATTEMPT)).effect == "ask"
    assert decided(ask_guards(says("allow", "allow"), ATTEMPT)).allowed


def test_c39_a_guard_is_named_in_the_decision() -> None:
    def careful(_attempt: Attempt) -> str:
        return "deny"

    assert decided(ask_guards([careful], ATTEMPT)).rule == "careful"


# --- as a program ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_c81_a_programs_word_counts(word: str, script: Script) -> None:
    path = script(f"print('{json.dumps({'effect': word})}')")
    assert one(CommandGuard([str(path)])) == word


def test_c81_a_program_gets_the_attempt_and_no_environment(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    body = """
import json, os, sys
asked = json.load(sys.stdin)
wanted = {"user": "u1", "agent": "mira", "skill": "notes", "tool": "tool.notes", "verb": "read", "resource": "a",
          "roles": ["r1", "r2"]}
known = set(os.environ) - {"PATH", "LC_CTYPE", "__CF_USER_TEXT_ENCODING"}
print(json.dumps({"effect": "allow" if asked == wanted and not known else "deny"}))
"""
    assert one(CommandGuard([str(script(body))])) == "allow"
    assert os.environ["API_TOKEN"] == "secret"


def test_c81_a_program_that_is_missing_is_a_deny(tmp_path: Path) -> None:
    assert one(CommandGuard([str(tmp_path / "none")])) is None
    assert one(CommandGuard([str(tmp_path)])) is None
    assert one(CommandGuard([])) is None


def test_c81_a_program_whose_interpreter_is_missing_is_a_deny(script: Script) -> None:
    assert one(CommandGuard([str(script('print(\'{"effect": "allow"}\')', "/nonexistent"))])) is None


def test_c81_a_file_that_may_not_be_run_is_a_deny(script: Script) -> None:
    path = script('print(\'{"effect": "allow"}\')')
    path.chmod(0o644)
    assert one(CommandGuard([str(path)])) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "print('allow')",
        "print('\"allow\"')",
        "print('[\"allow\"]')",
        "print('{}')",
        "print('{\"effect\": null}')",
        "print('{\"effect\": true}')",
        'print(\'{"effect": ["allow"]}\')',
        'print(\'{"effect": "allow"\')',
        'print(\'{"effect": "allow"} {"effect": "allow"}\')',
        f"print('{{\"effect\": \"allow\"}}' + ' ' * {MAX_GUARD_OUTPUT} + 'x' * 0 + '{{')" + "\nimport sys; sys.exit(1)",
        'print(\'{"effect": "allow"}\')\nimport sys; sys.exit(3)',
        'print(\'{"effect": "allow"}\', flush=True)\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)',
        "import sys; sys.stdout.buffer.write(b'\\xff\\xfe')",
        'import sys; sys.stderr.write(\'{"effect": "allow"}\')',
    ],
    ids=range(15),
)
def test_c81_garbage_or_a_failing_program_is_a_deny(body: str, script: Script) -> None:
    assert one(CommandGuard([str(script(body))])) is None


def test_c81_a_program_that_takes_too_long_is_a_deny(script: Script) -> None:
    path = script('import signal; signal.pause()\nprint(\'{"effect": "allow"}\')')
    started = time.monotonic()
    assert one(CommandGuard([str(path)], seconds=0.2)) is None
    assert time.monotonic() - started < 30
