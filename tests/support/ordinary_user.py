"""Runs sandbox jobs as a user who is not root: started by root, it gives root up before the first job.

Lines of JSON in, a line of JSON out; everything it needs is loaded before, as an ordinary user may not see it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from typing import Any

from prowess.adapters.sandboxes.bubblewrap import code, programs, selftest
from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox
from prowess.runtime.sandboxing import result_to_json
from prowess.sandbox.model import SandboxJob, SandboxLimits, SandboxProfile, ScriptFile
from prowess.sandbox.ports import Sandbox

ORDINARY_ID = 65532


def job_of(source: str, given: dict[str, Any], profile: dict[str, Any], limits: dict[str, Any]) -> SandboxJob:
    made = SandboxProfile(**{key: tuple(value) for key, value in profile.items()}, limits=SandboxLimits(**limits))
    return SandboxJob((ScriptFile("attempt.py", source.encode()),), "attempt.py", "main", given, made)


def as_json(job: SandboxJob, sandbox: Sandbox) -> dict[str, Any]:
    result = sandbox.run(job)
    contents = {file.path: base64.b64encode(file.content).decode() for file in result.artifacts}
    return {**result_to_json(result), "contents": contents}


class OrdinaryUser:
    """A process of an ordinary user that runs jobs. Raises ``PermissionError`` where the tests are not root's."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise PermissionError("both halves of the escape tests need root, which becomes an ordinary user for one")
        argv = [sys.executable, "-m", "tests.support.ordinary_user"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *job: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def main() -> None:
    programs.bwrap()
    code.frame()
    sandbox = BubblewrapSandbox()
    as_json(job_of("def main(): raise OSError", {}, {}, {}), sandbox)  # what is imported late is imported now
    os.setgroups([])
    os.setresgid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID)
    os.setresuid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID)
    selftest._known = selftest.examine()
    for line in sys.stdin:
        print(json.dumps(as_json(job_of(*json.loads(line)), sandbox)), flush=True)


if __name__ == "__main__":
    main()
