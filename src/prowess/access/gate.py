"""The one gate: a pure function from facts to a decision (G3, rule 4 of the house).

Default deny. Whatever is missing, malformed or raises becomes a deny with the reason ``could_not_decide``; the caller
writes the audit row. Layers of this module: binding (is the skill enabled) and consent with its approval mode.
"""

from __future__ import annotations

from datetime import datetime

from prowess.access.model import (
    ApprovalMode,
    Decision,
    Facts,
    GateRequest,
    Grant,
    GrantScope,
    GrantStatus,
    Layer,
    PermissionRequirement,
    Risk,
)

COULD_NOT_DECIDE = Decision("deny", None, reason="could_not_decide")


def decide(request: GateRequest, facts: Facts) -> Decision:
    """May ``request`` go on, given ``facts``? Never raises: a fault in the facts is a deny."""
    try:
        return _decide(request, facts)
    except Exception:
        return COULD_NOT_DECIDE


def _decide(request: GateRequest, facts: Facts) -> Decision:
    if not (
        isinstance(facts.requirements, tuple)
        and isinstance(facts.grants, tuple)
        and isinstance(facts.enabled, bool)
        and isinstance(facts.now, datetime)
    ):
        return COULD_NOT_DECIDE
    if not facts.enabled:
        return Decision("deny", Layer.BINDING, reason="skill_disabled")
    if any(requirement.risk is Risk.L4 for requirement in facts.requirements):
        return Decision("deny", Layer.CONSENT, reason="forbidden_risk")
    serving: list[Grant] = []
    missing: list[str] = []
    for requirement in facts.requirements:
        if not _needs_consent(requirement):
            continue
        grant = _serving_grant(request, requirement.code, facts.grants, facts.now)
        if grant is None:
            missing.append(requirement.code)
        else:
            serving.append(grant)
    if missing:
        return Decision("deny", Layer.CONSENT, missing=tuple(missing), reason="consent_missing")
    if any(requirement.approval is ApprovalMode.PER_OPERATION for requirement in facts.requirements):
        return Decision("ask", Layer.APPROVAL, grants=tuple(serving), reason="approval_required")
    return Decision("allow", None, grants=tuple(serving))


def _needs_consent(requirement: PermissionRequirement) -> bool:
    """L0 without approval touches nothing protected; all else needs the user's consent (G1)."""
    return requirement.risk is not Risk.L0 or requirement.approval is not ApprovalMode.NONE


def _serving_grant(request: GateRequest, code: str, grants: tuple[Grant, ...], now: datetime) -> Grant | None:
    """The current grant that covers the code: the narrowest, then the oldest, whatever the order of ``grants``."""
    current = [grant for grant in grants if _covers(grant, request, code, now)]
    return min(current, key=lambda grant: (grant.scope is GrantScope.USER, grant.granted_at, grant.id), default=None)


def _covers(grant: Grant, request: GateRequest, code: str, now: datetime) -> bool:
    return (
        grant.status is GrantStatus.ACTIVE
        and (grant.expires_at is None or now < grant.expires_at)
        and (grant.tenant, grant.user, grant.skill_id, grant.code)
        == (request.tenant, request.user, request.skill_id, code)
        and (grant.scope is GrantScope.USER or grant.agent == request.agent)
        and (grant.resource is None or grant.resource == request.resource)
    )
