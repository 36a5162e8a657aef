"""The notifier where no host is allowed: it carries nothing, and says so."""

from __future__ import annotations

from pydantic import SecretStr

from prowess.automation.notifications.addresses import Allowlist, HookUrl
from prowess.automation.notifications.model import Outgoing


class ClosedNotifier:
    """Refuses every receiver."""

    def check(self, url: HookUrl) -> None:
        """Raises ``Denied('host_not_allowed')``."""
        Allowlist().check(url)

    def send(self, url: HookUrl, message: Outgoing, secret: SecretStr) -> None:
        """Raises ``Denied('host_not_allowed')``."""
        Allowlist().check(url)
