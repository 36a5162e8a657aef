"""The parts that make triggers and let them fire, joined for the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.automation.jobs.ledger import JobLedger
from prowess.automation.reactions.service import Reactions
from prowess.automation.triggers.firing import Firing
from prowess.automation.triggers.scheduler import Scheduler
from prowess.automation.triggers.service import DeclaredCodes, TriggerService
from prowess.automation.watching.hold import WatchHold
from prowess.automation.watching.paths import Roots
from prowess.automation.webhooks.service import WebhookService
from prowess.chat.service import ChatService
from prowess.events.log import EventLog
from prowess.kernel.ids import IdSource
from prowess.runtime.proposing import TurnProposals
from prowess.secrets.service import SecretService
from prowess.turns.request import TurnRequest


@dataclass(frozen=True, slots=True)
class AutomationParts:
    """What makes triggers and lets them fire."""

    triggers: TriggerService
    scheduler: Scheduler
    webhooks: WebhookService
    reactions: Reactions
    firing: Firing
    roots: Roots
    watch: WatchHold

    def proposals(self, request: TurnRequest) -> TurnProposals:
        """Where a tool of this turn leaves proposals."""
        return TurnProposals(self.triggers, request)


def join_automations(
    log: EventLog,
    ids: IdSource,
    chat: ChatService,
    secrets: SecretService,
    ledger: JobLedger,
    declared: DeclaredCodes,
    roots: Roots,
) -> AutomationParts:
    """Join the parts over one log and one ledger."""
    firing = Firing(ledger, ids, chat)
    return AutomationParts(
        triggers=TriggerService(log, ids, chat, secrets, firing, declared, roots.resolve),
        scheduler=Scheduler(log, firing),
        webhooks=WebhookService(log, secrets, firing),
        reactions=Reactions(log, firing),
        firing=firing,
        roots=roots,
        watch=WatchHold(log),
    )
