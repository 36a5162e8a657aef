"""What a run under test amounts to: the issues of one case. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prowess.sandbox.model import SandboxResult, SandboxStatus
from prowess.skills.arguments import fits_return
from prowess.skills.front_matter import Severity
from prowess.skills.manifest import SkillManifest, ToolSpec
from prowess.skills.parameters import same_value
from prowess.validation.behaviour.cases import CASES, UNSAID, Case
from prowess.validation.behaviour.replay import ReplayHost
from prowess.validation.report import Issue

_ENDS = {
    SandboxStatus.ERROR: ("behavior_failed", "tool_error"),
    SandboxStatus.TIMEOUT: ("behavior_timeout", "timeout"),
    SandboxStatus.MEMORY: ("behavior_memory", "script_memory"),
    SandboxStatus.DENIED: ("behavior_denied", "script_denied"),
    SandboxStatus.REFUSED: ("behavior_refused", "sandbox_refused"),
    SandboxStatus.CANCELLED: ("behavior_refused", "stopped"),
}
"""how a run ended → the issue, and the code that a case may expect"""
_NO_NETWORK = ("URLError", "gaierror", "ConnectionRefusedError", "OSError")
_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """The skill under test: its declaration, the files that issues point at."""

    manifest: SkillManifest
    tool: ToolSpec
    script: str
    folder: str

    def issue(self, code: str, case: Case, severity: Severity = "error", **detail: Any) -> Issue:
        """An issue of a case: at its line, or at the script where the schema made the case."""
        file, line = (self.script, 1) if case.boundary else (CASES, case.line)
        return Issue("behavior", severity, code, self.place(file), line, {"case": case.name, **detail})

    def place(self, path: str) -> str:
        """A file of the skill as a person opens it."""
        return f"{self.folder}/{path}"


def judge(subject: Subject, case: Case, host: ReplayHost, result: SandboxResult) -> list[Issue]:
    """What is wrong with how a case ended; an info where nothing could be said of it."""
    if _withheld(subject.manifest, host, result) and (case.boundary or not case.calls):
        return [subject.issue("behavior_unproven", case, "info", asked=", ".join(result.denied)[:_MAX_SHOWN])]
    if not case.boundary and host.mismatch is not None:
        return [subject.issue("behavior_calls", case, tool=host.mismatch[:100])]
    if result.status is not SandboxStatus.OK:
        return _ended_badly(subject, case, result)
    if case.error is not None:
        return [subject.issue("behavior_no_error", case, error=case.error[:100])]
    if host.left and not case.boundary:
        return [subject.issue("behavior_calls", case, tool=host.left[0].tool[:100])]
    return _output_issues(subject, case, result)


def _output_issues(subject: Subject, case: Case, result: SandboxResult) -> list[Issue]:
    try:
        if not fits_return(subject.tool.returns, result.output):
            return [subject.issue("behavior_returns", case, type=getattr(subject.tool.returns, "type", "null"))]
    except (ValueError, RecursionError):
        return [subject.issue("behavior_returns", case, type=getattr(subject.tool.returns, "type", "null"))]
    if case.output is not UNSAID and not same_value(case.output, result.output):
        return [subject.issue("behavior_output", case, expected=_shown(case.output), got=_shown(result.output))]
    return []


def _ended_badly(subject: Subject, case: Case, result: SandboxResult) -> list[Issue]:
    """Nothing where it is the end that the case expects, or an error that the tool documents."""
    code, known = _ENDS[result.status]
    exception = result.detail.get("exception")
    documented = {error.code for error in subject.tool.errors}
    if case.error is not None and case.error in (known, exception, result.code):
        return []
    if case.boundary and result.status is SandboxStatus.ERROR and exception in documented:
        return []
    problem = ": ".join(str(part) for part in (exception, result.detail.get("message")) if part) or result.code
    detail: dict[str, Any] = {"problem": str(problem)[:_MAX_SHOWN], "asked": ", ".join(result.denied)[:_MAX_SHOWN]}
    file, line = result.detail.get("file"), result.detail.get("line")
    if isinstance(file, str) and file.startswith("scripts/") and isinstance(line, int) and line > 0:
        return [Issue("behavior", "error", code, subject.place(file), line, {"case": case.name, **detail})]
    return [subject.issue(code, case, **detail)]


def _withheld(manifest: SkillManifest, host: ReplayHost, result: SandboxResult) -> bool:
    """Whether the run ended by the want of what a test does not give: declared files, hosts, the answer of a tool."""
    if result.status not in (SandboxStatus.DENIED, SandboxStatus.ERROR):
        return False
    if host.unanswered:
        return True
    files, network = manifest.permissions.filesystem, manifest.permissions.network
    exception = result.detail.get("exception")
    no_file = exception == "FileNotFoundError" or any(what.startswith("file ") for what in result.denied)
    no_host = exception in _NO_NETWORK or any(what.startswith("network") for what in result.denied)
    wants_files = files.read or files.write or files.delete
    return bool((wants_files and no_file) or (network.allowed and network.domains and no_host))


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text[:80]
