"""Jobs a second and punctuality: our ledger, against PGQueuer alone and against DBOS, in one run.

Ours does all that a reminder does: the gate decides in the transaction that claims, one message is stored and counted,
and it is all audited. The peers do nothing in their jobs. PostgreSQL is started from the wheel, with ``fsync`` on.
Workers are processes of their own, warmed up first; every figure is the median of alternating rounds.

    prowess bench jobs [JOBS [ROUNDS]]
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parent
WARM_UP = 400
PEER_SHARE = 4
"""DBOS is given this fraction of the jobs: it is that much slower, and its rate does not depend on their number"""
ADDED = 2_000
"""jobs that can be added in a second"""
WAITING = 1_000
LIMIT = 300.0
"""seconds for one round"""


def run(args: list[str]) -> dict[str, Any]:
    """``args``: how many jobs in a round (default 4000) and how many rounds (default 3)."""
    jobs = int(args[0]) if args else 4_000
    rounds = int(args[1]) if len(args) > 1 else 3
    with _importable(), _workplace() as (server, folder):
        figures: dict[str, Any] = {"jobs": jobs, "rounds": rounds}
        postgres = {"bare": ("bare", jobs), "ledger": ("ledger", jobs), "dbos": ("durable", jobs // PEER_SHARE)}
        for workers in (1, 2):
            urls = {name: server(f"{name}_{workers}") for name in postgres}
            figures[f"postgres_{workers}"] = _compare(postgres, urls, workers, rounds)
        sqlite = {"ledger": ("ledger", jobs), "dbos": ("durable", jobs // PEER_SHARE)}
        files = {name: f"sqlite:///{folder / name}.db" for name in sqlite}
        figures["sqlite"] = _compare(sqlite, files, 1, rounds)
        punctual = {"pgqueuer": server("punctual"), "embedded": f"sqlite:///{folder / 'punctual'}.db"}
        figures["start_after_due_ms"] = {name: _punctuality(url, rounds) for name, url in punctual.items()}
    return {"name": "jobs", "figures": figures, **_ratios(figures)}


def _ratios(figures: dict[str, Any]) -> dict[str, Any]:
    one, two, sqlite = figures["postgres_1"], figures["postgres_2"], figures["sqlite"]
    return {
        "peer": {"name": "PGQueuer alone, and DBOS", "jobs_per_second": one["bare"]},
        "ratio": round(one["ledger"] / one["bare"], 2),
        "ratio_two_workers": round(two["ledger"] / two["bare"], 2),
        "ratio_to_dbos_postgres": round(one["ledger"] / one["dbos"], 1),
        "ratio_to_dbos_sqlite": round(sqlite["ledger"] / sqlite["dbos"], 1),
        "targets": {"ratio": 0.5, "ratio_to_dbos_postgres": 4, "ratio_to_dbos_sqlite": 10, "p99_ms": 1_500},
    }


# --- rounds ----------------------------------------------------------------------------------------------------------


def _compare(sides: dict[str, tuple[str, int]], urls: dict[str, str], workers: int, rounds: int) -> dict[str, Any]:
    """Jobs a second of each, all in turn; one at a time is awake, the others wait for nothing."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for name, (module, _) in sides.items():
        importlib.import_module(f"queues.{module}").prepare(urls[name])
    for number in range(rounds):
        for name, (module, jobs) in sides.items():
            with _Crew(module, urls[name], workers) as crew:
                crew.round(f"w{number}", WARM_UP)
                # All are added before any is due, so that adding takes nothing from those who work.
                told = crew.round(f"r{number}", jobs, datetime.now(UTC) + timedelta(seconds=2 + jobs / ADDED))
            rates[name].append(jobs / (told["last"] - min(told["starts"])))
    result: dict[str, Any] = {name: round(median(values)) for name, values in rates.items()}
    result["done"] = _check(urls["ledger"], rounds * (WARM_UP + sides["ledger"][1]))
    return result


def _check(url: str, jobs: int) -> dict[str, int]:
    """Completed, messages and counters are all the number of jobs."""
    totals: dict[str, int] = importlib.import_module("queues.ledger").totals(url)
    assert set(totals.values()) == {jobs}, (totals, jobs)
    return totals


def _punctuality(url: str, rounds: int) -> dict[str, float]:
    """From due to start, of a thousand jobs that wait for the same moment."""
    importlib.import_module("queues.ledger").prepare(url)
    late: list[float] = []
    with _Crew("ledger", url, 1) as crew:
        crew.round("w", WARM_UP)
        for number in range(rounds):
            due = datetime.now(UTC) + timedelta(seconds=3)
            told = crew.round(f"r{number}", WAITING, due)
            late += [(start - due.timestamp()) * 1_000 for start in told["starts"]]
    _check(url, WARM_UP + rounds * WAITING)
    late.sort()
    at = {f"p{share}": late[int(len(late) * share / 100)] for share in (50, 90, 99)} | {"max": late[-1]}
    return {name: round(value, 1) for name, value in at.items()}


class _Crew:
    """Worker processes of one queue."""

    def __init__(self, module: str, url: str, workers: int) -> None:
        self._queue: Any = importlib.import_module(f"queues.{module}")
        self._url = url
        command = [sys.executable, "-m", "queues.worker", module, url]
        paths = os.pathsep.join([str(FOLDER), *sys.path])
        self._workers = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": paths},
            )
            for _ in range(workers)
        ]

    def __enter__(self) -> _Crew:
        for worker in self._workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
        for worker in self._workers:
            worker.wait(LIMIT)

    def round(self, name: str, jobs: int, due: datetime | None = None) -> dict[str, Any]:
        """Add so many jobs, have them done, and hear when each began and when the last one ended."""
        self._queue.add(self._url, name, jobs, due or datetime.now(UTC))
        self._say(f"round {name}")
        until = time.monotonic() + LIMIT
        while self._queue.left(self._url, name):
            assert time.monotonic() < until, f"{name}: {self._queue.left(self._url, name)} left"
            time.sleep(0.2)
        self._say("report")
        told = [json.loads(worker.stdout.readline()) for worker in self._workers if worker.stdout is not None]
        return {"starts": [start for one in told for start in one["starts"]], "last": max(one["last"] for one in told)}

    def _say(self, line: str) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{line}\n")
            worker.stdin.flush()


# --- the workplace ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _importable() -> Iterator[None]:
    """The folders of the queues and of the test support, which starts the server."""
    added: Sequence[str] = (str(FOLDER), str(FOLDER.parent))
    sys.path[:0] = added
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)


@contextlib.contextmanager
def _workplace() -> Iterator[tuple[Any, Path]]:
    """A function that makes a PostgreSQL database and returns its URL; and a folder for SQLite files."""
    import psycopg
    from tests.support.postgres import running_server

    home, folder = Path(tempfile.mkdtemp(prefix="prowess-pg-")), Path(tempfile.mkdtemp(prefix="prowess-bench-"))
    try:
        with running_server(home, {"fsync": "on"}):

            def make(name: str) -> str:
                with psycopg.connect(f"postgresql://postgres@/postgres?host={home}", autocommit=True) as connection:
                    connection.execute(f"CREATE DATABASE {name}")
                return f"postgresql+psycopg://postgres@/{name}?host={home}"

            yield make, folder
    finally:
        shutil.rmtree(home)
        shutil.rmtree(folder)
