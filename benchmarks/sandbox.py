"""One script in the sandbox, cold and from the pool, against a bare Python that runs it, in turn in the same run.

Milliseconds, medians. ``cold_ms`` is from nothing to the end of a sandbox that was started for the run; ``pooled_ms``
from the job to the end of one that waited; ``bare_ms`` is the same interpreter with the same script and no sandbox.

    prowess bench sandbox [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

RUNS = 30
REST_S = 0.03
"""between two measurements, so that what ends in the background is not counted to the next"""
TARGETS = {"cold_over_bare_ms": "at most 25", "pooled_ms": "at most 6"}
SOURCE = "def main(a):\n    return a + 1\n"


def run(args: list[str]) -> dict[str, Any]:
    """``args``: how many runs of each (default 30)."""
    from prowess.adapters.sandboxes.bubblewrap.programs import interpreter
    from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox
    from prowess.sandbox.model import SandboxJob, SandboxProfile, ScriptFile

    runs = int(args[0]) if args else RUNS
    job = SandboxJob((ScriptFile("s.py", SOURCE.encode()),), "s.py", "main", {"a": 1}, SandboxProfile())
    cold, pooled = BubblewrapSandbox(), BubblewrapSandbox(ready=1)
    argv = [interpreter().path, "-I", "-S", "-B", "-c", f"{SOURCE}main(1)"]

    def sandboxed(sandbox: BubblewrapSandbox) -> None:
        result = sandbox.run(job)
        assert result.output == 2, result

    try:
        sandboxed(cold)
        spent: dict[str, list[float]] = {"bare_ms": [], "cold_ms": [], "pooled_ms": []}
        for _ in range(runs):
            spent["bare_ms"].append(_milliseconds(lambda: subprocess.run(argv, check=True, env={})))
            spent["cold_ms"].append(_milliseconds(lambda: sandboxed(cold)))
            assert pooled.warm(job.profile)
            spent["pooled_ms"].append(_milliseconds(lambda: sandboxed(pooled)))
    finally:
        cold.close()
        pooled.close()
    found = {name: round(statistics.median(values), 2) for name, values in spent.items()}
    bare = found.pop("bare_ms")
    over = round(found["cold_ms"] - bare, 2)
    least = {f"least_{name}": round(min(values), 2) for name, values in spent.items() if name != "bare_ms"}
    return {
        "name": "sandbox",
        "figures": {**found, "cold_over_bare_ms": over, **least, "runs": runs},
        "peer": {"bare_ms": bare},
        "ratio": round(found["cold_ms"] / bare, 2),
        "targets": TARGETS,
    }


def _milliseconds(action: Callable[[], Any]) -> float:
    time.sleep(REST_S)
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000
