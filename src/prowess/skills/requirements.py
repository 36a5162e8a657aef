"""What the resources that a skill's scripts may touch ask of its user: permission codes, risk, approval (G1, X6).

A file that names paths, hosts or programs and forgets the code of a permission is not let off: what it may touch is
what its user has to consent to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prowess.access.model import ApprovalMode, Risk
from prowess.skills.manifest import RequirementSpec, ResourcePermissions


class _Implied(NamedTuple):
    code: str
    risk: Risk
    approval: ApprovalMode
    asked: Callable[[ResourcePermissions], bool]


_KEPT, _EACH = ApprovalMode.PERSISTENT, ApprovalMode.PER_OPERATION
_IMPLIED = (
    _Implied("fs:read", Risk.L1, _KEPT, lambda asked: bool(asked.filesystem.read)),
    _Implied("fs:write", Risk.L2, _KEPT, lambda asked: bool(asked.filesystem.write)),
    _Implied("fs:delete", Risk.L3, _EACH, lambda asked: bool(asked.filesystem.delete)),
    _Implied("network:host", Risk.L2, _KEPT, lambda asked: asked.network.allowed and bool(asked.network.domains)),
    _Implied("shell:run", Risk.L3, _EACH, lambda asked: asked.shell.allowed and bool(asked.shell.commands)),
    _Implied("env:read", Risk.L1, _KEPT, lambda asked: bool(asked.env_vars.read)),
    _Implied("memory:read", Risk.L1, _KEPT, lambda asked: bool(asked.memory.read_layers)),
    _Implied("memory:write", Risk.L2, _KEPT, lambda asked: bool(asked.memory.write_layers)),
)
WRITING = frozenset({"fs:write", "fs:delete", "network:host", "shell:run", "memory:write"})
"""codes with which a call changes something, or may"""

_APPROVALS = (ApprovalMode.NONE, ApprovalMode.PERSISTENT, ApprovalMode.PER_OPERATION)
_RISKS = tuple(Risk)


def implied_requirements(asked: ResourcePermissions) -> tuple[RequirementSpec, ...]:
    """The requirements that a ``permissions`` section amounts to, in the order of the table."""
    return tuple(
        RequirementSpec(code=item.code, risk=item.risk, approval=item.approval)
        for item in _IMPLIED
        if item.asked(asked)
    )


def merged_requirements(
    declared: Iterable[RequirementSpec], implied: Iterable[RequirementSpec]
) -> tuple[RequirementSpec, ...]:
    """Both, a code once: the higher risk and the stricter approval hold, whoever asks for them."""
    merged: dict[str, RequirementSpec] = {}
    for item in (*declared, *implied):
        known = merged.get(item.code, item)
        merged[item.code] = RequirementSpec(
            code=item.code,
            risk=max(known.risk, item.risk, key=_RISKS.index),
            approval=max(known.approval, item.approval, key=_APPROVALS.index),
        )
    return tuple(merged.values())
