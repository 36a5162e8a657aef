"""What one attempt of a job came to, and what follows from it (B6, B16, U7)."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from prowess.access.quotas.model import EXHAUSTED
from prowess.automation.jobs.model import Job, JobStatus, retry_delay
from prowess.errors import Conflict, Denied, InvalidInput, NotFound, ProwessError
from prowess.turns.stopping import is_stop

logger = logging.getLogger(__name__)

DEFERRAL = timedelta(hours=1)
"""the period of a provider's quota, where it does not name one (B16)"""
_PERMANENT = (Denied, InvalidInput, NotFound)
_OUT_OF_QUOTA = ("voice_rate_limited", EXHAUSTED)
"""of the provider, or of the tenant's own (U9)"""
_LOST = "lease_lost"
STOPPED = "stopped"
"""somebody stopped the turn: it is not tried again, and no incident"""


class Outcome(NamedTuple):
    """How an attempt ended. A status is what was verified, never what was intended (U7)."""

    kind: Literal["done", "waiting", "failed", "retry", "deferred"]
    """``failed`` is for good; ``retry`` is tried again while attempts are left; ``deferred`` costs no attempt"""
    error_code: str | None = None
    result: str | None = None
    until: datetime | None = None
    """for ``deferred``"""


class Next(NamedTuple):
    """What becomes of the job."""

    status: JobStatus
    attempts: int
    next_attempt: datetime | None = None


def outcome_of(error: Exception, now: datetime) -> Outcome:
    """What an error of an attempt means.

    Missing permission, disabled skill, missing version and invalid payload are for good (B6); an exhausted quota, the
    provider's or the tenant's, puts the work off to the next period (B16); all else is worth another try.
    """
    if not isinstance(error, ProwessError):
        logger.warning("a job raised %s", type(error).__name__)  # its text may quote a person
        return Outcome("retry", "handler_failed")
    if is_stop(error):
        return Outcome("failed", STOPPED)
    if error.code in _OUT_OF_QUOTA:
        return Outcome("deferred", error.code, until=_next_period(error, now))
    code = str(error.detail.get("reason", error.code)) if isinstance(error, Denied) else error.code
    return Outcome("failed" if isinstance(error, _PERMANENT) else "retry", code)


def is_lost(error: Exception) -> bool:
    """Whether another worker has the job: then nothing of this attempt is recorded."""
    return isinstance(error, Conflict) and error.code == _LOST


def follow(job: Job, outcome: Outcome, now: datetime, chance: float) -> Next:
    """What becomes of a job after this attempt, which ``job.attempts`` counts already."""
    match outcome.kind:
        case "done":
            return Next(JobStatus.COMPLETED, job.attempts)
        case "waiting":
            return Next(JobStatus.WAITING, job.attempts)
        case "deferred":
            return Next(JobStatus.RETRYING, job.attempts - 1, outcome.until or now + DEFERRAL)
        case "retry" if job.attempts < job.max_attempts:
            return Next(JobStatus.RETRYING, job.attempts, now + retry_delay(job.attempts, chance))
        case _:
            return Next(JobStatus.FAILED, job.attempts)


def _next_period(error: ProwessError, now: datetime) -> datetime:
    after = error.detail.get("retry_after")
    if isinstance(after, int | float) and after > 0:
        return now + timedelta(seconds=min(float(after), 30 * 86_400.0))
    return now.replace(minute=0, second=0, microsecond=0) + DEFERRAL
