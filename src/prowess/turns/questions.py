"""What the gate is asked about a tool call, and what is so at that moment (G3, G4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel
from sqlalchemy import Connection

from prowess.access.actions import effective_action
from prowess.access.approvals.model import Approval
from prowess.access.approvals.store import find_open
from prowess.access.approvers.store import opened_codes
from prowess.access.capabilities import NOT_ALLOWED_HERE
from prowess.access.guards import Guard, ask_guards
from prowess.access.model import (
    ApprovalMode,
    Decision,
    EffectiveAction,
    Facts,
    GateRequest,
    Mode,
    Risk,
    RuleVerdict,
    StandingApproval,
    Verdict,
)
from prowess.access.standing.service import difference
from prowess.access.standing.store import current_standing
from prowess.access.store import active_grants
from prowess.kernel.canonical import digest
from prowess.skills.bindings import is_enabled
from prowess.skills.store import bindings_for
from prowess.turns.definitions import ToolSkill
from prowess.turns.equipment import find_equipped
from prowess.turns.executions import idempotency_key
from prowess.turns.fencing import Fence
from prowess.turns.request import TurnRequest
from prowess.turns.scripting import ToolCaller, Within
from prowess.turns.stopping import TurnStop
from prowess.turns.view import TurnView


@dataclass(frozen=True, slots=True)
class Call:
    """One call on its way: who, what, the how-manieth of this tool in this turn, and what its turn may see."""

    request: TurnRequest
    tool: ToolSkill
    ordinal: int
    language: str
    run_id: str | None
    view: TurnView
    serving: str | None = None
    """the skill that serves the turn: its manual is loaded for as long as the turn lasts (G7)"""
    allowed: frozenset[str] | None = None
    """the only tools that the serving skill may use, where it says so (C41)"""
    fence: Fence | None = None
    """asked in the transaction that admits the call, where a job runs the turn"""
    resumed: Approval | None = None
    """the approval by which an earlier call goes on; then nobody is asked anew"""
    stop: TurnStop | None = None
    """told when the turn is stopped (U10)"""
    caller: ToolCaller | None = None
    """calls tools for its script, on the road of a model's call"""
    within: Within | None = None
    """the script's call that made this one; then what would ask a person is refused"""

    @property
    def depth(self) -> int:
        """How many scripts it was made through."""
        return 0 if self.within is None else self.within.depth

    @property
    def key(self) -> str:
        """The idempotency key of its execution (ruling 12.26)."""
        request = self.request
        return idempotency_key(
            request.tenant,
            request.user,
            request.agent,
            request.chat,
            self.tool.tool_id,
            request.message_id,
            self.ordinal,
        )

    @property
    def skill(self) -> tuple[str, str]:
        """Id and version, as events name them."""
        return (self.tool.manifest.id, self.tool.manifest.version)


class Asked(NamedTuple):
    """What the validated input of a call comes to for the law."""

    resource: str | None
    action: EffectiveAction
    guards: tuple[RuleVerdict, ...] = ()
    input_digest: str | None = None
    rival: str | None = None
    """another agent of the task has changed the resource: the rule that a person's yes must name (B17)"""


def asked_of(call: Call, validated: BaseModel, plain: Mapping[str, Any], guards: Sequence[Guard]) -> Asked:
    """Resource, effective action, and what the guards say.

    ``plain`` is the input as JSON. Guards take their time: to be asked outside any transaction. Raises what a tool's
    own ``resource`` raises, and ``TypeError`` where it names none.
    """
    tool = call.tool
    resource = None if tool.resource is None else tool.resource(validated)
    if tool.resource is not None and not isinstance(resource, str):
        raise TypeError("a tool that has resources names one for every call")
    action = effective_action(tool.tool_id, tool.effect, resource, plain)
    input_digest = digest(plain)
    if not guards:
        return Asked(resource, action, (), input_digest)
    attempt = call.view.attempt(tool.manifest.id, tool.tool_id, tool.effect, resource)
    return Asked(resource, action, ask_guards(guards, attempt), input_digest)


def gate_request(call: Call, asked: Asked | None) -> GateRequest:
    """The question; ``asked`` null: before the arguments are known."""
    request, tool = call.request, call.tool
    return GateRequest(
        tenant=request.tenant,
        user=request.user,
        agent=request.agent,
        skill_id=tool.manifest.id,
        skill_version=tool.manifest.version,
        action=f"tool:{tool.tool_id}",
        resource=None if asked is None else asked.resource,
        verb=tool.effect,
        tentative=asked is None and tool.resource is not None,
        input_digest=None if asked is None else asked.input_digest,
    )


