"""Explaining a tool or a skill to an operator: every layer's answer, and what the answer hangs on (G14, U12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from prowess.access.actions import effective_action
from prowess.access.capabilities import META_TOOLS
from prowess.access.explain import Explanation, Step, explain
from prowess.access.gate import decide
from prowess.access.model import Decision, EffectiveAction, Layer
from prowess.access.surface import CapabilitySurface, GroupId, SkillEntry
from prowess.errors import InvalidInput
from prowess.kernel.names import normalise_skill_name
from prowess.skills.catalog import Catalog
from prowess.skills.manifest import ChatScope
from prowess.turns.budgets import Budgets
from prowess.turns.definitions import SkillDefinition, ToolSkill
from prowess.turns.questions import Asked, Call, gate_facts, gate_request, meta_question
from prowess.turns.request import TurnRequest
from prowess.turns.runners.tool import input_faults, validate_input
from prowess.turns.view import TurnView


@dataclass(frozen=True, slots=True)
class ReachExplanation:
    """An explanation, with the entries of the surface on which the answer hangs."""

    explanation: Explanation
    decisive_entries: tuple[str, ...]
    """``skill:…``, ``group:…``, ``tool:…``: each, taken from the surface, would change the answer"""

    @property
    def decision(self) -> Decision:
        """The gate's decision."""
        return self.explanation.decision

    def to_json(self) -> Mapping[str, Any]:
        """That of ``Explanation``, ``decisive`` holding the entries of the surface too."""
        shown = dict(self.explanation.to_json())
        return shown | {"decisive": [*shown["decisive"], *self.decisive_entries]}


def explain_tool(
    connection: Connection,
    now: datetime,
    view: TurnView,
    request: TurnRequest,
    tool: str,
    arguments: Mapping[str, Any] | None,
    budgets: Budgets,
) -> ReachExplanation:
    """What the gate would say of a call of ``tool`` at this moment. Raises ``InvalidInput('tool_arguments')``."""
    if tool in META_TOOLS:
        return ReachExplanation(explain(*meta_question(request, view, tool, arguments, (), now)), ())
    found = find_tool(view, tool)
    if found is None:
        verdict = view.surface(None).execute(tool)
        decision = Decision("allow" if verdict.allowed else "deny", verdict.layer, reason=verdict.reason)
        return ReachExplanation(Explanation(decision, _one(decision), ()), ())
    asked = None if arguments is None else _asked(found, arguments)
    language = "en"
    call = Call(request, found, 0, language, None, view)
    facts = gate_facts(connection, call, asked, now)
    facts.over_budget = budgets.over_budget(connection, call)
    explanation = explain(gate_request(call, asked), facts)
    effect = explanation.decision.effect
    decisive: list[str] = []
    for name, narrower in _narrower(view) if effect != "deny" else ():
        facts = gate_facts(connection, replace(call, view=narrower), asked, now)
        if decide(gate_request(call, asked), facts).effect != effect:
            decisive.append(name)
    return ReachExplanation(explanation, tuple(decisive))


def explain_skill(view: TurnView, catalog: Catalog[SkillDefinition], skill: str) -> ReachExplanation:
    """Whether a skill exists for this call."""
    entry = catalog.current(normalise_skill_name(skill))
    if entry is None:
        decision = Decision("deny", Layer.CATALOG, reason="not_found")
        return ReachExplanation(Explanation(decision, _one(decision), ()), ())
    skill_id = entry.manifest.id
    bound = next((item for item in view.bound if item.manifest.id == skill_id), None)
    hidden = view.hidden(bound or entry)
    if hidden is not None:
        layer = {"filtered": Layer.FILTER, "not_granted": Layer.ENTITLEMENT, "policy": Layer.POLICY}[hidden]
        decision = Decision("deny", layer, reason=hidden)
    elif bound is None:
        decision = Decision("deny", Layer.BINDING, reason="skill_disabled")
    else:
        decision = Decision("allow", None)
    decisive: tuple[str, ...] = ()
    if decision.allowed and bound is not None:
        decisive = tuple(name for name, narrower in _narrower(view) if narrower.hidden(bound) is not None)
    return ReachExplanation(Explanation(decision, _one(decision), ()), decisive)


def find_tool(view: TurnView, tool: str) -> ToolSkill | None:
    """The tool by its id, in whichever kind of chat it serves."""
    tools = (*view.tools_in(ChatScope.SINGLE), *view.tools_in(ChatScope.GROUP))
    return next((item for item in tools if item.tool_id == tool), None)


def action_of(tool: ToolSkill, arguments: Mapping[str, Any]) -> EffectiveAction:
    """The effective action of a call with these arguments (U5). Raises ``InvalidInput('tool_arguments')``."""
    return _asked(tool, arguments).action


def _asked(tool: ToolSkill, arguments: Mapping[str, Any]) -> Asked:
    try:
        validated = validate_input(tool, arguments)
        resource = None if tool.resource is None else tool.resource(validated)
    except ValidationError as error:
        places = [fault["place"] for fault in input_faults(error)]
        raise InvalidInput("tool_arguments", field="arguments", tool=tool.tool_id, places=places) from None
    except Exception:
        raise InvalidInput("tool_arguments", field="arguments", tool=tool.tool_id, places=["arguments"]) from None
    action = effective_action(tool.tool_id, tool.effect, resource, validated.model_dump(mode="json"))
    return Asked(resource, action, ())


def _narrower(view: TurnView) -> list[tuple[str, TurnView]]:
    """The view without each single entry of its surfaces, by the entry's name."""
    found: list[tuple[str, TurnView]] = []
    for index, layer in enumerate(view.rights.layers):
        for name, entry in _entries(layer):
            layers = (*view.rights.layers[:index], layer.without(entry), *view.rights.layers[index + 1 :])
            found.append((name, replace(view, rights=replace(view.rights, layers=layers))))
    return found


def _entries(layer: CapabilitySurface) -> list[tuple[str, SkillEntry | GroupId | str]]:
    skills = [(f"skill:{entry.id}", entry) for entry in sorted(layer.skills or (), key=str)]
    groups = [(f"group:{entry}", entry) for entry in sorted(layer.groups or (), key=str)]
    tools = [(f"tool:{entry}", entry) for entry in sorted(layer.tools or ())]
    return [*skills, *groups, *tools]


def _one(decision: Decision) -> tuple[Step, ...]:
    if decision.layer is None:
        return ()
    return (Step(decision.layer, "deny", decision.reason, decision.rule),)
