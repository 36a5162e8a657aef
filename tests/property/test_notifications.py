"""Any order of events, batches, deaths and restarts tells each reader of each event once (U6, U7, R5)."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.support.notices import emit

from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.notifications.rules import BURST, Denials, count_denial, is_denial, notices
from prowess.automation.notifications.service import NotificationService
from prowess.db.engine import Database
from prowess.db.schema import migrate
from prowess.events.log import EventLog
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

KINDS = ["approval.requested", "approval.expired", "job.finished", "turn.failed", "turn.completed", "tool.decided"]
STEPS = st.one_of(
    st.tuples(st.just("emit"), st.sampled_from([*KINDS, *["tool.decided"] * 6]), st.sampled_from(["ann", "bob", None])),
    st.tuples(st.just("follow"), st.integers(1, 5), st.one_of(st.none(), st.integers(0, 4))),
    st.tuples(st.just("wait"), st.integers(0, 40), st.none()),
)


class Killed(BaseException):
    """The process is gone."""


class DyingIds(SequentialIds):
    """Ids that go on over restarts, until a process dies at one."""

    left: int | None = None

    def new(self, prefix: str) -> str:
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1
        return super().new(prefix)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=60))
def test_u7_each_notice_is_told_once_whatever_happens(steps: list[tuple[str, object, object]]) -> None:
    clock, ids, database = ManualClock(datetime(2026, 3, 1, 8, tzinfo=UTC)), DyingIds(), Database("sqlite://")
    migrate(database)
    log = EventLog(database, clock)

    def follow(batch: int, dies: int | None) -> None:
        ids.left = dies
        with suppress(Killed):
            NotificationService(log, ids, JobLedger(log, ids), batch=batch).catch_up()

    for step, what, more in steps:
        if step == "emit":
            decision = "denied" if what == "tool.decided" else "failed"
            emit(database, clock.now(), str(what), user_id=more, decision=decision, data={"origin": "trigger"})
        elif step == "wait":
            clock.advance(timedelta(seconds=int(str(what))))
        else:
            follow(int(str(what)), None if more is None else int(str(more)))
    follow(50, None)

    expected: Counter[tuple[int, str, str]] = Counter()
    known: dict[str | None, Denials] = {}
    for event in log.after("default"):
        expected.update((event.seq, notice.reader, notice.kind) for notice in notices(event))
        if is_denial(event):
            known[event.user], burst = count_denial(known.get(event.user, Denials()), event)
            expected.update([(event.seq, "", BURST)] if burst else [])
    with database.read() as connection:
        told = connection.execute(text("SELECT event_seq, user_id, kind FROM notifications")).all()
    assert Counter((row.event_seq, row.user_id, row.kind) for row in told) == expected
    database.close()
