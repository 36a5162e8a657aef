"""Answers what a script asks over its channel, beside the thread that watches the run."""

from __future__ import annotations

import contextvars
import json
import logging
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from prowess.adapters.sandboxes.bubblewrap.channel import Forged, call_of
from prowess.sandbox.model import ScriptCall
from prowess.sandbox.ports import ScriptCallRefused, ScriptHost

MAX_CALLS = 10_000
MAX_DENIED = 20
_log = logging.getLogger(__name__)

Runner = Callable[[ScriptCall], Any]
"""runs a program that the host let be run; raises ``ScriptCallRefused``"""


class Answers:
    """One call at a time, in a thread that is started with the first: the host may take long."""

    def __init__(self, channel: socket.socket, host: ScriptHost | None, run_command: Runner) -> None:
        self._channel = channel
        self._host = host
        self._run_command = run_command
        self._calls: queue.SimpleQueue[tuple[int, ScriptCall] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = False
        self.count = 0
        self.denied: list[str] = []
        """what was refused, as it was asked"""

    def take(self, message: Mapping[str, Any]) -> None:
        """A call of the script. Raises ``Forged`` where it is none, or one before the last was answered."""
        call = call_of(message, self.count + 1)
        if self._waiting or self.count >= MAX_CALLS:
            raise Forged("turn")
        self.count += 1
        self._waiting = True
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._serve,), daemon=True, name="script-calls")
            self._thread.start()
        self._calls.put((self.count, call))

    def close(self) -> None:
        """Nothing more is answered. A call that the host is still busy with ends by itself, and goes nowhere."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            number, call = asked
            answer = {"id": number, **self._answer(call)}
            self._waiting = False
            try:
                self._channel.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return

    def _answer(self, call: ScriptCall) -> dict[str, Any]:
        try:
            if self._host is None:
                raise ScriptCallRefused("sandbox_no_host")
            value = self._host.answer(call)
            if call.kind == "command":
                value = self._run_command(call)
            json.dumps(value, allow_nan=False)
        except ScriptCallRefused as refused:
            if len(self.denied) < MAX_DENIED:
                self.denied.append(f"{call.kind} {call.name}")
            return {"error": {"code": refused.code, "message": refused.message}}
        except Exception as error:
            _log.warning("a call of a script failed: %s %s", call.kind, type(error).__name__)
            return {"error": {"code": "sandbox_call_failed", "message": ""}}
        return {"value": value}
