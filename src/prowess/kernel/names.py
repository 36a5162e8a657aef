"""Skill names (rulings 12.1, 12.21 and 12.31)."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 64

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def is_skill_name(name: str) -> bool:
    """Whether ``name`` is canonical: 1–64 of a–z, 0–9 and single inner hyphens."""
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None


def normalise_skill_name(name: str) -> str:
    """The canonical id that a name given by a person or file maps to: lower case, ``_`` read as ``-``.

    The result need not be valid; ask ``is_skill_name``.
    """
    return name.strip().lower().replace("_", "-")
