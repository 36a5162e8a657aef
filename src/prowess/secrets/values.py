"""Which values a slot takes: those that can be redacted without tearing apart what is no secret.

Whatever is written in a tenant loses the tenant's secrets. A value that stands in ordinary records, such as a status or
a date, would ruin them, and might be set for no other purpose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from prowess.errors import InvalidInput
from prowess.events.model import EVENT_TYPES
from prowess.kernel.redaction import MARK, MAX_SECRET, MIN_SECRET
from prowess.kernel.text import check_text

MIN_WORDS = 24
"""Characters of a value of small letters alone."""
MIN_DIGITS = 16
"""Characters of a value without any letter."""
MIN_DOCUMENT = 64
"""Characters of a value that looks like JSON."""

_WORDS = re.compile(r"[a-z ._:/-]+")
_NO_LETTER = re.compile(r"[^A-Za-z\u0080-\U0010ffff]+")
_JSON_QUOTE = re.compile(r'[\[{,:]\s*"|"\s*[\]},:]')


def check_value(value: object, names: Collection[str]) -> None:
    """Raise ``InvalidInput`` for what no slot takes; nothing of the value is repeated.

    ``secret_too_short``, ``secret_too_long``, ``secret_not_text`` (control characters), ``secret_too_plain`` (a word, a
    number, a piece of JSON, one of ``names`` or of the program's own words). ``wrong_type``.
    """
    if not isinstance(value, str):
        raise InvalidInput("wrong_type", field="value", expected="string", got=type(value).__name__)
    if len(value.strip()) < MIN_SECRET:
        raise InvalidInput("secret_too_short", field="value", limit=MIN_SECRET)
    if len(value) > MAX_SECRET:
        raise InvalidInput("secret_too_long", field="value", limit=MAX_SECRET)
    try:
        check_text(value, "value", limit=MAX_SECRET)
    except InvalidInput:
        raise InvalidInput("secret_not_text", field="value") from None
    if _is_plain(value.strip(), names):
        raise InvalidInput("secret_too_plain", field="value")


def _is_plain(value: str, names: Collection[str]) -> bool:
    if len(value) < MIN_WORDS and _WORDS.fullmatch(value):
        return True
    if len(value) < MIN_DIGITS and _NO_LETTER.fullmatch(value):
        return True
    if MARK in value or any(value in text for text in (*names, *EVENT_TYPES)):
        return True
    return _JSON_QUOTE.search(value) is not None and not _is_long_document(value)


def _is_long_document(value: str) -> bool:
    """Such as the key file of a service account, which a document that quotes it survives whole."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return False
    return len(value) >= MIN_DOCUMENT and isinstance(found, dict | list)
