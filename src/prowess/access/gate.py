"""The one gate: a pure function from facts to a decision (G3, rule 4 of the house).

Default deny. Whatever is missing, malformed or raises becomes a deny with the reason ``could_not_decide``; the caller
writes the audit row. Asked in this order, and the first that says no decides: filter, entitlement and activation; the
binding; the operator's policies and guards; consent; approval. No later yes outweighs an earlier no.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeGuard

from prowess.access.model import (
    ApprovalMode,
    CallApproval,
    Decision,
    Facts,
    GateRequest,
    Grant,
    GrantScope,
    GrantStatus,
    Layer,
    Mode,
    PermissionRequirement,
    Risk,
    RuleVerdict,
    StandingApproval,
    Verdict,
)
from prowess.access.resources import covers


class _KnownFacts(Protocol):
    """Facts none of which is missing."""

    @property
    def requirements(self) -> tuple[PermissionRequirement, ...]: ...
    @property
    def grants(self) -> tuple[Grant, ...]: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def now(self) -> datetime: ...
    @property
    def reach(self) -> Verdict: ...
    @property
    def policy(self) -> RuleVerdict: ...
    @property
    def guards(self) -> tuple[RuleVerdict, ...]: ...
    @property
    def standing(self) -> tuple[StandingApproval, ...]: ...
    @property
    def mode(self) -> Mode: ...
    @property
    def destructive(self) -> bool: ...
    @property
    def approval(self) -> CallApproval | None: ...
    @property
    def opened(self) -> frozenset[str]: ...
    @property
    def unattended(self) -> frozenset[str] | None: ...
    @property
    def over_budget(self) -> str | None: ...


COULD_NOT_DECIDE = Decision("deny", None, reason="could_not_decide")

# Members of enums are looked up once: the gate is asked before every tool call.
_ACTIVE, _USER = GrantStatus.ACTIVE, GrantScope.USER
_L0, _L3, _L4 = Risk.L0, Risk.L3, Risk.L4
_NONE, _PER_OPERATION = ApprovalMode.NONE, ApprovalMode.PER_OPERATION
_BYPASS, _DONT_ASK, _EXPLORE = Mode.BYPASS, Mode.DONT_ASK, Mode.EXPLORE


def decide(request: GateRequest, facts: Facts) -> Decision:
    """May ``request`` go on, given ``facts``? Never raises: a fault in the facts is a deny."""
    try:
        return _decide(request, facts)
    except Exception:
        return COULD_NOT_DECIDE


def _decide(request: GateRequest, facts: Facts) -> Decision:
    if type(request) is not GateRequest or not _complete(facts):
        return COULD_NOT_DECIDE
    denied = _forbidden(request, facts)
    if denied is not None:
        return denied
    serving: list[Grant] = []
    missing: list[str] = []
    for requirement in facts.requirements:
        if requirement.risk is _L0 and requirement.approval is _NONE:
            continue  # nothing protected is touched; all else needs the user's consent (G1)
        if requirement.risk is _L4:
            continue  # consented to by two people, operation by operation, and never for good
        grant = _serving_grant(request, requirement.code, facts)
        if grant is None:
            missing.append(requirement.code)
        else:
            serving.append(grant)
    if missing:
        return Decision("deny", Layer.CONSENT, (), tuple(missing), "consent_missing", None)
    decision = _approval(request, facts, tuple(serving))
    if facts.over_budget is not None and decision.effect == "allow":
        return Decision("deny", Layer.QUOTA, (), (), "quota_exhausted", facts.over_budget)
    return decision


def _complete(facts: Any) -> TypeGuard[_KnownFacts]:
    """Whether every fact is there and of its very type, to the last grant: half a fact is none (G3)."""
    guards, standing = facts.guards, facts.standing
    approval, unattended = facts.approval, facts.unattended
    return (
        _all(facts.requirements, PermissionRequirement)
        and _all(facts.grants, Grant)
        and type(standing) is tuple
        and (not standing or _all(standing, StandingApproval))
        and type(guards) is tuple
        and (not guards or _all(guards, RuleVerdict))
        and type(facts.enabled) is bool
        and type(facts.reach) is Verdict
        and type(facts.policy) is RuleVerdict
        and type(facts.mode) is Mode
        and isinstance(facts.now, datetime)
        and facts.now.tzinfo is not None
        and type(facts.destructive) is bool
        and type(facts.opened) is frozenset
        and (approval is None or type(approval) is CallApproval)
        and (unattended is None or type(unattended) is frozenset)
        and (facts.over_budget is None or type(facts.over_budget) is str)
    )


def _all(items: Any, kind: type) -> bool:
    if type(items) is not tuple:
        return False
    for item in items:  # noqa: SIM110 - all() costs more than the rest
        if type(item) is not kind:
            return False
    return True


def _forbidden(request: GateRequest, facts: _KnownFacts) -> Decision | None:
    """What no consent can mend."""
    reach, policy = facts.reach, facts.policy
    if reach.allowed is not True:
        return Decision("deny", reach.layer, (), (), reach.reason, None)
    if not facts.enabled:
        return Decision("deny", Layer.BINDING, (), (), "skill_disabled", None)
    if policy.effect is not None and policy.effect not in ("allow", "ask"):
        return Decision("deny", Layer.POLICY, (), (), "policy_denies", policy.rule)
    for guard in facts.guards:
        if guard.effect not in ("allow", "ask"):  # a guard that says nothing has not said yes (C39)
            reason = "guard_denies" if guard.effect == "deny" else "could_not_decide"
            return Decision("deny", Layer.GUARD, (), (), reason, guard.rule)
    if facts.mode is _EXPLORE and request.verb != "read":
        return Decision("deny", Layer.POLICY, (), (), "explore_mode", None)
    for requirement in facts.requirements:
        if requirement.risk is _L4 and requirement.code not in facts.opened:
            return Decision("deny", Layer.CONSENT, (), (), "forbidden_risk", None)
    return None


def _approval(request: GateRequest, facts: _KnownFacts, serving: tuple[Grant, ...]) -> Decision:
    """Whether somebody has to say yes to this one operation, and whether that was had or can be had.

    A *safety* ask stands whatever was allowed in general: one of high impact (L3, L4) or of a guard, and any call that
    destroys while nobody is there (B14). Any other is settled by a policy rule that allows, by an "always allow" for
    this very action, by the bypass mode, or by what a trigger pre-approved.
    """
    policy, unattended = facts.policy, facts.unattended
    rule, asked = policy.rule, policy.effect == "ask"
    safety = unattended is not None and facts.destructive
    for requirement in facts.requirements:
        if requirement.approval is _PER_OPERATION:
            asked = asked or policy.effect != "allow"
            safety = safety or requirement.risk is _L3 or requirement.risk is _L4
    for guard in facts.guards:
        if guard.effect == "ask":
            rule, safety = guard.rule, True
    reason = "allowed"
    if asked and not safety:
        if facts.standing:
            asked, rule = False, facts.standing[0].id
        elif facts.mode is _BYPASS:
            asked = False
        elif unattended is not None and _preapproved(request, facts, unattended):
            asked, reason = False, "preapproved"
    if not (asked or safety):
        return Decision("allow", None, serving, (), reason, rule)
    return _asked(request, facts, serving, rule)


def _asked(request: GateRequest, facts: _KnownFacts, serving: tuple[Grant, ...], rule: str | None) -> Decision:
    """What needs a yes: it was given to exactly this, or it has to be asked for, or there is nobody to ask."""
    approval = facts.approval
    if approval is not None and _is_for(approval, request) and not approval.used and facts.now < approval.expires_at:
        if approval.input_digest != request.input_digest:
            return Decision("deny", Layer.APPROVAL, serving, (), "arguments_differ", approval.id)
        if approval.approved is True:
            return Decision("allow", None, serving, (), "approved", approval.id)
    if facts.mode is _DONT_ASK:
        return Decision("deny", Layer.APPROVAL, serving, (), "nobody_to_ask", rule)
    return Decision("ask", Layer.APPROVAL, serving, (), "approval_required", rule)


def _is_for(approval: CallApproval, request: GateRequest) -> bool:
    return (
        approval.tenant == request.tenant
        and approval.user == request.user
        and approval.agent == request.agent
        and approval.skill_id == request.skill_id
        and approval.skill_version == request.skill_version
        and approval.action == request.action
    )


def _preapproved(request: GateRequest, facts: _KnownFacts, codes: frozenset[str]) -> bool:
    """Whether a trigger's policy covers the call: reading, of codes all of which it names, one at least."""
    touched = [item.code for item in facts.requirements if not (item.risk is _L0 and item.approval is _NONE)]
    return request.verb == "read" and bool(touched) and codes.issuperset(touched)


def _serving_grant(request: GateRequest, code: str, facts: _KnownFacts) -> Grant | None:
    """The current grant that covers the code: the narrowest, then the oldest, whatever the order of the grants."""
    best: Grant | None = None
    for grant in facts.grants:
        if _covers(grant, request, code, facts.now) and (best is None or _before(grant, best)):
            best = grant
    return best


def _before(grant: Grant, other: Grant) -> bool:
    return (grant.scope, grant.granted_at, grant.id) < (other.scope, other.granted_at, other.id)


def _covers(grant: Grant, request: GateRequest, code: str, now: datetime) -> bool:
    return (
        grant.status is _ACTIVE
        and grant.code == code
        and grant.skill_id == request.skill_id
        and grant.user == request.user
        and grant.tenant == request.tenant
        and (grant.expires_at is None or now < grant.expires_at)
        and (grant.scope is _USER or grant.agent == request.agent)
        and (grant.resource is None or request.tentative is True or covers(grant.resource, request.resource))
    )
