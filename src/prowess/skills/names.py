"""A skill at a version (Semantic Versioning 2.0.0)."""

from __future__ import annotations

import re
from functools import total_ordering
from typing import NamedTuple

_SEMVER = re.compile(
    r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
MAX_VERSION_LENGTH = 64


@total_ordering
class Version:
    """A semantic version; ordering as in section 11 of the standard, build metadata ignored."""

    __slots__ = ("_key", "text")

    def __init__(self, text: str) -> None:
        """Raises ``ValueError`` where ``text`` is no semantic version."""
        match = _SEMVER.fullmatch(text) if len(text) <= MAX_VERSION_LENGTH else None
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version such as 1.2.0")
        self.text = text
        major, minor, patch, prerelease, _build = match.groups()
        parts: tuple[tuple[int, int, str], ...] = ()
        if prerelease is not None:
            parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in prerelease.split("."))
        self._key = (int(major), int(minor), int(patch), prerelease is None, parts)

    @property
    def stable(self) -> bool:
        """Whether it carries no pre-release part."""
        return self._key[3]

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Major, minor and patch."""
        major, minor, patch, *_ = self._key
        return major, minor, patch

    def next_patch(self) -> Version:
        """The next stable patch version."""
        major, minor, patch, *_ = self._key
        return Version(f"{major}.{minor}.{patch + 1}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


class SkillRef(NamedTuple):
    """A skill at a version. A pair, never a joined string (G11)."""

    id: str
    version: str
