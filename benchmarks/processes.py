"""Waits of several processes on one SQLite file: with the file lock, and with SQLite's own lock alone.

prowess bench processes [PROCESSES [SECONDS]]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_WORKER = """
import json, sys, time
from contextlib import nullcontext
import prowess
from prowess.errors import StorageError
url, name, seconds, locked = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4] == "locked"
app = prowess.open(url)
if not locked:
    app._parts.database._lock = nullcontext()
print("ready", flush=True)
sys.stdin.readline()
turns, errors, waits = 0, 0, []
end = time.perf_counter() + seconds
while time.perf_counter() < end:
    started = time.perf_counter()
    try:
        app.turn(user=name, agent="mira", conversation=name, message_id=f"m{turns + errors}", text="hello")
        turns += 1
    except StorageError:
        errors += 1
    waits.append(time.perf_counter() - started)
waits.sort()
print(json.dumps({"turns": turns, "errors": errors, "p99": waits[int(len(waits) * .99)], "max": waits[-1]}))
"""


def run(args: list[str]) -> dict[str, Any]:
    """``args``: how many processes (default 8) and for how many seconds (default 10)."""
    processes = int(args[0]) if args else 8
    seconds = float(args[1]) if len(args) > 1 else 10.0
    ours, peer = (_measure(processes, seconds, mode) for mode in ("locked", "bare"))
    return {
        "name": "processes",
        "figures": {"processes": processes, "seconds": seconds, **ours},
        "peer": {"name": "SQLite's busy timeout alone", **peer},
        "ratio": round(ours["wait_p99_ms"] / peer["wait_p99_ms"], 3),
        "ratio_of_longest_waits": round(ours["wait_max_ms"] / peer["wait_max_ms"], 3),
        "ratio_of_turns_per_second": round(ours["turns_per_second"] / peer["turns_per_second"], 2),
    }


def _measure(processes: int, seconds: float, mode: str) -> dict[str, Any]:
    import prowess

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'shared.db'}"
        prowess.open(url).close()
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", _WORKER, url, f"u{index}", str(seconds), mode],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ,
            )
            for index in range(processes)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        results = [json.loads(worker.communicate()[0]) for worker in workers]
    return {
        "turns_per_second": round(sum(result["turns"] for result in results) / seconds, 1),
        "locked_errors": sum(result["errors"] for result in results),
        "wait_p99_ms": round(max(result["p99"] for result in results) * 1000, 1),
        "wait_max_ms": round(max(result["max"] for result in results) * 1000, 1),
    }
