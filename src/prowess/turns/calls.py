"""A call of a turn, as its plan has it; and those that a running script of it makes in turn (U1, X6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prowess.access.approvals.model import Approval
from prowess.turns.definitions import ToolSkill
from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.questions import Call
from prowess.turns.scripting import Within

Answer = Callable[[TurnPlan, str, Any, Within], ToolOutcome]
"""the road of a model's call: the limits of the turn, the surface, the gate"""


def call_of(
    plan: TurnPlan,
    tool: ToolSkill,
    ordinal: int,
    answer: Answer,
    *,
    within: Within | None = None,
    resumed: Approval | None = None,
) -> Call:
    """The call; its script's own calls go back to ``answer``. ``resumed``: the approval by which it goes on."""

    def caller(name: str, arguments: Mapping[str, Any], inner: Within) -> ToolOutcome:
        return answer(plan, name, arguments, inner)

    run_id = None if plan.record.run is None else plan.record.run.id
    return Call(
        request=plan.request,
        tool=tool,
        ordinal=ordinal,
        language=plan.language if resumed is None else resumed.call.language,
        run_id=run_id if resumed is None else resumed.call.run_id,
        view=plan.view,
        serving=plan.serving,
        allowed=plan.allowed_tools,
        fence=plan.fence,
        resumed=resumed,
        stop=plan.stop,
        caller=caller if tool.script is not None else None,
        within=within,
    )
