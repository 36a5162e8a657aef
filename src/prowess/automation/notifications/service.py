"""The inboxes: what a reader does with them, and their upkeep (U6, U7, R5)."""

from __future__ import annotations

import builtins
from datetime import datetime, timedelta

from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.notifications.follower import CONCERNING, FOLLOWER, NoticeWriter
from prowess.automation.notifications.model import OPERATORS, Notification
from prowess.automation.notifications.store import (
    count_unread,
    delete_read,
    in_inbox,
    list_alerts,
    list_notifications,
    mark_read,
)
from prowess.errors import InvalidInput, NotFound
from prowess.events.followers import Follower
from prowess.events.log import EventLog
from prowess.kernel.clock import to_ms
from prowess.kernel.ids import IdSource

KEPT = timedelta(days=90)
"""how long an entry is kept after it was read; an unread one stays"""
SWEPT_EVERY = timedelta(days=1)
MAX_LISTED = 10_000


class NotificationService:
    """The use cases of inboxes. ``user`` null: the inbox of the tenant's operators."""

    def __init__(self, log: EventLog, ids: IdSource, jobs: JobLedger, *, batch: int = 200) -> None:
        """``batch``: how many events are read at once."""
        self._log = log
        self._ids = ids
        self._jobs = jobs
        self._batch = batch
        self._swept_at: datetime | None = None

    def catch_up(self) -> int:
        """Tell what the log holds and nobody was told of yet; returns how many events were read.

        Any number of processes may do it at once: each event is told by one of them.
        """
        writer = NoticeWriter(self._ids, self._jobs)
        handled = Follower(self._log, FOLLOWER, writer, batch=self._batch, only=CONCERNING).catch_up()
        self._jobs.announce(writer.added)
        return handled

    def look_after(self) -> datetime | None:
        """A worker's duty: catch up, and once a day delete what was read long ago. Never due at a moment of its own."""
        self.catch_up()
        now = self._log.clock.now()
        if self._swept_at is None or now - self._swept_at >= SWEPT_EVERY:
            self._swept_at = now
            self.sweep()
        return None

    def list(
        self, tenant: str, user: str | None, *, unread_only: bool = False, limit: int = 50
    ) -> builtins.list[Notification]:
        """An inbox: unread ones first, then newest first.

        ``limit``: 1 to 10,000. Raises ``InvalidInput('bad_limit')``.
        """
        check_limit(limit)
        with self._log.database.read() as connection:
            return list_notifications(connection, tenant, _reader(user), unread_only=unread_only, limit=limit)

    def alerts(self, tenant: str, *, since: datetime | None = None, limit: int = 50) -> builtins.list[Notification]:
        """The tenant's alerts, whoever else was told, newest first (R5). Raises ``InvalidInput('bad_limit')``."""
        check_limit(limit)
        with self._log.database.read() as connection:
            return list_alerts(connection, tenant, since_ms=None if since is None else to_ms(since), limit=limit)

    def unread(self, tenant: str, user: str | None) -> int:
        """How many of an inbox are unread."""
        with self._log.database.read() as connection:
            return count_unread(connection, tenant, _reader(user))

    def mark_read(self, tenant: str, user: str | None, notification_id: str | None = None) -> int:
        """Mark one read, or with null the whole inbox; returns how many were not read before.

        Raises ``NotFound('notification_not_found')`` for one that is not in this inbox.
        """
        with self._log.transaction(tenant) as transaction:
            connection, reader = transaction.connection, _reader(user)
            if notification_id is not None and not in_inbox(connection, tenant, reader, notification_id):
                raise NotFound("notification_not_found", id=notification_id[:80])
            return mark_read(connection, tenant, reader, notification_id, transaction.now_ms)

    def sweep(self) -> int:
        """Delete what was read more than 90 days ago, of every tenant; returns how many."""
        with self._log.transaction(None) as transaction:
            return delete_read(transaction.connection, to_ms(transaction.now - KEPT))


def check_limit(limit: int) -> None:
    """Raises ``InvalidInput('bad_limit')`` for what is no number of rows."""
    if not 1 <= limit <= MAX_LISTED:
        raise InvalidInput("bad_limit", field="limit", limit=MAX_LISTED)


def _reader(user: str | None) -> str:
    return OPERATORS if user is None else user
