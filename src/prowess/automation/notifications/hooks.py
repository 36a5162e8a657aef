"""Webhooks: making and removing them, testing them, and delivering by them (B15, U7)."""

from __future__ import annotations

import builtins
import json
from collections.abc import Collection, Mapping
from typing import Any

from prowess.automation.notifications.addresses import read_url
from prowess.automation.notifications.hook_store import (
    delete_hook,
    find_hook,
    insert_hook,
    list_hooks,
    turn_hook,
)
from prowess.automation.notifications.model import Hook, HookStatus, Notification, Outgoing
from prowess.automation.notifications.ports import Notifier
from prowess.automation.notifications.rules import HOOK_KINDS, TEST
from prowess.automation.notifications.signing import signing_key
from prowess.automation.notifications.store import find_notification
from prowess.errors import DeliveryError, Denied, InvalidInput, LimitExceeded, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.clock import iso
from prowess.kernel.ids import IdSource
from prowess.messages import LANGUAGES, render
from prowess.secrets.model import SecretOwner, check_name
from prowess.secrets.service import SecretService

MAX_HOOKS = 20
"""webhooks of one user, and of a tenant's alerts"""
GONE = 410

# From which states a webhook comes into another, and what the log says of it.
_MOVES: Mapping[HookStatus, tuple[Collection[HookStatus], str]] = {
    HookStatus.ACTIVE: ((HookStatus.FAILING, HookStatus.PAUSED), "notification_hook.recovered"),
    HookStatus.FAILING: ((HookStatus.ACTIVE,), "notification_hook.failing"),
    HookStatus.PAUSED: ((HookStatus.ACTIVE, HookStatus.FAILING), "notification_hook.paused"),
}


class HookService:
    """The use cases of webhooks. Only a person makes one; an agent has no road here (G15)."""

    def __init__(self, log: EventLog, ids: IdSource, secrets: SecretService, notifier: Notifier) -> None:
        self._log = log
        self._ids = ids
        self._secrets = secrets
        self._notifier = notifier

    def add(
        self, actor: Actor, tenant: str, user: str | None, url: str, secret: str, kinds: Collection[str] | None = None
    ) -> Hook:
        """Make a webhook for a user's notices, or with ``user`` null for the tenant's alerts.

        ``secret``: the name of a filled slot of the user's or the tenant's, which messages are signed with. ``kinds``:
        which notices it takes; null: all. Raises ``InvalidInput`` (``bad_hook_url``, ``bad_choice``,
        ``bad_secret_name``, ``bad_hook_secret``), ``NotFound('secret_missing')``, ``LimitExceeded('too_many_hooks')``,
        and as ``Notifier.check``.
        """
        read = read_url(url)
        taken = _kinds(kinds)
        self._notifier.check(read)
        signing_key(self._secrets.open(tenant, _owner(tenant, user), check_name(secret)))
        with self._log.transaction(tenant) as transaction:
            if len(list_hooks(transaction.connection, tenant, user)) >= MAX_HOOKS:
                raise LimitExceeded("too_many_hooks", limit=MAX_HOOKS)
            hook = Hook(
                id=self._ids.new("hook"),
                tenant=tenant,
                user=user,
                url=url,
                kinds=taken,
                secret=secret,
                status=HookStatus.ACTIVE,
                created_at=transaction.now,
                created_by=actor.id,
            )
            insert_hook(transaction.connection, hook)
            _emit(transaction, "notification_hook.added", hook, actor, host=str(read.endpoint))
            return hook

    def list(self, tenant: str, user: str | None) -> builtins.list[Hook]:
        """The webhooks of a user, or with null those of the tenant's alerts; oldest first."""
        with self._log.database.read() as connection:
            return list_hooks(connection, tenant, user)

    def remove(self, actor: Actor, tenant: str, user: str | None, hook_id: str) -> None:
        """Remove one; what is still on its way by it fails. Raises ``NotFound('hook_not_found')``."""
        hook = self._require(hook_id, tenant, user)
        with self._log.transaction(tenant) as transaction:
            if not delete_hook(transaction.connection, tenant, user, hook_id):
                raise _missing(hook_id)
            _emit(transaction, "notification_hook.removed", hook, actor)

    def test(self, tenant: str, user: str | None, hook_id: str) -> Hook:
        """Send a test by a webhook, now; one that was paused or failing and takes it is active again.

        Raises ``NotFound('hook_not_found')`` and as ``deliver``.
        """
        hook = self._require(hook_id, tenant, user)
        now = self._log.clock.now()
        body = _body(TEST, iso(now), {"id": None, "kind": TEST}, _words(TEST))
        self._carry(hook, Outgoing(self._ids.new("test"), now, body))
        return self._require(hook_id, tenant, user)

    def deliver(self, payload: Mapping[str, Any]) -> None:
        """Do a job of task DELIVERY; returns only where the receiver has taken the notification.

        ``payload``: ``{"hook": id, "notification": id}``. Raises ``NotFound`` (``hook_not_found``,
        ``notification_not_found``, ``secret_missing``), ``Denied('hook_paused')``, ``StorageError``, and as
        ``Notifier.send``. An answer 410 pauses the webhook: to try again would be no use.
        """
        hook, notification = self._load(str(payload["hook"]), str(payload["notification"]))
        if hook.status is HookStatus.PAUSED:
            raise Denied("hook_paused", hook=hook.id)
        self._carry(hook, Outgoing(notification.id, self._log.clock.now(), _document(notification)))

    def _load(self, hook_id: str, notification_id: str) -> tuple[Hook, Notification]:
        with self._log.database.read() as connection:
            hook = find_hook(connection, hook_id)
            if hook is None:
                raise _missing(hook_id)
            notification = find_notification(connection, hook.tenant, notification_id)
        if notification is None:
            raise NotFound("notification_not_found", id=notification_id)
        return hook, notification

    def _carry(self, hook: Hook, message: Outgoing) -> None:
        secret = self._secrets.open(hook.tenant, _owner(hook.tenant, hook.user), hook.secret)
        try:
            self._notifier.send(read_url(hook.url), message, secret)
        except DeliveryError as error:
            if error.detail.get("status") == GONE:
                self._move(hook, HookStatus.PAUSED, error.code)
                raise Denied("hook_paused", hook=hook.id) from None
            raise
        if hook.status is not HookStatus.ACTIVE:
            self._move(hook, HookStatus.ACTIVE, None)

    def _move(self, hook: Hook, status: HookStatus, code: str | None) -> None:
        with self._log.transaction(hook.tenant) as transaction:
            move_hook(transaction, hook, status, code=code)

    def _require(self, hook_id: str, tenant: str, user: str | None) -> Hook:
        with self._log.database.read() as connection:
            hook = find_hook(connection, hook_id)
        if hook is None or (hook.tenant, hook.user) != (tenant, user):
            raise _missing(hook_id)
        return hook


