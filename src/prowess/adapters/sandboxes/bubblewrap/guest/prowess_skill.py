"""What a script may ask of Prowess: its input, its output, tools, memory, variables and programs.

Every function here sends one line over a channel and waits for the answer; each is asked at the gate like a call of
the model. What is refused raises ``PermissionError``.
"""

from __future__ import annotations

import _thread
import os

from prowess.adapters.sandboxes.bubblewrap.guest import quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

input: Any = {}
"""the arguments of this run"""

_lock = _thread.allocate_lock()
_channel = -1
_owner = 0
"""the process that speaks; what it forks does not"""
_number = 0
_pending = b""
_output: Any = None
_has_output = False
_environment: dict[str, str] = {}


class Refused(PermissionError):
    """What was asked for is not permitted. ``code`` says why."""

    def __init__(self, code: str, message: str, asked: str) -> None:
        super().__init__(message or code)
        self.code = code
        self.asked = asked


def output(value: Any) -> None:
    """Say what the run comes to, where the script has no function that returns it. The last call counts."""
    global _output, _has_output
    quick_json.dumps(value)
    _output = value
    _has_output = True


def call_tool(name: str, **arguments: Any) -> Any:
    """Call a tool that the skill declares; what it returns."""
    return _ask("tool", name, arguments)


def read_memory(layer: str, query: str, **more: Any) -> Any:
    """What is remembered in a layer, ``L1`` to ``L5``, that fits the query."""
    return _ask("memory.read", layer, {"query": query, **more})


def write_memory(layer: str, text: str, **more: Any) -> Any:
    """Remember a text in a layer."""
    return _ask("memory.write", layer, {"text": text, **more})


def getenv(name: str, default: str | None = None) -> str | None:
    """A variable that the skill declares; ``default`` where it is not set."""
    if name in _environment:
        return _environment[name]
    found = _ask("environment.read", name, {})
    return default if found is None else str(found)


def setenv(name: str, value: str) -> None:
    """Set a variable that the skill declares it writes; for this run alone."""
    _ask("environment.write", name, {"value": str(value)})
    _environment[name] = str(value)


def run_command(argv: Sequence[str], input: str | None = None) -> tuple[int, str, str]:
    """Run a program that the skill declares, in a sandbox of its own: exit code, standard output, standard error."""
    words = [str(word) for word in argv]
    if not words:
        raise ValueError("argv is empty")
    found = _ask("command", words[0], {"argv": words, "input": input or ""})
    return int(found["code"]), str(found["stdout"]), str(found["stderr"])


def _ask(kind: str, name: str, arguments: dict[str, Any]) -> Any:
    global _number
    with _lock:
        _number += 1
        number = _number
        message = {"id": number, "call": kind, "name": str(name), "arguments": arguments}
        _send(message)
        answer = quick_json.loads(_read_line().decode())
    if answer.get("id") != number:
        raise RuntimeError("the channel is out of step")
    if "error" in answer:
        error = answer["error"]
        raise Refused(error.get("code", ""), error.get("message", ""), f"{kind} {name}")
    return answer.get("value")


def _send(message: Any) -> None:
    _send_line(quick_json.dumps(message))


def _send_line(line: bytes) -> None:
    if os.getpid() != _owner:
        raise RuntimeError("only the process that the script started in speaks to the host")
    view = memoryview(line + b"\n")
    while view:
        view = view[os.write(_channel, view) :]


def _read_line() -> bytes:
    global _pending
    while b"\n" not in _pending:
        chunk = os.read(_channel, 65536)
        if not chunk:
            raise EOFError("the channel is closed")
        _pending += chunk
    line, _, _pending = _pending.partition(b"\n")
    return line
