"""What the law speaks of: risk, requirements, grants, requests and decisions. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

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


class Layer(StrEnum):
    """The five questions of section 1, in the order they are asked, and the two that come before them."""

    CATALOG = "catalog"
    """is there such a skill or tool at all"""
    BINDING = "binding"
    """is the skill enabled here"""
    FILTER = "filter"
    ENTITLEMENT = "entitlement"
    ACTIVATION = "activation"
    CONSENT = "consent"
    APPROVAL = "approval"


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


@dataclass(frozen=True, slots=True)
class Grant:
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


@dataclass(frozen=True, slots=True)
class GateRequest:
    """One question to the gate: may this skill do this, now, for this user, through this agent?"""

    tenant: str
    user: str
    agent: str
    skill_id: str
    skill_version: str
    action: str
    """what is about to happen, such as ``tool:agent-memory.search``"""
    target: str | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the gate may look at. Whatever could not be learned is ``None``, and a missing fact is a deny (G3)."""

    requirements: tuple[PermissionRequirement, ...] | None
    grants: tuple[Grant, ...] | None
    enabled: bool | None
    now: datetime | None


Effect = Literal["allow", "deny", "ask"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate's answer."""

    effect: Effect
    layer: Layer | None
    """the layer that decided; null where every layer said yes"""
    grants: tuple[Grant, ...] = ()
    """the grant that served each requirement, in the order of the requirements"""
    missing: tuple[str, ...] = ()
    """codes that no current grant covers"""
    reason: str = "allowed"
    """a stable word: ``allowed``, ``consent_missing``, ``approval_required``, ``forbidden_risk``, ``skill_disabled``,
    ``could_not_decide``"""

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
