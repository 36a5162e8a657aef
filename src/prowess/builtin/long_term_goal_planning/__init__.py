"""``long-term-goal-planning@1.0.0``: the first workflow skill (W10)."""

from prowess.builtin.long_term_goal_planning.skill import skill

__all__ = ["skill"]
