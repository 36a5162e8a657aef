"""Workers in processes of their own, one of them killed with jobs in its hands (B5, B18)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.chaos.conftest import Worker
from tests.support.kit import LIMIT
from tests.support.tiny_ledger import LEASE, NewDatabase, TinyLedger

from prowess.adapters.engines.pgqueuer import PGQueuerEngine

Start = Callable[..., Worker]
MODULE = "tests.chaos.engine_worker"


@pytest.fixture
def ledger(new_database: NewDatabase) -> Iterator[TinyLedger]:
    with new_database() as url:
        yield TinyLedger(url).create()


@pytest.fixture
def engine(ledger: TinyLedger) -> Iterator[PGQueuerEngine]:
    engine = PGQueuerEngine(ledger.url)
    yield engine
    engine.close()


def begin(start: Start, ledger: TinyLedger, **plan: object) -> Worker:
    worker = start(module=MODULE, url=ledger.url, **plan).ready()
    worker.go()
    return worker


def stop(worker: Worker) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.end() == 0, worker.errors()
    assert worker.errors() == ""


def test_b5_b18_two_processes_share_a_thousand_jobs_and_do_each_once(
    start: Start, ledger: TinyLedger, engine: PGQueuerEngine
) -> None:
    workers = [begin(start, ledger, name=f"w{number}") for number in range(2)]
    # Both are at work before the many come.
    while {worker for _, worker, _ in ledger.effects()} != {"w0", "w1"}:
        seen = len(ledger.effects())
        engine.wake(ledger.add(20, f"warm{seen}-"))
        ledger.wait_for(seen + 20)
    warm = len(ledger.effects())
    engine.wake(ledger.add(1_000))
    ledger.wait_for(warm + 1_000)
    for worker in workers:
        stop(worker)
    effects = ledger.effects()
    assert len(effects) == len({job for job, _, _ in effects}) == warm + 1_000
    assert {epoch for _, _, epoch in effects} == {1}
    shares = Counter(worker for job, worker, _ in effects if job.startswith("j"))
    assert min(shares["w0"], shares["w1"]) > 100


def test_b5_a_worker_killed_amid_a_batch_is_taken_over_from(
    start: Start, ledger: TinyLedger, engine: PGQueuerEngine
) -> None:
    """Within the lease and a sweep, and for PGQueuer's own rows within a heartbeat and a poll; nothing runs twice."""
    jobs = ledger.add(200)
    doomed = begin(start, ledger, name="doomed", die_with=2)
    assert doomed.end() == -9, doomed.errors()
    assert ledger.effects() == []
    claimed = ledger.ask("SELECT count(*) FROM tiny_jobs WHERE state = 'running'")[0][0]
    assert claimed >= 2
    began = time.monotonic()
    survivor = begin(start, ledger, name="survivor")
    ledger.wait_for(200)
    assert time.monotonic() - began < LEASE + 8
    stop(survivor)
    effects = ledger.effects()
    assert Counter(job for job, _, _ in effects) == dict.fromkeys((job for job, _ in jobs), 1)
    assert Counter(epoch for _, _, epoch in effects) == Counter({1: 200 - claimed, 2: claimed})


def test_b5_a_worker_that_was_frozen_is_fenced(start: Start, ledger: TinyLedger) -> None:
    """A zombie that wakes after its lease finishes nothing: another did it at a higher epoch."""
    claimed, go = threading.Event(), threading.Event()

    def hold(_ids: list[str]) -> None:
        claimed.set()
        assert go.wait(LIMIT)

    zombie = TinyLedger(ledger.url, "zombie", held=hold)
    ((job, _),) = ledger.add(1)
    thread = threading.Thread(target=zombie.run, args=([job],))
    thread.start()
    assert claimed.wait(LIMIT)
    worker = begin(start, ledger, name="survivor")
    ledger.wait_for(1)
    go.set()
    thread.join(LIMIT)
    stop(worker)
    assert ledger.effects() == [(job, "survivor", 2)]


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_b5_workers_killed_again_and_again_lose_nothing_and_do_nothing_twice(
    start: Start, ledger: TinyLedger, engine: PGQueuerEngine
) -> None:
    steady = begin(start, ledger, name="steady")
    total = 0
    for number in range(10):
        begin(start, ledger, name=f"doomed{number}", die_with=10)
        engine.wake(ledger.add(500, f"r{number}-"))
        total += 500
        ledger.wait_for(total)
    stop(steady)
    effects = ledger.effects()
    assert len(effects) == len({job for job, _, _ in effects}) == total
