"""Text of a stranger's server: without the characters that nobody sees, and no longer than it may be.

Zero-width characters, marks that reorder what is read, tag characters and variation selectors carry instructions that a
model reads and a person does not. They are removed, never shown, and it is said that they were there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2028\u2029\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
CUT = "…"


class Cleaned(NamedTuple):
    """Text that can be shown. ``hidden``: how many characters were taken out; ``cut``: it was too long."""

    text: str
    hidden: int
    cut: bool


def clean(text: str, limit: int) -> Cleaned:
    """``text`` with plain line breaks, at most ``limit`` characters, without hidden ones."""
    shown, hidden = _HIDDEN.subn("", text.replace("\r\n", "\n").replace("\r", "\n"))
    cut = len(shown) > limit
    return Cleaned(shown[: limit - 1] + CUT if cut else shown, hidden, cut)


def is_clean(text: str) -> bool:
    """Whether nothing is hidden in it."""
    return _HIDDEN.search(text) is None


def holds_hidden(value: Any) -> bool:
    """Whether a JSON value has a string or key with hidden characters. Recursive: for values of bounded depth."""
    if isinstance(value, str):
        return not is_clean(value)
    if isinstance(value, Mapping):
        return any(not is_clean(key) or holds_hidden(item) for key, item in value.items())
    return isinstance(value, list) and any(map(holds_hidden, value))


def cleaned_json(value: Any) -> Any:
    """A JSON value with hidden characters taken out of every string and key. Recursive, as above."""
    if isinstance(value, str):
        return _HIDDEN.sub("", value)
    if isinstance(value, Mapping):
        return {_HIDDEN.sub("", key): cleaned_json(item) for key, item in value.items()}
    return [cleaned_json(item) for item in value] if isinstance(value, list) else value


def depth_of(value: Any, limit: int) -> int:
    """How deep a JSON value is nested; stops counting beyond ``limit``, so that nothing recurses without end."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > limit:
            return depth
        if isinstance(item, Mapping):
            waiting.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, list):
            waiting.extend((inner, depth + 1) for inner in item)
    return deepest
