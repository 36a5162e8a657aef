"""The version of the rules (C72): a digest of the rules' own text and of the list of advisories, so that nobody forgets it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from prowess.validation.security.advisories import Advisories, current_advisories


def rules_version(advisories: Advisories | None = None) -> str:
    """16 hexadecimal characters; another rule, table or advisory is another version."""
    found = advisories or current_advisories()
    return version_of(_rules_text(Path(__file__).parent), found.raw)


def version_of(rules: bytes, advisories: bytes) -> str:
    """The version that a text of rules and a list of advisories amount to."""
    digest = hashlib.sha256()
    for part in (rules, advisories):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _rules_text(folder: Path) -> bytes:
    sources = [*sorted(folder.glob("*.py")), folder.parent / "levels.py"]
    return b"\0".join(source.name.encode() + b"\0" + source.read_bytes() for source in sources)
