"""What this machine can do to keep scripts apart, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prowess.adapters.sandboxes.choosing import choose_sandbox
from prowess.adapters.sandboxes.landlock import LandlockSandbox
from prowess.adapters.sandboxes.refuse import RefusingSandbox
from prowess.sandbox.ports import Sandbox


def describe(option: str) -> dict[str, Any]:
    """The sandbox, how far it isolates, why not, and what each attempt of the self-test came to.

    Raises ``InvalidInput('sandbox_option')``.
    """
    sandbox = choose_sandbox(option, ready=0)
    found: dict[str, Any] = {"sandbox": sandbox.name, "isolation": "none", "fault": "", "canaries": {}}
    if sandbox.name == "refuse":
        return found
    from prowess.adapters.sandboxes.bubblewrap import programs, selftest

    examined = sandbox.examine() if isinstance(sandbox, LandlockSandbox) else selftest.examine()
    found |= {"fault": examined.fault, "canaries": dict(examined.canaries)}
    found["isolation"] = "none" if examined.fault else "reduced" if isinstance(sandbox, LandlockSandbox) else "full"
    found["landlock"] = selftest.landlock_version()
    named: tuple[tuple[str, Callable[[], str]], ...] = (("bwrap", programs.bwrap), ("python", _python))
    for name, program in named:
        try:
            found[name] = program()
        except programs.ProgramMissing:
            found[name] = None
    return found


def _python() -> str:
    from prowess.adapters.sandboxes.bubblewrap import programs

    return programs.interpreter().path


def fault_of(sandbox: Sandbox) -> str:
    """Why a sandbox does not isolate in full."""
    if isinstance(sandbox, RefusingSandbox):
        return str(sandbox.isolation)
    if isinstance(sandbox, LandlockSandbox):
        return sandbox.fault or str(sandbox.isolation)
    from prowess.adapters.sandboxes.bubblewrap import selftest

    return selftest.fault()
