"""The network of one run: a filtering proxy with a socket of its own, where hosts are declared."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from prowess.adapters.sandboxes.bubblewrap.programs import SANDBOX_ID
from prowess.adapters.sandboxes.network.proxy import FilteringProxy
from prowess.sandbox.model import SandboxProfile, SandboxResult

_FOLDER = "/tmp"
"""not of the environment: the path of a socket is short, and the sandbox's user has to reach it"""

Proxies = Callable[[tuple[str, ...], Path, int | None], FilteringProxy]
"""(hosts, folder for its socket, whose the socket is) → a proxy"""


def filtering(hosts: tuple[str, ...], folder: Path, owner: int | None) -> FilteringProxy:
    """The proxy that dials what the system's resolver says."""
    return FilteringProxy(hosts, folder, owner=owner)


@contextmanager
def proxy_for(profile: SandboxProfile, make: Proxies = filtering) -> Iterator[FilteringProxy | None]:
    """Serve for a run; null where it has no hosts. Raises as ``FilteringProxy``."""
    if not profile.hosts:
        yield None
        return
    owner = SANDBOX_ID if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix=f"prowess-net-{os.getpid()}-", dir=_FOLDER) as folder:
        if owner is not None:
            os.chown(folder, owner, owner)
        with make(profile.hosts, Path(folder), owner) as proxy:
            yield proxy


def with_record(result: SandboxResult, proxy: FilteringProxy | None) -> SandboxResult:
    """The result with what the run asked of the network."""
    if proxy is None:
        return result
    record = proxy.record()
    return replace(result, denied=(*result.denied, *record.denied), network=record.to_audit())
