"""The host's side of a running script: what it asks for, it gets only where declared, granted at that moment, and told.

Every field that a script sends is hostile. A tool is called on the road of a model's call; all else is one of the codes
that the script's own call was admitted for, asked again at the gate (G4). Each answer is an audit row without content
(R3), so many a run and no more.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from prowess.access.capabilities import META_TOOLS
from prowess.errors import ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.memory.model import MemoryLayer
from prowess.messages import render
from prowess.sandbox.model import SandboxResult, SandboxStatus, ScriptCall
from prowess.sandbox.ports import ScriptCallRefused
from prowess.turns.cancelling import CancelToken
from prowess.turns.dispatch import Dispatcher
from prowess.turns.emitting import emit_call
from prowess.turns.fencing import hold
from prowess.turns.questions import Call
from prowess.turns.scripting import MAX_DEPTH, Within, spellings
from prowess.turns.scripts.memories import ScriptMemories
from prowess.turns.scripts.variables import ScriptVariables
from prowess.turns.stopped import hold_unstopped
from prowess.turns.stopping import turn_key
from prowess.turns.words import denial_message

MAX_CALLS = 1_000
"""of one run"""
MAX_REPORTED = 50
"""answers of one run that have an audit row of their own; the others are counted where the run ends"""
MAX_REFUSED = 20
"""after so many refusals of a run no tool is called for it any more"""
MAX_SHOWN = 5
"""things that a run was denied by the kernel, told to the auditor"""
MAX_PATH = 4096

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}", re.ASCII)
_WORDS: Mapping[SandboxStatus, str] = {
    SandboxStatus.OK: "succeeded",
    SandboxStatus.DENIED: "denied",
    SandboxStatus.REFUSED: "denied",
    SandboxStatus.CANCELLED: "cancelled",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelParts:
    """What answering needs of the runtime."""

    log: EventLog
    dispatcher: Dispatcher
    memories: Callable[[Call], ScriptMemories]
    variables: Callable[[Call], ScriptVariables]

    def open(self, call: Call, call_id: str, cancel: CancelToken) -> CallChannel:
        """The channel of one run."""
        return CallChannel(self, call, call_id, cancel)


class CallChannel:
    """A ``ScriptChannel``: answers the script of one admitted call."""

    def __init__(self, parts: ChannelParts, call: Call, call_id: str, cancel: CancelToken) -> None:
        self._parts = parts
        self._call = call
        self._call_id = call_id
        self._cancel = cancel
        self._manifest = call.tool.manifest
        self._memories = parts.memories(call)
        self._variables = parts.variables(call)
        self._lock = threading.Lock()
        self._made = 0
        self._refused = 0
        self._reported = 0
        self._told = 0
        self._kinds: Mapping[str, Callable[[ScriptCall], Any]] = {
            "tool": self._tool,
            "memory.read": self._read_memory,
            "memory.write": self._write_memory,
            "environment.read": self._read_variable,
            "environment.write": self._write_variable,
            "command": self._command,
        }

    def answer(self, call: ScriptCall) -> Any:
        """As the port."""
        with self._lock:
            self._made += 1
            over = self._made > MAX_CALLS
        try:
            if self._cancel.cancelled:
                raise self._no("stopped")
            if over:
                raise self._no("script_calls_over", limit=MAX_CALLS)
            return self._kinds[call.kind](call)
        except ScriptCallRefused as refused:
            self._note_refusal(call, refused)
            raise
        except ProwessError as error:
            failed = ScriptCallRefused(error.code, error.message(self._call.language))
            self._note_refusal(call, failed)
            raise failed from None

    def finish(self, result: SandboxResult) -> None:
        """As the protocol."""
        data: dict[str, Any] = {
            "tool": self._call.tool.tool_id,
            "status": str(result.status),
            "isolation": str(result.isolation),
            "code": result.code,
            "duration_ms": round(result.duration_ms),
            "peak_mb": round(result.peak_mb, 1),
            "calls": self._made,
            "refused": self._refused,
            "unreported": max(0, self._made - self._reported - self._told),
            "denied": [_shown(what) for what in result.denied[:MAX_SHOWN]],
            "network": result.network,
        }
        try:
            with self._parts.log.transaction(self._call.request.tenant) as transaction:
                self._emit(transaction, "script.finished", _WORDS.get(result.status, "failed"), **data)
        except ProwessError as error:
            logger.warning("the end of a script could not be recorded: %s", error.code)

    # --- kinds ---

    def _tool(self, asked: ScriptCall) -> Any:
        """A tool that the manifest names, on the road of a model's call; its own rows tell of it."""
        caller, depth = self._call.caller, self._call.depth
        if caller is None or asked.name in META_TOOLS or asked.name not in (self._manifest.allowed_tools or ()):
            raise self._no("script_undeclared", asked)
        if depth >= MAX_DEPTH:
            raise self._no("script_too_deep", asked, limit=MAX_DEPTH)
        if self._refused >= MAX_REFUSED:
            raise self._no("script_calls_over", limit=MAX_REFUSED)
        outcome = caller(asked.name, asked.arguments, Within(depth + 1, self._cancel))
        with self._lock:
            self._told += 1
        if outcome.status == "succeeded" and outcome.output is not None:
            return outcome.output.model_dump(mode="json")
        decided = None if outcome.decision is None or outcome.decision.allowed else outcome.decision.reason
        code = outcome.error_code or decided or outcome.status
        raise _Told(code, outcome.message or code)

    def _read_memory(self, asked: ScriptCall) -> Any:
        self._memories.check_read(asked.arguments)
        self._allow(asked, "memory:read", self._manifest.permissions.memory.read_layers)
        return self._memories.read(asked.name, asked.arguments)

    def _write_memory(self, asked: ScriptCall) -> Any:
        declared = self._manifest.permissions.memory.write_layers
        if asked.name == MemoryLayer.L1:
            self._allow(asked, "memory:write", declared)
            return self._memories.note(asked.arguments)

        def admit(transaction: Transaction) -> None:
            self._check(transaction.connection, asked, "memory:write", declared)
            self._report(transaction, asked, "allowed")

        if asked.name not in declared:
            raise self._no("script_undeclared", asked)
        return self._memories.store(asked.name, asked.arguments, admit)

    def _read_variable(self, asked: ScriptCall) -> Any:
        self._allow(asked, "env:read", self._manifest.permissions.env_vars.read)
        return self._variables.read(asked.name)

    def _write_variable(self, asked: ScriptCall) -> Any:
        self._allow(asked, None, self._manifest.permissions.env_vars.write)
        return self._variables.write(asked.name, asked.arguments.get("value"))

    def _command(self, asked: ScriptCall) -> None:
        """May the program be run? The sandbox then resolves it and runs it apart."""
        shell = self._manifest.permissions.shell
        commands = shell.commands if shell.allowed else ()
        self._allow(asked, "shell:run", spellings(commands))

    # --- permission and record ---

    def _allow(self, asked: ScriptCall, code: str | None, declared: Container[str]) -> None:
        """Raises ``ScriptCallRefused`` for what is not declared, not granted any more, or of a stopped turn."""
        if asked.name not in declared:
            raise self._no("script_undeclared", asked)
        if self._reported >= MAX_REPORTED:
            with self._parts.log.database.read() as connection:
                self._check(connection, asked, code, declared)
            return
        with self._parts.log.transaction(self._call.request.tenant) as transaction:
            self._check(transaction.connection, asked, code, declared)
            self._report(transaction, asked, "allowed")

    def _check(self, connection: Connection, asked: ScriptCall, code: str | None, declared: Container[str]) -> None:
        call = self._call
        hold(call.fence, connection)
        hold_unstopped(connection, turn_key(call.request))
        if code is None:
            return
        decision = self._parts.dispatcher.still_permits(connection, call, code)
        if decision.effect == "deny":
            raise ScriptCallRefused(decision.reason, denial_message(decision, call.language))

    def _no(self, code: str, asked: ScriptCall | None = None, **detail: Any) -> ScriptCallRefused:
        shown = {} if asked is None else {"kind": asked.kind, "name": _shown(asked.name)}
        return ScriptCallRefused(code, render(f"script.{code}", self._call.language, {**shown, **detail}))

    def _note_refusal(self, asked: ScriptCall, refused: ScriptCallRefused) -> None:
        with self._lock:
            self._refused += 1
        if isinstance(refused, _Told) or self._reported >= MAX_REPORTED:
            return
        try:
            with self._parts.log.transaction(self._call.request.tenant) as transaction:
                self._report(transaction, asked, "denied", refused.code)
        except ProwessError as error:
            logger.warning("a refusal to a script could not be recorded: %s", error.code)

    def _report(self, transaction: Transaction, asked: ScriptCall, decision: str, reason: str | None = None) -> None:
        with self._lock:
            self._reported += 1
        self._emit(transaction, "script.asked", decision, asked=asked.kind, name=_shown(asked.name), reason=reason)

    def _emit(self, transaction: Transaction, kind: str, decision: str, **data: Any) -> None:
        call = self._call
        where: dict[str, Any] = {"skill": call.skill, "run_id": call.run_id}
        emit_call(transaction, kind, call.request, self._call_id, decision=decision, **where, **data)


class _Told(ScriptCallRefused):
    """A tool call that came to nothing: the dispatcher has told of it already."""


def _shown(text: str) -> str:
    """What was denied, as an auditor may see it: the script chose these words, and could put what it read in them (R3).

    Of a path as much as there is on this machine, of a host its last two labels, of all else a name.
    """
    kind, _, rest = text.partition(" ")
    if rest.startswith("/"):
        return f"{kind} {_existing(rest)}"
    if kind == "network:host":
        return f"{kind} {'.'.join(rest.split('.')[-2:])[:100]}"
    return " ".join(word if _NAME.fullmatch(word) else "?" for word in (kind, rest) if word)


def _existing(path: str) -> str:
    """The path up to the part that is not there."""
    if "\0" in path or len(path) > MAX_PATH:
        return "/…"
    known = Path(os.path.normpath(path))
    there = next(folder for folder in (known, *known.parents) if os.path.lexists(folder))
    return str(there) if there == known else str(there / "…")
