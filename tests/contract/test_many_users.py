"""A thousand turns at once of an administrator and readers on one agent: nobody has another's rights (U1, U2, U4)."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pydantic import BaseModel
from tests.support.kit import AGENT, LIMIT, OpenApp, interview, manual, request, rows, tool

from prowess import Prowess, ToolContext
from prowess.secrets.keys import KeyRing

TURNS = 1_000
READERS = [f"reader-{number}" for number in range(9)]
ADMIN = "admin"
LOAD = "load_skill_through_path"


class Word(BaseModel):
    """What the tools here take."""

    text: str = ""


class Seen(BaseModel):
    """What a tool saw of its caller."""

    user: str
    memories: list[str]
    secret_of: str


def look(context: ToolContext, _: Word) -> Any:
    assert context.memories is not None
    found = [hit.memory.text for hit in context.memories.recall("colour", 6)]
    secret = context.secrets["API_KEY"].get_secret_value()
    return {"user": context.user, "memories": found, "secret_of": secret.split("-", 1)[1].rsplit("-", 1)[0]}


def skills() -> tuple[Any, ...]:
    return (
        tool(
            "looker",
            look,
            input_schema=Word,
            output_schema=Seen,
            permissions=[("memory:read", "L1")],
            resources={"memory": {"read_layers": ["L3"]}},
            secrets=[("API_KEY", "user")],
            max_calls_per_turn=4,
            build_system_instruction=lambda output, language: _say(output, language),
        ),
        tool("wipe", effect="write"),
        manual("admin-manual"),
        interview("survey"),
    )


def _say(output: Any, language: str) -> Any:
    from prowess import Instruction

    return Instruction(output.user, (output.user,), language)


def prepared(open_app: OpenApp) -> Prowess:
    app = open_app(*skills(), resolver="roles", secret_keys=KeyRing([bytes(32)]))
    app.define_role("reader", skills=["looker", "survey"])
    app.define_role("admin", everything=True)
    for user in (ADMIN, *READERS):
        app.assign_role("admin" if user == ADMIN else "reader", user=user)
        app.set_secret("API_KEY", f"K9-{user}-x7", user=user)
        app.grant(user=user, skill="looker", code="memory:read")
        app.add_memory(user, AGENT, f"favourite colour of {user}")
    return app


def one_turn(app: Prowess, number: int, draw: random.Random) -> tuple[str, Any]:
    """One user does one thing; what came of it."""
    user = ADMIN if number % 10 == 0 else READERS[number % len(READERS)]
    deed = draw.choice(["look", "wipe", "manual", "survey", "loop"])
    where = {"user": user, "conversation": f"{user}-{number % 301}", "message_id": f"m{number}"}
    if deed == "survey":
        result = app.turn(agent=AGENT, text="/survey", **where)
        return deed, (user, result.selection is not None)
    if deed == "wipe":
        result = app.turn(agent=AGENT, text="/wipe now", **where)
        return deed, (user, result.run is not None and result.run.status == "completed")
    plan = app.begin(request(where["message_id"], "hello", user=user, conversation=where["conversation"]))
    if deed == "manual":
        outcome = app.call(plan, LOAD, {"skill_id": "admin-manual"})
        app.finish(plan, "done")
        return deed, (user, outcome.status == "succeeded")
    outcome = app.call(plan, "tool.looker", {"text": "x"})
    if deed == "loop":
        outcome = app.call(plan, "tool.wipe", {"text": "x"})
        app.finish(plan, "done")
        return "wipe", (user, outcome.status == "succeeded")
    app.finish(plan, "done")
    return deed, (user, outcome.output and json.loads(outcome.output.model_dump_json()))


def test_u1_u2_u4_a_thousand_turns_at_once_never_mix(open_app: OpenApp, url: str) -> None:
    app = prepared(open_app)
    ready = threading.Barrier(16)
    numbers = iter(range(TURNS))
    lock = threading.Lock()
    results: list[tuple[str, Any]] = []

    def worker(seed: int) -> None:
        draw = random.Random(seed)
        ready.wait(LIMIT)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            found = one_turn(app, number, draw)
            with lock:
                results.append(found)

    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(worker, seed) for seed in range(16)]:
            future.result(LIMIT * 3)

    assert len(results) == TURNS
    deeds = Counter(deed for deed, _ in results)
    assert set(deeds) == {"look", "wipe", "manual", "survey"}
    for deed, (user, got) in results:
        if deed == "look":
            assert got == {"user": user, "memories": [f"favourite colour of {user}"], "secret_of": user}
        elif deed == "survey":
            assert got is True
        else:
            assert got is (user == ADMIN), (deed, user)
    executed = rows(url, "SELECT user_id, tool_id, count(*) AS times FROM skill_tool_executions GROUP BY 1, 2")
    assert {row["user_id"] for row in executed if row["tool_id"] == "tool.wipe"} == {ADMIN}
    denied = rows(url, "SELECT DISTINCT user_id FROM events WHERE type = 'tool.refused'")
    assert ADMIN not in {row["user_id"] for row in denied}
    foreign = rows(
        url,
        "SELECT count(*) AS times FROM skill_sessions s JOIN conversations c ON c.id = s.scope_id"
        " WHERE s.user_id <> c.user_id",
    )
    assert foreign == [{"times": 0}]
