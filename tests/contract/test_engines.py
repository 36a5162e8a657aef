"""The engine of many machines on a real PostgreSQL: it only wakes workers, and nothing it loses is lost (B5, B10, B18)."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.kit import LIMIT
from tests.support.tiny_ledger import NewDatabase, TinyLedger

from prowess.adapters.engines.lanes import Lanes, LaneSettings
from prowess.adapters.engines.pgqueuer import (
    CHUNK,
    ENTRYPOINT,
    LATER,
    MOMENT,
    PGQueuerEngine,
    PGQueuerSettings,
    key,
    queued,
    rows,
    unpack,
)
from prowess.adapters.engines.pgqueuer_tables import SETTINGS
from prowess.automation.ports import JobEngine, Work
from prowess.errors import InvalidInput, StorageError

QUEUE = SETTINGS.qualified.queue_table
WAITING = f"""
SELECT coalesce(sum(cardinality(string_to_array(convert_from(payload, 'UTF8'), chr(10)))), 0)::int FROM {QUEUE}
"""
"""how many jobs are in the queue"""


@pytest.fixture
def database(new_database: NewDatabase) -> Iterator[str]:
    with new_database() as url:
        yield url


@pytest.fixture
def ledger(database: str) -> TinyLedger:
    return TinyLedger(database).create()


@contextmanager
def engine_on(url: str, **settings: Any) -> Iterator[PGQueuerEngine]:
    engine = PGQueuerEngine(url, settings=PGQueuerSettings(**settings))
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def serving(engine: JobEngine, work: Work) -> Iterator[None]:
    """A worker in a thread of its own; stopped, and awaited, at the end."""
    begun = threading.Event()
    failed: list[BaseException] = []
    handles: list[Any] = []

    async def serve() -> None:
        stop = asyncio.Event()
        handles.extend((asyncio.get_running_loop(), stop))
        begun.set()
        await engine.serve(work, stop)

    def work_on() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work_on)
    thread.start()
    assert begun.wait(LIMIT)
    try:
        yield
    finally:
        loop, stop = handles
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert failed == []


def once_each(ledger: TinyLedger, count: int) -> None:
    effects = ledger.effects()
    assert len(effects) == count
    assert set(Counter(job for job, _, _ in effects).values()) == {1}


# --- delivery --------------------------------------------------------------------------------------------------------


def test_b5_a_thousand_jobs_run_once_each_in_calls_of_many(ledger: TinyLedger) -> None:
    with engine_on(ledger.url, sweep=LIMIT) as engine:
        with serving(engine, ledger):
            ledger.wait_for_sweeps()
            engine.wake(ledger.add(1_000))
            ledger.wait_for(1_000)
        assert max(map(len, ledger.calls)) >= CHUNK
        assert len(ledger.calls) <= 1_000 / CHUNK
    once_each(ledger, 1_000)
    # Finished rows are gone, and no sweep but the first was needed.
    assert (ledger.ask(WAITING), ledger.sweeps) == ([(0,)], 1)


def test_b10_a_job_due_later_waits_for_its_time(ledger: TinyLedger) -> None:
    with engine_on(ledger.url, sweep=LIMIT) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
        jobs = ledger.add(3, seconds=0.7)
        engine.wake(jobs)
        ledger.wait_for(3)
    # The one at the start, and one for jobs that it may have seen already: not the sweep of every second.
    assert ledger.sweeps <= 2
    lateness = ledger.ask("SELECT max(at - due), min(at - due) FROM tiny_effects JOIN tiny_jobs ON id = job")[0]
    assert timedelta(0) <= lateness[1]
    assert lateness[0] < timedelta(seconds=5)


def test_b10_a_job_due_in_a_year_is_left_to_the_sweep(ledger: TinyLedger) -> None:
    with engine_on(ledger.url) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
        engine.wake(ledger.add(1, seconds=366 * 86_400))
        assert engine.flush(LIMIT)
        assert ledger.ask(WAITING) == [(0,)]


def test_b5_what_was_never_woken_is_found_by_the_sweep(ledger: TinyLedger) -> None:
    ledger.add(120)
    with engine_on(ledger.url) as engine, serving(engine, ledger):
        ledger.wait_for(120)
    once_each(ledger, 120)


def test_b5_notices_without_a_worker_wait_for_one(ledger: TinyLedger) -> None:
    """The first notice comes before any table is there and is lost; the sweep makes up for it."""
    with engine_on(ledger.url) as engine:
        engine.wake(ledger.add(5))
        assert engine.flush(LIMIT)
        with serving(engine, ledger):
            ledger.wait_for(5)
        engine.wake(ledger.add(5, "later"))
        assert engine.flush(LIMIT)
        assert ledger.ask(WAITING) == [(5,)]
        with serving(engine, ledger):
            ledger.wait_for(10)
    once_each(ledger, 10)


def test_b5_duplicates_do_no_harm(ledger: TinyLedger) -> None:
    with engine_on(ledger.url) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
        jobs = ledger.add(50)
        for _ in range(5):
            engine.wake(jobs + jobs)
        engine.wake([("no-such-job", datetime.now(UTC))])
        ledger.wait_for(50)
        engine.wake(jobs)
        assert engine.flush(LIMIT)
        ledger.wait_for_sweeps(2)
    once_each(ledger, 50)


def test_b5_a_job_that_moved_is_delivered_at_its_new_time(ledger: TinyLedger) -> None:
    with engine_on(ledger.url, sweep=LIMIT) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
        engine.wake(ledger.add(1, seconds=50))
        engine.wake(ledger.ask("UPDATE tiny_jobs SET due = clock_timestamp() RETURNING id, due"))
        ledger.wait_for(1)
    once_each(ledger, 1)


def test_b10_a_small_tenant_does_not_wait_behind_the_backlog_of_another(ledger: TinyLedger) -> None:
    with engine_on(ledger.url, backlog=50) as engine:
        engine.wake(ledger.add(2_000, "big", tenant="big"))
        ledger.add(5, "small", tenant="small")
        with serving(engine, ledger):
            ledger.wait_for(2_005)
    order = [job for job, _, _ in ledger.effects()]
    assert max(order.index(f"small{number}") for number in range(1, 6)) < 500


NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(-5_000, 60_000)), unique_by=lambda job: job[0], max_size=200)
)
def test_b10_rows_hold_every_job_once_and_deliver_none_early_nor_late(jobs: list[tuple[int, int]]) -> None:
    asked = [(f"a@b-{number}", NOW + timedelta(milliseconds=offset)) for number, offset in jobs]
    made = rows(asked, NOW)
    delivered: dict[str, timedelta] = {}
    for payload, wait, dedupe in zip(made["payload"], made["execute_after"], made["dedupe_key"], strict=True):
        part = unpack(payload)
        assert 1 <= len(part) <= CHUNK
        assert dedupe == part[0]
        for name in part:
            assert name not in delivered
            delivered[name] = wait
    assert queued([{"payload": payload} for payload in made["payload"]]) == delivered.keys()
    assert delivered.keys() == {key(*job) for job in asked}
    for job, due in asked:
        wait = delivered[key(job, due)]
        assert max(due - NOW, timedelta(0)) <= wait <= max(due - NOW + MOMENT + LATER, timedelta(0))


def test_b5_rows_of_strangers_say_nothing() -> None:
    assert [unpack(payload) for payload in (None, b"", b"\xff", memoryview(b"a@1\nb@2"))] == [
        [],
        [""],
        ["\N{REPLACEMENT CHARACTER}"],
        ["a@1", "b@2"],
    ]


# --- workers ---------------------------------------------------------------------------------------------------------


def test_b18_workers_that_start_together_install_once(ledger: TinyLedger) -> None:
    engines = [PGQueuerEngine(ledger.url) for _ in range(4)]
    ledgers = [TinyLedger(ledger.url, f"w{number}") for number in range(4)]
    with (
        serving(engines[0], ledgers[0]),
        serving(engines[1], ledgers[1]),
        serving(engines[2], ledgers[2]),
        serving(engines[3], ledgers[3]),
    ):
        for one in ledgers:
            one.wait_for_sweeps()
        engines[0].wake(ledger.add(400))
        ledger.wait_for(400)
    for engine in engines:
        engine.close()
    once_each(ledger, 400)


def test_b7_a_worker_that_stops_finishes_what_it_began_and_hands_back_the_rest(ledger: TinyLedger) -> None:
    claimed, go = threading.Event(), threading.Event()

    def hold(_ids: list[str]) -> None:
        claimed.set()
        assert go.wait(LIMIT)

    lanes = LaneSettings(size=2, lanes=1, patience=LIMIT)
    first = TinyLedger(ledger.url, "first", held=hold)
    with engine_on(ledger.url, lanes=lanes) as engine, serving(engine, first):
        first.wait_for_sweeps()
        for number in range(20):
            engine.wake(ledger.add(2, f"n{number}-"))
            assert engine.flush(LIMIT)
        assert claimed.wait(LIMIT)
        threading.Timer(0.3, go.set).start()
    began = [job for call in first.calls for job in call]
    assert sorted(began) == sorted(job for job, _, _ in first.effects())
    assert 0 < len(began) < 40
    # Queued anew, not lost with the worker's heartbeat, nor deleted.
    assert ledger.ask(f"{WAITING} WHERE status = 'queued'")[0][0] + len(began) >= 40
    with engine_on(ledger.url, sweep=LIMIT) as engine, serving(engine, TinyLedger(ledger.url, "second")):
        ledger.wait_for(40)
    once_each(ledger, 40)


def test_b10_slow_calls_keep_neither_lanes_nor_rows_from_quick_ones(ledger: TinyLedger) -> None:
    """More jobs are under way than one worker may hold rows, and more calls than there are lanes."""
    go, held, changed = threading.Event(), [0], threading.Condition()

    def hold(ids: list[str]) -> None:
        if ids[0].startswith("slow"):
            with changed:
                held[0] += len(ids)
                changed.notify_all()
            assert go.wait(LIMIT)

    lanes = LaneSettings(size=10, lanes=1, patience=0.05)
    work = TinyLedger(ledger.url, held=hold)
    with engine_on(ledger.url, lanes=lanes, batch=2, concurrent=4) as engine, serving(engine, work):
        work.wait_for_sweeps()
        for number in range(10):
            engine.wake(ledger.add(4, f"slow{number}-"))
            assert engine.flush(LIMIT)
        with changed:
            assert changed.wait_for(lambda: held == [40], LIMIT)
        engine.wake(ledger.add(5, "quick"))
        try:
            ledger.wait_for(5)
        finally:
            go.set()
        ledger.wait_for(45)
    assert {job for job, _, _ in ledger.effects()[:5]} == {f"quick{number}" for number in range(1, 6)}


def test_b5_a_ledger_that_fails_for_a_while_is_asked_again(ledger: TinyLedger) -> None:
    failures = threading.Semaphore(2)

    class Failing(TinyLedger):
        def run(self, ids: Any) -> None:
            if failures.acquire(blocking=False):
                raise StorageError("database_unavailable", cause="a test")
            super().run(ids)

        def sweep(self) -> datetime | None:
            if self.sweeps == 1:
                self.sweeps += 1
                raise StorageError("database_unavailable", cause="a test")
            return super().sweep()

    with engine_on(ledger.url) as engine, serving(engine, Failing(ledger.url)):
        ledger.add(10)
        ledger.wait_for(10)
    once_each(ledger, 10)


# --- connections -----------------------------------------------------------------------------------------------------

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_b18_connections_that_are_cut_are_made_anew(ledger: TinyLedger) -> None:
    with engine_on(ledger.url, retry=0.1) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
        engine.wake(ledger.add(10, "before"))
        ledger.wait_for(10)
        for number in range(3):
            assert ledger.ask(CUT)[0][0] > 0
            # The first is lost with the connection, or not; either way it is done.
            engine.wake(ledger.add(10, f"after{number}-"))
            ledger.wait_for(20 + 10 * number)
            listening = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
            )
            assert ledger.ask(listening)[0][0] >= 1
    once_each(ledger, 40)


def test_b18_a_database_that_is_gone_is_waited_for(new_database: NewDatabase, postgres_url: str) -> None:
    server = postgres_url.replace("+psycopg", "")
    with new_database() as url:
        ledger = TinyLedger(url).create()
        name = url.partition("?")[0].rpartition("/")[2]
        with engine_on(ledger.url, retry=0.1) as engine, serving(engine, ledger):
            ledger.wait_for_sweeps()
            jobs = ledger.add(5)
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
                engine.wake(jobs)
                assert engine.flush(LIMIT)
                connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            ledger.wait_for(5)
        once_each(ledger, 5)


def test_b18_an_address_over_tcp_is_read_as_libpq_reads_it() -> None:
    from sqlalchemy.engine import make_url

    from prowess.adapters.engines.pgqueuer_tables import dsn

    url = make_url("postgresql+psycopg://me:p%40ss@db.example:6000/jobs?connect_timeout=3&sslmode=require&keepalives=1")
    assert dsn(url) == "postgresql://me:p%40ss@db.example:6000/jobs?sslmode=require"


def test_b18_pgqueuer_of_somebody_else_in_the_same_database_is_left_alone(ledger: TinyLedger) -> None:
    with engine_on(ledger.url) as engine, serving(engine, ledger):
        ledger.wait_for_sweeps()
    tables = ledger.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    assert {name for (name,) in tables if "pgqueuer" in name} == {
        "prowess_pgqueuer",
        "prowess_pgqueuer_log",
        "prowess_pgqueuer_schedules",
        "prowess_pgqueuer_statistics",
    }
    assert ENTRYPOINT == "prowess_job"


# --- refusals --------------------------------------------------------------------------------------------------------


def test_b18_other_databases_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        PGQueuerEngine("sqlite:///file.db")
    assert refused.value.code == "engine_needs_postgres"
    assert "PostgreSQL" in refused.value.remedy()
    with pytest.raises(StorageError) as unread:
        PGQueuerEngine("nonsense")
    assert unread.value.code == "database_url"


def test_b18_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pgqueuer" else find(name))
    with pytest.raises(InvalidInput) as refused:
        PGQueuerEngine("postgresql://db.example/jobs")
    assert refused.value.code == "engine_missing"
    assert "prowess[pgqueuer]" in refused.value.remedy()


# --- lanes -----------------------------------------------------------------------------------------------------------


def test_b10_lanes_lose_nothing_when_they_close() -> None:
    """Every delivery is answered: run, or handed back and not run."""
    ran: list[str] = []

    async def close_amid() -> list[bool]:
        lanes = Lanes(lambda ids: ran.extend(ids), LaneSettings(size=3, lanes=2, gather=0))
        lanes.start()
        waiting = [asyncio.create_task(lanes.deliver([str(number)])) for number in range(100)]
        while not ran:
            await asyncio.sleep(0)
        await lanes.close(LIMIT)
        return [*await asyncio.gather(*waiting), await lanes.deliver(["late"])]

    answers = asyncio.run(close_amid())
    assert sorted(ran, key=int) == [str(number) for number, begun in enumerate(answers) if begun]
    assert answers[-1] is False
