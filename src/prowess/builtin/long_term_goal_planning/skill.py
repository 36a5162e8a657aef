"""The definition of ``long-term-goal-planning@1.0.0`` (W10)."""

from __future__ import annotations

from datetime import timedelta

from prowess.builtin.long_term_goal_planning import triggers
from prowess.builtin.long_term_goal_planning.state import INITIAL_STEP, initial_state, parse_state
from prowess.skills.manifest import ChatScope, SkillKind, SkillManifest
from prowess.turns.definitions import WorkflowAdvance, WorkflowSkill, WorkflowTurn

SESSION_TTL = timedelta(days=14)


def skill() -> WorkflowSkill:
    """The workflow skill that collects goal, horizon, constraints and success criteria, then asks for the plan."""
    return WorkflowSkill(
        manifest=SkillManifest(
            id="long-term-goal-planning",
            version="1.0.0",
            kind=SkillKind.WORKFLOW,
            description=(
                "Plan a goal over months or years, one question at a time: goal, time frame, constraints, success "
                "criteria, then a staged plan. 长期目标规划：逐步确认目标、周期、现实约束和完成标准，再给出分阶段计划。"
            ),
            scopes=(ChatScope.SINGLE,),
            display_name="Long-term goal planning · 长期目标规划",
            triggers=triggers.RULES,
            tags=("planning", "goals", "long-term", "规划", "长期目标"),
            category="planning",
        ),
        session_ttl=SESSION_TTL,
        initial_step=INITIAL_STEP,
        create_initial_state=initial_state,
        parse_state=parse_state,
        run_turn=_run_turn,
    )


def _run_turn(turn: WorkflowTurn) -> WorkflowAdvance:
    from prowess.builtin.long_term_goal_planning.graph import (
        run_graph,  # its patterns are compiled when they are needed
    )

    return run_graph(parse_state(turn.state), turn)
