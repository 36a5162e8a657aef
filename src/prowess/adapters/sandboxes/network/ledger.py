"""Keeps account of one run: what went through, and what did not."""

from __future__ import annotations

import threading
from collections import Counter
from types import MappingProxyType

from prowess.adapters.sandboxes.network.model import POLICY, HostTraffic, NetworkLimits, NetworkRecord, Refusal
from prowess.adapters.sandboxes.network.names import shown

MAX_DENIED = 50


class Ledger:
    """Written by the loop, read by any thread."""

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._tunnels: Counter[str] = Counter()
        self._up: Counter[str] = Counter()
        self._down: Counter[str] = Counter()
        self._refusals: Counter[Refusal] = Counter()
        self._denied: dict[str, None] = {}

    def tunnel(self, host: str) -> None:
        """A tunnel to a declared host was opened."""
        with self._lock:
            self._tunnels[host] += 1

    def up(self, host: str, count: int) -> bool:
        """Whether so many bytes more may go out: then they are counted, and else that they were refused."""
        return self._spend(self._up, host, count, self._limits.up_bytes)

    def down(self, host: str, count: int) -> bool:
        """Whether so many bytes more may come in, likewise."""
        return self._spend(self._down, host, count, self._limits.down_bytes)

    def refuse(self, refusal: Refusal, asked: str) -> None:
        """Something was not let through. ``asked`` is hostile text, or empty."""
        with self._lock:
            self._refusals[refusal] += 1
            if refusal in POLICY and len(self._denied) < MAX_DENIED:
                self._denied[f"network:host {shown(asked)}"] = None

    def record(self) -> NetworkRecord:
        """What is known so far."""
        with self._lock:
            hosts = {
                host: HostTraffic(count, self._up[host], self._down[host]) for host, count in self._tunnels.items()
            }
            refusals = dict(self._refusals)
            return NetworkRecord(MappingProxyType(hosts), MappingProxyType(refusals), tuple(self._denied))

    def _spend(self, spent: Counter[str], host: str, count: int, limit: int) -> bool:
        with self._lock:
            if spent.total() + count > limit:
                self._refusals[Refusal.BYTES] += 1
                return False
            spent[host] += count
            return True
