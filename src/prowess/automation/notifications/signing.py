"""The keys that webhooks are signed with, in the writing of Standard Webhooks: ``whsec_`` and base64."""

from __future__ import annotations

import base64
import binascii

from pydantic import SecretStr

from prowess.errors import InvalidInput

KEY_BYTES = (24, 64)
"""how long a key may be"""
_PREFIX = "whsec_"


def signing_key(secret: SecretStr) -> bytes:
    """The key in a slot's value: 24 to 64 bytes. Raises ``InvalidInput('bad_hook_secret')``."""
    text = secret.get_secret_value().removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not KEY_BYTES[0] <= len(key) <= KEY_BYTES[1]:
        raise InvalidInput("bad_hook_secret", field="secret", least=KEY_BYTES[0], limit=KEY_BYTES[1])
    return key
