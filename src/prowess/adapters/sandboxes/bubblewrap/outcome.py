"""What a run came to, from the kernel's word and the script's. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prowess.sandbox.model import Isolation, SandboxLimits, SandboxResult, SandboxStatus, ScriptFile

_MAX_TEXT = 500
_Said = tuple[SandboxStatus, str | None, dict[str, Any]]


@dataclass(slots=True)
class Ended:
    """What was seen of a run, from outside."""

    report: Mapping[str, Any] | None = None
    """of process 1: ``reason``, ``status`` as wait(2) has it, ``peak_kb``, ``duration_ms``, ``artifacts``"""
    said: Mapping[str, Any] | None = None
    """of the script: ``result`` or ``failure``"""
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    denied: tuple[str, ...] = ()
    calls: int = 0
    cancelled: bool = False
    forged: bool = False
    too_long: bool = False
    lost: bool = False
    """ended from outside, without a report"""
    overdue: bool = False
    """because its time was over"""
    out_of_memory: bool = False
    """by the word of a control group"""


def result_of(ended: Ended, limits: SandboxLimits, isolation: Isolation, elapsed_ms: float) -> SandboxResult:
    """The result; ``elapsed_ms`` counts where there is no report."""
    report = ended.report or {}
    status, code, detail = _judged(ended, report, limits)
    denied = [*ended.denied, *(_denied_by_script(ended) if status is SandboxStatus.DENIED else ())]
    if status is SandboxStatus.DENIED:
        detail = {**detail, "asked": ", ".join(denied) or detail.get("asked", "")}
    artifacts = report.get("artifacts", [])
    if status is SandboxStatus.OK and artifacts is None:
        status, code, detail = SandboxStatus.ERROR, "sandbox_artifacts_large", {"limit": limits.artifact_bytes}
    return SandboxResult(
        status=status,
        isolation=isolation,
        output=(ended.said or {}).get("result") if status is SandboxStatus.OK else None,
        stdout=ended.stdout.decode(errors="replace"),
        stderr=ended.stderr.decode(errors="replace"),
        code=code,
        detail=detail,
        denied=tuple(dict.fromkeys(denied)),
        artifacts=_files(artifacts) if status is SandboxStatus.OK else (),
        duration_ms=round(float(report.get("duration_ms", elapsed_ms)), 3),
        peak_mb=round(float(report.get("peak_kb", 0)) / 1024, 1),
        calls=ended.calls,
    )


def _judged(ended: Ended, report: Mapping[str, Any], limits: SandboxLimits) -> _Said:
    reason, status = report.get("reason"), int(report.get("status", 0))
    if ended.out_of_memory or reason == "memory":
        return SandboxStatus.MEMORY, "sandbox_memory", {"limit_mb": limits.memory_mb}
    if reason == "disk":
        return SandboxStatus.DENIED, "sandbox_denied", {"asked": "disk"}
    if ended.forged:
        return SandboxStatus.DENIED, "sandbox_channel", {"asked": "channel"}
    if ended.too_long:
        return SandboxStatus.ERROR, "sandbox_output_large", {"limit": limits.output_bytes}
    if ended.cancelled:
        return SandboxStatus.CANCELLED, "sandbox_cancelled", {}
    if reason == "timeout" or (ended.report is None and ended.overdue):
        return SandboxStatus.TIMEOUT, "sandbox_timeout", {"limit_ms": limits.wall_ms}
    if ended.report is None:
        return SandboxStatus.ERROR, "sandbox_lost", {}
    if os.WIFSIGNALED(status):
        return _signalled(os.WTERMSIG(status), limits)
    return _said(ended, os.WEXITSTATUS(status), limits)


def _signalled(number: int, limits: SandboxLimits) -> _Said:
    if number == signal.SIGSYS:
        return SandboxStatus.DENIED, "sandbox_denied", {"asked": "system call"}
    if number == signal.SIGXCPU:
        return SandboxStatus.TIMEOUT, "sandbox_timeout", {"limit_ms": limits.wall_ms}
    if number == signal.SIGXFSZ:
        return SandboxStatus.DENIED, "sandbox_denied", {"asked": "disk"}
    return SandboxStatus.ERROR, "sandbox_script_crashed", {"signal": _signal_name(number)}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _said(ended: Ended, code: int, limits: SandboxLimits) -> _Said:
    said = ended.said or {}
    if code == 0 and "result" in said:
        if len(json.dumps(said["result"], ensure_ascii=False).encode(errors="surrogatepass")) > limits.output_bytes:
            return SandboxStatus.ERROR, "sandbox_output_large", {"limit": limits.output_bytes}
        return SandboxStatus.OK, None, {}
    failure = said.get("failure")
    if code == 0 or not isinstance(failure, dict):
        return SandboxStatus.ERROR, "sandbox_no_result", {"exit": code}
    kind = failure.get("kind")
    detail = {
        "exception": _text(failure.get("exception")),
        "message": _text(failure.get("message")),
        "file": _text(failure.get("file")),
        "line": failure.get("line") if isinstance(failure.get("line"), int) else 0,
    }
    if kind == "denied":
        return SandboxStatus.DENIED, "sandbox_denied", {**detail, "asked": ""}
    if kind == "memory":
        return SandboxStatus.MEMORY, "sandbox_memory", {"limit_mb": limits.memory_mb}
    if kind == "exit":
        return SandboxStatus.ERROR, "sandbox_script_exit", {"exit": detail["message"]}
    return SandboxStatus.ERROR, "sandbox_script_failed", detail


def _denied_by_script(ended: Ended) -> list[str]:
    failure = (ended.said or {}).get("failure")
    found = failure.get("denied") if isinstance(failure, dict) else None
    return [_text(entry) for entry in found[:10]] if isinstance(found, list) else []


def _text(value: Any) -> str:
    return value[:_MAX_TEXT] if isinstance(value, str) else ""


def _files(entries: Any) -> tuple[ScriptFile, ...]:
    """What process 1 copied out of ``/out``; whoever stores it checks the paths."""
    try:
        return tuple(
            ScriptFile(entry["path"], base64.b64decode(entry["content"]), bool(entry["executable"]))
            for entry in entries
        )
    except (KeyError, TypeError, binascii.Error):
        return ()
