"""Many at once on one database: one message delivered often, and chats and sessions that begin at the same moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
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
