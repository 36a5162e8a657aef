"""What notifications need from outside: somebody who carries them. HTTP is one adapter; the other carries nothing."""

from __future__ import annotations

from typing import Protocol

from pydantic import SecretStr

from prowess.automation.notifications.addresses import HookUrl
from prowess.automation.notifications.model import Outgoing


class Notifier(Protocol):
    """Carries notifications to receivers outside. Both methods may wait for the network: never in a transaction."""

    def check(self, url: HookUrl) -> None:
        """Whether a receiver's host may be spoken to, at this moment.

        Raises ``Denied`` (``host_not_allowed``, ``https_required``, ``address_not_allowed``) and
        ``DeliveryError('delivery_failed')`` where the host is not found.
        """
        ...

    def send(self, url: HookUrl, message: Outgoing, secret: SecretStr) -> None:
        """Hand a message over, signed; returns only where the receiver answered with a 2xx (U7).

        Raises as ``check``, ``DeliveryError``: ``delivery_rejected`` with the ``status`` of any other answer,
        ``delivery_failed`` with the ``cause`` where there was none; ``InvalidInput('bad_hook_secret')``.
        """
        ...
