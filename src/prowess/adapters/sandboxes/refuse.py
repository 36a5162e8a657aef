"""The sandbox where nothing may run: it says why."""

from __future__ import annotations

from prowess.sandbox.model import Isolation, SandboxJob, SandboxResult, SandboxStatus
from prowess.sandbox.ports import Cancellation, ScriptHost


class RefusingSandbox:
    """Runs nothing (fail closed)."""

    name = "refuse"

    def __init__(self, cause: str = "") -> None:
        """``cause``: why, in a few words; empty where the operator chose it."""
        self.cause = cause

    @property
    def isolation(self) -> Isolation:
        """None."""
        return Isolation.NONE

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        """Refused, always."""
        code = "sandbox_unavailable" if self.cause else "sandbox_off"
        detail = {"cause": self.cause} if self.cause else {}
        return SandboxResult(SandboxStatus.REFUSED, Isolation.NONE, code=code, detail=detail)

    def close(self) -> None:
        """Nothing is held."""
