"""Leases of the jobs that a worker runs: kept while they run, and asked before every effect (B5)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import Connection

from prowess.automation.jobs.model import Job
from prowess.automation.jobs.store import holds_lease, renew_lease
from prowess.db.engine import Database
from prowess.errors import Conflict, StorageError
from prowess.kernel.clock import Clock, to_ms
from prowess.turns.definitions import CancelToken
from prowess.turns.fencing import Fence

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0
RENEWALS = 3
"""renewals in the time of one lease"""


def fence_of(job: Job) -> Fence:
    """The fence of a claimed job: its row is locked until the transaction that asked ends."""

    def fence(connection: Connection) -> None:
        if not holds_lease(connection, job.id, job.epoch, lock=connection.dialect.name == "postgresql"):
            raise Conflict("lease_lost", job=job.id)

    return fence


class LeaseKeeper:
    """Renews in a thread of its own, whatever the jobs are busy with."""

    def __init__(self, database: Database, clock: Clock, lease: timedelta) -> None:
        self._database = database
        self._clock = clock
        self._lease = lease
        self._held: dict[str, tuple[int, CancelToken]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, job: Job, cancel: CancelToken) -> None:
        """Keep the lease of a claimed job until ``release``; ``cancel`` is set when it is lost."""
        with self._lock:
            self._held[job.id] = (job.epoch, cancel)
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="prowess leases", daemon=True)
                self._thread.start()

    def release(self, job: Job) -> None:
        """The job has ended here."""
        with self._lock:
            self._held.pop(job.id, None)

    def close(self) -> None:
        """Stop renewing, and ask what still runs to stop."""
        self._closed.set()
        with self._lock:
            held = list(self._held.values())
            thread = self._thread
        for _, cancel in held:
            cancel.cancel()
        if thread is not None:
            thread.join(_CLOSE_SECONDS)

    def _keep(self) -> None:
        while not self._closed.wait(self._lease.total_seconds() / RENEWALS):
            self.renew()

    def renew(self) -> None:
        """Renew every lease that is held; whoever has lost theirs is told to stop."""
        with self._lock:
            held = dict(self._held)
        for job_id, (epoch, cancel) in held.items():
            try:
                kept = self._renewed(job_id, epoch)
            except StorageError as error:
                # The lease still has two thirds of its time; if the database stays away the job is taken over.
                logger.warning("the lease of job %s could not be renewed: %s", job_id, error.code)
            else:
                if not kept:
                    cancel.cancel()

    def _renewed(self, job_id: str, epoch: int) -> bool:
        until = to_ms(self._clock.now() + self._lease)
        with self._database.write() as connection:
            return renew_lease(connection, job_id, epoch, until)


Observer = Callable[[str, str], None]
"""(point, job id): told where a job is, for tests that stop or kill a worker there"""
