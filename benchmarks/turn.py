"""CPU of a three-turn plan with all its records, against the same workflow on LangGraph with its SQLite checkpointer.

Ours: message, turn, session, run and events, committed twice a turn with ``synchronous=FULL``, and the reply of the
offline voice. The peer runs the same node functions over plain values and keeps its checkpoints, nothing else.

    prowess bench turn [PLANS]
"""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

TURNS = (
    "帮我规划未来三个月的英语学习目标。",
    "工作日每天最多一小时，周末可以多一些。",
    "三个月后可以完成一次二十分钟的英文分享。",
)
TARGET = 0.6


def run(args: list[str]) -> dict[str, Any]:
    """``args``: how many plans each side makes (default 60)."""
    plans = int(args[0]) if args else 60
    with tempfile.TemporaryDirectory() as folder:
        ours = _Ours(Path(folder) / "prowess.db")
        peer = _Peer(Path(folder) / "langgraph.db", None)
        lean = _Peer(Path(folder) / "langgraph-exit.db", "exit")
        for side in (ours, peer, lean):
            for plan in range(8):
                side.plan(f"warm-{plan}")
        gc.collect()
        gc.freeze()  # or the collector walks the imported libraries in whichever side's turn it happens to run
        spent: dict[str, list[float]] = {"ours": [], "peer": [], "lean": []}
        for plan in range(plans):
            for name, side in (("ours", ours), ("peer", peer), ("lean", lean)):
                started = time.process_time()
                side.plan(f"plan-{plan}")
                spent[name].append((time.process_time() - started) * 1000 / len(TURNS))
        ours.close()
    median = {name: sorted(values)[len(values) // 2] for name, values in spent.items()}
    return {
        "name": "turn",
        "figures": {"cpu_ms_per_turn": round(median["ours"], 3), "plans": plans},
        "peer": {
            "name": "LangGraph with SqliteSaver, defaults",
            "cpu_ms_per_turn": round(median["peer"], 3),
            "cpu_ms_per_turn_durability_exit": round(median["lean"], 3),
        },
        "ratio": round(median["ours"] / median["peer"], 3),
        "ratio_durability_exit": round(median["ours"] / median["lean"], 3),
        "target": TARGET,
    }


class _Ours:
    def __init__(self, path: Path) -> None:
        import prowess

        self._app = prowess.open(f"sqlite:///{path}")

    def plan(self, conversation: str) -> None:
        result = None
        for index, text in enumerate(TURNS):
            result = self._app.turn(
                user="u1", agent="mira", conversation=conversation, message_id=f"m{index}", text=text
            )
        assert result is not None
        assert result.session is not None
        assert result.session.status == "completed"

    def close(self) -> None:
        self._app.close()


class _State(TypedDict, total=False):
    text: str
    goal: str | None
    horizon: str | None
    constraints: str | None
    success_criteria: str | None
    current_step: str
    before: str
    status: str
    question: str | None
    instruction: str
    say: list[str]


class _Peer:
    """The same three nodes over plain values, checkpointed by LangGraph."""

    def __init__(self, path: Path, durability: str | None) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, StateGraph

        from prowess.builtin.long_term_goal_planning import graph as nodes

        graph = StateGraph(_State)
        graph.add_node(
            "absorb", lambda state: {**nodes.absorb_user_turn(_channels(state)), "before": state["current_step"]}
        )
        graph.add_node("resolve", lambda state: nodes.resolve_step(_channels(state)))
        graph.add_node("output", lambda state: _plain(nodes.build_output(_channels(state))))
        for one, other in ((START, "absorb"), ("absorb", "resolve"), ("resolve", "output"), ("output", END)):
            graph.add_edge(one, other)
        saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
        saver.setup()
        self._graph = graph.compile(checkpointer=saver)
        self._options: dict[str, Any] = {} if durability is None else {"durability": durability}

    def plan(self, thread: str) -> None:
        config = {"configurable": {"thread_id": thread}}
        empty = dict.fromkeys(("goal", "horizon", "constraints", "success_criteria"))
        state: dict[str, Any] = {"text": TURNS[0], "current_step": "collect_goal", **empty}
        result = self._graph.invoke(state, config, **self._options)
        for text in TURNS[1:]:
            result = self._graph.invoke({"text": text}, config, **self._options)
        assert result["status"] == "completed"


def _channels(state: Any) -> Any:
    from prowess.turns.definitions import WorkflowTurn

    before = {"current_step": state.get("before", state["current_step"])}
    turn = WorkflowTurn(before, before["current_step"], state["text"], "zh", False, datetime(2026, 3, 1, tzinfo=UTC))
    return {**state, "turn": turn, "advance": None}


def _plain(update: dict[str, Any]) -> dict[str, Any]:
    advance = update["advance"]
    return {
        "status": advance.status,
        "question": advance.pending_question,
        "instruction": advance.instruction.text,
        "say": list(advance.instruction.say),
    }
