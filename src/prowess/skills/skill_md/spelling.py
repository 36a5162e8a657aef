"""How keys and values of files are spelt: names of fields, versions, near misses, text for nested values."""

from __future__ import annotations

import re

from prowess.kernel.names import MAX_NAME_LENGTH
from prowess.kernel.yaml_nodes import Node, Scalar, Sequence, text_of, verbatim
from prowess.skills.front_matter import RICH_FIELDS, STANDARD_FIELDS
from prowess.skills.names import Version


def squeeze(key: str) -> str:
    """A key without case, blanks, hyphens and underscores."""
    return re.sub(r"[-_ ]", "", key).lower()


FIELDS = {squeeze(name): name for name in (*STANDARD_FIELDS, *RICH_FIELDS)} | {"scope": "scopes"}
"""The field that a squeezed key names"""

DENIALS = frozenset({"disallowedtools", "deniedtools", "deniedtool", "excludedtools", "forbiddentools"})
"""Squeezed keys that forbid tools, which cannot be honoured by a list of allowed ones"""

_MISSPELT = dict.fromkeys(("allowtools", "allowtool", "toolsallowed", "permittedtools"), "allowed-tools")
_TYPO_TARGETS = (
    "allowed-tools",
    "permissions",
    "requirements",
    "constraints",
    "description",
    "compatibility",
    "metadata",
)

_LOOSE_VERSION = re.compile(r"[vV=]?\s*([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII)


def mend_version(text: str) -> str | None:
    """``text`` as a semantic version: ``1.0`` is 1.0.0, ``v2`` is 2.0.0, ``2024.01`` is 2024.1.0; ``None`` if none."""
    match = _LOOSE_VERSION.fullmatch(text.strip())
    if match is None or len(text) > 100:
        return None
    numbers = ".".join(str(int(part or "0")) for part in match.groups()[:3])
    try:
        return Version(numbers + (match[4] or "")).text
    except ValueError:
        return None


def suggest_name(text: str) -> str:
    """A valid name close to ``text``."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words)[:MAX_NAME_LENGTH].strip("-") or "my-skill"


def near_miss(squeezed: str) -> str | None:
    """The field that an unknown key was probably meant to be."""
    if squeezed in _MISSPELT:
        return _MISSPELT[squeezed]
    return next((target for target in _TYPO_TARGETS if _close(squeezed, squeeze(target))), None)


def _close(one: str, other: str) -> bool:
    """Whether one edit (a letter more, less, other, or two swapped) turns one text into the other."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    rest, goal = one[start:], other[start:]
    swapped = rest[1:2] + rest[:1] + rest[2:]
    return rest[1:] == goal or rest == goal[1:] or rest[1:] == goal[1:] or (len(rest) > 1 and swapped == goal)


def flatten(node: Node) -> str:
    """Nested values as one line: ``a, b`` for a list of texts, else compact JSON."""
    if isinstance(node, Sequence) and all(text_of(item) is not None for item in node.items):
        return ", ".join(text_of(item) or "" for item in node.items)
    from prowess.kernel.canonical import compact_json

    return compact_json(verbatim(node))


def metadata_text(node: Node) -> str:
    """Scalars verbatim (null is empty), the rest as compact JSON."""
    if isinstance(node, Scalar):
        return text_of(node) or ""
    from prowess.kernel.canonical import compact_json

    return compact_json(verbatim(node))


def short(text: str) -> str:
    """A piece of a file fit to be shown."""
    shown = "".join(letter if letter.isprintable() else ascii(letter).strip("'") for letter in text[:80])
    return shown if len(text) <= 80 else shown + "…"