def gate_facts(connection: Connection, call: Call, asked: Asked | None, now: datetime, *, final: bool = True) -> Facts:
    """What is so at this moment. A database that fails raises: nothing runs then, and nothing could be audited.

    ``final`` false: the arguments are still to come, so what would be asked is not refused yet in a mode that asks
    nobody: it may be allowed already.
    """
    request, tool, view = call.request, call.tool, call.view
    skill_id, mode = tool.manifest.id, view.rights.mode
    standing: tuple[StandingApproval, ...] = ()
    if asked is not None:
        known = current_standing(connection, request.tenant, request.user, skill_id)
        standing = tuple(item for item in known if difference(item, request.agent, asked.action) is None)
    requirements = tool.manifest.permission_requirements
    irreversible = any(requirement.risk is Risk.L4 for requirement in requirements)
    return Facts(
        requirements=requirements,
        grants=active_grants(connection, request.tenant, request.user, skill_id),
        enabled=is_enabled(skill_id, bindings_for(connection, request.tenant, request.user, request.agent)),
        now=now,
        reach=_reach(connection, call),
        policy=view.judge(skill_id, tool.tool_id, tool.effect, None if asked is None else asked.resource),
        guards=() if asked is None else asked.guards,
        standing=standing,
        mode=mode if final or mode is not Mode.DONT_ASK else Mode.DEFAULT,
        destructive=tool.destructive,
        opened=frozenset(opened_codes(connection, request.tenant)) if irreversible else frozenset(),
        unattended=view.rights.unattended,
    )


def with_approval(connection: Connection, call: Call, asked: Asked, facts: Facts) -> Facts | None:
    """The facts with the open approval for this very call, read only when something would ask; null: there is none.

    Where changes conflict, only a yes that was asked for because of that very rival serves.
    """
    found = find_open(connection, call.key)
    if found is None or asked.rival not in (None, found.call.rule):
        return None
    return replace(facts, approval=found.as_fact())


def refused_in_script(decision: Decision, call: Call) -> Decision:
    """The decision on a call that a script made: nobody is asked behind its back, and nothing waits (G13).

    What would have been asked is named, so that the tool can be called where somebody can say yes.
    """
    if decision.effect != "ask":
        return decision
    needed = call.tool.manifest.permission_requirements
    touched = [item for item in needed if not (item.risk is Risk.L0 and item.approval is ApprovalMode.NONE)]
    each = tuple(item.code for item in touched if item.approval is ApprovalMode.PER_OPERATION)
    missing = each or tuple(item.code for item in touched)
    return decision._replace(effect="deny", missing=missing, reason="approval_in_script")


def meta_question(
    request: TurnRequest, view: TurnView, tool: str, arguments: Any, guards: Sequence[Guard], now: datetime
) -> tuple[GateRequest, Facts]:
    """Question and facts of a call of a meta tool.

    The rules are asked about the skill that is to be loaded, where it exists for this call: hidden and absent must not
    be told apart by them (G8). A meta tool changes only what the conversation shows, so it counts as reading.
    """
    asked = arguments.get("skill_id") if isinstance(arguments, Mapping) else None
    entry = view.entry(asked, request.scope) if isinstance(asked, str) else None
    skill = "" if entry is None else entry.manifest.id
    facts = Facts(
        requirements=(),
        grants=(),
        enabled=True,
        now=now,
        reach=view.surface(None).execute(tool),
        policy=view.judge(skill, tool, "read"),
        guards=ask_guards(guards, view.attempt(skill, tool, "read", None)),
        mode=view.rights.mode,
    )
    return GateRequest(request.tenant, request.user, request.agent, skill, "", f"tool:{tool}", verb="read"), facts


def _reach(connection: Connection, call: Call) -> Verdict:
    """Filter, entitlement and activation, with what is equipped at this moment."""
    if call.allowed is not None and call.tool.tool_id not in call.allowed:
        return NOT_ALLOWED_HERE
    surface = call.view.surface(find_equipped(connection, call.request))
    if call.serving is not None:
        surface = surface.with_loaded(call.serving)
    return surface.execute(call.tool.tool_id)
