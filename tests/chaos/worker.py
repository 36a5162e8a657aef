"""A process of its own that does turns on a shared database; run as ``python -m tests.chaos.worker``.

It says ``ready`` when it has opened the database, waits for a line, works, and says what it did as JSON. What it is to do
comes as JSON in its first argument.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from typing import Any

from tests.support.kit import Answer, Question, ScriptedVoice, interview, manual, tool, turn

import prowess
from prowess import Prowess, ToolContext, TurnResult
from prowess.errors import Conflict
from prowess.events.log import Transaction

FOREVER = 1_000_000


def skills(effects: str | None = None) -> list[Any]:
    """A workflow without an end, a prompt, a read, and a write whose effect is a line in a file."""

    def write(_context: ToolContext, question: Question) -> Answer:
        if effects is not None:
            with open(effects, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{question.text}\n")
        die_at("tool")
        return Answer(text="written")

    return [
        interview(questions=FOREVER),
        manual("notes"),
        tool("lookup"),
        tool("write", write, effect="write"),
    ]


class DyingVoice(ScriptedVoice):
    """Dies instead of speaking, where told so."""

    def speak(self, prompt: prowess.Prompt) -> str:
        die_at("voice")
        return super().speak(prompt)


_plan: dict[str, Any] = {}


def die_at(place: str) -> None:
    """End this process at once and without any cleaning up, where this is the place to."""
    if _plan.get("die_at") == place:
        os.kill(os.getpid(), signal.SIGKILL)


def install_deaths() -> None:
    """Places in the middle of a transaction: before its events, between them and the commit, and after the commit."""
    flush = Transaction.flush

    def dying_flush(self: Transaction, dialect: str) -> None:
        wanted = _plan.get("during")
        if wanted in self.emitted:
            die_at("before events")
            flush(self, dialect)
            die_at("before commit")
            return
        flush(self, dialect)

    Transaction.flush = dying_flush  # type: ignore[method-assign]


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def one_turn(app: Prowess) -> None:
    """The turn of the plan; dies on the way, or says what came of it."""
    asked = _plan["turn"]
    result = turn(app, asked["message_id"], asked["words"])
    die_at("after commit")
    say(json.dumps({"reply": result.reply, "replayed": result.replayed}))


def many_turns(app: Prowess) -> None:
    """Turns in a chat of its own and in one that all workers share, for the seconds of the plan or until killed."""
    name, until = _plan["name"], time.monotonic() + _plan["seconds"]
    done: Counter[str] = Counter()
    longest = 0.0
    turn(app, f"{name}-begin", "/interview", conversation=name)
    done["own"] += 1
    number = 0
    while time.monotonic() < until:
        number += 1
        for kind, chat, words in (
            ("own", name, f"answer {number}"),
            ("own", name, "/notes"),
            ("own", name, f"/write {name} {number}"),
            ("shared", "shared", f"answer {number} of {name}"),
        ):
            message_id = f"{name}-{number}-{words[:6]}-{kind}"
            say(f"start {chat} {message_id}\t{words}")
            started = time.monotonic()
            try:
                result: TurnResult | None = turn(app, message_id, words, conversation=chat)
            except Conflict as error:
                assert (error.code, kind) == ("session_changed", "shared")
                done["conflicts"] += 1
                result = None
            longest = max(longest, time.monotonic() - started)
            if result is not None:
                assert not result.replayed
                done[kind] += 1
                assert result.session is None or result.session.status == "waiting_user"
    say(json.dumps({"done": dict(done), "longest": longest}))


def main() -> None:
    _plan.update(json.loads(sys.argv[1]))
    install_deaths()
    voice = DyingVoice(instant=_plan.get("instant", False))
    with prowess.open(_plan["url"], skills=skills(_plan.get("effects")), voice=voice) as app:
        say("ready")
        sys.stdin.readline()
        if "turn" in _plan:
            one_turn(app)
        else:
            many_turns(app)


if __name__ == "__main__":
    main()
