"""Budgets of calls and replies: reserved before they are made, settled with what they took (U9).

A call reserves what it may take at most: one call, and its time limit. A reply reserves tokens up to the turn's own
limit, or what is left where that is less, and is then held to it: no reply can overdraw a budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from prowess.access.quotas.model import EXHAUSTED, Exhausted, Quota, Reservation, Resource, Use
from prowess.access.quotas.service import QuotaService, declared_quota
from prowess.errors import InvalidInput, LimitExceeded
from prowess.events.log import EventLog, Transaction
from prowess.kernel.clock import iso
from prowess.skills.manifest import SkillManifest
from prowess.turns.definitions import ToolSkill
from prowess.turns.executions import find_execution
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Prompt, Spending, Voice
from prowess.turns.questions import Call
from prowess.turns.request import TurnRequest

LEAST_TOKENS = 500
"""with less than this left no reply is begun"""
MAX_RACES = 8

Prices = Mapping[str, tuple[int, int]]
"""name of a voice → price of a thousand input and a thousand output tokens, in millionths"""


class HeldReply:
    """A reply within its budget: used as a context manager, it settles when the reply has ended, however it did."""

    def __init__(self, prompt: Prompt, settle: Callable[[], None] | None = None) -> None:
        self.prompt = prompt
        """what the voice is to speak from"""
        self._settle = settle

    def __enter__(self) -> HeldReply:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # Not a hop to a thread: where nobody listens to a stream any more, nothing may be awaited.
        if self._settle is not None:
            self._settle()


class Budgets:
    """What calls, jobs and replies may still use."""

    def __init__(self, log: EventLog, quotas: QuotaService, prices: Prices) -> None:
        """Raises ``InvalidInput('bad_price')``."""
        self._log = log
        self._quotas = quotas
        for name, price in prices.items():
            if not all(type(part) is int and part >= 0 for part in price):
                raise InvalidInput("bad_price", field="prices", voice=name)
        self._prices = dict(prices)

    # calls

    def reserve_call(self, transaction: Transaction, call: Call) -> Reservation | Exhausted:
        """In the transaction that admits the call. A write that is answered from its record uses nothing."""
        use = use_of(call.request, call.tool.manifest.id)
        limited = self._limiting(transaction.connection, use, call.tool.manifest)
        if not limited:
            return Reservation()
        if call.tool.effect == "write" and find_execution(transaction.connection, call.key) is not None:
            return Reservation()
        return self._quotas.reserve(transaction, use, limited, most_of(call.tool))

    def settle_call(self, transaction: Transaction, reservation: Reservation, duration_ms: int) -> None:
        """With the time that the call took."""
        if reservation.held:
            took = {Resource.WALL_MS: duration_ms, Resource.SANDBOX_MS: duration_ms}
            self._quotas.settle(transaction, reservation, took)

    def release(self, transaction: Transaction, reservation: Reservation) -> None:
        """Nothing was used."""
        self._quotas.settle(transaction, reservation, dict.fromkeys(Resource, 0))

    def over_budget(self, connection: Connection, call: Call) -> str | None:
        """The quota that would refuse the call at this moment; nothing is reserved (G14)."""
        use = use_of(call.request, call.tool.manifest.id)
        limited = self._limiting(connection, use, call.tool.manifest)
        found = self._quotas.first_over(connection, use, limited, most_of(call.tool)) if limited else None
        return None if found is None else found.id

    # jobs

    def known(self, connection: Connection, tenant: str) -> Sequence[Quota]:
        """The tenant's quotas, read once for a batch of jobs."""
        return self._quotas.known(connection, tenant)

    def use_up(
        self, transaction: Transaction, use: Use, manifest: SkillManifest, known: Sequence[Quota]
    ) -> Exhausted | None:
        """Count the beginning of a job as a call; null where there was room for it."""
        limited = [quota for quota in (*known, *_declared(use, manifest)) if quota.counter(use) is not None]
        if not limited:
            return None
        held = self._quotas.reserve(transaction, use, limited, {Resource.CALLS: 1})
        if isinstance(held, Exhausted):
            return held
        self._quotas.settle(transaction, held, {})
        return None

    def _limiting(self, connection: Connection, use: Use, manifest: SkillManifest) -> list[Quota]:
        return self._quotas.concerning(connection, use, _declared(use, manifest))

    # replies

    def hold(self, plan: TurnPlan, voice: Voice, prompt: Prompt) -> HeldReply:
        """What is reserved for a reply, and the prompt that holds it to that.

        Raises ``LimitExceeded`` (``quota_exhausted``, with ``retry_after`` in seconds where it frees up by itself;
        ``price_unknown`` where a cost is limited and the voice has no price).
        """
        if voice.instant:
            return HeldReply(prompt)
        use = use_of(plan.request, plan.serving)
        with self._log.database.read() as connection:
            known = self._quotas.concerning(connection, use)
        limited = [quota for quota in known if quota.resource in (Resource.MODEL_TOKENS, Resource.COST_MICROS)]
        if not limited:
            return HeldReply(prompt)
        price = self._price(voice, limited)
        reservation, tokens = self._reserve_tokens(use, limited, price, prompt.limits.tokens)
        spending = Spending()

        def settle() -> None:
            used = {
                Resource.MODEL_TOKENS: spending.input_tokens + spending.output_tokens,
                Resource.COST_MICROS: _cost(price, spending.input_tokens, spending.output_tokens),
            }
            with self._log.transaction(use.tenant, redacted=False) as transaction:
                self._quotas.settle(transaction, reservation, used)

        held = replace(prompt, limits=replace(prompt.limits, tokens=tokens), spending=spending)
        return HeldReply(held, settle)

    def _price(self, voice: Voice, limited: list[Quota]) -> tuple[int, int]:
        price = self._prices.get(voice.name)
        if price is None and any(quota.resource is Resource.COST_MICROS for quota in limited):
            raise LimitExceeded("price_unknown", voice=voice.name)
        return price or (0, 0)

    def _reserve_tokens(
        self, use: Use, limited: list[Quota], price: tuple[int, int], most: int
    ) -> tuple[Reservation, int]:
        """As many tokens as the turn may use and every quota has left; others may take some at the same moment."""
        exhausted: Exhausted | None = None
        for _ in range(MAX_RACES):
            with self._log.transaction(use.tenant, redacted=False) as transaction:
                tokens = max(min(most, self._affordable(transaction, use, limited, price)), min(most, LEAST_TOKENS))
                wanted = {Resource.MODEL_TOKENS: tokens, Resource.COST_MICROS: _cost(price, tokens)}
                held = self._quotas.reserve(transaction, use, limited, wanted)
            if isinstance(held, Reservation):
                return held, tokens
            exhausted = held
            if tokens <= LEAST_TOKENS:
                break
        assert exhausted is not None
        raise exhausted_error(exhausted, self._log.clock.now())

    def _affordable(self, transaction: Transaction, use: Use, limited: list[Quota], price: tuple[int, int]) -> int:
        """Tokens for which every quota has room."""
        rooms: list[int] = []
        for quota in limited:
            room = self._quotas.room(transaction.connection, transaction.now_ms, use, quota)
            if quota.resource is Resource.MODEL_TOKENS:
                rooms.append(room)
            elif max(price) > 0:
                rooms.append(room * 1000 // max(price))
        return min(rooms, default=0)


def use_of(request: TurnRequest, skill: str | None) -> Use:
    """Who uses something in a turn."""
    trigger = request.trigger
    job = None if trigger is None else request.message_id  # the job of a fire is the id of its message
    return Use(request.tenant, request.user, request.agent, skill, trigger, job)


def _declared(use: Use, manifest: SkillManifest) -> tuple[Quota, ...]:
    rate = manifest.constraints.rate_limit
    return () if rate is None else (declared_quota(use.tenant, manifest.id, rate),)


def most_of(tool: ToolSkill) -> dict[Resource, int]:
    """What one call of a tool may take at most."""
    limit = tool.timeout // timedelta(milliseconds=1)
    most = {Resource.CALLS: 1, Resource.WALL_MS: limit}
    return most | {Resource.SANDBOX_MS: limit} if tool.script is not None else most


def exhausted_error(exhausted: Exhausted, now: datetime) -> LimitExceeded:
    """The refusal as an error: which quota, how much of it is gone, and when it frees up."""
    quota, frees_at = exhausted.quota, exhausted.frees_at
    detail: dict[str, object] = {} if frees_at is None else {"retry_after": max(1.0, (frees_at - now).total_seconds())}
    return LimitExceeded(
        EXHAUSTED,
        quota=quota.id,
        resource=str(quota.resource),
        taken=exhausted.taken,
        limit=quota.limit,
        window=str(quota.window),
        frees_at=None if frees_at is None else iso(frees_at),
        **detail,
    )


def _cost(price: tuple[int, int], input_tokens: int, output_tokens: int | None = None) -> int:
    """In millionths, rounded up; of tokens of either kind, at the dearer price, where it is not known which."""
    if output_tokens is None:
        return -(-input_tokens * max(price) // 1000)
    return -(-(input_tokens * price[0] + output_tokens * price[1]) // 1000)
