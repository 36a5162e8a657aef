"""Whether a request was signed with one of the secrets, and when: Standard Webhooks, and GitHub's header.

Pure functions. Every secret is tried, and each comparison takes the same time whatever it finds.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from standardwebhooks import Webhook

TOLERANCE = timedelta(minutes=5)
MAX_HEADER = 4_096
_MAX_SIGNATURES = 16

Scheme = Literal["standard", "github"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request whose signature holds."""

    id: str
    """the sender's; the same for each attempt"""
    event: str | None
    """of GitHub: what happened"""


def verify(
    scheme: Scheme, secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime
) -> Delivery | None:
    """The delivery, where its signature holds under one of ``secrets`` and its time is now; null for any other.

    ``headers`` by lower-case name. ``body`` as it came.
    """
    if any(len(value) > MAX_HEADER for value in headers.values()):
        return None
    return (_standard if scheme == "standard" else _github)(secrets, headers, body, now)


def _standard(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> Delivery | None:
    delivery, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    given = [part[3:] for part in headers.get("webhook-signature", "").split(" ") if part.startswith("v1,")]
    try:
        text, sent = body.decode(), datetime.fromtimestamp(int(stamp), UTC)
    except (ValueError, OverflowError, OSError):  # no text, or no time that there is
        return None
    holds = False
    for secret in secrets:
        expected = _standard_signature(secret, delivery, sent, text)
        for signature in given[:_MAX_SIGNATURES]:
            holds |= hmac.compare_digest(expected.encode(), signature.encode())
    # The library's own check of the time asks the machine's clock; ours is given.
    return Delivery(delivery, None) if holds and delivery and abs(now - sent) <= TOLERANCE else None


def _standard_signature(secret: str, delivery: str, sent: datetime, text: str) -> str:
    """What the sender should have written after ``v1,``."""
    try:
        webhook = Webhook(secret)
    except Exception:  # the library raises whatever base64 does; a slot that holds no such secret signs nothing
        webhook = Webhook(hashlib.sha256(secret.encode()).digest())
        delivery += "\0"
    return webhook.sign(delivery, sent, text).removeprefix("v1,")


def _github(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, _now: datetime) -> Delivery | None:
    given = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    holds = False
    for secret in secrets:
        expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        holds |= hmac.compare_digest(expected.encode(), given.encode())
    delivery = headers.get("x-github-delivery", "")
    return Delivery(delivery, headers.get("x-github-event")) if holds and delivery else None
