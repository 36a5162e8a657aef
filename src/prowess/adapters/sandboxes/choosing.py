"""Which sandbox this machine runs scripts in."""

from __future__ import annotations

from typing import Literal

from prowess.adapters.sandboxes.refuse import RefusingSandbox
from prowess.errors import InvalidInput
from prowess.sandbox.ports import Sandbox

SandboxOption = Literal["auto", "bubblewrap", "landlock", "refuse"]
OPTIONS: tuple[SandboxOption, ...] = ("auto", "bubblewrap", "landlock", "refuse")


def choose_sandbox(option: str = "auto", *, ready: int = 2) -> Sandbox:
    """``auto``: bubblewrap where its self-test passes, else one that refuses and says why.

    The self-test runs with the first script, or where ``isolation`` is asked. ``ready``: how many sandboxes are kept
    ready by profile. The reduced mode is never fallen back to. Raises ``InvalidInput('sandbox_option')``.
    """
    if option not in OPTIONS:
        raise InvalidInput("sandbox_option", field="sandbox", known=", ".join(OPTIONS))
    if option == "refuse":
        return RefusingSandbox()
    if option == "landlock":
        from prowess.adapters.sandboxes.landlock import LandlockSandbox

        return LandlockSandbox()
    from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox

    return BubblewrapSandbox(ready=ready)
