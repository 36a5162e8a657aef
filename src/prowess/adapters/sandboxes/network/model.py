"""What one run may use of the network, and what it used (X6, S5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MEBIBYTE = 1024 * 1024


class Refusal(StrEnum):
    """Why the proxy did not let something through; each has a sentence in ``proxy.ANSWERS``."""

    REQUEST = "request"
    """no request that HTTP knows, or one that two readers could read differently"""
    METHOD = "method"
    """plain HTTP: only CONNECT is spoken"""
    TARGET = "target"
    """no host name with a port: an address, a user, another writing of either"""
    PORT = "port"
    HOST = "host"
    """not named in the manifest"""
    LOOKUP = "lookup"
    """the name has no address"""
    ADDRESS = "address"
    """it has one that is not public"""
    UNREACHABLE = "unreachable"
    HELLO = "hello"
    """what came first through the tunnel is no TLS ClientHello, or hides its name"""
    NAME = "name"
    """the ClientHello asks for no name, or for another than the tunnel"""
    TIME = "time"
    BYTES = "bytes"
    CONNECTIONS = "connections"


POLICY = frozenset(
    {
        Refusal.REQUEST,
        Refusal.METHOD,
        Refusal.TARGET,
        Refusal.PORT,
        Refusal.HOST,
        Refusal.ADDRESS,
        Refusal.HELLO,
        Refusal.NAME,
    }
)
"""What is refused because it is not permitted; the others are limits, and failures of the network."""


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Ceilings of one run. Seconds and bytes."""

    connections: int = 16
    """at once"""
    connections_in_all: int = 256
    head_bytes: int = 8192
    """of a request's head"""
    head_s: float = 5.0
    lookup_s: float = 5.0
    dial_s: float = 5.0
    """over all addresses of a name"""
    hello_s: float = 5.0
    idle_s: float = 30.0
    """without a byte in either direction"""
    life_s: float = 300.0
    """of a tunnel"""
    up_bytes: int = 8 * MEBIBYTE
    """to the outside, over all tunnels, with what TLS adds"""
    down_bytes: int = 64 * MEBIBYTE


@dataclass(frozen=True, slots=True)
class HostTraffic:
    """What went through to one declared host."""

    tunnels: int = 0
    up_bytes: int = 0
    down_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NetworkRecord:
    """What a run asked of the network."""

    hosts: Mapping[str, HostTraffic] = field(default_factory=dict)
    """by declared name; those that were reached"""
    refusals: Mapping[Refusal, int] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    """as ``SandboxResult.denied`` has them: ``network:host NAME``, each once, at most 50. The names are the script's
    words, cleaned of what is not printable: for the owner of the run, not for the audit log (R3)."""

    @property
    def up_bytes(self) -> int:
        """Sent to all hosts."""
        return sum(traffic.up_bytes for traffic in self.hosts.values())

    @property
    def down_bytes(self) -> int:
        """Received from all hosts."""
        return sum(traffic.down_bytes for traffic in self.hosts.values())

    def to_audit(self) -> dict[str, Any]:
        """For an audit row: declared names and numbers, no word of the script's (R3)."""
        return {
            "hosts": {
                name: {"tunnels": traffic.tunnels, "up_bytes": traffic.up_bytes, "down_bytes": traffic.down_bytes}
                for name, traffic in self.hosts.items()
            },
            "refused": {refusal.value: count for refusal, count in self.refusals.items()},
        }
