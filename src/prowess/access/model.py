"""What the law speaks of: risk, requirements, grants, requests and decisions. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

CODE_PATTERN = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")


class Risk(StrEnum):
    """Risk levels of G1."""

    L0 = "L0"
    """no protected resource"""
    L1 = "L1"
    """reads protected data"""
    L2 = "L2"
    """revocable write inside the system"""
    L3 = "L3"
    """external write or high impact"""
    L4 = "L4"
    """irreversible: payment, deletion, public post"""


class ApprovalMode(StrEnum):
    """How a yes is given (G1)."""

    NONE = "none"
    PERSISTENT = "persistent"
    PER_OPERATION = "per_operation"


class GrantScope(StrEnum):
    """Whether a grant holds for all the user's agents or for one (G2)."""

    USER = "user"
    AGENT = "agent"


class GrantStatus(StrEnum):
    """A revoked grant never becomes active again (ruling 12.29)."""

    ACTIVE = "active"
    REVOKED = "revoked"


class Mode(StrEnum):
    """How far a turn may go without asking; a deny is a deny in each (conformance B)."""

    DEFAULT = "default"
    """what needs a yes is asked for"""
    BYPASS = "bypass"
    """nobody is asked, but where high impact or a guard asks; no deny is skipped"""
    DONT_ASK = "dont_ask"
    """nobody is there to answer: what would be asked is denied"""
    EXPLORE = "explore"
    """only what reads"""


class Layer(StrEnum):
    """The five questions of section 1, and what the operator put between them, in the order they are asked."""

    CATALOG = "catalog"
    """is there such a skill or tool at all"""
    BINDING = "binding"
    """is the skill enabled here"""
    FILTER = "filter"
    ENTITLEMENT = "entitlement"
    ACTIVATION = "activation"
    POLICY = "policy"
    """a rule of a policy file, or the mode"""
    GUARD = "guard"
    """a guard of the operator's own"""
    CONSENT = "consent"
    APPROVAL = "approval"
    QUOTA = "quota"
    """is there budget left for it"""


class Verdict(NamedTuple):
    """What filter, entitlement and activation say of one thing."""

    allowed: bool
    layer: Layer | None
    """the layer that said no; null where all said yes"""
    reason: str
    """``granted``, ``system``, ``unrestricted``; or the reason of the refusal, as in ``Decision``"""
    by: tuple[str, str] | None = None
    """the entry that granted it: (``skill`` | ``group`` | ``tool``, name)"""


@dataclass(frozen=True, slots=True)
class PermissionRequirement:
    """A permission that a manifest asks for (G1)."""

    code: str
    risk: Risk
    approval: ApprovalMode = ApprovalMode.PERSISTENT

    def __post_init__(self) -> None:
        # The gate compares levels by identity, so plain words become the real ones here or are refused.
        object.__setattr__(self, "risk", Risk(self.risk))
        object.__setattr__(self, "approval", ApprovalMode(self.approval))
        if not CODE_PATTERN.fullmatch(self.code):
            raise ValueError(f"permission code {self.code!r} is not of the form resource:action")
        if self.risk in (Risk.L3, Risk.L4) and self.approval is not ApprovalMode.PER_OPERATION:
            raise ValueError(f"{self.code}: {self.risk} always needs per_operation approval")
        if self.risk in (Risk.L1, Risk.L2) and self.approval is ApprovalMode.NONE:
            raise ValueError(f"{self.code}: {self.risk} cannot go without consent")


class Grant(NamedTuple):
    """One consent of one user to one skill (G2)."""

    id: str
    tenant: str
    user: str
    skill_id: str
    skill_version: str
    """the version at the time of the grant; kept for the record, not matched"""
    code: str
    scope: GrantScope
    agent: str | None
    """the agent, where ``scope`` is ``agent``"""
    resource: str | None
    status: GrantStatus
    granted_at: datetime
    granted_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


Effect = Literal["allow", "deny", "ask"]
Verb = Literal["read", "write"]


class EffectiveAction(NamedTuple):
    """What a call really does, whatever it is wrapped in (U5). A triple, never a joined string."""

    tool: str
    verb: Verb
    resource: str
    """what it acts on: an address, a path, a command's exact words, or the digest of its arguments"""


