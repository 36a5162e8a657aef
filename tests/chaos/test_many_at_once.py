"""Many at once on one database: threads on one session, processes on one file, a process that is killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import prowess
from prowess import Conflict, Instruction, Prowess, TurnResult, WorkflowAdvance, WorkflowTurn

THREADS = 64


def counting() -> prowess.WorkflowSkill:
    """A workflow that takes any number of answers and counts them."""

    def run_turn(turn: WorkflowTurn) -> WorkflowAdvance:
        state = {"answers": turn.state["answers"] + (0 if turn.first else 1)}
        said = f"answer {state['answers']}"
        return WorkflowAdvance(state, "count", "waiting_user", "And?", Instruction(said, (said,), "en"))

    return prowess.workflow_skill(
        "counting",
        description="Counts answers.",
        initial_step="count",
        create_initial_state=lambda: {"answers": 0},
        parse_state=dict,
        run_turn=run_turn,
    )


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What ``work(0)`` … ``work(63)`` returned or raised, all let go at the same moment."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS

    def one(index: int) -> None:
        barrier.wait(timeout=60)
        try:
            results[index] = work(index)
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert not any(thread.is_alive() for thread in threads)
    return results


@pytest.fixture
def app(database_url: str) -> Any:
    with prowess.open(database_url, skills=[counting()]) as opened:
        yield opened


def answer(app: Prowess, message_id: str, text: str) -> TurnResult:
    return app.turn(user="u1", agent="mira", conversation="c1", message_id=message_id, text=text)


def test_w6_of_64_answers_to_one_session_each_revision_is_advanced_once(app: Prowess) -> None:
    begun = answer(app, "start", "/counting")
    assert begun.session is not None
    results = at_once(lambda index: answer(app, f"m{index}", f"answer {index}"))
    advanced = [result for result in results if isinstance(result, TurnResult)]
    lost = [result for result in results if not isinstance(result, TurnResult)]
    assert all(isinstance(error, Conflict) and error.code == "session_changed" for error in lost), lost
    assert len(advanced) + len(lost) == THREADS
    revisions = sorted(result.session.revision for result in advanced if result.session)
    assert revisions == list(range(2, len(advanced) + 2))
    (session,) = app.sessions(user="u1")
    assert (session.revision, session.state) == (1 + len(advanced), {"answers": len(advanced)})
    assert len(app.runs(user="u1")) == 1 + len(advanced)
    # What lost left nothing behind, and can be sent again.
    assert len(app.messages("c1", limit=1000)) == 2 * (1 + len(advanced))
    for index, result in enumerate(results):
        if isinstance(result, Conflict):
            answer(app, f"m{index}", f"answer {index}")
    assert app.sessions(user="u1")[0].state == {"answers": THREADS}


def test_w5_of_64_deliveries_of_one_answer_one_advances_and_all_get_its_reply(app: Prowess) -> None:
    answer(app, "start", "/counting")
    results = at_once(lambda _: answer(app, "same", "the one answer"))
    assert all(isinstance(result, TurnResult) for result in results), Counter(map(repr, results))
    assert {result.reply for result in results} == {results[0].reply}
    assert {result.session.revision for result in results} == {2}
    assert sum(not result.replayed for result in results) == 1
    assert len(app.runs(user="u1")) == 2
    assert len(app.messages("c1", limit=1000)) == 4


def test_w3_of_64_new_sessions_in_one_chat_one_begins(app: Prowess) -> None:
    results = at_once(lambda index: answer(app, f"m{index}", "/counting"))
    assert all(isinstance(result, TurnResult | Conflict | prowess.LimitExceeded) for result in results)
    live = [session for session in app.sessions(user="u1") if session.parked_at is None]
    assert len(live) == 1


def test_t1_of_64_first_messages_of_new_chats_each_is_served(app: Prowess) -> None:
    results = at_once(
        lambda index: app.turn(user="u1", agent="mira", conversation=f"c{index}", message_id="m", text="hello")
    )
    assert all(isinstance(result, TurnResult) for result in results), Counter(map(repr, results))
    assert len(app.conversations(user="u1")) == THREADS
    assert [agent.id for agent in app.agents()] == ["mira"]


_WORKER = """
import json, sys, time
import prowess
url, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
app = prowess.open(url)
app.grant(user=name, skill="memory-recall", code="memory:read")
app.add_memory(name, "mira", "I like tea")
print("ready", flush=True)
sys.stdin.readline()
texts = ("hello", "Do you remember what I like?", "帮我安排明天计划")
sent, errors = 0, []
end = time.monotonic() + seconds
while time.monotonic() < end:
    try:
        app.turn(user=name, agent="mira", conversation=name, message_id=f"m{sent}", text=texts[sent % 3])
        sent += 1
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")
print(json.dumps({"sent": sent, "errors": errors[:3]}))
"""


def crowd(tmp_path: Path, seconds: float) -> None:
    """Eight processes on one SQLite file: every turn that was acknowledged is there, whole, and nobody saw a lock."""
    path = tmp_path / "shared.db"
    url = f"sqlite:///{path}"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, url, f"u{index}", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(8)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = [json.loads(worker.communicate(timeout=seconds + 60)[0]) for worker in workers]
    assert [result["errors"] for result in results] == [[]] * 8
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for index, result in enumerate(results):
            name, sent = f"u{index}", result["sent"]
            assert sent > 0

            def count(table: str, where: str, name: str = name) -> int:
                return int(connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", (name,)).fetchone()[0])

            assert count("messages", "chat_id = ?") == 2 * sent
            assert count("turns", "chat_id = ? AND reply_id IS NOT NULL") == sent
            assert count("skill_runs", "user_id = ? AND status = 'completed'") == sent - (sent + 2) // 3
            assert count("skill_tool_executions", "user_id = ? AND status = 'succeeded'") == (sent + 1) // 3
            assert count("events", "user_id = ? AND type = 'turn.completed'") == sent
            counted = connection.execute("SELECT message_count FROM conversations WHERE id = ?", (name,)).fetchone()
            assert counted == (2 * sent,)


def test_r1_eight_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    crowd(tmp_path, 5)


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_r1_eight_processes_on_one_file_for_a_minute(tmp_path: Path) -> None:
    crowd(tmp_path, 60)


_VICTIM = """
import sys
import prowess
app = prowess.open(sys.argv[1])
number = int(sys.argv[2])
while True:
    text = "/long-term-goal-planning learn to swim in half a year" if number % 4 == 0 else f"answer {number}"
    app.turn(user="u1", agent="mira", conversation="c1", message_id=f"m{number}", text=text)
    print(number, flush=True)
    number += 1
