"""Setting quotas, and reserving before something is used (U9).

A reservation is made in the transaction that admits the use, by one conditional statement a count, so that of any
number of callers, in any number of processes, no more are admitted than the limit allows.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from prowess.access.quotas.model import (
    EACH,
    MAX_LIMIT,
    NAMES,
    WARN_AT,
    Exhausted,
    Held,
    Quota,
    Reservation,
    Resource,
    Usage,
    Use,
    Window,
    window_end,
    window_start,
)
from prowess.access.quotas.store import (
    change_limit,
    delete_quota,
    insert_quota,
    mark_told,
    quotas_of,
    settle,
    sweep_usage,
    take,
    taken,
    usage_of,
)
from prowess.errors import InvalidInput, LimitExceeded, NotFound
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.clock import from_ms, iso, to_ms
from prowess.kernel.ids import IdSource, check_id
from prowess.kernel.names import normalise_skill_name

MAX_QUOTAS = 1_000
"""of one tenant: each is looked at for every call"""
KEPT = timedelta(days=62)
"""how long the counts of windows that are over are kept"""
_WARNED, _TOLD = 1, 2

Amounts = Mapping[Resource, int]


class QuotaService:
    """The use cases of quotas. Only an operator sets one; an agent has no road here (G15)."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids

    def set(
        self,
        *,
        actor: Actor,
        tenant: str,
        resource: Resource | str,
        window: Window | str,
        limit: int,
        **names: str | None,
    ) -> Quota:
        """Limit a resource for those of ``NAMES`` that are given.

        One that stands for the same ones and window gets the new limit, its counts stay. Raises ``InvalidInput``
        (``bad_choice``, ``bad_quota``, ``bad_id``), ``LimitExceeded('too_many_quotas')``.
        """
        wanted = _checked(tenant, resource, window, limit, names)
        with self._log.transaction(tenant) as transaction:
            known = quotas_of(transaction.connection, tenant)
            made = {"set_by": actor.id, "set_at": from_ms(transaction.now_ms)}
            same = next((item for item in known if _place(item) == _place(wanted)), None)
            if same is not None:
                quota = replace(same, limit=limit, **made)  # type: ignore[arg-type]
                change_limit(transaction.connection, quota)
            elif len(known) >= MAX_QUOTAS:
                raise LimitExceeded("too_many_quotas", limit=MAX_QUOTAS)
            else:
                quota = replace(wanted, id=self._ids.new("quota"), **made)  # type: ignore[arg-type]
                insert_quota(transaction.connection, quota)
            sweep_usage(transaction.connection, transaction.now_ms - KEPT // timedelta(milliseconds=1))
            transaction.emit(
                "quota.set", tenant=tenant, actor=actor, target=quota.id, **_named(quota), before=same and same.limit
            )
        return quota

    def remove(self, *, actor: Actor, tenant: str, quota_id: str) -> None:
        """Take a quota away. Raises ``NotFound('quota_not_found')``."""
        with self._log.transaction(tenant) as transaction:
            if not delete_quota(transaction.connection, tenant, quota_id):
                raise NotFound("quota_not_found", id=quota_id[:80])
            transaction.emit("quota.removed", tenant=tenant, actor=actor, target=quota_id)

    def list(self, tenant: str) -> builtins.list[Quota]:
        """The tenant's quotas, by id."""
        with self._log.database.read() as connection:
            return quotas_of(connection, tenant)

    def usage(self, tenant: str) -> builtins.list[Usage]:
        """What is gone in the windows of this moment; a quota of which nothing is gone has no row of ``*``."""
        now = to_ms(self._log.clock.now())
        with self._log.database.read() as connection:
            known = {quota.id: quota for quota in quotas_of(connection, tenant)}
            found = usage_of(connection, tenant, known, {window: window_start(window, now) for window in Window})
        counted = {item.quota.id for item in found}
        return [
            *found,
            *(_unused(quota, now) for quota in known.values() if quota.id not in counted and _single(quota)),
        ]

    # reserving

    @staticmethod
    def known(connection: Connection, tenant: str) -> builtins.list[Quota]:
        """The tenant's quotas, in the order in which they are locked."""
        return quotas_of(connection, tenant)

    def concerning(self, connection: Connection, use: Use, declared: Iterable[Quota] = ()) -> builtins.list[Quota]:
        """The quotas that count this use, in the order in which they are locked."""
        known = [*self.known(connection, use.tenant), *declared]
        return [quota for quota in known if quota.counter(use) is not None]

    def reserve(
        self, transaction: Transaction, use: Use, quotas: Iterable[Quota], amounts: Amounts
    ) -> Reservation | Exhausted:
        """Reserve what a use may take at most, of everything that is limited, or nothing at all."""
        held: builtins.list[Held] = []
        for quota in quotas:
            amount = amounts.get(quota.resource)
            if not amount:
                continue
            wanted = self._held(transaction.now_ms, use, quota, amount)
            if not take(transaction.connection, wanted):
                self._give_back(transaction, held)
                return self._exhausted(transaction, use, wanted)
            held.append(wanted)
        for item in held:
            self._warn(transaction, use, item)
        return Reservation(tuple(held))

    def room(self, connection: Connection, now_ms: int, use: Use, quota: Quota) -> int:
        """What is left of a quota for a use."""
        counter = quota.counter(use) or "[]"
        return max(0, quota.limit - sum(taken(connection, quota, counter, window_start(quota.window, now_ms))))

    def first_over(self, connection: Connection, use: Use, quotas: Iterable[Quota], amounts: Amounts) -> Quota | None:
        """The quota that would refuse a use at this moment; nothing is reserved."""
        now = to_ms(self._log.clock.now())
        for quota in quotas:
            if (amount := amounts.get(quota.resource)) and self.room(connection, now, use, quota) < amount:
                return quota
        return None

    def settle(self, transaction: Transaction, reservation: Reservation, used: Amounts) -> None:
        """Count what was really used; what is not named was used as it was reserved."""
        for item in reservation.held:
            settle(transaction.connection, item, used.get(item.quota.resource, item.amount))

    @staticmethod
    def _held(now_ms: int, use: Use, quota: Quota, amount: int) -> Held:
        return Held(quota, quota.counter(use) or "[]", window_start(quota.window, now_ms), amount)

    @staticmethod
    def _give_back(transaction: Transaction, held: Iterable[Held]) -> None:
        for item in held:
            settle(transaction.connection, item, 0)

    def _exhausted(self, transaction: Transaction, use: Use, wanted: Held) -> Exhausted:
        """Refused; whoever has to know is told once a window, however many more are refused."""
        quota, counter, start, amount = wanted
        end = window_end(quota.window, start)
        frees_at = None if end is None else from_ms(end)
        if mark_told(transaction.connection, quota, counter, start, _TOLD):
            self._tell(transaction, "quota.exceeded", use, quota, until=None if frees_at is None else iso(frees_at))
        return Exhausted(quota, sum(taken(transaction.connection, quota, counter, start)), amount, frees_at)

    def _warn(self, transaction: Transaction, use: Use, held: Held) -> None:
        quota, counter, start, _ = held
        gone = sum(taken(transaction.connection, quota, counter, start))
        if gone >= WARN_AT * quota.limit and mark_told(transaction.connection, quota, counter, start, _WARNED):
            self._tell(transaction, "quota.warned", use, quota, taken=gone)

    @staticmethod
    def _tell(transaction: Transaction, kind: str, use: Use, quota: Quota, **more: Any) -> None:
        transaction.emit(
            kind,
            tenant=use.tenant,
            actor=SYSTEM,
            user=use.user,
            agent=use.agent,
            target=quota.id,
            reason=str(quota.resource),
            **_named(quota),
            **more,
        )


def declared_quota(tenant: str, skill: str, calls_a_minute: int) -> Quota:
    """The rate limit that a skill declares for itself (S3): so many calls a minute of each user."""
    quota_id = f"declared:{skill}"
    return Quota(quota_id, tenant, Resource.CALLS, Window.MINUTE, calls_a_minute, user=EACH, skill=skill)


def _checked(
    tenant: str,
    resource: Resource | str,
    window: Window | str,
    limit: int,
    names: Mapping[str, str | None],
) -> Quota:
    for field, value, kind in (("resource", resource, Resource), ("window", window, Window)):
        if value not in tuple(kind):
            raise InvalidInput("bad_choice", field=field, known=[str(known) for known in kind])
    if type(limit) is not int or not 0 <= limit <= MAX_LIMIT:
        raise InvalidInput("bad_quota", field="limit", limit=MAX_LIMIT)
    for field, name in names.items():
        if name is not None and name != EACH:
            check_id(name, field)
    skill = names.get("skill")
    named = {**names, "skill": skill if skill in (None, EACH) else normalise_skill_name(skill or "")}
    return replace(Quota("", tenant, Resource(resource), Window(window), limit), **named)  # type: ignore[arg-type]


def _place(quota: Quota) -> tuple[object, ...]:
    return quota.resource, quota.window, *(getattr(quota, name) for name in NAMES)


def _single(quota: Quota) -> bool:
    return all(getattr(quota, name) != EACH for name in NAMES)


def _unused(quota: Quota, now_ms: int) -> Usage:
    start = window_start(quota.window, now_ms)
    end = window_end(quota.window, start)
    return Usage(quota, (), 0, 0, None if end is None else from_ms(start), None if end is None else from_ms(end))


def _named(quota: Quota) -> dict[str, Any]:
    return {"resource": str(quota.resource), "window": str(quota.window), "limit": quota.limit}
