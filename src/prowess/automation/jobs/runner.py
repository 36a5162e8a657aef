"""What the worker needs of each task: may it run, what does it do, what follows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prowess.automation.jobs.model import Job, JobStatus
from prowess.automation.jobs.outcome import Outcome
from prowess.events.log import Transaction
from prowess.turns.definitions import CancelToken
from prowess.turns.fencing import Fence


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim on a running job, as its runner sees it."""

    fence: Fence
    """to be asked in every transaction that has an effect; raises ``Conflict('lease_lost')``"""
    cancel: CancelToken
    """set once the lease is lost or the worker stops"""
    observe: Callable[[str], None]
    """(point): told before and after each effect, for tests that stop or kill a worker there"""


class Runner(ABC):
    """One task. ``run`` is what it does; what else is not overridden does nothing and refuses nothing."""

    def prepare(self, jobs: Sequence[Job]) -> Mapping[str, Any]:
        """By job id, what has to be learned before the claim, outside any transaction; jobs of one tenant."""
        return {}

    def admit(self, transaction: Transaction, jobs: Sequence[Job], prepared: Mapping[str, Any]) -> Mapping[str, str]:
        """Within the transaction that claims: by job id, why it may not run. Each refusal is for good, and audited."""
        return {}

    @abstractmethod
    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """One attempt of a claimed job, outside any transaction. May raise: errors are judged by ``outcome_of``."""

    def ended(  # noqa: B027 - most tasks have nothing to add
        self, transaction: Transaction, job: Job, outcome: Outcome, status: JobStatus
    ) -> None:
        """Within the transaction that records how the attempt ended, after the job has its new status."""


class InstantRunner(Runner):
    """A task some of whose jobs have their whole effect in the database (decision 0016)."""

    @abstractmethod
    def is_instant(self, job: Job, prepared: Mapping[str, Any]) -> bool:
        """Whether all that the job does is ``apply``, so that it is claimed and finished in one transaction."""

    @abstractmethod
    def apply(
        self, transaction: Transaction, jobs: Sequence[Job], prepared: Mapping[str, Any]
    ) -> Mapping[str, Outcome]:
        """The whole effect of admitted instant jobs, inside their transaction; by job id those that did not succeed."""
