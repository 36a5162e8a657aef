"""Notifications by HTTP, signed as Standard Webhooks says (https://www.standardwebhooks.com), to allowed hosts (B15).

The host is looked up here, what was found is checked, and the connection goes to that very address: a name that answers
with another address the next moment gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import SecretStr

from prowess.automation.notifications.addresses import Allowlist, Endpoint, HookUrl
from prowess.automation.notifications.model import Outgoing
from prowess.automation.notifications.signing import signing_key
from prowess.errors import DeliveryError

TIMEOUT_S = 10.0
"""from the first packet to the head of the answer"""
_PORTS = {"https": 443, "http": 80}

Lookup = Callable[[Endpoint], Sequence[str]]
"""(endpoint) → its addresses; raises ``OSError``"""


def look_up(endpoint: Endpoint) -> Sequence[str]:
    """The addresses of a host. Raises ``OSError``."""
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class WebhookNotifier:
    """Posts to receivers on an allowlist. Not to be called on the thread of a running event loop."""

    def __init__(self, allowlist: Allowlist, *, lookup: Lookup = look_up, timeout: float = TIMEOUT_S) -> None:
        """``timeout`` in seconds."""
        self._allowlist = allowlist
        self._lookup = lookup
        self._timeout = timeout

    def check(self, url: HookUrl) -> None:
        """As ``Notifier.check``."""
        self._address(url)

    def send(self, url: HookUrl, message: Outgoing, secret: SecretStr) -> None:
        """As ``Notifier.send``. Redirects are not followed, and no byte of the answer's body is read."""
        headers = signed_headers(message, secret)
        address = self._address(url)
        status = asyncio.run(self._post(url, address, message.body.encode(), headers))
        if not 200 <= status < 300:
            raise DeliveryError("delivery_rejected", host=str(url.endpoint), status=status)

    def _address(self, url: HookUrl) -> str:
        self._allowlist.check(url)
        try:
            found = self._lookup(url.endpoint)
        except (OSError, UnicodeError):
            raise DeliveryError("delivery_failed", host=str(url.endpoint), cause="host_not_found") from None
        return self._allowlist.choose(url.endpoint, found)

    async def _post(self, url: HookUrl, address: str, body: bytes, headers: dict[str, str]) -> int:
        import httpx

        host = str(url.endpoint)
        try:
            # One limit over all of it: a limit per packet is no limit for who sends a byte at a time. And no proxy,
            # which would look the name up again.
            async with asyncio.timeout(self._timeout), httpx.AsyncClient(trust_env=False, timeout=None) as client:
                request = client.stream("POST", content=body, **target(url, address, headers))
                async with request as response:
                    return response.status_code
        except TimeoutError:
            raise DeliveryError("delivery_failed", host=host, cause="timeout") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise DeliveryError("delivery_failed", host=host, cause=type(error).__name__) from None


def target(url: HookUrl, address: str, headers: dict[str, str]) -> dict[str, Any]:
    """The request's address: a checked one, with the name in ``Host`` and in TLS, where the certificate must be its."""
    connected = Endpoint(address, url.endpoint.port)
    name = str(url.endpoint)
    shown = name.removesuffix(f":{url.endpoint.port}") if url.endpoint.port == _PORTS[url.scheme] else name
    return {
        "url": f"{url.scheme}://{connected}{url.path}",
        "headers": {**headers, "Host": shown},
        "extensions": {"sni_hostname": url.endpoint.host},
        "follow_redirects": False,
    }


def signed_headers(message: Outgoing, secret: SecretStr) -> dict[str, str]:
    """The headers of a message. Raises ``InvalidInput('bad_hook_secret')`` where the key is none."""
    from standardwebhooks import Webhook

    signature = Webhook(signing_key(secret)).sign(message.id, message.sent_at, message.body)
    return {
        "content-type": "application/json; charset=utf-8",
        "user-agent": "prowess",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(message.sent_at.timestamp())),
        "webhook-signature": signature,
    }