@dataclass(frozen=True, slots=True)
class StandingApproval:
    """An "always allow" of one user for one effective action; revocable (U5)."""

    id: str
    tenant: str
    user: str
    agent: str
    skill_id: str
    action: EffectiveAction
    created_at: datetime
    revoked_at: datetime | None = None


class CallApproval(NamedTuple):
    """What the gate is shown of an approval: what it is bound to, and whether it can serve still (G13)."""

    id: str
    tenant: str
    user: str
    agent: str
    skill_id: str
    skill_version: str
    action: str
    """as in ``GateRequest``"""
    input_digest: str
    """of exactly the arguments that were shown (ruling 12.27)"""
    approved: bool
    """false: nobody has answered yet"""
    used: bool
    expires_at: datetime


@dataclass(slots=True)
class GateRequest:
    """One question to the gate: may this skill do this, now, for this user, through this agent?

    Not frozen, like ``Facts``: both are made for every decision, and freezing triples what that costs.
    """

    tenant: str
    user: str
    agent: str
    skill_id: str
    skill_version: str
    action: str
    """what is about to happen, such as ``tool:agent-memory.search``"""
    target: str | None = None
    resource: str | None = None
    """what it acts on, where the tool says so (ruling 12.32)"""
    verb: Verb = "write"
    tentative: bool = False
    """asked before the arguments are known: a grant for some resource may serve, and is looked at again with them"""
    input_digest: str | None = None
    """of the arguments, once they are known: an approval is for these and no others (C32)"""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a policy file or a guard says. ``effect`` null: nothing."""

    effect: Effect | None
    rule: str | None = None
    """the rule's or guard's name"""


NO_RULE = RuleVerdict(None)


@dataclass(slots=True)
class Facts:
    """All that the gate may look at. Whatever could not be learned is ``None``, and a missing fact is a deny (G3)."""

    requirements: tuple[PermissionRequirement, ...] | None
    grants: tuple[Grant, ...] | None
    enabled: bool | None
    now: datetime | None
    reach: Verdict | None = None
    """what filter, entitlement and activation say of the target"""
    policy: RuleVerdict | None = NO_RULE
    guards: tuple[RuleVerdict, ...] | None = ()
    standing: tuple[StandingApproval, ...] | None = ()
    """what the user has always allowed for this very action (U5)"""
    mode: Mode | None = Mode.DEFAULT
    destructive: bool | None = False
    """whether the tool was declared so; an irreversible one (L4) is so anyway (ruling 12.25)"""
    approval: CallApproval | None = None
    """the open approval for this very call; null: there is none"""
    opened: frozenset[str] | None = frozenset()
    """irreversible (L4) codes that the tenant opened"""
    unattended: frozenset[str] | None = None
    """null: the user is there; else the codes that the trigger's policy pre-approved (B14)"""
    over_budget: str | None = None
    """the quota that has no room for this operation; null: every one has (U9)"""


class Decision(NamedTuple):
    """The gate's answer."""

    effect: Effect
    layer: Layer | None
    """the layer that decided; null where every layer said yes"""
    grants: tuple[Grant, ...] = ()
    """the grant that served each requirement, in the order of the requirements"""
    missing: tuple[str, ...] = ()
    """codes that no current grant covers"""
    reason: str = "allowed"
    """a stable word: ``allowed``, ``approved``, ``preapproved``, ``consent_missing``, ``approval_required``,
    ``arguments_differ``, ``forbidden_risk``, ``skill_disabled``, ``not_found``, ``not_granted``, ``not_active``,
    ``not_allowed_here``, ``policy_denies``, ``guard_denies``, ``explore_mode``, ``nobody_to_ask``,
    ``quota_exhausted``, ``could_not_decide``"""
    rule: str | None = None
    """the policy rule, guard, standing approval, approval or quota that decided, where one did"""

    @property
    def allowed(self) -> bool:
        """Whether the operation may go on."""
        return self.effect == "allow"

    def to_json(self) -> Mapping[str, Any]:
        """``{"effect", "layer", "missing", "reason"}``."""
        return {
            "effect": self.effect,
            "layer": None if self.layer is None else str(self.layer),
            "missing": list(self.missing),
            "reason": self.reason,
        }
