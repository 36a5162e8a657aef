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


COULD_NOT_DECIDE = Decision("deny", None, reason="could_not_decide")


def decide(request: GateRequest, facts: Facts) -> Decision:
    """May ``request`` go on, given ``facts``? Never raises: a fault in the facts is a deny."""
    try:
        return _decide(request, facts)
    except Exception:
        return COULD_NOT_DECIDE


def _decide(request: GateRequest, facts: Facts) -> Decision:
    if not _complete(facts):
        return COULD_NOT_DECIDE
    denied = _forbidden(request, facts)
    if denied is not None:
        return denied
    serving: list[Grant] = []
    missing: list[str] = []
    for requirement in facts.requirements:
        if not _needs_consent(requirement):
            continue
        grant = _serving_grant(request, requirement.code, facts)
        if grant is None:
            missing.append(requirement.code)
        else:
            serving.append(grant)
    if missing:
        return Decision("deny", Layer.CONSENT, missing=tuple(missing), reason="consent_missing")
    return _approval(facts, tuple(serving))


def _complete(facts: Any) -> TypeGuard[_KnownFacts]:
    """Whether every fact is there and of its very type: half a fact is none (G3)."""
    return (
        type(facts.requirements) is tuple
        and type(facts.grants) is tuple
        and type(facts.standing) is tuple
        and type(facts.enabled) is bool
        and type(facts.reach) is Verdict
        and type(facts.policy) is RuleVerdict
        and type(facts.mode) is Mode
        and isinstance(facts.now, datetime)
        and type(facts.guards) is tuple
        and (not facts.guards or all(type(guard) is RuleVerdict for guard in facts.guards))
    )


def _forbidden(request: GateRequest, facts: _KnownFacts) -> Decision | None:
    """What no consent can mend."""
    if facts.reach.allowed is not True:
        return Decision("deny", facts.reach.layer, reason=facts.reach.reason)
    if not facts.enabled:
        return Decision("deny", Layer.BINDING, reason="skill_disabled")
    if facts.policy.effect not in (None, "allow", "ask"):
        return Decision("deny", Layer.POLICY, reason="policy_denies", rule=facts.policy.rule)
    for guard in facts.guards:
        if guard.effect not in ("allow", "ask"):  # a guard that says nothing has not said yes (C39)
            reason = "guard_denies" if guard.effect == "deny" else "could_not_decide"
            return Decision("deny", Layer.GUARD, reason=reason, rule=guard.rule)
    if facts.mode is Mode.EXPLORE and request.verb != "read":
        return Decision("deny", Layer.POLICY, reason="explore_mode")
    for requirement in facts.requirements:
        if requirement.risk is Risk.L4:
            return Decision("deny", Layer.CONSENT, reason="forbidden_risk")
    return None


def _approval(facts: _KnownFacts, serving: tuple[Grant, ...]) -> Decision:
    """Whether somebody has to say yes to this one operation, and whether that can be had.

    A *safety* ask, of high impact (L3) or of a guard, stands whatever was allowed in general. Any other is settled by a
    policy rule that allows, by an "always allow" for this very action, or by the bypass mode.
    """
    rule, asked, safety = facts.policy.rule, facts.policy.effect == "ask", False
    for requirement in facts.requirements:
        if requirement.approval is ApprovalMode.PER_OPERATION:
            asked = asked or facts.policy.effect != "allow"
            safety = safety or requirement.risk is Risk.L3
    for guard in facts.guards:
        if guard.effect == "ask":
            rule, safety = guard.rule, True
    if not safety:
        if asked and facts.standing:
            asked, rule = False, facts.standing[0].id
        if asked and facts.mode is Mode.BYPASS:
            asked = False
    if not (asked or safety):
        return Decision("allow", None, serving, rule=rule)
    if facts.mode is Mode.DONT_ASK:
        return Decision("deny", Layer.APPROVAL, serving, reason="nobody_to_ask", rule=rule)
    return Decision("ask", Layer.APPROVAL, serving, reason="approval_required", rule=rule)


def _needs_consent(requirement: PermissionRequirement) -> bool:
    """L0 without approval touches nothing protected; all else needs the user's consent (G1)."""
    return requirement.risk is not Risk.L0 or requirement.approval is not ApprovalMode.NONE


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
        grant.status is GrantStatus.ACTIVE
        and grant.code == code
        and grant.skill_id == request.skill_id
        and grant.user == request.user
        and grant.tenant == request.tenant
        and (grant.expires_at is None or now < grant.expires_at)
        and (grant.scope is GrantScope.USER or grant.agent == request.agent)
        and (grant.resource is None or request.tentative or covers(grant.resource, request.resource))
    )
