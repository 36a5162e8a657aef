"""One run, watched from outside: the job goes in; calls, output and the report come out; the end is waited for."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from prowess.adapters.sandboxes.bubblewrap.answering import Answers, Runner
from prowess.adapters.sandboxes.bubblewrap.channel import Forged, Frames, Lines, TooLong
from prowess.adapters.sandboxes.bubblewrap.launch import Started, frame_of
from prowess.adapters.sandboxes.bubblewrap.outcome import Ended
from prowess.sandbox.model import MEBIBYTE, SandboxJob, SandboxLimits
from prowess.sandbox.ports import Cancellation, ScriptHost

_POLL_S = 0.02
"""how often a run asks whether it was cancelled"""
_START_S = 10.0
_GRACE_S = 0.5
"""for process 1 to end what it was told to end, before the kernel is asked to"""
_CHUNK = 65536
MAX_INPUT_BYTES = 1024 * 1024


class StartFailed(Exception):
    """The sandbox did not come up. The text is what ``bwrap`` said."""


def wait_ready(started: Started) -> None:
    """Until process 1 is ready for a job. Raises ``StartFailed``."""
    frames = Frames(_CHUNK)
    started.control.settimeout(_START_S)
    try:
        while data := started.control.recv(_CHUNK):
            for message in frames.feed(data):
                if "ready" in message:
                    return
    except (OSError, Forged) as error:
        raise StartFailed(type(error).__name__) from None
    started.process.wait()
    with open(started.stderr, "rb", closefd=False) as said:
        lines = said.read(_CHUNK).decode(errors="replace").strip().splitlines()
    raise StartFailed(lines[-1][:300] if lines else f"exit {started.process.returncode}")


class Session:
    """The run of one job in a sandbox that is ready."""

    def __init__(
        self,
        started: Started,
        document: Mapping[str, Any],
        limits: SandboxLimits,
        host: ScriptHost | None,
        cancel: Cancellation | None,
        run_command: Runner,
    ) -> None:
        self._started = started
        self._document = document
        self._limits = limits
        self._cancel = cancel
        self._answers = Answers(started.channel, host, run_command)
        self._frames = Frames(2 * limits.artifact_bytes + MEBIBYTE)
        self._lines = Lines(limits.output_bytes)
        self._output_limit = limits.output_bytes
        self._stopping: float | None = None
        self._selector = selectors.DefaultSelector()
        self.ended = Ended()

    def run(self) -> Ended:
        """Send the job and watch until all of the sandbox is gone."""
        started = self._started
        deadline = time.monotonic() + self._limits.wall_ms / 1000 + _GRACE_S
        for source, handle in (
            (started.control, self._on_control),
            (started.channel, self._on_channel),
            (started.stdout, self._on_stdout),
            (started.stderr, self._on_stderr),
        ):
            self._selector.register(source, selectors.EVENT_READ, handle)
        try:
            started.control.settimeout(_START_S)
            started.control.sendall(frame_of(self._document))
            while self._selector.get_map() and self._watch(deadline):
                pass
        except OSError:
            self.ended.lost = True
        finally:
            self._finish()
        return self.ended

    def _watch(self, deadline: float) -> bool:
        """Take what is there; false where the sandbox had to be ended from outside."""
        now = time.monotonic()
        if self._stopping is None and self._cancel is not None and self._cancel.cancelled:
            self.ended.cancelled = True
            self._stop()
        limit = deadline if self._stopping is None else min(deadline, self._stopping + _GRACE_S)
        if now >= limit:
            self.ended.lost = self.ended.overdue = True
            return False
        for key, _ in self._selector.select(min(_POLL_S if self._cancel is not None else limit - now, limit - now)):
            key.data()
        return True

    def _stop(self) -> None:
        """Have process 1 end the script and report."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            try:
                self._started.control.send(b"\0")
            except OSError:
                self.ended.lost = True

    def _finish(self) -> None:
        self._selector.close()
        self._answers.close()
        started = self._started
        if self.ended.lost:
            started.kill()
        started.process.wait()
        for end in (started.channel, started.control):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.ended.calls = self._answers.count
        self.ended.denied = tuple(self._answers.denied)

    def _on_control(self) -> None:
        data = self._read(self._started.control)
        try:
            for message in self._frames.feed(data):
                self.ended.report = message
        except Forged:
            self.ended.lost = True
        if not data and self.ended.report is None:
            self.ended.lost = True

    def _on_channel(self) -> None:
        data = self._read(self._started.channel)
        try:
            for message in self._lines.feed(data):
                self._take(message)
        except Forged:
            self.ended.forged = True
            self._stop()
        except TooLong:
            self.ended.too_long = True
            self._stop()

    def _take(self, message: Mapping[str, Any]) -> None:
        if self.ended.said is not None or self.ended.forged or self.ended.too_long:
            raise Forged("after the end")
        if "call" in message:
            self._answers.take(message)
        elif set(message) in ({"result"}, {"failure"}):
            self.ended.said = message
        else:
            raise Forged("shape")

    def _on_stdout(self) -> None:
        _keep(self.ended.stdout, self._read(self._started.stdout), self._output_limit)

    def _on_stderr(self) -> None:
        _keep(self.ended.stderr, self._read(self._started.stderr), self._output_limit)

    def _read(self, source: socket.socket | int) -> bytes:
        try:
            data = os.read(source, _CHUNK) if isinstance(source, int) else source.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(source)
        return data


def _keep(kept: bytearray, data: bytes, limit: int) -> None:
    """What goes beyond the limit is read and thrown away, so that whoever floods does not wait."""
    kept += data[: max(limit - len(kept), 0)]


def document_of(job: SandboxJob) -> dict[str, Any]:
    """What process 1 is sent of a job. Raises ``TypeError`` and ``ValueError`` where its input is no JSON."""
    files = [{"path": file.path, "content": file.content, "executable": file.executable} for file in job.files]
    text = json.dumps(dict(job.input), allow_nan=False)
    if len(text) > MAX_INPUT_BYTES:
        raise ValueError("too large")
    given = json.loads(text)
    return {"files": files, "script": job.script, "entry": job.entry, "input": given}
