"""A script tool: what it runs, and what a run of it may ask of its host (X6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from prowess.sandbox.model import SandboxResult
from prowess.sandbox.ports import ScriptHost
from prowess.turns.cancelling import CancelToken
from prowess.turns.outcome import ToolOutcome

MAX_DEPTH = 3
"""scripts that call scripts: the outermost has depth 0, and one of depth 3 calls no tools"""


@dataclass(frozen=True, slots=True)
class ScriptSource:
    """Where the script of a tool is found."""

    digest: str
    """of the installed version: the identity of its files (S7)"""
    path: str
    entry: str


@dataclass(frozen=True, slots=True)
class Within:
    """The call of a script within which another call is made."""

    depth: int
    """of the inner call: 1 where a model's own call runs the script"""
    cancel: CancelToken
    """the outer call's"""


ToolCaller = Callable[[str, Mapping[str, Any], Within], ToolOutcome]
"""(tool, arguments, within what) → what came of it: the road of a model's call in the same turn"""


def spellings(commands: Iterable[str]) -> frozenset[str]:
    """How declared programs may be written; the sandbox resolves them in its own tree."""
    return frozenset(f"{place}{name}" for name in commands for place in ("", "/usr/bin/", "/usr/sbin/", "/bin/"))


class ScriptChannel(ScriptHost, Protocol):
    """The host's side of one run."""

    def finish(self, result: SandboxResult) -> None:
        """Record what came of the run: numbers, and what was denied. Never raises."""
        ...
