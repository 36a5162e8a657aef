"""Secret slots on both databases: whose they are, who opens them, and that their values stand nowhere (U4)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, insert, select, text
from tests.support.kit import at_once, everything, execute, places_of, rows, turn

from prowess import Prowess
from prowess.chat.model import ChatRef, Message
from prowess.chat.store import insert_message, messages
from prowess.db.engine import Database
from prowess.errors import Conflict, InvalidInput, NotFound, StorageError
from prowess.events.log import EventLog
from prowess.events.model import Actor
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds
from prowess.kernel.redaction import MARK, NO_REDACTION, Redactor
from prowess.memory.service import MemoryService
from prowess.secrets.keys import KeyRing
from prowess.secrets.model import SecretOwner
from prowess.secrets.service import REFRESH_S, SecretService

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
ALICE, BOB = SecretOwner("user", "alice"), SecretOwner("user", "bob")
TENANT, SKILL = SecretOwner("tenant", "default"), SecretOwner("skill", "weather")
ACTOR = Actor("operator", "root")
VALUE = "Sk-live/42+\"Äé'"


class Ticks:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def log(url: str, clock: ManualClock) -> Iterator[EventLog]:
    database = Database(url)
    yield EventLog(database, clock)
    database.close()


@pytest.fixture
def secrets(log: EventLog, ticks: Ticks) -> SecretService:
    service = SecretService(log, KeyRing([OLD]), ticks)
    log.redactors = service.redactor
    return service


@pytest.fixture
def another(url: str, clock: ManualClock, ticks: Ticks) -> Iterator[Callable[..., tuple[EventLog, SecretService]]]:
    """Makes services of other processes, with their own keys."""
    opened: list[Database] = []

    def make(*keys: bytes) -> tuple[EventLog, SecretService]:
        opened.append(Database(url))
        log = EventLog(opened[-1], clock)
        service = SecretService(log, KeyRing(keys) if keys else None, ticks)
        log.redactors = service.redactor
        return log, service

    yield make
    for database in opened:
        database.close()


def put(service: SecretService, owner: SecretOwner = ALICE, value: str = VALUE, name: str = "API_KEY") -> None:
    service.set(ACTOR, "default", owner, name, value)


def value_of(service: SecretService, owner: SecretOwner = ALICE, name: str = "API_KEY") -> str:
    return service.open("default", owner, name).get_secret_value()


def say(log: EventLog, words: str, tenant: str = "default") -> None:
    with log.transaction(tenant) as transaction:
        store_message(transaction.connection, words, tenant, transaction.now)


def store_message(connection: Connection, words: str, tenant: str, at: Any) -> None:
    count = connection.execute(text("SELECT count(*) FROM messages")).scalar()
    said = Message(f"m{count}", ChatRef("conversation", "c1"), "user", "alice", words, None, None, None, at)
    insert_message(connection, tenant, said)


def texts(url: str) -> list[str]:
    return [row["text"] for row in rows(url, "SELECT text FROM messages ORDER BY id")]


# --- slots -----------------------------------------------------------------------------------------------------------


def test_u4_a_value_is_set_opened_listed_replaced_and_deleted(
    secrets: SecretService, log: EventLog, clock: ManualClock
) -> None:
    made = secrets.set(ACTOR, "default", ALICE, "API_KEY", SecretStr(VALUE))
    assert secrets.list("default") == [made]
    opened = secrets.open("default", ALICE, "API_KEY")
    assert (opened.get_secret_value(), str(opened)) == (VALUE, "**********")
    clock.advance(timedelta(hours=1))
    put(secrets, value="another-Value-1")
    assert value_of(secrets) == "another-Value-1"
    (info,) = secrets.list("default", ALICE)
    assert (info.created_at, info.updated_at) == (made.created_at, clock.now())
    assert info.to_json() == {
        "owner": {"kind": "user", "id": "alice"},
        "name": "API_KEY",
        "created_at": "2026-03-01T08:00:00.000Z",
        "updated_at": "2026-03-01T09:00:00.000Z",
        "last_used_at": "2026-03-01T09:00:00.000Z",
        "key_id": KeyRing([OLD]).key_id,
    }
    secrets.delete(ACTOR, "default", ALICE, "API_KEY")
    assert secrets.list("default") == []
    for ask in (secrets.open, lambda *slot: secrets.delete(ACTOR, *slot)):
        with pytest.raises(NotFound) as missing:
            ask("default", ALICE, "API_KEY")
        assert (missing.value.code, missing.value.detail) == ("secret_missing", {"name": "API_KEY", "owner": "user"})


def test_u4_one_slot_name_holds_a_value_for_each_owner(secrets: SecretService) -> None:
    owners = [ALICE, BOB, TENANT, SKILL, SecretOwner("skill", "alice")]
    for number, owner in enumerate(owners):
        put(secrets, owner, f"Value-number-{number}")
    secrets.set(ACTOR, "t2", ALICE, "API_KEY", "Value-elsewhere-1")
    assert [value_of(secrets, owner) for owner in owners] == [f"Value-number-{number}" for number in range(5)]
    assert secrets.open("t2", ALICE, "API_KEY").get_secret_value() == "Value-elsewhere-1"
    assert {info.owner for info in secrets.list("default")} == set(owners)
    assert [info.owner for info in secrets.list("default", BOB)] == [BOB]


def test_u4_a_missing_value_never_falls_back_to_anothers(secrets: SecretService) -> None:
    for owner in (BOB, TENANT, SKILL, SecretOwner("skill", "alice")):
        put(secrets, owner)
    put(secrets, ALICE, name="OTHER_KEY")
    secrets.set(ACTOR, "t2", ALICE, "API_KEY", VALUE)
    with pytest.raises(NotFound) as missing:
        secrets.open("default", ALICE, "API_KEY")
    assert missing.value.code == "secret_missing"
    with pytest.raises(NotFound):
        secrets.open("t2", SecretOwner("tenant", "t2"), "API_KEY")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"name": "api_key"}, "bad_secret_name"),
        ({"owner": SecretOwner("agent", "mira")}, "bad_secret_owner"),  # type: ignore[arg-type]
        ({"owner": SecretOwner("tenant", "t2")}, "bad_secret_owner"),
        ({"owner": SecretOwner("user", " ")}, "bad_id"),
        ({"value": "short"}, "secret_too_short"),
        ({"value": "x1" * 8_193}, "secret_too_long"),
        ({"value": "memory.added"}, "secret_too_plain"),
        ({"owner": SecretOwner("user", "Alice-12345"), "value": "Alice-123"}, "secret_too_plain"),
    ],
    ids=range(8),
)
def test_u4_what_cannot_be_set(secrets: SecretService, url: str, changed: dict[str, Any], code: str) -> None:
    before = everything(url)
    with pytest.raises(InvalidInput) as refused:
        put(secrets, **changed)
    assert refused.value.code == code
    assert everything(url) == before


def test_u4_uses_are_noted_at_most_once_a_minute(secrets: SecretService, clock: ManualClock) -> None:
    put(secrets)
    used = []
    for _ in range(4):
        value_of(secrets)
        used.append(secrets.list("default")[0].last_used_at)
        clock.advance(timedelta(seconds=30))
    start = clock.now() - timedelta(minutes=2)
    assert used == [start, start, start + timedelta(minutes=1), start + timedelta(minutes=1)]


def test_u4_every_change_is_audited_without_the_value(secrets: SecretService, log: EventLog, url: str) -> None:
    put(secrets)
    put(secrets)
    put(secrets, SKILL)
    secrets.rotate(ACTOR, "default")
    secrets.delete(Actor("user", "alice"), "default", ALICE, "API_KEY")
    found = [
        (event.type, event.actor.id, event.user, event.target, event.data["owner"], event.data["name"])
        for event in reversed(log.audit("default"))
    ]
    assert found == [
        ("secret.set", "root", "alice", None, "user", "API_KEY"),
        ("secret.set", "root", "alice", None, "user", "API_KEY"),
        ("secret.set", "root", None, "weather", "skill", "API_KEY"),
        ("secret.rotated", "root", None, "weather", "skill", "API_KEY"),
        ("secret.rotated", "root", "alice", None, "user", "API_KEY"),
        ("secret.deleted", "alice", "alice", None, "user", "API_KEY"),
    ]
    assert [event.data["replaced"] for event in reversed(log.audit("default")) if "replaced" in event.data] == [
        False,
        True,
        False,
    ]
    assert all(places_of(url, part) == set() for part in (VALUE, "Sk-live", "live/42"))


# --- keys ------------------------------------------------------------------------------------------------------------


def test_u4_a_row_moved_to_another_owner_does_not_open(secrets: SecretService, url: str) -> None:
    put(secrets, ALICE, "Value-of-alice-1")
    put(secrets, BOB, "Value-of-bob-22")
    put(secrets, BOB, "Value-of-bob-33", "OTHER_KEY")
    execute(
        url,
        "UPDATE secrets SET ciphertext = (SELECT ciphertext FROM secrets WHERE owner_id = 'bob' AND name = 'API_KEY') "
        "WHERE owner_id = 'alice' OR name = 'OTHER_KEY'",
    )
    for owner, name in ((ALICE, "API_KEY"), (BOB, "OTHER_KEY")):
        with pytest.raises(StorageError) as unreadable:
            secrets.open("default", owner, name)
        assert unreadable.value.code == "secret_unreadable"
        assert unreadable.value.detail["cause"] == "secret_damaged"
    assert value_of(secrets, BOB) == "Value-of-bob-22"
    execute(url, "UPDATE secrets SET tenant = 't2' WHERE owner_id = 'bob' AND name = 'API_KEY'")
    with pytest.raises(StorageError):
        secrets.open("t2", BOB, "API_KEY")


def test_u4_owners_whose_ids_run_together_are_kept_apart(secrets: SecretService, url: str) -> None:
    put(secrets, SecretOwner("user", "a"), "Value-of-a-123", "B_C")
    execute(url, "UPDATE secrets SET owner_id = 'aB', name = '_C'")
    with pytest.raises(StorageError):
        secrets.open("default", SecretOwner("user", "aB"), "_C")


def test_u4_keys_are_rotated(
    secrets: SecretService, another: Callable[..., tuple[EventLog, SecretService]], url: str
) -> None:
    put(secrets)
    put(secrets, BOB, "Value-of-bob-22")
    secrets.set(ACTOR, "t2", ALICE, "API_KEY", "Value-elsewhere-1")
    before = secrets.list("default")
    _, both = another(NEW, OLD)
    assert value_of(both) == VALUE
    assert both.rotate(ACTOR, "default") == 2
    _, new = another(NEW)
    assert (value_of(new), value_of(new, BOB)) == (VALUE, "Value-of-bob-22")
    assert {info.key_id for info in new.list("default")} == {KeyRing([NEW]).key_id}
    assert [info.updated_at for info in new.list("default")] == [info.updated_at for info in before]
    with pytest.raises(StorageError) as unreadable:
        new.open("t2", ALICE, "API_KEY")
    assert (unreadable.value.code, unreadable.value.detail["cause"]) == ("secret_unreadable", "secret_key_unknown")


def test_u4_one_unreadable_slot_does_not_take_the_others_with_it(
    secrets: SecretService, another: Callable[..., tuple[EventLog, SecretService]], caplog: pytest.LogCaptureFixture
) -> None:
    put(secrets, ALICE, "Value-of-alice-1")
    _, new = another(NEW)
    put(new, BOB, "Value-of-bob-22")
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        assert new.redactor("default").redact("Value-of-bob-22 Value-of-alice-1") == f"{MARK} Value-of-alice-1"
        assert new.redactor("default").redact("Value-of-bob-22") == MARK
        assert new.rotate(ACTOR, "default") == 1
        with pytest.raises(StorageError):
            new.open("default", ALICE, "API_KEY")
    assert "API_KEY" in caplog.text
    assert "secret_key_unknown" in caplog.text
    assert "Value-of" not in caplog.text
    assert value_of(new, BOB) == "Value-of-bob-22"
    assert value_of(secrets) == "Value-of-alice-1"


def test_u4_without_a_key_slots_can_be_listed_and_deleted_only(
    secrets: SecretService, another: Callable[..., tuple[EventLog, SecretService]], url: str
) -> None:
    put(secrets)
    _, keyless = another()
    assert keyless.redactor("default") is NO_REDACTION
    assert [info.name for info in keyless.list("default")] == ["API_KEY"]
    for attempt in (
        lambda: put(keyless),
        lambda: keyless.open("default", ALICE, "API_KEY"),
        lambda: keyless.rotate(ACTOR, "default"),
    ):
        with pytest.raises(StorageError) as missing:
            attempt()
        assert missing.value.code == "secret_key_missing"
    with pytest.raises(NotFound):
        keyless.open("default", BOB, "API_KEY")
    keyless.delete(ACTOR, "default", ALICE, "API_KEY")
    assert rows(url, "SELECT * FROM secrets") == []


def test_u4_of_many_who_set_and_rotate_at_once_none_loses_a_value(secrets: SecretService) -> None:
    def set_one(number: int) -> str:
        put(secrets, SecretOwner("user", f"user {number}"), f"Value-number-{number}")
        return value_of(secrets, SecretOwner("user", f"user {number}"))

    jobs: list[Callable[[], Any]] = [lambda number=number: set_one(number) for number in range(6)]  # type: ignore[misc]
    done = at_once([*jobs, lambda: secrets.rotate(ACTOR, "default"), lambda: secrets.rotate(ACTOR, "default")])
    assert done[:6] == [f"Value-number-{number}" for number in range(6)]
    assert [value_of(secrets, SecretOwner("user", f"user {number}")) for number in range(6)] == done[:6]
    all_values = " ".join(done[:6])
    assert secrets.redactor("default").redact(all_values) == " ".join([MARK] * 6)


# --- values stand nowhere --------------------------------------------------------------------------------------------

WRITINGS = [
    VALUE,
    json.dumps(VALUE),
    json.dumps(VALUE, ensure_ascii=False),
    json.dumps({"output": json.dumps({"token": VALUE})}),
    "Sk-live%2F42%2B%22%C3%84%C3%A9%27",
    VALUE.encode().hex(),
    repr(VALUE),
]


@pytest.mark.parametrize("written", WRITINGS, ids=range(len(WRITINGS)))
def test_u4_text_is_redacted_in_every_table(
    secrets: SecretService, log: EventLog, url: str, ids: SequentialIds, written: str
) -> None:
    put(secrets)
    say(log, f"my key is {written} keep it")
    memory = MemoryService(log, ids).add(
        actor=ACTOR, tenant="default", user="alice", agent="mira", text=f"key: {written}"
    )
    with log.transaction("default") as transaction:
        transaction.emit(
            "turn.failed", tenant="default", actor=ACTOR, target=written, detail={"output": [written], written: 1}
        )
        stored = transaction.redact(f"my key is {written} keep it")
        copy = select(messages).where(messages.c.text == f"my key is {written} keep it")
        (found,) = transaction.connection.execute(copy).mappings()
        row = {name: value for name, value in found.items() if name != "seq"}
        many = [{**row, "id": f"copy {number}", "text": written} for number in range(3)]
        transaction.connection.execute(insert(messages), many)
        names = ", ".join(row)
        transaction.connection.execute(
            text(f"INSERT INTO messages ({names}) VALUES (:{names.replace(', ', ', :')})"),
            {**row, "id": "copy 4", "text": f"my key is {written} keep it"},
        )
    for hidden in (VALUE, written, json.dumps(VALUE)[1:-1], VALUE.encode().hex()):
        assert places_of(url, hidden) == set()
    assert texts(url).count(stored) == 2
    assert MARK in stored
    event = log.audit("default", limit=1)[0]
    assert event.type == "memory.added"
    (failed,) = [event for event in log.after("default") if event.type == "turn.failed"]
    assert MARK in str(failed.target)
    assert MARK in str(failed.data)
    assert memory.id in [row["id"] for row in rows(url, "SELECT id FROM memories")]


def test_u4_another_tenants_text_is_left_alone(secrets: SecretService, log: EventLog, url: str) -> None:
    put(secrets)
    say(log, VALUE, "t2")
    say(log, VALUE)
    say(log, VALUE, "t2")
    assert texts(url) == [VALUE, MARK, VALUE]


def test_u4_a_replaced_or_deleted_value_stays_redacted_here(secrets: SecretService, log: EventLog, url: str) -> None:
    put(secrets, value="Value-number-1")
    put(secrets, value="Value-number-2")
    secrets.delete(ACTOR, "default", ALICE, "API_KEY")
    say(log, "Value-number-1 Value-number-2")
    assert texts(url) == [f"{MARK} {MARK}"]


def test_u4_a_value_set_by_another_process_is_known_within_seconds(
    secrets: SecretService, another: Callable[..., tuple[EventLog, SecretService]], ticks: Ticks, url: str
) -> None:
    log, other = another(OLD)
    say(log, "nothing yet")
    put(secrets)
    ticks.seconds += REFRESH_S
    say(log, VALUE)
    put(secrets, BOB, "Value-of-bob-22")
    assert value_of(other, BOB) == "Value-of-bob-22"  # whoever opens a value redacts it from then on
    say(log, "Value-of-bob-22")
    assert texts(url) == ["nothing yet", MARK, MARK]


def test_u4_redactors_are_kept_between_reads(secrets: SecretService, ticks: Ticks, log: EventLog) -> None:
    put(secrets)
    first = secrets.redactor("default")
    log.database.close()
    log.database.read = None  # type: ignore[method-assign,assignment]
    ticks.seconds += REFRESH_S - 0.001
    assert secrets.redactor("default") is first
    ticks.seconds += 0.001
    with pytest.raises(TypeError):
        secrets.redactor("default")


def test_u4_an_id_that_holds_a_secret_is_refused(secrets: SecretService, log: EventLog, url: str) -> None:
    """Redacted, all such ids would be one, and what one person said another would read."""
    put(secrets, value="Mallory-1234")
    before = everything(url)
    for field in ("user", "agent", "message_id"):
        with pytest.raises(InvalidInput) as refused, log.transaction("default") as transaction:
            transaction.emit("turn.started", tenant="default", actor=ACTOR, **{field: "x Mallory-1234"})
        assert (refused.value.code, refused.value.detail) == ("id_holds_secret", {"field": field})
    for fields in ({"chat": ("group", "Mallory-1234")}, {"actor": Actor("user", "Mallory-1234")}):
        with pytest.raises(InvalidInput), log.transaction("default") as transaction:
            transaction.emit("turn.started", **{"tenant": "default", "actor": ACTOR, **fields})
    assert everything(url) == before
    put(secrets, SecretOwner("user", "Mallory-1234"), "Value-number-1")  # slots themselves can always be managed
    secrets.delete(Actor("user", "Mallory-1234"), "default", ALICE, "API_KEY")


def test_u4_a_group_message_that_holds_a_secret_serves_every_agent(
    app: Prowess, clock: ManualClock, ticks: Ticks, url: str
) -> None:
    log = app._parts.log
    service = SecretService(log, KeyRing([OLD]), ticks)
    log.redactors = service.redactor
    for agent in ("mira", "nova", "lena"):
        if agent == "nova":
            put(service)  # set between two answers to one message
        assert turn(app, "m1", f"the key is {VALUE}", group="g1", agent=agent).message_id == "m1"
    for agent in ("mira", "nova"):
        assert turn(app, "m2", f"the key is {VALUE}", group="g1", agent=agent).message_id == "m2"
    said = rows(url, "SELECT text FROM messages WHERE author_kind = 'user' ORDER BY seq")
    assert [row["text"] for row in said] == [f"the key is {VALUE}", f"the key is {MARK}"]
    with pytest.raises(Conflict):
        turn(app, "m2", "something else", group="g1", agent="lena")


# --- the hook --------------------------------------------------------------------------------------------------------


def test_u4_the_redactor_ends_with_its_transaction(log: EventLog, url: str, clock: ManualClock) -> None:
    redactor = Redactor([VALUE])
    with pytest.raises(ZeroDivisionError), log.database.write(redactor) as connection:
        store_message(connection, VALUE, "default", clock.now())
        raise ZeroDivisionError
    with log.database.write(redactor) as connection:
        store_message(connection, VALUE, "default", clock.now())
    with log.database.write() as connection:
        store_message(connection, VALUE, "default", clock.now())
    with log.database.write(NO_REDACTION) as connection:
        store_message(connection, VALUE, "default", clock.now())
    assert texts(url) == [MARK, VALUE, VALUE]


def test_u4_bytes_are_left_alone(log: EventLog, url: str) -> None:
    insert_secret = "INSERT INTO secrets VALUES ('t', 'user', :owner, 'N', :data, 'k', 1, 1, NULL)"
    with log.database.write(Redactor([VALUE])) as connection:
        connection.execute(text(insert_secret), {"owner": VALUE, "data": VALUE.encode()})
    (row,) = rows(url, "SELECT owner_id, ciphertext FROM secrets")
    assert (row["owner_id"], bytes(row["ciphertext"])) == (MARK, VALUE.encode())


def test_u4_the_database_in_memory_redacts_too(clock: ManualClock, tmp_path: Path) -> None:
    database = Database("sqlite://")
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
    with database.write(Redactor([VALUE])) as connection:
        connection.exec_driver_sql("INSERT INTO notes VALUES (?)", [(VALUE,), (f"x {VALUE}",)])
        with database.read() as reading:
            assert reading.execute(text("SELECT text FROM notes")).scalars().all() == [MARK, f"x {MARK}"]
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO notes VALUES (?)", (VALUE,))
        assert connection.execute(text("SELECT text FROM notes")).scalars().all()[-1] == VALUE
    database.close()
