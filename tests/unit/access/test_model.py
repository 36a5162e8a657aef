from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.kit import tool

from prowess.access.model import ApprovalMode, Decision, Layer, PermissionRequirement, Risk

LAWFUL = {
    ("L0", "none"),
    ("L0", "persistent"),
    ("L0", "per_operation"),
    ("L1", "persistent"),
    ("L1", "per_operation"),
    ("L2", "persistent"),
    ("L2", "per_operation"),
    ("L3", "per_operation"),
    ("L4", "per_operation"),
}


@pytest.mark.parametrize("risk", list(Risk))
@pytest.mark.parametrize("approval", list(ApprovalMode))
def test_g1_risk_and_approval_must_fit(risk: Risk, approval: ApprovalMode) -> None:
    if (str(risk), str(approval)) in LAWFUL:
        requirement = PermissionRequirement("memory:read", risk, approval)
        assert (requirement.risk, requirement.approval) == (risk, approval)
    else:
        with pytest.raises(ValueError, match="memory:read: L[1-4] "):
            PermissionRequirement("memory:read", risk, approval)


@pytest.mark.parametrize("code", ["memory:read", "proactive_message:write", "network:host", "fs:read", "a1:b_2"])
def test_g1_codes_are_resource_and_action(code: str) -> None:
    assert PermissionRequirement(code, Risk.L1).code == code


@pytest.mark.parametrize(
    "code",
    ["", "memory", "memory:", ":read", "Memory:read", "memory:read:all", "memory read", "memory:read\n", "记:读"],
)
def test_g1_other_codes_are_refused(code: str) -> None:
    with pytest.raises(ValueError, match="not of the form resource:action"):
        PermissionRequirement(code, Risk.L1)


def test_g1_plain_words_become_the_real_levels() -> None:
    """The gate compares levels by identity: a word that only looks like one would slip through."""
    written: Any = ("card:charge", "L4", "per_operation")
    requirement = PermissionRequirement(*written)
    assert requirement.risk is Risk.L4
    assert requirement.approval is ApprovalMode.PER_OPERATION


@pytest.mark.parametrize(("risk", "approval"), [("L5", "per_operation"), ("l1", "persistent"), ("L1", "always")])
def test_g1_unknown_words_are_refused(risk: Any, approval: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid"):
        PermissionRequirement("memory:read", risk, approval)


@pytest.mark.parametrize(
    ("risk", "approval"), [("L0", "none"), ("L1", "persistent"), ("L2", "persistent"), ("L3", "per_operation")]
)
def test_g1_a_skill_gets_the_approval_that_its_risk_needs(risk: str, approval: str) -> None:
    (requirement,) = tool("x", permissions=[("fs:read", risk)]).manifest.permission_requirements
    assert requirement == PermissionRequirement("fs:read", Risk(risk), ApprovalMode(approval))


def test_g1_a_manifest_cannot_ask_twice_for_one_code_or_unlawfully() -> None:
    with pytest.raises(ValidationError, match="a permission code is required twice"):
        tool("x", permissions=[("fs:read", "L1"), ("fs:read", "L2")])
    requirement = PermissionRequirement("fs:read", Risk.L0, ApprovalMode.NONE)
    object.__setattr__(requirement, "risk", Risk.L3)
    with pytest.raises(ValidationError, match="L3 always needs per_operation approval"):
        tool("x", permissions=[requirement])


def test_g3_a_decision_as_json() -> None:
    denied = Decision("deny", Layer.CONSENT, missing=("memory:read",), reason="consent_missing")
    assert not denied.allowed
    assert denied.to_json() == {
        "effect": "deny",
        "layer": "consent",
        "missing": ["memory:read"],
        "reason": "consent_missing",
    }
    assert Decision("allow", None).to_json() == {"effect": "allow", "layer": None, "missing": [], "reason": "allowed"}
    assert not Decision("ask", Layer.APPROVAL, reason="approval_required").allowed
