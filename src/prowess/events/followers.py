"""Followers: whatever must react reads the log from its own stored cursor (rule 3 of the house).

A follower's effects and its cursor commit in one transaction, so each event is handled exactly once as far as the
database goes, whatever dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, bindparam, func, select, update

from prowess.db.statements import upsert
from prowess.events.log import EventLog, Transaction, events, followers, to_event
from prowess.events.model import Event

Handler = Callable[[Transaction, Sequence[Event]], None]

_CURSOR = select(followers.c.cursor).where(followers.c.name == bindparam("follower"))
_HEAD = select(func.max(events.c.seq))
_NEXT = select(events).where(events.c.seq > bindparam("after")).order_by(events.c.seq).limit(bindparam("count"))
_MOVE = (
    update(followers)
    .where(followers.c.name == bindparam("follower"), followers.c.cursor == bindparam("expected"))
    .values(cursor=bindparam("next_cursor"), updated_at=bindparam("moved_at"))
)

_UNMOVED = 1_000
"""events of no concern, at the most, that are looked at anew rather than written down as handled"""


class Follower:
    """Reads the log in order, over all tenants, in batches."""

    def __init__(
        self, log: EventLog, name: str, handler: Handler, *, batch: int = 200, only: ColumnElement[bool] | None = None
    ) -> None:
        """``only``: a condition on the rows; the events that it leaves out are not read, and count as handled."""
        self._next = _NEXT if only is None else _NEXT.where(only)
        self._log = log
        self._name = name
        self._handler = handler
        self._batch = batch

    @property
    def cursor(self) -> int:
        """Sequence number of the last event handled; 0 before the first."""
        with self._log.database.read() as connection:
            return connection.execute(_CURSOR, {"follower": self._name}).scalar() or 0

    def catch_up(self) -> int:
        """Handle all that is there; returns how many events.

        A handler that raises leaves its batch for the next call.
        """
        with self._log.database.read() as connection:
            known = connection.execute(_CURSOR, {"follower": self._name}).scalar()
        if known is None:  # a look is cheaper than a write, where nothing has happened
            self._register()
        handled = 0
        while (count := self._step()) is not None:
            handled += count
        return handled

    def _step(self) -> int | None:
        """Handle one batch; null at the end of the log."""
        with self._log.database.read() as connection:
            cursor = connection.execute(_CURSOR, {"follower": self._name}).scalar_one()
            rows = connection.execute(self._next, {"after": cursor, "count": self._batch}).all()
            # In the same view of the log, so that whatever lies between was looked at.
            head = rows[-1].seq if len(rows) == self._batch else connection.execute(_HEAD).scalar() or 0
        if not rows and head - cursor < _UNMOVED:
            return None
        with self._log.transaction(None) as transaction:
            move = {
                "follower": self._name,
                "expected": cursor,
                "next_cursor": head,
                "moved_at": transaction.now_ms,
            }
            if transaction.connection.execute(_MOVE, move).rowcount != 1:
                return 0  # another process handled this batch; go on behind it
            if rows:
                self._handler(transaction, [to_event(row) for row in rows])
        return len(rows)

    def _register(self) -> None:
        with self._log.transaction(None) as transaction:
            row = {"name": self._name, "cursor": 0, "updated_at": transaction.now_ms}
            connection = transaction.connection
            connection.execute(upsert(connection, followers).values(row).on_conflict_do_nothing())
