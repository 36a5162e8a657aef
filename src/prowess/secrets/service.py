"""What can be done with secret slots, and what keeps their values out of all text."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from prowess.errors import InvalidInput, NotFound, StorageError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import Actor
from prowess.kernel.clock import from_ms, to_ms
from prowess.kernel.ids import check_id
from prowess.kernel.redaction import NO_REDACTION, Redactor
from prowess.secrets.keys import KeyRing, Sealed
from prowess.secrets.model import SecretInfo, SecretOwner, check_kind, check_name
from prowess.secrets.store import (
    StoredSecret,
    delete_secret,
    find_secret,
    put_secret,
    reseal_secret,
    secrets_of_tenant,
    touch_secret,
)
from prowess.secrets.values import check_value

REFRESH_S = 5.0
"""How long a redactor serves before slots that another process filled are read."""
USE_NOTED_EVERY = timedelta(minutes=1)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """What this process knows of a tenant's values; it only grows, because old text may hold what was replaced."""

    redactor: Redactor = NO_REDACTION
    sealed: frozenset[Sealed] = frozenset()
    """read already, whether they could be opened or not"""
    read_at: float | None = None


class SecretService:
    """The use cases of secrets, one transaction each.

    Their own transactions are not redacted: they hold ids and names alone, and a slot whose value is somebody's id must
    not keep that slot from being deleted.
    """

    def __init__(self, log: EventLog, keys: KeyRing | None, ticks: Callable[[], float] = time.monotonic) -> None:
        """``keys``: null where none is configured; then slots can be listed and deleted. ``ticks`` counts seconds."""
        self._log = log
        self._keys = keys
        self._ticks = ticks
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def set(self, actor: Actor, tenant: str, owner: SecretOwner, name: str, value: str | SecretStr) -> SecretInfo:
        """Fill a slot, or replace what is in it. ``value``: 8 to 16,384 characters of text.

        Raises ``InvalidInput`` (``bad_secret_name``, ``bad_secret_owner``, ``bad_id``, ``secret_too_short``,
        ``secret_too_long``, ``secret_not_text``, ``secret_too_plain``) and ``StorageError('secret_key_missing')``.
        """
        _check_slot(tenant, owner, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        check_value(text, (tenant, owner.id, actor.id, name))
        sealed = self._need_keys().seal(text.encode(), _context(tenant, owner, name))
        self._learn(tenant, [text])  # first: as soon as it can be opened, it must not be written
        with self._log.transaction(tenant, redacted=False) as transaction:
            old = find_secret(transaction.connection, tenant, owner, name)
            put_secret(transaction.connection, tenant, owner, name, sealed, transaction.now_ms)
            _emit(transaction, "secret.set", actor, tenant, owner, name, replaced=old is not None, key=sealed.key_id)
            now = from_ms(transaction.now_ms)
            created = now if old is None else old.info.created_at
            return SecretInfo(tenant, owner, name, created, now, None, sealed.key_id)

    def delete(self, actor: Actor, tenant: str, owner: SecretOwner, name: str) -> None:
        """Empty a slot for good; needs no key. Raises ``NotFound('secret_missing')``."""
        with self._log.transaction(tenant, redacted=False) as transaction:
            if not delete_secret(transaction.connection, tenant, owner, name):
                raise _missing(owner, name)
            _emit(transaction, "secret.deleted", actor, tenant, owner, name)

    def list(self, tenant: str, owner: SecretOwner | None = None) -> list[SecretInfo]:
        """The slots that are filled, by owner and name: the owner's, or all of the tenant's."""
        return [stored.info for stored in self._stored(tenant) if owner is None or stored.info.owner == owner]

    def open(self, tenant: str, owner: SecretOwner, name: str) -> SecretStr:
        """The value in this slot of this owner; another's never stands in.

        Notes the use, at most once a minute. Not inside a write transaction. Raises ``NotFound('secret_missing')``,
        ``StorageError``: ``secret_key_missing``, ``secret_unreadable`` where no key at hand opens it.
        """
        with self._log.database.read() as connection:
            stored = find_secret(connection, tenant, owner, name)
        if stored is None:
            raise _missing(owner, name)
        keys = self._need_keys()
        try:
            value = _unseal(keys, stored)
        except StorageError as error:
            logger.warning("secret %s of a %s cannot be read: %s", name, owner.kind, error.code)
            raise StorageError(
                "secret_unreadable", name=name, owner=owner.kind, key=stored.sealed.key_id, cause=error.code
            ) from None
        self._learn(tenant, [value])
        self._note_use(stored.info)
        return SecretStr(value)

    def rotate(self, actor: Actor, tenant: str) -> int:
        """Encrypt every value of the tenant anew, under the first key; returns how many.

        One that cannot be read stays as it is and is logged by name. Raises ``StorageError('secret_key_missing')``.
        """
        keys = self._need_keys()
        with self._log.transaction(tenant, redacted=False) as transaction:
            count = 0
            for stored in secrets_of_tenant(transaction.connection, tenant):
                value = _try_unseal(keys, stored)
                if value is None:
                    continue
                info = stored.info
                sealed = keys.seal(value.encode(), _context(tenant, info.owner, info.name))
                if reseal_secret(transaction.connection, stored, sealed):
                    _emit(transaction, "secret.rotated", actor, tenant, info.owner, info.name, key=sealed.key_id)
                    count += 1
            return count

    def redactor(self, tenant: str) -> Redactor:
        """What redacts every value of the tenant that this process ever knew; at most five seconds behind others."""
        if self._keys is None:
            return NO_REDACTION
        known = self._known.get(tenant)
        now = self._ticks()
        if known is not None and known.read_at is not None and now - known.read_at < REFRESH_S:
            return known.redactor
        return self._refresh(self._keys, tenant, now).redactor

    def _refresh(self, keys: KeyRing, tenant: str, now: float) -> _Known:
        stored = self._stored(tenant)  # not under the lock: a read may have to wait for a write that waits for it
        seen = self._known.get(tenant, _Known()).sealed
        values = [_try_unseal(keys, secret) for secret in stored if secret.sealed not in seen]
        sealed = frozenset(secret.sealed for secret in stored)
        return self._learn(tenant, [value for value in values if value is not None], sealed, now)

    def _learn(
        self,
        tenant: str,
        values: Iterable[str],
        sealed: frozenset[Sealed] | None = None,
        read_at: float | None = None,
    ) -> _Known:
        with self._lock:
            known = self._known.get(tenant, _Known())
            known = replace(known, redactor=known.redactor.extended(frozenset(values)))
            if sealed is not None:
                known = replace(known, sealed=sealed, read_at=read_at)
            self._known[tenant] = known
            return known

    def _stored(self, tenant: str) -> Sequence[StoredSecret]:
        with self._log.database.read() as connection:
            return secrets_of_tenant(connection, tenant)

    def _note_use(self, info: SecretInfo) -> None:
        now = self._log.clock.now()
        before = now - USE_NOTED_EVERY
        if info.last_used_at is not None and info.last_used_at > before:
            return
        with self._log.transaction(info.tenant, redacted=False) as transaction:
            touch_secret(
                transaction.connection,
                info.tenant,
                info.owner,
                info.name,
                now_ms=transaction.now_ms,
                before_ms=to_ms(before),
            )

    def _need_keys(self) -> KeyRing:
        if self._keys is None:
            raise StorageError("secret_key_missing", source="PROWESS_SECRET_KEY")
        return self._keys


def _check_slot(tenant: str, owner: SecretOwner, name: str) -> None:
    check_name(name)
    check_kind(owner.kind)
    check_id(tenant, "tenant")
    check_id(owner.id, "owner")
    if owner.kind == "tenant" and owner.id != tenant:
        raise InvalidInput("bad_secret_owner", field="owner", known=[tenant])


def _missing(owner: SecretOwner, name: str) -> NotFound:
    return NotFound("secret_missing", name=name, owner=owner.kind)


def _context(tenant: str, owner: SecretOwner, name: str) -> bytes:
    """What a value belongs to; a JSON array, because a concatenation could be cut in another place."""
    return json.dumps([tenant, owner.kind, owner.id, name]).encode()


def _unseal(keys: KeyRing, stored: StoredSecret) -> str:
    info = stored.info
    return keys.open(stored.sealed, _context(info.tenant, info.owner, info.name)).decode()


def _try_unseal(keys: KeyRing, stored: StoredSecret) -> str | None:
    """The value, or none where it cannot be read: one slot must not take the others with it."""
    try:
        return _unseal(keys, stored)
    except StorageError as error:
        logger.warning("secret %s of a %s cannot be read: %s", stored.info.name, stored.info.owner.kind, error.code)
        return None


def _emit(
    transaction: Transaction, kind: str, actor: Actor, tenant: str, owner: SecretOwner, name: str, **data: Any
) -> None:
    transaction.emit(
        kind,
        tenant=tenant,
        actor=actor,
        user=owner.id if owner.kind == "user" else None,
        target=owner.id if owner.kind == "skill" else None,
        owner=owner.kind,
        name=name,
        **data,
    )
