"""The planning graph: absorb_user_turn → resolve_step → build_output (W10).

LangGraph carries the state from node to node; the nodes are pure functions and can be called without it. The graph has
no checkpointer and no interrupt: the session table is the only store. langgraph is imported when the first planning
turn runs, because its import alone costs more than a second.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict, cast

from prowess.builtin.long_term_goal_planning import wording
from prowess.builtin.long_term_goal_planning.horizon import extract_horizon
from prowess.builtin.long_term_goal_planning.state import FIELD_OF_STEP, FIELDS, STEP_OF_FIELD, PlanningState, Step
from prowess.turns.definitions import WorkflowAdvance, WorkflowTurn

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class Channels(TypedDict):
    """What travels through the graph: the state of the skill, the turn that came in, the advance that goes out."""

    turn: WorkflowTurn
    goal: str | None
    horizon: str | None
    constraints: str | None
    success_criteria: str | None
    current_step: Step
    advance: WorkflowAdvance | None


def absorb_user_turn(channels: Channels) -> dict[str, Any]:
    """Put the user's words into the field that was being collected; a goal may bring its horizon along."""
    field = FIELD_OF_STEP.get(channels["current_step"])
    answer = channels["turn"].text.strip()
    if field is None or not answer:
        return {}
    if field == "goal":
        return {"goal": answer, "horizon": channels["horizon"] or extract_horizon(answer)}
    if field == "horizon":
        return {"horizon": " ".join(answer.split())}
    return {field: answer}


def resolve_step(channels: Channels) -> dict[str, Any]:
    """The first missing field in the fixed order decides the step; with none missing the plan is due."""
    missing = next((field for field in FIELDS if channels[field] is None), None)
    return {"current_step": "build_plan" if missing is None else STEP_OF_FIELD[missing]}


def build_output(channels: Channels) -> dict[str, Any]:
    """One question while a field is missing, the order to plan once none is."""
    turn, step = channels["turn"], channels["current_step"]
    state = PlanningState(
        goal=channels["goal"],
        horizon=channels["horizon"],
        constraints=channels["constraints"],
        success_criteria=channels["success_criteria"],
        current_step=step,
    )
    language = wording.session_language(state, turn)
    if step == "build_plan":
        instruction = wording.plan_instruction(state, language, turn.now.date())
        return {"advance": WorkflowAdvance(state, step, "completed", None, instruction)}
    question = wording.question(step, language)
    instruction = wording.collecting_instruction(state, turn, question, language)
    return {"advance": WorkflowAdvance(state, step, "waiting_user", question, instruction)}


NODES = (absorb_user_turn, resolve_step, build_output)


@cache
def compiled_graph() -> CompiledStateGraph[Channels, None, Channels, Channels]:
    """The compiled graph, made once in a process."""
    # LangSmith would otherwise look for keys and could send what users write to a third party.
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["LANGCHAIN_TRACING_V2"] = "false"
    from langgraph.graph import END, START, StateGraph

    graph = StateGraph(Channels)
    previous = START
    for node in NODES:
        graph.add_node(node.__name__, cast(Any, node))
        graph.add_edge(previous, node.__name__)
        previous = node.__name__
    graph.add_edge(previous, END)
    return graph.compile(name="long-term-goal-planning")


def run_graph(state: PlanningState, turn: WorkflowTurn) -> WorkflowAdvance:
    """One turn through the compiled graph.

    Raises ``RuntimeError`` where the graph lost a key: LangGraph drops what it does not know without a word.
    """
    result = compiled_graph().invoke(Channels(turn=turn, advance=None, **state))
    advance = result.get("advance")
    if result.keys() != Channels.__annotations__.keys() or not isinstance(advance, WorkflowAdvance):
        raise RuntimeError(f"the planning graph returned {sorted(result)}")
    return advance
