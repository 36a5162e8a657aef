"""Jobs that hand a notification to an outgoing webhook (B15, U7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prowess.automation.jobs.model import Job
from prowess.automation.jobs.outcome import Outcome
from prowess.automation.jobs.runner import Hold, Runner
from prowess.automation.notifications.hooks import HookService
from prowess.events.log import EventLog


class DeliveryRunner(Runner):
    """Delivers one notification. A repeat carries the same id, so receivers can tell (B8)."""

    def __init__(self, log: EventLog, hooks: HookService) -> None:
        self._log = log
        self._hooks = hooks

    def run(self, job: Job, prepared: Mapping[str, Any], hold: Hold) -> Outcome:
        """One attempt; done only where the receiver has taken it. Raises as ``HookService.deliver``."""
        with self._log.transaction(job.tenant) as transaction:
            hold.fence(transaction.connection)
        self._hooks.deliver(job.payload)
        return Outcome("done", result=str(job.payload["notification"]))
