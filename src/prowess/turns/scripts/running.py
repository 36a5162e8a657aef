"""Running the script of a tool, and what its end means for the call (X2, X6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from prowess.errors import InvalidInput
from prowess.sandbox.model import Isolation, SandboxJob, SandboxProfile, SandboxResult, SandboxStatus
from prowess.sandbox.ports import Sandbox
from prowess.skills.manifest import SkillManifest
from prowess.turns.definitions import ToolContext
from prowess.turns.runners.tool import ToolFailure
from prowess.turns.scripting import ScriptSource
from prowess.turns.scripts.files import ScriptFiles

ProfileOf = Callable[[SkillManifest], SandboxProfile]
"""what a manifest lets its script touch on this machine; raises ``InvalidInput``"""

FAILURES: Mapping[SandboxStatus, str] = {
    SandboxStatus.ERROR: "tool_error",
    SandboxStatus.TIMEOUT: "timeout",
    SandboxStatus.MEMORY: "script_memory",
    SandboxStatus.DENIED: "script_denied",
    SandboxStatus.REFUSED: "sandbox_refused",
    SandboxStatus.CANCELLED: "stopped",
}
"""how a run ended, and the code of the tool call that came to nothing by it"""


class ScriptRunner:
    """Runs the scripts of installed skills. One instance serves every thread."""

    def __init__(self, sandbox: Sandbox, files: ScriptFiles, profile_of: ProfileOf) -> None:
        self._sandbox = sandbox
        self._files = files
        self._profile_of = profile_of

    @property
    def can_run(self) -> bool:
        """Whether this machine isolates scripts at all; the sandbox tries itself when it is first asked."""
        return self._sandbox.isolation is not Isolation.NONE

    def profile(self, manifest: SkillManifest) -> SandboxProfile:
        """What a run of the skill may touch. Raises ``InvalidInput`` for permissions that cannot be kept."""
        return self._profile_of(manifest)

    def run(self, manifest: SkillManifest, source: ScriptSource, context: ToolContext, arguments: BaseModel) -> Any:
        """What the script returned. Raises ``ToolFailure``. How it ended is told to the channel of the call."""
        result = self._run(manifest, source, context, arguments.model_dump(mode="json"))
        if context.channel is not None:
            context.channel.finish(result)
        if result.status is not SandboxStatus.OK:
            raise ToolFailure(FAILURES[result.status])
        return result.output

    def _run(
        self, manifest: SkillManifest, source: ScriptSource, context: ToolContext, arguments: Mapping[str, Any]
    ) -> SandboxResult:
        try:
            profile = self.profile(manifest)
        except InvalidInput as error:
            return SandboxResult(SandboxStatus.REFUSED, Isolation.NONE, code=error.code, detail=error.detail)
        files = self._files.of(context.tenant, manifest.id, manifest.version, source.digest)
        if not any(file.path == source.path for file in files):
            return SandboxResult(SandboxStatus.REFUSED, Isolation.NONE, code="script_missing")
        job = SandboxJob(files, source.path, source.entry, arguments, profile)
        return self._sandbox.run(job, context.channel, context.cancel)
