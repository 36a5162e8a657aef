"""The tools of one turn as its voice sees them (T11, T12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.request import PlanTool

Answer = Callable[[TurnPlan, str, Any], ToolOutcome]


class PlanToolBox:
    """A ``ToolBox`` over a plan: every call goes the way of ``app.call``."""

    def __init__(self, plan: TurnPlan, call: Answer) -> None:
        self._plan = plan
        self._call = call

    def tools(self) -> tuple[PlanTool, ...]:
        """What may be called at this moment. Raises ``Conflict('turn_stopped')``: then nothing more is asked (U10)."""
        self._plan.stop.check()
        return self._plan.tools

    def call(self, name: str, arguments: Any) -> Mapping[str, Any]:
        """The answer for the model. Raises as ``tools``, also where the turn was stopped during the call."""
        self._plan.stop.check()
        answer = self._call(self._plan, name, arguments).to_answer()
        self._plan.stop.check()
        return answer