def move_hook(transaction: Transaction, hook: Hook, status: HookStatus, *, code: str | None) -> None:
    """Bring a webhook into another state, and tell; nothing where it is there already or the state does not follow."""
    before, event = _MOVES[status]
    if turn_hook(transaction.connection, hook.id, before, status):
        _emit(transaction, event, hook, SYSTEM, error_code=code)


def _emit(transaction: Transaction, kind: str, hook: Hook, actor: Actor, **data: str | None) -> None:
    told: dict[str, Any] = {name: value for name, value in data.items() if value is not None}
    transaction.emit(kind, tenant=hook.tenant, actor=actor, user=hook.user, target=hook.id, **told)


def _owner(tenant: str, user: str | None) -> SecretOwner:
    return SecretOwner("tenant", tenant) if user is None else SecretOwner("user", user)


def _kinds(kinds: Collection[str] | None) -> frozenset[str] | None:
    if kinds is None:
        return None
    if isinstance(kinds, str) or not kinds or not HOOK_KINDS.issuperset(kinds):
        raise InvalidInput("bad_choice", field="kinds", known=sorted(HOOK_KINDS))
    return frozenset(kinds)


def _missing(hook_id: str) -> NotFound:
    return NotFound("hook_not_found", hook=hook_id[:80])


def _document(notification: Notification) -> str:
    """What a receiver gets: the entry of the inbox, in words of every language."""
    entry = notification.to_json()
    words = {language: notification.text(language) for language in LANGUAGES}
    return _body(notification.notice.kind, entry["created_at"], entry, words)


def _words(kind: str) -> dict[str, str]:
    return {language: render(f"notice.{kind}", language) for language in LANGUAGES}


def _body(kind: str, at: str | None, entry: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The JSON that Standard Webhooks recommends: type, timestamp, data."""
    return json.dumps({"type": kind, "timestamp": at, "data": {**entry, "text": dict(words)}}, ensure_ascii=False)
