"""Starts processes, talks to them, and never leaves one behind."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import LIMIT

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """One process, of ``tests.chaos.worker`` mostly; nothing here waits for longer than the limit."""

    def __init__(self, plan: dict[str, Any], folder: Path, module: str) -> None:
        self._errors = folder / f"errors-{id(self)}"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(plan)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.lines: list[str] = []
        self.said_enough = threading.Event()
        self.is_ready = threading.Event()
        self._wanted = -1
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "ready\n":
                self.is_ready.set()
            else:
                self.lines.append(line.rstrip("\n"))
            if len(self.lines) == self._wanted:
                self.said_enough.set()
        self.is_ready.set()
        self.said_enough.set()

    def ready(self) -> Worker:
        """Wait until it has opened the database."""
        assert self.is_ready.wait(LIMIT)
        assert self.process.poll() is None, self.errors()
        return self

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill_after(self, lines: int) -> None:
        """Let it say so many lines, then kill it at once."""
        self._wanted = lines
        self.go()
        assert self.said_enough.wait(LIMIT)
        self.process.kill()
        self.end()

    def end(self, limit: float = LIMIT) -> int:
        """Wait for its end; returns its exit code."""
        code = self.process.wait(limit)
        self._reader.join(LIMIT)
        return code

    def errors(self) -> str:
        return self._errors.read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts a worker process with a plan."""
    started: list[Worker] = []

    def start_one(module: str = "tests.chaos.worker", **plan: Any) -> Worker:
        started.append(Worker(plan, tmp_path, module))
        return started[-1]

    yield start_one
    for worker in started:
        worker.close()
