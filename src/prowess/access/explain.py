"""Why the gate decides as it does: each layer's answer, and what the answer hangs on (G14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from prowess.access.gate import decide
from prowess.access.model import Decision, Facts, GateRequest, Layer, Mode

Answer = Literal["allow", "deny", "ask", "silent"]

_REACH = (Layer.FILTER, Layer.ENTITLEMENT, Layer.ACTIVATION)


class Step(NamedTuple):
    """One layer's answer; ``silent``: it had nothing to say, or an earlier one had said no."""

    layer: Layer
    answer: Answer
    reason: str
    by: str | None = None
    """the entry, rule, guard or grant that answered"""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and its reasons."""

    decision: Decision
    steps: tuple[Step, ...]
    decisive: tuple[str, ...]
    """consents and approvals each of which, taken back, would change the answer; empty: there is none"""

    def to_json(self) -> Mapping[str, Any]:
        """``{"decision", "steps": [{"layer", "answer", "reason", "by"}], "decisive"}``."""
        return {
            "decision": self.decision.to_json(),
            "steps": [{**step._asdict(), "layer": str(step.layer)} for step in self.steps],
            "decisive": list(self.decisive),
        }


def explain(request: GateRequest, facts: Facts) -> Explanation:
    """The gate's decision with its reasons. Never raises, like the gate."""
    decision = decide(request, facts)
    if decision.reason == "could_not_decide" and decision.layer is None:
        return Explanation(decision, (), ())
    return Explanation(decision, _steps(decision, facts), _decisive(request, facts, decision))


def _decisive(request: GateRequest, facts: Facts, decision: Decision) -> tuple[str, ...]:
    """What the answer hangs on: the gate is asked again without each thing that spoke for it."""
    found: list[str] = []
    for grant in decision.grants:
        without = tuple(item for item in facts.grants or () if item.id != grant.id)
        if decide(request, replace(facts, grants=without)).effect != decision.effect:
            found.append(grant.id)
    for approval in facts.standing or ():
        remaining = tuple(item for item in facts.standing or () if item.id != approval.id)
        if decide(request, replace(facts, standing=remaining)).effect != decision.effect:
            found.append(approval.id)
    given = facts.approval
    if given is not None and decide(request, replace(facts, approval=None)).effect != decision.effect:
        found.append(given.id)
    return tuple(dict.fromkeys(found))


def _steps(decision: Decision, facts: Facts) -> tuple[Step, ...]:
    steps: list[Step] = []
    for layer in (*_REACH, Layer.BINDING, Layer.POLICY, Layer.GUARD, Layer.CONSENT, Layer.APPROVAL, Layer.QUOTA):
        if decision.layer is layer:
            answer: Answer = "ask" if decision.effect == "ask" else "deny"
            steps.append(Step(layer, answer, decision.reason, decision.rule or _missing(decision)))
            break
        steps.append(_passed(layer, decision, facts))
    known = {step.layer for step in steps}
    rest = (Layer.BINDING, Layer.POLICY, Layer.GUARD, Layer.CONSENT, Layer.APPROVAL, Layer.QUOTA)
    return (*steps, *(Step(layer, "silent", "not_asked") for layer in (*_REACH, *rest) if layer not in known))


def _passed(layer: Layer, decision: Decision, facts: Facts) -> Step:
    if layer is Layer.ENTITLEMENT and facts.reach is not None:
        by = facts.reach.by
        return Step(layer, "allow", facts.reach.reason, None if by is None else ":".join(by))
    if layer is Layer.POLICY:
        policy = facts.policy
        if policy is None or policy.effect is None:
            return Step(layer, "silent", "no_rule" if facts.mode is Mode.DEFAULT else f"mode_{facts.mode}")
        return Step(layer, "allow" if policy.effect == "allow" else "ask", "rule", policy.rule)
    if layer is Layer.GUARD and not facts.guards:
        return Step(layer, "silent", "no_guard")
    if layer is Layer.CONSENT:
        if not decision.grants:
            return Step(layer, "silent", "nothing_protected")
        return Step(layer, "allow", "granted", ", ".join(grant.id for grant in decision.grants))
    if layer is Layer.APPROVAL:
        if facts.standing and decision.rule == facts.standing[0].id:
            return Step(layer, "allow", "always_allowed", decision.rule)
        if decision.reason in ("approved", "preapproved"):
            return Step(layer, "allow", decision.reason, decision.rule)
        return Step(layer, "silent", "nobody_need_be_asked")
    if layer is Layer.QUOTA:
        return Step(layer, "silent", "within_budget")
    return Step(layer, "allow", "passed")


def _missing(decision: Decision) -> str | None:
    return ", ".join(decision.missing) or None
