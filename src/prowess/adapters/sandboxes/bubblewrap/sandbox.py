"""Scripts by bubblewrap: the port, over sandboxes that are started for one run each."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from prowess.adapters.sandboxes.bubblewrap import launch, session
from prowess.adapters.sandboxes.bubblewrap.outcome import result_of
from prowess.adapters.sandboxes.bubblewrap.programs import ProgramMissing
from prowess.sandbox.model import Isolation, SandboxJob, SandboxResult, SandboxStatus, ScriptCall
from prowess.sandbox.ports import Cancellation, ScriptCallRefused, ScriptHost

_LANDLOCK = 6


class BubblewrapSandbox:
    """Runs each script in a sandbox of its own."""

    name = "bubblewrap"

    @property
    def isolation(self) -> Isolation:
        """As the port."""
        return Isolation.FULL

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        """As the port."""
        began = time.monotonic()
        if cancel is not None and cancel.cancelled:
            return SandboxResult(SandboxStatus.CANCELLED, self.isolation, code="sandbox_cancelled")
        try:
            started = self._ready(job)
        except (OSError, ProgramMissing, subprocess.SubprocessError, session.StartFailed) as error:
            return _refused(str(error))
        try:
            ended = session.Session(started, job, host, cancel, _no_command).run()
        finally:
            started.close()
        return result_of(ended, job.profile.limits, self.isolation, (time.monotonic() - began) * 1000)

    def _ready(self, job: SandboxJob) -> launch.Started:
        started = launch.start(job.profile, _LANDLOCK)
        try:
            session.wait_ready(started)
        except BaseException:
            started.close()
            raise
        return started

    def close(self) -> None:
        """As the port."""


def _no_command(call: ScriptCall) -> Any:
    raise ScriptCallRefused("sandbox_no_host")


def _refused(cause: str) -> SandboxResult:
    detail = {"cause": cause[:300]}
    return SandboxResult(SandboxStatus.REFUSED, Isolation.NONE, code="sandbox_start_failed", detail=detail)
