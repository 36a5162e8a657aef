"""From the hints of a tool to permission codes and risk (X7, G1, ruling 12.25).

The hints come from the server itself. What they claim counts only because a person approved the very listing that
claims it; what they leave out is taken for the worse. The operator alone may say otherwise, by an override.

| hint | effect | code | risk | asked for |
|---|---|---|---|---|
| read-only | read | ``mcp_<server>:read`` | L1 | consent |
| not destructive, closed world | write | ``mcp_<server>:write`` | L2 | consent |
| not destructive, open world | write | ``mcp_<server>:write`` | L3 | each call |
| anything else | write, destructive | ``mcp_<server>:destroy`` | L3 | each call |

A tool of the open world needs ``network:host`` (L1) besides: what it is given leaves the house.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prowess.access.model import ApprovalMode, Risk
from prowess.mounts.model import NO_OVERRIDE, Override, ToolListing
from prowess.skills.manifest import RequirementSpec

NETWORK = "network:host"


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the law is told of a tool."""

    effect: Literal["read", "write"]
    destructive: bool
    requirements: tuple[RequirementSpec, ...]


def server_resource(server: str) -> str:
    """The first half of a server's codes. No two servers have the same: names hold no ``_``."""
    return "mcp_" + server.replace("-", "_")


def map_tool(server: str, listing: ToolListing, override: Override = NO_OVERRIDE) -> Mapped:
    """See the table above."""
    hints = listing.annotations
    read = _said(override.effect == "read" if override.effect else None, hints.get("readOnlyHint") is True)
    network = _said(override.network, hints.get("openWorldHint") is not False)
    harmless = read or hints.get("destructiveHint") is False
    destructive = _said(override.destructive, not harmless)
    word, risk = _rung(read, destructive, network)
    risk = override.risk or risk
    asks = bool(override.ask) or risk in (Risk.L3, Risk.L4)
    approval = ApprovalMode.PER_OPERATION if asks else ApprovalMode.PERSISTENT
    code = override.code or f"{server_resource(server)}:{word}"
    requirements = [RequirementSpec(code=code, risk=risk, approval=approval)]
    if network and code != NETWORK:
        requirements.append(RequirementSpec(code=NETWORK, risk=Risk.L1))
    return Mapped("read" if read else "write", destructive, tuple(requirements))


def _said(override: bool | None, hint: bool) -> bool:
    return hint if override is None else override


def _rung(read: bool, destructive: bool, network: bool) -> tuple[str, Risk]:
    if destructive:
        return "destroy", Risk.L3
    if read:
        return "read", Risk.L1
    return "write", Risk.L3 if network else Risk.L2
