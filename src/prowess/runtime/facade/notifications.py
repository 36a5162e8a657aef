"""Inboxes, alerts and outgoing webhooks (U6, U7, R5, B14, B15)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from prowess.automation.notifications.model import Hook, Notification
from prowess.events.model import Actor
from prowess.kernel.ids import check_id
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT


class Notifications(Facade):
    """What people are told, and where it is sent. ``user`` null: the operators of the tenant, and their alerts."""

    def notifications(
        self, *, user: str | None, unread: bool = False, limit: int = 50, tenant: str = DEFAULT_TENANT
    ) -> list[Notification]:
        """An inbox as of now: unread ones first, then newest first. ``limit``: 1 to 10,000.

        Raises ``InvalidInput`` (``bad_limit``, ``bad_id``).
        """
        reader = _checked(user)
        self._parts.notifications.catch_up()
        return self._parts.notifications.list(tenant, reader, unread_only=unread, limit=limit)

    def unread_notifications(self, *, user: str | None, tenant: str = DEFAULT_TENANT) -> int:
        """How many of an inbox are unread, as of now."""
        reader = _checked(user)
        self._parts.notifications.catch_up()
        return self._parts.notifications.unread(tenant, reader)

    def mark_read(self, notification_id: str | None = None, *, user: str | None, tenant: str = DEFAULT_TENANT) -> int:
        """Mark one read, or with null the whole inbox; returns how many were not read before.

        Raises ``NotFound('notification_not_found')`` for one that is not in this inbox.
        """
        return self._parts.notifications.mark_read(tenant, _checked(user), notification_id)

    def alerts(
        self, *, since: datetime | None = None, limit: int = 50, tenant: str = DEFAULT_TENANT
    ) -> list[Notification]:
        """The tenant's alerts as of now, newest first, each once (R5). Raises ``InvalidInput('bad_limit')``."""
        self._parts.notifications.catch_up()
        return self._parts.notifications.alerts(tenant, since=since, limit=limit)

    def keep_notifications(self) -> tuple[int, int]:
        """Upkeep, over all tenants: tell what nobody was told of, delete what was read 90 days ago.

        Returns how many events were read and how many entries deleted. A worker does both by itself.
        """
        return self._parts.notifications.catch_up(), self._parts.notifications.sweep()

    def add_hook(
        self,
        url: str,
        *,
        secret: str,
        user: str | None,
        kinds: Collection[str] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> Hook:
        """Send a user's notices, or the tenant's alerts, to a URL on a host of ``outgoing_hosts``.

        ``secret``: name of the slot that holds the signing key. Raises as ``HookService.add``.
        """
        return self._parts.hooks.add(_actor(user), tenant, _checked(user), url, secret, kinds)

    def hooks(self, *, user: str | None, tenant: str = DEFAULT_TENANT) -> list[Hook]:
        """The webhooks of a user, or those of the tenant's alerts; oldest first."""
        return self._parts.hooks.list(tenant, _checked(user))

    def remove_hook(self, hook_id: str, *, user: str | None, tenant: str = DEFAULT_TENANT) -> None:
        """Remove a webhook. Raises ``NotFound('hook_not_found')``."""
        self._parts.hooks.remove(_actor(user), tenant, _checked(user), hook_id)

    def test_hook(self, hook_id: str, *, user: str | None, tenant: str = DEFAULT_TENANT) -> Hook:
        """Send a test by a webhook, now; one that was paused or failing is active again where it is taken.

        Raises as ``HookService.test``: returning means that the receiver answered with a 2xx.
        """
        return self._parts.hooks.test(tenant, _checked(user), hook_id)


def _checked(user: str | None) -> str | None:
    return None if user is None else check_id(user, "user")


def _actor(user: str | None) -> Actor:
    return OPERATOR if user is None else Actor("user", user)
