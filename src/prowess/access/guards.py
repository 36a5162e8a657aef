"""Guards: the operator's own code that is asked before every tool call, in the process or as a program (C39, C81).

A guard can only narrow. Whatever goes wrong with it (it raises, takes too long, says nothing or something else, its
program or the program's interpreter is missing) is a deny with the reason ``could_not_decide``.
"""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from prowess.access.model import RuleVerdict
from prowess.access.policies import Attempt

logger = logging.getLogger(__name__)

GUARD_SECONDS = 5.0
MAX_GUARD_OUTPUT = 64_000

T = TypeVar("T")


class Guard(Protocol):
    """Says ``"allow"``, ``"ask"`` or ``"deny"`` of an attempt. Called from any thread."""

    def __call__(self, attempt: Attempt) -> str:
        """The answer; anything else than those three words is a deny."""
        ...


class CommandGuard:
    """A guard that is a program: the attempt as one JSON object on its standard input, ``{"effect": …}`` back.

    It gets no shell and an empty environment but for ``PATH``. A non-zero exit is a deny, as is anything but a JSON
    object with an ``effect``.
    """

    def __init__(self, argv: Sequence[str], *, seconds: float = GUARD_SECONDS) -> None:
        self.argv = tuple(argv)
        self.seconds = seconds
        self.__name__ = self.argv[0] if self.argv else "command"

    def __call__(self, attempt: Attempt) -> str:
        """Raises ``OSError``, ``ValueError``, ``subprocess.SubprocessError``: denies, to whoever asks guards."""
        question = json.dumps(asdict(attempt) | {"roles": sorted(attempt.roles)})
        done = subprocess.run(
            self.argv,
            input=question.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=self.seconds,
            check=True,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        answer = json.loads(done.stdout[:MAX_GUARD_OUTPUT])
        if not isinstance(answer, dict):
            raise ValueError("a guard answers with a JSON object")
        return str(answer["effect"])


def ask_guards(guards: Sequence[Guard], attempt: Attempt, *, seconds: float = GUARD_SECONDS) -> tuple[RuleVerdict, ...]:
    """What each guard says, in order; nothing (``effect`` null) where it could not or did not say."""
    return tuple(_ask(guard, attempt, seconds) for guard in guards)


def _ask(guard: Guard, attempt: Attempt, seconds: float) -> RuleVerdict:
    name = str(getattr(guard, "__name__", type(guard).__name__))[:128]
    try:
        said = within(lambda: guard(attempt), seconds, name)
    except Exception as error:
        logger.warning("guard %s could not decide: %s", name, type(error).__name__)
        return RuleVerdict(None, name)
    if said == "allow":
        return RuleVerdict("allow", name)
    if said == "ask":
        return RuleVerdict("ask", name)
    return RuleVerdict("deny" if said == "deny" else None, name)


def within(ask: Callable[[], T], seconds: float, name: str) -> T:
    """What ``ask`` returns, in a thread of its own. Raises what it raises, or ``TimeoutError``; the thread is left."""
    box: dict[str, Any] = {}

    def work() -> None:
        try:
            box["answer"] = ask()
        except BaseException as error:  # sys.exit() in foreign code is a failure too
            box["error"] = error

    thread = threading.Thread(target=work, name=f"prowess {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(name)
    if "error" in box:
        raise RuntimeError(type(box["error"]).__name__) from box["error"]
    answer: T = box["answer"]
    return answer
