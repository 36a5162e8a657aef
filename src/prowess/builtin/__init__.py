"""The built-in skills: Python definitions in the same catalog as every other skill (S1)."""

from __future__ import annotations

from prowess.builtin import (
    daily_planning,
    daily_report,
    goal_check_in_reminder,
    long_term_goal_planning,
    meeting_minutes,
    memory_recall,
    propose_automation,
)
from prowess.turns.definitions import SkillDefinition

__all__ = ["builtin_skills"]


def builtin_skills() -> tuple[SkillDefinition, ...]:
    """Every built-in skill at its current version. Cheap: no workflow engine is imported until a workflow runs."""
    return (
        long_term_goal_planning.skill(),
        memory_recall.skill(),
        daily_planning.skill(),
        meeting_minutes.skill(),
        goal_check_in_reminder.skill(),
        daily_report.skill(),
        propose_automation.skill(),
    )
