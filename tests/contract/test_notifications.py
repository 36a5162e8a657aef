"""Inboxes on both databases: each event is told once, whatever dies in between, and in no words of anybody (U6, U7, R5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from tests.support.kit import USER, OpenApp, Recorder, at_once, places_of, rows, tool, turn
from tests.support.notices import deny, emit

from prowess import InvalidInput, ManualClock, NotFound, Prowess
from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.notifications.service import NotificationService
from prowess.db.engine import Database
from prowess.events.log import EventLog
from prowess.kernel.ids import IdSource, SequentialIds


class Dying:
    """A source of ids that a process dies at."""

    def __init__(self, ids: IdSource, after: int) -> None:
        self._ids = ids
        self._left = after

    def new(self, prefix: str) -> str:
        if self._left == 0:
            raise SystemExit("killed")
        self._left -= 1
        return self._ids.new(prefix)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def process(url: str, clock: ManualClock, ids: SequentialIds) -> Iterator[Callable[..., NotificationService]]:
    """The inboxes as another process has them; ``dies`` after that many ids."""
    opened: list[Database] = []

    def start(*, dies: int | None = None, batch: int = 3) -> NotificationService:
        opened.append(Database(url))
        log = EventLog(opened[-1], clock)
        source = ids if dies is None else Dying(ids, dies)
        return NotificationService(log, source, JobLedger(log, source), batch=batch)

    yield start
    for one in opened:
        one.close()


def kinds(app: Prowess, user: str | None, *, unread: bool = False) -> list[str]:
    return [item.notice.kind for item in app.notifications(user=user, unread=unread)]


def test_u6_the_owner_of_a_parked_question_is_told(app: Prowess, database: Database, clock: ManualClock) -> None:
    fields = {"agent_id": "mira", "chat_kind": "conversation", "chat_id": "c1", "skill_id": "mail"}
    emit(database, clock.now(), "approval.requested", user_id="ann", target="approval-1", **fields)
    clock.advance(timedelta(hours=1))
    (found,) = app.notifications(user="ann")
    shown = found.to_json()
    assert shown == {
        "id": found.id,
        "kind": "approval.requested",
        "severity": "warning",
        "user": "ann",
        "event": 1,
        "about": {
            "user": "ann",
            "agent": "mira",
            "skill": "mail",
            "chat": {"kind": "conversation", "id": "c1"},
            "approval": "approval-1",
            "job": None,
            "trigger": None,
            "hook": None,
            "code": None,
        },
        "text": "An operation of mail waits for an answer: approval approval-1",
        "created_at": "2026-03-01T08:00:00.000Z",
        "read_at": None,
    }
    assert found.text("zh") == "mail 的一项操作等待答复：审批 approval-1"
    assert app.notifications(user=None) == app.notifications(user="bob") == []


def test_u7_a_failure_is_told_to_owner_and_operators(app: Prowess, database: Database, clock: ManualClock) -> None:
    emit(database, clock.now(), "job.finished", user_id="ann", target="job-1", decision="succeeded")
    emit(
        database,
        clock.now(),
        "job.finished",
        user_id="ann",
        target="job-2",
        decision="failed",
        data={"error_code": "skill_disabled"},
    )
    assert kinds(app, "ann") == kinds(app, None) == ["job.failed"]
    (alert,) = app.alerts()
    assert alert.text() == "The job job-2 failed (skill_disabled)."
    assert alert.to_json()["user"] is None
    assert app.alerts(tenant="other") == []


def test_an_inbox_is_read(app: Prowess, database: Database, clock: ManualClock) -> None:
    for number in range(3):
        emit(database, clock.now(), "automation.proposed", user_id="ann", target=f"trigger-{number}")
        clock.advance(timedelta(minutes=1))
    emit(database, clock.now(), "automation.proposed", user_id="bob", target="trigger-9")
    newest, middle, oldest = app.notifications(user="ann")
    assert [item.notice.subject.trigger for item in (newest, middle, oldest)] == ["trigger-2", "trigger-1", "trigger-0"]
    assert app.unread_notifications(user="ann") == 3

    assert app.mark_read(newest.id, user="ann") == 1
    assert app.mark_read(newest.id, user="ann") == 0, "read already"
    assert [item.id for item in app.notifications(user="ann")] == [middle.id, oldest.id, newest.id], "unread first"
    assert [item.id for item in app.notifications(user="ann", unread=True)] == [middle.id, oldest.id]
    assert [item.id for item in app.notifications(user="ann", limit=1)] == [middle.id]

    for reader, wanted in (("bob", middle.id), (None, middle.id), ("ann", "nothing")):
        with pytest.raises(NotFound) as refused:
            app.mark_read(wanted, user=reader)
        assert refused.value.code == "notification_not_found"
    with pytest.raises(NotFound):
        app.mark_read(middle.id, user="ann", tenant="other")
    assert app.mark_read(user="ann") == 2
    assert (app.unread_notifications(user="ann"), app.unread_notifications(user="bob")) == (0, 1)
    for limit in (0, -1, 10_001):
        with pytest.raises(InvalidInput) as bad:
            app.notifications(user="ann", limit=limit)
        assert bad.value.code == "bad_limit"
    with pytest.raises(InvalidInput):
        app.notifications(user="")


def test_what_was_read_is_kept_for_ninety_days(app: Prowess, database: Database, clock: ManualClock) -> None:
    for number in range(2):
        emit(database, clock.now(), "automation.proposed", user_id="ann", target=f"trigger-{number}")
    first, second = app.notifications(user="ann")
    app.mark_read(first.id, user="ann")
    clock.advance(timedelta(days=90))
    assert app.keep_notifications() == (0, 0)
    clock.advance(timedelta(milliseconds=1))
    assert app.keep_notifications() == (0, 1)
    assert [item.id for item in app.notifications(user="ann")] == [second.id], "unread ones stay"


def test_u7_a_follower_that_dies_anywhere_tells_each_event_once(
    url: str, database: Database, clock: ManualClock, process: Callable[..., NotificationService]
) -> None:
    for number in range(10):
        emit(database, clock.now(), "approval.expired", user_id=f"u{number}", target=f"approval-{number}")
    deaths = 0
    for dies in itertools.chain([0, 1, 5, 6, 7], itertools.repeat(4)):
        try:
            process(dies=dies, batch=2).catch_up()
            break
        except SystemExit:
            deaths += 1
    assert deaths >= 5
    told = rows(url, "SELECT user_id, approval_id, event_seq FROM notifications ORDER BY event_seq, user_id DESC")
    assert [(row["user_id"], row["approval_id"]) for row in told] == [
        (reader, f"approval-{number}") for number in range(10) for reader in (f"u{number}", "")
    ]
    assert process().catch_up() == 0


def test_u7_several_followers_at_once_tell_each_event_once(
    url: str, database: Database, clock: ManualClock, process: Callable[..., NotificationService]
) -> None:
    for number in range(30):
        emit(database, clock.now(), "incident.opened", user_id="ann", target=f"incident-{number}")
    deny(database, clock.now(), "ann", 12)
    assert sum(at_once([process().catch_up for _ in range(4)])) == 42
    told = rows(url, "SELECT kind, user_id FROM notifications ORDER BY id")
    assert sorted((row["kind"], row["user_id"]) for row in told) == [
        ("denials.burst", ""),
        *[("incident.opened", "")] * 30,
        *[("incident.opened", "ann")] * 30,
    ]


# --- bursts ----------------------------------------------------------------------------------------------------------


def test_r5_denials_in_a_burst_are_an_alert(open_app: OpenApp, url: str, clock: ManualClock) -> None:
    handler = Recorder()
    app = open_app(tool("mail", handler, permissions=[("mail:read", "L1")]))
    for number in range(9):
        turn(app, f"m{number}", "/mail canary words of a person")
    assert app.alerts() == []
    turn(app, "other", "/mail words", user="u2", conversation="c2")
    assert app.alerts() == [], "of one user, not of all"
    turn(app, "m9", "/mail canary words of a person")
    (alert,) = app.alerts()
    assert (alert.notice.kind, alert.notice.subject.user) == ("denials.burst", USER)
    assert alert.text() == "Many calls of u1 were denied within a minute."
    for number in range(10, 20):
        turn(app, f"m{number}", "/mail canary words of a person")
    assert len(app.alerts()) == 1, "once a window"
    assert handler.calls == []
    clock.advance(timedelta(minutes=2))
    for number in range(20, 30):
        turn(app, f"m{number}", "/mail canary words of a person")
    assert len(app.alerts()) == 2
    assert app.notifications(user=USER) == [], "operators are told"
    assert [alert.notice.at for alert in app.alerts(since=clock.now())] == [clock.now()]
    assert places_of(url, "canary") == {"messages.text"}


def test_r5_a_burst_counts_across_batches_and_restarts(
    url: str, database: Database, clock: ManualClock, process: Callable[..., NotificationService]
) -> None:
    for number in range(12):
        deny(database, clock.now(), "ann")
        clock.advance(timedelta(seconds=1))
        process(batch=1 + number % 3).catch_up()
    (told,) = rows(url, "SELECT event_seq, kind FROM notifications")
    assert told == {"event_seq": 10, "kind": "denials.burst"}


# --- R3 --------------------------------------------------------------------------------------------------------------


def test_r3_no_words_reach_the_tables(app: Prowess, database: Database, clock: ManualClock, url: str) -> None:
    words = dict.fromkeys(("error_code", "code", "outcome", "reason", "text", "note"), "Canary said she")
    for kind in ("turn.failed", "automation.completed", "incident.opened", "approval.expired", "automation.skipped"):
        emit(database, clock.now(), kind, user_id="ann", target="t1", data={"origin": "trigger", **words})
    assert len(app.notifications(user="ann")) == 5
    assert len(app.alerts()) == 4
    assert places_of(url, "canary") == {"events.data"}
    assert app.notifications(user="ann")[0].notice.subject.code is None
