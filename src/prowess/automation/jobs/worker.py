"""The worker: claims due jobs, runs them, and records how each ended (B4 to B6, B10).

Jobs whose whole effect is in the database are claimed, decided, carried out and finished up to two hundred at a time,
in one transaction; if it fails they are taken one by one. All others are claimed in one transaction and finished in
another, run in between under a lease, and fenced by its epoch: a worker taken for dead writes nothing any more.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from prowess.automation.jobs.lanes import due_of_lanes, fair
from prowess.automation.jobs.leases import LeaseKeeper, Observer, fence_of
from prowess.automation.jobs.ledger import emit_completed, emit_job, readable
from prowess.automation.jobs.model import LEASE, PENDING, Job, JobStatus, Lease, Task
from prowess.automation.jobs.outcome import Outcome, follow, is_lost, outcome_of
from prowess.automation.jobs.runner import Hold, InstantRunner, Runner
from prowess.automation.jobs.store import (
    change_job,
    claim,
    complete,
    expired_leases,
    fail_corrupted,
    job_rows,
    lock_pending,
    next_due,
)
from prowess.db.engine import is_out_of_reach
from prowess.errors import ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM
from prowess.kernel.clock import from_ms, to_ms
from prowess.turns.definitions import CancelToken

logger = logging.getLogger(__name__)

BATCH = 200
"""jobs in one transaction"""
AT_ONCE = 8
"""jobs with effects of their own that one worker runs at the same time"""
AHEAD = timedelta(minutes=1)
"""how far ahead an engine is told of jobs"""
CLOSE_SECONDS = 2.0
"""for which what runs is waited for when the worker closes"""
_SWEPT = 1_000
"""expired leases in one sweep"""

Duty = Callable[[], datetime | None]
"""Something to look after at every sweep; says when it is next due."""


class Worker:
    """Runs jobs of one database. Safe to call from many threads; any number of workers may share a database."""

    def __init__(
        self,
        log: EventLog,
        runners: Mapping[Task, Runner],
        duties: Sequence[Duty] = (),
        *,
        lease: timedelta = LEASE,
        at_once: int = AT_ONCE,
        chance: Callable[[], float] = random.random,
        observe: Observer | None = None,
    ) -> None:
        """``chance`` draws the jitter of retries, in [0, 1)."""
        self.name = f"{socket.gethostname()}:{os.getpid()}:{id(self):x}"
        self.leases = LeaseKeeper(log.database, log.clock, lease)
        self._log = log
        self._runners = runners
        self._duties = tuple(duties)
        self._lease = lease
        self._chance = chance
        self._observe: Observer = observe or (lambda _point, _job: None)
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="prowess job")
        self._outside: set[str] = set()
        """ids of jobs with effects of their own that wait for a thread of the pool, or run"""
        self._futures: set[Future[None]] = set()
        self._outside_lock = threading.Lock()
        self._closed = False

    # --- what an engine asks for -------------------------------------------------------------------------------------

    def run(self, ids: Sequence[str]) -> None:
        """Claim and run these jobs, as far as due and still to do, instant ones first; return when all have ended.

        Never raises for what a job did. Raises ``StorageError`` where the ledger cannot be read.
        """
        by_tenant: dict[str, list[Job]] = {}
        for job in self._readable(ids):
            by_tenant.setdefault(job.tenant, []).append(job)
        outside: list[Job] = []
        for tenant, jobs in by_tenant.items():
            outside += self._run_instant(tenant, jobs)
        for done in self._submit(outside):
            # Not ``wait``, which would not hear of what ``close`` cancels: that is left to another worker.
            with suppress(CancelledError):
                done.result()

    def sweep(self) -> datetime | None:
        """Look after what nobody reports: silent workers, and every duty. Returns when something is next due."""
        self._take_over()
        known = [self._dutiful(duty) for duty in self._duties]
        with self._log.database.read() as connection:
            soonest = next_due(connection)
        known.append(None if soonest is None else from_ms(soonest))
        return min((instant for instant in known if instant is not None), default=None)

    def due(self, limit: int = BATCH) -> list[tuple[str, datetime]]:
        """(id, due) of at most ``limit`` jobs that are due within a minute: a share of every lane, oldest first.

        Without those that wait here for a free thread: others, which may be quick, do not wait behind them.
        """
        until = to_ms(self._log.clock.now() + AHEAD)
        with self._outside_lock:
            outside = set(self._outside)
        with self._log.database.read() as connection:
            found = due_of_lanes(connection, until, limit + len(outside))
        found = [item for item in found if item[0] not in outside]
        return [(job_id, from_ms(due)) for job_id, due, _ in fair(found, limit)]

    def close(self) -> None:
        """Stop: what runs is asked to end; what does not, soon, loses its lease, and another worker takes it over."""
        self.leases.close()
        with self._outside_lock:
            self._closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)
        wait(tuple(self._futures), CLOSE_SECONDS)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _readable(self, ids: Sequence[str]) -> list[Job]:
        """The jobs that are due and pending. A corrupted one is flagged, the others go on (C54)."""
        now = self._log.clock.now()
        with self._log.database.read() as connection:
            rows = job_rows(connection, ids)
        found: list[Job] = []
        for row in rows:
            job = readable(row)
            if job is None:
                self._flag(row.id, row.tenant, row.user_id)
            elif job.status in PENDING and job.next_attempt_at <= now:
                found.append(job)
        return found

    def _flag(self, job_id: str, tenant: str, user: str) -> None:
        with self._log.transaction(tenant) as transaction:
            if fail_corrupted(transaction.connection, job_id, transaction.now_ms):
                transaction.emit(
                    "job.finished",
                    tenant=tenant,
                    actor=SYSTEM,
                    user=user,
                    target=job_id,
                    decision="failed",
                    error_code="job_corrupted",
                )

    # --- jobs whose whole effect is in the database ------------------------------------------------------------------

    def _run_instant(self, tenant: str, jobs: Sequence[Job]) -> list[Job]:
        """Run those that are instant, in batches; return the others."""
        others: list[Job] = []
        by_task: dict[Task, list[Job]] = {}
        for job in jobs:
            by_task.setdefault(job.task, []).append(job)
        for task, group in by_task.items():
            runner = self._runners[task]
            if not isinstance(runner, InstantRunner):
                others += group
                continue
            for start in range(0, len(group), BATCH):
                batch = group[start : start + BATCH]
                prepared = runner.prepare(batch)
                instant: list[Job] = []
                for job in batch:
                    (instant if runner.is_instant(job, prepared) else others).append(job)
                self._carry_out(runner, tenant, instant, prepared)
        return others

    def _carry_out(self, runner: InstantRunner, tenant: str, jobs: Sequence[Job], prepared: Mapping[str, Any]) -> None:
        if not jobs:
            return
        try:
            self._carry_out_together(runner, tenant, jobs, prepared)
        except Exception as error:
            if len(jobs) == 1:
                self._spoiled(runner, jobs[0], error)
                return
            logger.warning("a batch of %d jobs failed, trying one by one: %s", len(jobs), type(error).__name__)
            for job in jobs:
                self._carry_out(runner, tenant, [job], prepared)

    def _carry_out_together(
        self, runner: InstantRunner, tenant: str, jobs: Sequence[Job], prepared: Mapping[str, Any]
    ) -> None:
        with self._log.transaction(tenant) as transaction:
            held = lock_pending(transaction.connection, [job.id for job in jobs])
            mine = [job for job in jobs if held.get(job.id) == job.revision]
            if not mine:
                return
            self._observe("after_claim", mine[0].id)
            refused = runner.admit(transaction, mine, prepared)
            admitted = [job for job in mine if job.id not in refused]
            self._observe("before_effect", mine[0].id)
            failed = runner.apply(transaction, admitted, prepared) if admitted else {}
            self._observe("after_effect", mine[0].id)
            done = [job for job in admitted if job.id not in failed]
            complete(transaction.connection, [job.id for job in done], transaction.now_ms)
            emit_completed(transaction, done)
            for job in done:
                runner.ended(transaction, job, Outcome("done", result=job.id), JobStatus.COMPLETED)
            for job in mine:
                if job.id in refused:
                    self._end(runner, transaction, job, Outcome("failed", refused[job.id]))
                elif job.id in failed:
                    self._end(runner, transaction, job, failed[job.id])
            self._observe("before_finish", mine[0].id)

    def _spoiled(self, runner: Runner, job: Job, error: Exception) -> None:
        """A single instant job whose transaction failed: the failure is recorded in one of its own."""
        logger.warning("job %s failed: %s", job.id, type(error).__name__)
        if is_out_of_reach(error):
            return  # nothing can be recorded; the job is still pending, and is found again
        with self._log.transaction(job.tenant) as transaction:
            self._end(runner, transaction, job, outcome_of(error, transaction.now))

    # --- all other jobs ----------------------------------------------------------------------------------------------

    def _submit(self, jobs: Sequence[Job]) -> list[Future[None]]:
        """Have those run that are not taken here already: a job that is delivered twice needs one thread."""
        with self._outside_lock:
            new = [job for job in jobs if job.id not in self._outside and not self._closed]
            self._outside.update(job.id for job in new)
            made = [self._pool.submit(self._run_outside, job) for job in new]
            self._futures.update(made)
        for future in made:
            future.add_done_callback(self._futures.discard)
        return made

    def _run_outside(self, job: Job) -> None:
        try:
            self._run_alone(job)
        finally:
            with self._outside_lock:
                self._outside.discard(job.id)

    def _run_alone(self, job: Job) -> None:
        """Claim, run, finish. What a lost lease leaves behind is nothing."""
        runner = self._runners[job.task]
        prepared = runner.prepare([job])
        claimed = self._claim(runner, job, prepared)
        if claimed is None:
            return
        hold = Hold(fence_of(claimed), CancelToken(), lambda point: self._observe(point, job.id))
        self.leases.hold(claimed, hold.cancel)
        try:
            self._observe("after_claim", job.id)
            outcome = self._attempt(runner, claimed, prepared, hold)
            self._observe("before_finish", job.id)
            if outcome is not None:
                self._finish(runner, claimed, outcome, hold)
        finally:
            self.leases.release(claimed)

    def _claim(self, runner: Runner, job: Job, prepared: Mapping[str, Any]) -> Job | None:
        with self._log.transaction(job.tenant) as transaction:
            held = lock_pending(transaction.connection, [job.id])
            if held.get(job.id) != job.revision:
                return None
            refused = runner.admit(transaction, [job], prepared)
            if job.id in refused:
                self._end(runner, transaction, job, Outcome("failed", refused[job.id]))
                return None
            until = transaction.now + self._lease
            claim(transaction.connection, [job.id], self.name, transaction.now_ms, to_ms(until))
            emit_job(transaction, "job.started", job, attempt=job.attempts + 1, late_ms=_late(job, transaction))
            return job._replace(
                status=JobStatus.RUNNING,
                revision=job.revision + 1,
                attempts=job.attempts + 1,
                epoch=job.epoch + 1,
                lease=Lease(self.name, job.epoch + 1, until),
            )

    def _attempt(self, runner: Runner, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome | None:
        """The outcome of one attempt; null where another worker has the job."""
        try:
            return runner.run(job, prepared, hold)
        except Exception as error:
            if is_lost(error):
                self._fenced(job)
                return None
            return outcome_of(error, self._log.clock.now())

    def _finish(self, runner: Runner, job: Job, outcome: Outcome, hold: Hold) -> None:
        try:
            with self._log.transaction(job.tenant) as transaction:
                hold.fence(transaction.connection)
                self._end(runner, transaction, job, outcome)
        except ProwessError as error:
            if not is_lost(error):
                raise
            self._fenced(job)

    def _fenced(self, job: Job) -> None:
        with self._log.transaction(job.tenant) as transaction:
            emit_job(transaction, "job.fenced", job, decision="denied", epoch=job.epoch)

    # --- endings -----------------------------------------------------------------------------------------------------

    def _end(self, runner: Runner, transaction: Transaction, job: Job, outcome: Outcome) -> None:
        """Record how an attempt ended: of a running job, or of a pending one that never ran by itself."""
        if job.status is not JobStatus.RUNNING:
            pending, job = job, job._replace(attempts=job.attempts + 1)
        else:
            pending = job
        then = follow(job, outcome, transaction.now, self._chance())
        over = then.status in (JobStatus.COMPLETED, JobStatus.FAILED)
        changed = change_job(
            transaction.connection,
            pending,
            then.status,
            next_attempt=then.next_attempt,
            attempts=then.attempts,
            error_code=outcome.error_code,
            result=outcome.result,
            finished_ms=transaction.now_ms if over else None,
        )
        if not changed:
            return  # cancelled or claimed by another in the meantime
        _tell(transaction, job, outcome, then.status, then.next_attempt)
        runner.ended(transaction, job, outcome, then.status)

    def _take_over(self) -> None:
        """Give back the jobs of silent workers: to be tried again, or failed where they have used up their attempts."""
        with self._log.database.read() as connection:
            now_ms = to_ms(self._log.clock.now())
            rows = expired_leases(connection, now_ms, _SWEPT)
        for row in rows:
            job = readable(row)
            if job is None:
                self._flag(row.id, row.tenant, row.user_id)
                continue
            with self._log.transaction(job.tenant) as transaction:
                self._free(transaction, job)

    def _free(self, transaction: Transaction, job: Job) -> None:
        spent = job.attempts >= job.max_attempts
        status = JobStatus.FAILED if spent else JobStatus.RETRYING
        changed = change_job(
            transaction.connection,
            job,
            status,
            next_attempt=transaction.now,
            error_code="worker_lost",
            finished_ms=transaction.now_ms if spent else None,
            lease_before=transaction.now_ms,
        )
        if not changed:
            return  # renewed or finished after all
        emit_job(transaction, "job.taken_over", job, owner=None if job.lease is None else job.lease.owner)
        if spent:
            outcome = Outcome("failed", "worker_lost")
            _tell(transaction, job, outcome, status, None)
            self._runners[job.task].ended(transaction, job, outcome, status)

    def _dutiful(self, duty: Duty) -> datetime | None:
        """One duty that fails must not keep the others from theirs."""
        try:
            return duty()
        except Exception as error:
            logger.error("a duty of the worker failed: %s", type(error).__name__, exc_info=error)
            return None


def _tell(
    transaction: Transaction, job: Job, outcome: Outcome, status: JobStatus, next_attempt: datetime | None
) -> None:
    """The event of an ending; a job that was missed or late says by how much (U7)."""
    if status is JobStatus.RETRYING:
        at = None if next_attempt is None else to_ms(next_attempt)
        deferred = True if outcome.kind == "deferred" else None
        emit_job(
            transaction, "job.retried", job, decision="failed", error_code=outcome.error_code, at=at, deferred=deferred
        )
    elif status is JobStatus.WAITING:
        emit_job(transaction, "job.waiting", job)
    else:
        decision = "succeeded" if status is JobStatus.COMPLETED else "failed"
        said: dict[str, Any] = {"error_code": outcome.error_code, "attempts": job.attempts, "trigger": job.trigger}
        emit_job(transaction, "job.finished", job, decision=decision, **said)


def _late(job: Job, transaction: Transaction) -> int:
    """Milliseconds between the moment it was due and its start."""
    return max(0, transaction.now_ms - to_ms(job.next_attempt_at))
