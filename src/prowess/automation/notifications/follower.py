"""The one follower that writes inboxes and sends notices on their way (U6, U7, R5).

Inbox entries, the jobs that deliver them and the follower's cursor commit together, so each event is told exactly once,
whatever dies in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.jobs.model import Job, NewJob, Task
from prowess.automation.notifications.hook_store import (
    Delivery,
    delete_delivery,
    deliveries_of,
    find_hook,
    hooks_in_use,
    insert_delivery,
)
from prowess.automation.notifications.hooks import move_hook
from prowess.automation.notifications.model import Hook, HookStatus, Notice, Notification
from prowess.automation.notifications.rules import (
    DENIALS,
    HOOK_KINDS,
    RULES,
    burst_notices,
    count_denial,
    is_denial,
    notices,
)
from prowess.automation.notifications.store import denials_of, insert_notification, put_denials
from prowess.events.log import Transaction, events
from prowess.events.model import Event
from prowess.kernel.ids import IdSource

FOLLOWER = "notifications"
_FINISHED, _ENDED = "job.finished", ("job.finished", "job.cancelled")
# A skill's job that succeeded is told to nobody, and is no delivery; of all events these are the most.
_UNTOLD = (events.c.type == _FINISHED) & (events.c.decision == "succeeded") & events.c.skill_id.is_not(None)
CONCERNING = events.c.type.in_(sorted({*RULES, *DENIALS, *_ENDED})) & ~_UNTOLD
"""the events that are read at all"""


class NoticeWriter:
    """Handles batches of the log; ``added`` are the jobs of all batches so far, for the ledger to announce."""

    def __init__(self, ids: IdSource, jobs: JobLedger) -> None:
        self._ids = ids
        self._jobs = jobs
        self.added: list[Job | None] = []

    def __call__(self, transaction: Transaction, found: Sequence[Event]) -> None:
        """Write what a batch tells to whom."""
        settled = _settle(transaction, found)
        told = [notice for event in found if event.seq not in settled for notice in notices(event)]
        told += _bursts(transaction, found)
        if not told:
            return
        hooks = hooks_in_use(transaction.connection, {notice.tenant for notice in told})
        for notice in told:
            notification = Notification(id=self._ids.new("notice"), notice=notice)
            if insert_notification(transaction.connection, notification) and notice.kind in HOOK_KINDS:
                self._send(transaction, notification, [hook for hook in hooks if hook.takes(notice)])

    def _send(self, transaction: Transaction, notification: Notification, hooks: Sequence[Hook]) -> None:
        for hook in hooks:
            delivery = Delivery(self._ids.new("delivery"), notification.id, hook.id)
            insert_delivery(transaction.connection, delivery)
            job = NewJob(
                tenant=hook.tenant,
                user=hook.user or hook.created_by,
                task=Task.DELIVERY,
                payload={"hook": hook.id, "notification": notification.id},
                due=transaction.now,
                id=delivery.job,
            )
            self.added.append(self._jobs.add(transaction, job))


def _settle(transaction: Transaction, found: Sequence[Event]) -> set[int]:
    """Deliveries that have ended; returns their events, which are told as events of their webhook or not at all."""
    ended = {event.target: event for event in found if event.type in _ENDED and event.target is not None}
    connection = transaction.connection
    settled = set()
    for job, delivery in deliveries_of(connection, ended).items():
        event = ended[job]
        settled.add(event.seq)
        delete_delivery(connection, job)
        hook = find_hook(connection, delivery.hook)
        if hook is not None and event.decision == "failed":
            move_hook(transaction, hook, HookStatus.FAILING, code=event.data.get("error_code"))
    return settled


def _bursts(transaction: Transaction, found: Sequence[Event]) -> list[Notice]:
    told = []
    for event in filter(is_denial, found):
        user = str(event.user)
        known = denials_of(transaction.connection, event.tenant, user)
        denials, burst = count_denial(known, event)
        put_denials(transaction.connection, event.tenant, user, denials)
        if burst:
            told += burst_notices(event)
    return told
