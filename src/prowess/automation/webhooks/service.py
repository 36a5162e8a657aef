"""Receiving one request: signature, replay, rate, job, in that order (C59, C60)."""

from __future__ import annotations

import hashlib
import secrets as random
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from prowess.automation.triggers.firing import Firing, Occasion
from prowess.automation.triggers.model import FireStatus, Kind, Status, Trigger
from prowess.automation.triggers.specs import WebhookSpec, read_spec
from prowess.automation.triggers.store import find_trigger
from prowess.automation.webhooks.signatures import Delivery, verify
from prowess.automation.webhooks.store import forget_deliveries, insert_delivery
from prowess.errors import Conflict, InvalidInput, LimitExceeded, NotFound, PayloadTooLarge, ProwessError
from prowess.events.log import EventLog
from prowess.kernel.canonical import text_digest
from prowess.kernel.clock import to_ms
from prowess.kernel.ids import MAX_ID_LENGTH
from prowess.kernel.text import escape_controls
from prowess.secrets.model import SecretOwner
from prowess.secrets.service import SecretService
from prowess.turns.request import MAX_DATA_TEXT

MAX_BODY = 256 * 1024
"""bytes; of text, at most ``MAX_DATA_TEXT`` characters"""
WINDOW = timedelta(hours=24)
"""How long a delivery is known again."""

Received = Literal["accepted", "duplicate", "ignored"]


class WebhookService:
    """The one use case of webhooks."""

    def __init__(self, log: EventLog, secrets: SecretService, firing: Firing) -> None:
        self._log = log
        self._secrets = secrets
        self._firing = firing
        self._nobodys = random.token_hex(24)
        """what requests for triggers that are not there are checked against: it takes as long, and never holds"""

    def receive(self, trigger_id: str, headers: Mapping[str, str], body: bytes) -> Received:
        """Take one request. ``duplicate``: fired already; ``ignored``: of a kind that the trigger does not wait for.

        Raises ``PayloadTooLarge('payload_too_large')``, ``NotFound('webhook_not_found')`` alike for a trigger that does
        not exist and for a signature that does not hold, ``Conflict('trigger_not_active')``,
        ``InvalidInput('payload_not_text')``, ``LimitExceeded('trigger_rate_limited')``: then the sender may try again.
        """
        if len(body) > MAX_BODY:
            raise PayloadTooLarge("payload_too_large", limit=MAX_BODY)
        named = {name.lower(): value for name, value in headers.items()}
        with self._log.database.read() as connection:
            trigger = find_trigger(connection, trigger_id[:MAX_ID_LENGTH])
        spec = None if trigger is None else _spec(trigger)
        if trigger is None or spec is None:
            verify("github", [self._nobodys], named, body, self._log.clock.now())
            raise NotFound("webhook_not_found")
        delivery = verify(spec.scheme, self._opened(trigger, spec), named, body, self._log.clock.now())
        if delivery is None or trigger.status is Status.REMOVED:
            raise NotFound("webhook_not_found")
        if trigger.status is not Status.ACTIVE:
            raise Conflict("trigger_not_active", status=str(trigger.status))
        if spec.events and delivery.event not in spec.events:
            return "ignored"
        return self._accept(trigger, delivery, body)

    def _accept(self, trigger: Trigger, delivery: Delivery, body: bytes) -> Received:
        """Fire, unless this delivery or this body did within the last day."""
        text = _text(body)
        slot = f"delivery {text_digest(delivery.id)}"
        with self._log.transaction(trigger.tenant) as transaction:
            connection = transaction.connection
            current = find_trigger(connection, trigger.id)
            if current is None or current.status is not Status.ACTIVE:
                raise Conflict("trigger_not_active", status="removed" if current is None else str(current.status))
            forget_deliveries(connection, trigger.id, to_ms(transaction.now - WINDOW))
            # One that comes too early leaves nothing behind but the row that says so, and may come again.
            limited = self._firing.over_rate(transaction, current)
            digest = hashlib.sha256(body).hexdigest()
            if not limited and not insert_delivery(
                connection, trigger.id, text_digest(delivery.id), digest, transaction.now_ms
            ):
                return "duplicate"
            fire = self._firing.fire(transaction, current, Occasion(slot=slot, source="webhook", data=text))
        self._firing.announce([fire])
        if fire is None:
            return "duplicate"
        if fire.status is FireStatus.RATE_LIMITED:
            raise LimitExceeded("trigger_rate_limited", trigger=trigger.id, **trigger.rate._asdict())
        if fire.status is FireStatus.REFUSED:
            raise Conflict("trigger_not_active", status="agent_not_usable")
        return "accepted"

    def _opened(self, trigger: Trigger, spec: WebhookSpec) -> list[str]:
        """What the slots hold; one that is empty or cannot be read verifies nothing."""
        found = [self._nobodys]
        for name in spec.secrets:
            try:
                value = self._secrets.open(trigger.tenant, SecretOwner("user", trigger.user), name)
            except ProwessError:
                continue
            found.append(value.get_secret_value())
        return found


def _spec(trigger: Trigger) -> WebhookSpec | None:
    if trigger.kind is not Kind.WEBHOOK:
        return None
    try:
        spec = read_spec(trigger.kind, trigger.spec)
    except InvalidInput:
        return None
    return spec if isinstance(spec, WebhookSpec) else None


def _text(body: bytes) -> str | None:
    """The body as text that a turn takes beside its message; null where it says nothing.

    Raises ``InvalidInput('payload_not_text')``, ``PayloadTooLarge('payload_too_large')`` in characters.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("payload_not_text", field="body", position=error.start) from None
    text = escape_controls(text)
    if len(text) > MAX_DATA_TEXT:
        raise PayloadTooLarge("payload_too_large", field="body", limit=MAX_DATA_TEXT)
    return None if not text or text.isspace() else text
