"""Automations: triggers of a person's own, and what made them fire (B2, B11, B15)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prowess.automation.triggers.model import Fire, Rehearsal, Trigger
from prowess.automation.triggers.scheduler import BATCH, Swept
from prowess.automation.triggers.specs import read_draft
from prowess.automation.webhooks.service import MAX_BODY, Received
from prowess.events.model import Actor
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT

MAX_HOOK_BODY = MAX_BODY
"""bytes of one request for a webhook"""


class Automations(Facade):
    """Automations: triggers of a person's own, and what made them fire.

    ``user`` is who asks, and sees their own alone; where it may be left out, null is the operator, who sees all.
    """

    def add_automation(self, *, user: str, tenant: str = DEFAULT_TENANT, **fields: Any) -> Trigger:
        """A new active trigger of ``user``.

        ``fields``: ``name``, ``agent``, ``kind`` (``once``, ``cron``, ``interval``, ``webhook``, ``file``,
        ``reaction``), ``spec`` by kind, ``prompt`` or ``skill`` or both, and if wanted ``conversation``,
        ``preapproved``, ``mode``, ``rate``, ``max_attempts``, ``misfire``, ``misfire_bound``; see
        ``docs/automations.md``. Raises as ``TriggerService.add``.
        """
        draft = read_draft(fields)
        return self._parts.automations.triggers.add(actor=Actor("user", user), tenant=tenant, user=user, draft=draft)

    def change_automation(
        self, trigger: str, changes: Mapping[str, Any], *, user: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> Trigger:
        """Change fields of a trigger. Raises as ``TriggerService.change``."""
        return self._parts.automations.triggers.change(
            actor=_actor(user), tenant=tenant, trigger_id=trigger, changes=changes
        )

    def automations(
        self, *, user: str | None = None, with_removed: bool = False, tenant: str = DEFAULT_TENANT
    ) -> list[Trigger]:
        """The triggers of a user, or of all, oldest first."""
        return self._parts.automations.triggers.list(tenant, user, with_removed=with_removed)

    def automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Trigger:
        """One trigger. Raises ``NotFound('trigger_not_found')``."""
        return self._parts.automations.triggers.get(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def pause_automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Trigger:
        """Let it rest. Raises ``NotFound``, ``Conflict('trigger_not_active')``."""
        return self._parts.automations.triggers.pause(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def resume_automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Trigger:
        """Let it go on from now. Raises ``NotFound``, ``Conflict('trigger_not_paused')``."""
        return self._parts.automations.triggers.resume(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def remove_automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> None:
        """Remove it; its history stays. Raises ``NotFound``."""
        self._parts.automations.triggers.remove(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def confirm_automation(self, trigger: str, *, user: str, tenant: str = DEFAULT_TENANT) -> Trigger:
        """Let what an agent proposed become active. Raises ``NotFound``, ``Conflict('trigger_not_proposed')``."""
        return self._parts.automations.triggers.confirm(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def reject_automation(self, trigger: str, *, user: str, tenant: str = DEFAULT_TENANT) -> None:
        """Turn down what an agent proposed. Raises ``NotFound``, ``Conflict('trigger_not_proposed')``."""
        self._parts.automations.triggers.reject(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def fire_automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Fire:
        """Fire it now, beside its schedule. Raises as ``TriggerService.fire``."""
        return self._parts.automations.triggers.fire(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def rehearse_automation(self, trigger: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> Rehearsal:
        """What a fire would send now; nothing is stored. Raises ``NotFound``."""
        return self._parts.automations.triggers.rehearse(actor=_actor(user), tenant=tenant, trigger_id=trigger)

    def automation_history(
        self, trigger: str, *, user: str | None = None, limit: int = 100, tenant: str = DEFAULT_TENANT
    ) -> list[Fire]:
        """Its fires, newest first, missed ones too (U7). Raises ``NotFound``, ``InvalidInput('bad_count')``."""
        return self._parts.automations.triggers.history(
            actor=_actor(user), tenant=tenant, trigger_id=trigger, limit=limit
        )

    def receive_hook(self, trigger: str, headers: Mapping[str, str], body: bytes) -> Received:
        """Take one signed request for a webhook trigger. Raises as ``WebhookService.receive``."""
        return self._parts.automations.webhooks.receive(trigger, headers, body)

    def fire_due(self, limit: int = BATCH) -> Swept:
        """Fire the time triggers of all tenants that are due now, at most ``limit`` of them (B10)."""
        return self._parts.automations.scheduler.fire_due(limit)

    def next_due(self) -> datetime | None:
        """When the next time trigger is due; null where none is planned."""
        return self._parts.automations.scheduler.next_due()

    def react(self) -> int:
        """Let reactions follow the log up to its end; returns how many events they saw."""
        return self._parts.automations.reactions.catch_up()

    async def watch_files(self, stop: asyncio.Event) -> None:
        """Let file triggers fire until ``stop`` is set; one such task for all processes over a database."""
        from prowess.automation.watching.service import FileWatcher

        parts = self._parts
        await FileWatcher(parts.log, parts.automations.firing, parts.automations.roots, parts.automations.watch).watch(
            stop
        )


def _actor(user: str | None) -> Actor:
    return OPERATOR if user is None else Actor("user", user)
