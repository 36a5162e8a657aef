"""The log: committed with the state it describes, in the order of commits, followed exactly once (R1, T13)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.support.kit import LIMIT, at_once, everything, rows

from prowess.db.engine import Database
from prowess.events.followers import Follower
from prowess.events.log import EventLog, Transaction, events
from prowess.events.model import SYSTEM, Actor, Event
from prowess.kernel.clock import ManualClock


@pytest.fixture
def log(url: str, clock: ManualClock) -> Iterator[EventLog]:
    database = Database(url)
    yield EventLog(database, clock)
    database.close()


def emit(log: EventLog, *targets: str, tenant: str = "default") -> None:
    with log.transaction("default") as transaction:
        for target in targets:
            transaction.emit("turn.started", tenant=tenant, actor=SYSTEM, target=target)


def targets(events: Sequence[Event]) -> list[str | None]:
    return [event.target for event in events]


# --- R1 --------------------------------------------------------------------------------------------------------------


def test_r1_state_and_events_are_committed_together(log: EventLog, url: str, clock: ManualClock) -> None:
    with log.transaction("default") as transaction:
        transaction.connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        transaction.emit(
            "skill.selected",
            tenant="t",
            actor=Actor("user", "u1"),
            user="u1",
            agent="mira",
            chat=("group", "g1"),
            message_id="m1",
            skill=("deploy", "1.0.0"),
            session_id="s1",
            run_id="r1",
            target="x",
            decision="allowed",
            score=0.5,
            reason="keywords 部署",
        )
        assert rows(url, "SELECT * FROM events") == []
    assert rows(url, "SELECT tenant FROM skill_catalogs") == [{"tenant": "t"}]
    (event,) = log.after("t")
    assert event == Event(
        seq=event.seq,
        tenant="t",
        type="skill.selected",
        at=clock.now(),
        actor=Actor("user", "u1"),
        user="u1",
        agent="mira",
        chat_kind="group",
        chat_id="g1",
        message_id="m1",
        skill_id="deploy",
        skill_version="1.0.0",
        session_id="s1",
        run_id="r1",
        target="x",
        decision="allowed",
        data={"score": 0.5, "reason": "keywords 部署"},
    )
    assert event.to_json()["at"] == "2026-03-01T08:00:00.000Z"
    assert event.to_json()["actor"] == {"kind": "user", "id": "u1"}


def test_r1_neither_where_the_block_raises(log: EventLog, url: str) -> None:
    with pytest.raises(ZeroDivisionError), log.transaction("default") as transaction:
        transaction.connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        transaction.emit("turn.started", tenant="t", actor=SYSTEM)
        raise ZeroDivisionError
    assert all(found == [] for found in everything(url).values())


@pytest.mark.parametrize("fault", ["type", "data"])
def test_r1_neither_where_an_event_cannot_be_written(log: EventLog, url: str, fault: str) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)), log.transaction("default") as transaction:
        transaction.connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        transaction.emit("turn.started", tenant="t", actor=SYSTEM)
        if fault == "type":
            transaction.emit("turn.invented", tenant="t", actor=SYSTEM)
        else:
            transaction.emit("turn.started", tenant="t", actor=SYSTEM, score=float("nan"))
    assert all(found == [] for found in everything(url).values())


def test_r1_neither_where_the_log_refuses_the_event(log: EventLog, url: str) -> None:
    tenant: str = None  # type: ignore[assignment]
    with pytest.raises(Exception, match="(?i)null"), log.transaction("default") as transaction:
        transaction.connection.execute(text("INSERT INTO skill_catalogs VALUES ('t', 1)"))
        transaction.emit("turn.started", tenant=tenant, actor=SYSTEM)
    assert all(found == [] for found in everything(url).values())


def test_r1_events_of_one_transaction_keep_their_order_and_instant(log: EventLog, clock: ManualClock) -> None:
    emit(log, *(str(number) for number in range(50)))
    clock.advance(timedelta(seconds=1))
    emit(log, "later")
    events = log.after("default")
    assert targets(events) == [*(str(number) for number in range(50)), "later"]
    assert len({event.at for event in events[:50]}) == 1
    assert events[-1].at - events[0].at == timedelta(seconds=1)
    assert [event.seq for event in events] == sorted({event.seq for event in events})


def test_r1_the_log_is_read_by_tenant_from_a_place_on(log: EventLog) -> None:
    emit(log, "a", "b", "c")
    emit(log, "other", tenant="t2")
    emit(log, "d")
    first = log.after("default", limit=2)
    assert targets(first) == ["a", "b"]
    assert targets(log.after("default", first[-1].seq)) == ["c", "d"]
    assert targets(log.after("t2")) == ["other"]
    assert log.after("t3") == []


def test_r2_the_audit_view_and_the_audit_list_show_the_same_rows(log: EventLog, url: str, clock: ManualClock) -> None:
    with log.transaction("default") as transaction:
        for number, decision in enumerate(["allowed", "denied"]):
            transaction.emit(
                "tool.decided",
                tenant="default",
                actor=Actor("agent", "mira"),
                user=f"u{number}",
                skill=("recall", "1.0.0"),
                decision=decision,
            )
        transaction.emit("turn.started", tenant="default", actor=SYSTEM, user="u0")
    clock.advance(timedelta(minutes=1))
    with log.transaction("default") as transaction:
        transaction.emit("tool.finished", tenant="default", actor=SYSTEM, user="u0", decision="succeeded")
        transaction.emit("permission.granted", tenant="t2", actor=SYSTEM, user="u0", decision="allowed")

    audit = log.audit("default")
    assert [event.type for event in audit] == ["tool.finished", "tool.decided", "tool.decided"]
    assert [event.decision for event in log.audit("default", decision="denied")] == ["denied"]
    assert len(log.audit("default", user="u0")) == 2
    assert len(log.audit("default", skill="recall")) == 2
    assert [event.type for event in log.audit("default", since=clock.now())] == ["tool.finished"]
    assert len(log.audit("default", limit=1)) == 1
    shown = rows(url, "SELECT seq, type FROM skill_audit_events WHERE tenant = 'default' ORDER BY seq DESC")
    assert shown == [{"seq": event.seq, "type": event.type} for event in audit]


# --- order under concurrency -----------------------------------------------------------------------------------------

WRITERS, EACH = 6, 25


def test_r1_t13_a_follower_misses_nothing_while_others_write(log: EventLog, url: str) -> None:
    """Sequence numbers follow commit order: once a number was seen, no smaller one appears later."""
    seen: list[Event] = []
    follower = Follower(log, "watcher", lambda _transaction, events: seen.extend(events), batch=7)
    running = threading.Event()

    def write(writer: int) -> None:
        for number in range(EACH):
            with log.transaction("default") as transaction:
                transaction.emit("turn.started", tenant=f"t{writer}", actor=SYSTEM, target=f"{writer}-{number}")
                transaction.connection.execute(text("SELECT 1"))
                transaction.emit("turn.completed", tenant=f"t{writer}", actor=SYSTEM, target=f"{writer}-{number}")

    def follow() -> None:
        while not running.is_set():
            follower.catch_up()

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        assert at_once([lambda writer=writer: write(writer) for writer in range(WRITERS)]) == [None] * WRITERS
        running.set()
        following.result(LIMIT)
    follower.catch_up()

    sequence = [event.seq for event in seen]
    assert sequence == sorted(set(sequence))
    stored = rows(url, "SELECT seq FROM events ORDER BY seq")
    assert sequence == [row["seq"] for row in stored]
    assert len(sequence) == WRITERS * EACH * 2
    for writer in range(WRITERS):
        mine = [(event.type, event.target) for event in seen if event.tenant == f"t{writer}"]
        assert mine == [
            (kind, f"{writer}-{number}") for number in range(EACH) for kind in ("turn.started", "turn.completed")
        ]


def test_r1_a_follower_of_some_events_misses_none_of_them_while_others_write(log: EventLog) -> None:
    seen: list[Event] = []
    only = events.c.type == "turn.completed"
    follower = Follower(log, "some", lambda _transaction, found: seen.extend(found), batch=7, only=only)
    running = threading.Event()

    def write(writer: int) -> None:
        for number in range(EACH):
            for kind in ("turn.started", "turn.completed", "turn.started"):
                with log.transaction("default") as transaction:
                    transaction.emit(kind, tenant="default", actor=SYSTEM, target=f"{writer}-{number}")

    def follow() -> None:
        while not running.is_set():
            follower.catch_up()

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        assert at_once([lambda writer=writer: write(writer) for writer in range(WRITERS)]) == [None] * WRITERS
        running.set()
        following.result(LIMIT)
    follower.catch_up()
    assert {event.type for event in seen} == {"turn.completed"}
    assert sorted(map(str, targets(seen))) == sorted(
        f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH)
    )


def test_r1_events_of_no_concern_are_passed_by(log: EventLog) -> None:
    calls: list[int] = []
    only = events.c.type == "turn.completed"
    follower = Follower(log, "some", lambda _transaction, found: calls.append(len(found)), only=only)
    with log.transaction("default") as transaction:
        for _ in range(1_500):
            transaction.emit("turn.started", tenant="default", actor=SYSTEM)
    assert (follower.catch_up(), calls) == (0, [])
    last = log.after("default", limit=2_000)[-1].seq
    assert follower.cursor == last


def test_r1_a_rolled_back_writer_leaves_no_gap_that_holds_a_follower(log: EventLog) -> None:
    emit(log, "a")
    with pytest.raises(ZeroDivisionError), log.transaction("default") as transaction:
        transaction.emit("turn.started", tenant="default", actor=SYSTEM)
        transaction.flush(log.database.dialect)
        raise ZeroDivisionError
    emit(log, "b")
    seen: list[Event] = []
    assert Follower(log, "f", lambda _transaction, events: seen.extend(events)).catch_up() == 2
    assert targets(seen) == ["a", "b"]


# --- followers -------------------------------------------------------------------------------------------------------


def noting(seen: list[str | None]) -> object:
    def handle(transaction: Transaction, events: Sequence[Event]) -> None:
        for event in events:
            transaction.connection.execute(
                text("INSERT INTO skill_catalogs VALUES (:tenant, 1)"), {"tenant": event.target}
            )
        seen.extend(targets(events))

    return handle


def test_t13_a_follower_handles_each_event_once_in_batches(log: EventLog, url: str) -> None:
    emit(log, *"abcde")
    batches: list[list[str | None]] = []
    follower = Follower(log, "f", lambda _transaction, events: batches.append(targets(events)), batch=2)
    assert follower.cursor == 0
    assert follower.catch_up() == 5
    assert batches == [["a", "b"], ["c", "d"], ["e"]]
    assert follower.cursor == log.after("default")[-1].seq
    assert follower.catch_up() == 0
    emit(log, "f")
    assert Follower(log, "f", lambda _transaction, events: batches.append(targets(events))).catch_up() == 1
    assert batches[-1] == ["f"]
    assert rows(url, "SELECT name FROM event_followers") == [{"name": "f"}]


def test_t13_a_follower_reads_all_tenants(log: EventLog) -> None:
    emit(log, "a", tenant="t1")
    emit(log, "b", tenant="t2")
    seen: list[Event] = []
    Follower(log, "f", lambda _transaction, events: seen.extend(events)).catch_up()
    assert [(event.tenant, event.target) for event in seen] == [("t1", "a"), ("t2", "b")]


def test_t13_a_follower_that_dies_in_between_goes_on_exactly_once(log: EventLog, url: str) -> None:
    emit(log, *"abcdef")
    seen: list[str | None] = []
    handle = noting(seen)

    def dying(transaction: Transaction, events: Sequence[Event]) -> None:
        handle(transaction, events)  # type: ignore[operator]
        if "d" in targets(events):
            raise ConnectionError("the process dies here, its effects not yet committed")

    with pytest.raises(ConnectionError):
        Follower(log, "f", dying, batch=2).catch_up()
    assert rows(url, "SELECT tenant FROM skill_catalogs ORDER BY tenant") == [{"tenant": "a"}, {"tenant": "b"}]

    seen.clear()
    assert Follower(log, "f", handle, batch=2).catch_up() == 4  # type: ignore[arg-type]
    assert seen == ["c", "d", "e", "f"]
    assert [row["tenant"] for row in rows(url, "SELECT tenant FROM skill_catalogs ORDER BY tenant")] == list("abcdef")


def test_t13_two_of_one_name_share_the_work(log: EventLog, url: str) -> None:
    emit(log, *(f"{number:02}" for number in range(40)))
    seen: list[str | None] = []
    handle = noting(seen)
    counts = at_once(
        [lambda: Follower(log, "f", handle, batch=3).catch_up() for _ in range(4)]  # type: ignore[arg-type]
    )
    assert sum(counts) == 40
    assert seen == [f"{number:02}" for number in range(40)]
    assert len(rows(url, "SELECT * FROM skill_catalogs")) == 40


def test_t13_two_of_different_names_each_see_all(log: EventLog) -> None:
    emit(log, *"abc")
    seen: dict[str, list[str | None]] = {"one": [], "two": []}
    for name, found in seen.items():
        Follower(log, name, lambda _t, events, found=found: found.extend(targets(events))).catch_up()
    assert seen == {"one": ["a", "b", "c"], "two": ["a", "b", "c"]}


def test_t13_a_follower_may_write_events_of_its_own(log: EventLog) -> None:
    emit(log, "a")

    def answer(transaction: Transaction, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "turn.started":
                transaction.emit("turn.completed", tenant=event.tenant, actor=SYSTEM, target=event.target)

    follower = Follower(log, "f", answer)
    assert follower.catch_up() == 2
    assert [event.type for event in log.after("default")] == ["turn.started", "turn.completed"]