"""


def kill_and_repair(tmp_path: Path, times: int) -> None:
    """A process killed in the middle of its turns: what it acknowledged stands, the message it died on is finished."""
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    done = -1
    for _ in range(times):
        with subprocess.Popen(
            [sys.executable, "-c", _VICTIM, url, str(done + 1)], stdout=subprocess.PIPE, text=True
        ) as victim:
            assert victim.stdout is not None
            for _ in range(5):
                done = int(victim.stdout.readline())
            os.kill(victim.pid, signal.SIGKILL)
            rest = victim.stdout.read().split()
            done = int(rest[-1]) if rest else done
        with prowess.open(url) as app:
            number = done + 1
            text = "/long-term-goal-planning learn to swim in half a year" if number % 4 == 0 else f"answer {number}"
            result = answer(app, f"m{number}", text)
            assert result.reply
            assert answer(app, f"m{number}", text).replayed
            done = number
            said = [message.id for message in app.messages("c1", limit=10_000) if message.author_kind == "user"]
            assert said == [f"m{index}" for index in range(done + 1)]
            replies = Counter(m.reply_to for m in app.messages("c1", limit=10_000) if m.author_kind == "agent")
            assert replies == Counter(said)


def test_w5_a_process_killed_in_mid_turn_loses_nothing(tmp_path: Path) -> None:
    kill_and_repair(tmp_path, 3)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_w5_a_process_killed_in_mid_turn_fifty_times(tmp_path: Path) -> None:
    kill_and_repair(tmp_path, 50)
