"""What a sandboxed run is given, what it may touch, and what came of it (X6, V2, S5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

MEBIBYTE = 1024 * 1024


class Isolation(StrEnum):
    """How far the kernel keeps a run from the machine."""

    FULL = "full"
    """namespaces, system call filters, Landlock and limits"""
    REDUCED = "reduced"
    """without namespaces: chosen by the operator, never fallen back to"""
    NONE = "none"
    """nothing runs"""


class SandboxStatus(StrEnum):
    """How a run ended; time, memory and success are the kernel's word, never the script's."""

    OK = "ok"
    ERROR = "error"
    """the script raised, ended with an exit code, or returned what is no JSON"""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    DENIED = "denied"
    """the script ended because something it did is not permitted to it"""
    REFUSED = "refused"
    """nothing ran: this machine cannot isolate, or the profile cannot be kept"""
    CANCELLED = "cancelled"
    """stopped from outside (U10)"""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Ceilings of one run."""

    wall_ms: int = 10_000
    memory_mb: int = 200
    output_bytes: int = MEBIBYTE
    """of standard output, of standard error, and of the returned value as JSON, each"""
    processes: int = 16
    """processes and threads"""
    scratch_mb: int = 32
    """of each writable area that goes with the run"""
    artifact_bytes: int = 8 * MEBIBYTE
    """of all files that a run leaves in ``/out``"""


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What one run may touch: a whitelist, and nothing beside it (S5). Hashable: sandboxes are kept ready by profile.

    Paths are absolute, of this machine, and each names a folder with all below it, or one file.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    """files there may be made and changed, and read"""
    delete: tuple[str, ...] = ()
    """files there may be removed; apart from writing"""
    hosts: tuple[str, ...] = ()
    """exact names; reached over HTTPS through the filtering proxy alone"""
    commands: tuple[str, ...] = ()
    """names of programs, run by a sibling sandbox"""
    read_environment: tuple[str, ...] = ()
    write_environment: tuple[str, ...] = ()
    read_layers: tuple[str, ...] = ()
    write_layers: tuple[str, ...] = ()
    limits: SandboxLimits = SandboxLimits()


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A file of a skill, or one that a run left: ``path`` is relative, with forward slashes."""

    path: str
    content: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SandboxJob:
    """One script with its files and its input."""

    files: tuple[ScriptFile, ...]
    """laid out read-only below ``/skill``"""
    script: str
    """the path of the Python file to run, among ``files``"""
    entry: str
    """the function to call, where the script has it; else ``main``, ``run``; else the script is run from top to end"""
    input: Mapping[str, Any]
    """JSON: the function's keyword arguments"""
    profile: SandboxProfile = SandboxProfile()


CallKind = Literal["tool", "memory.read", "memory.write", "environment.read", "environment.write", "command"]


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One thing that a running script asks of the host over its channel. Every field is hostile input."""

    kind: CallKind
    name: str
    """the tool, memory layer, variable or program"""
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What came of a run."""

    status: SandboxStatus
    isolation: Isolation
    output: Any = None
    """what the function returned, JSON"""
    stdout: str = ""
    stderr: str = ""
    code: str | None = None
    """why it did not end well: a code with a sentence under ``error.<code>``"""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """of that sentence: for a script that raised, ``exception``, ``file`` and ``line``"""
    denied: tuple[str, ...] = ()
    """what was asked for and not permitted: ``fs:read /etc/shadow``, ``network:host example.org``"""
    artifacts: tuple[ScriptFile, ...] = field(default=(), repr=False)
    duration_ms: float = 0.0
    peak_mb: float = 0.0
    calls: int = 0
    """over the channel"""
    network: Mapping[str, Any] = field(default_factory=dict)
    """what went to which declared host, and how many requests were refused: names and numbers, fit for an audit row"""

    @property
    def ok(self) -> bool:
        """Whether the script did what it was asked."""
        return self.status is SandboxStatus.OK
