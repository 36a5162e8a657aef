"""From hints to codes and risk: what is left out is taken for the worse (X7, ruling 12.25)."""

from __future__ import annotations

import pytest
from tests.support.mounting import raw

from prowess.access.model import ApprovalMode, Risk
from prowess.errors import InvalidInput
from prowess.mounts.listings import read_listing
from prowess.mounts.mapping import map_tool, server_resource
from prowess.mounts.model import MountSpec, Override, SecretUse, check_spec

CONSENT, EACH = ApprovalMode.PERSISTENT, ApprovalMode.PER_OPERATION


@pytest.mark.parametrize(
    ("hints", "effect", "destructive", "first", "network"),
    [
        ({"readOnlyHint": True, "openWorldHint": False}, "read", False, ("read", Risk.L1, CONSENT), False),
        ({"readOnlyHint": True}, "read", False, ("read", Risk.L1, CONSENT), True),
        ({"destructiveHint": False, "openWorldHint": False}, "write", False, ("write", Risk.L2, CONSENT), False),
        ({"destructiveHint": False}, "write", False, ("write", Risk.L3, EACH), True),
        ({"openWorldHint": False}, "write", True, ("destroy", Risk.L3, EACH), False),
        ({}, "write", True, ("destroy", Risk.L3, EACH), True),
        ({"readOnlyHint": "true", "destructiveHint": 0}, "write", True, ("destroy", Risk.L3, EACH), True),
    ],
)
def test_x7_ruling_25_the_table_of_hints(
    hints: dict[str, object], effect: str, destructive: bool, first: tuple[str, Risk, ApprovalMode], network: bool
) -> None:
    mapped = map_tool("my-server", read_listing(raw("a", annotations=hints)))
    word, risk, approval = first
    needs = [(item.code, item.risk, item.approval) for item in mapped.requirements]
    assert needs[0] == (f"mcp_my_server:{word}", risk, approval)
    assert needs[1:] == ([("network:host", Risk.L1, CONSENT)] if network else [])
    assert (mapped.effect, mapped.destructive) == (effect, destructive)


def test_x7_an_override_stands_before_the_hints() -> None:
    said = Override.from_json({"risk": "L4", "code": "payments:send", "network": False, "destructive": True})
    mapped = map_tool("pay", read_listing(raw("a")), said)
    [need] = mapped.requirements
    assert (need.code, need.risk, need.approval, mapped.destructive) == ("payments:send", Risk.L4, EACH, True)
    with pytest.raises(InvalidInput):
        Override.from_json({"unknown": 1})


def test_g11_no_two_servers_share_a_code() -> None:
    assert server_resource("a-b") == "mcp_a_b"
    assert server_resource("ab") == "mcp_ab"


@pytest.mark.parametrize(
    "changed",
    [
        {"command": (), "url": None},
        {"command": ("a\0b",)},
        {"command": ("",)},
        {"environment": ("A=B",)},
        {"call_ms": 30_001},
        {"start_ms": 0},
        {"secrets": (SecretUse("A", "TOKEN"), SecretUse("a", "OTHER"))},
        {"secrets": (SecretUse("A", "TOKEN"), SecretUse("B", "TOKEN", "user"))},
        {"command": (), "url": "https://example.org/", "secrets": (SecretUse("Host", "TOKEN"),)},
        {"command": (), "url": "https://example.org/", "secrets": (SecretUse("X-A", "TOKEN", prefix="a\r\nB: "),)},
    ],
)
def test_x7_what_cannot_be_mounted_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_spec(MountSpec(**{"server": "demo", "command": ("x",), **changed}))  # type: ignore[arg-type]
    assert refused.value.code == "bad_mount"
