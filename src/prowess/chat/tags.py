"""Tags that say what an agent is good at, and what it is not for (B17)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from prowess.errors import InvalidInput

MAX_TAGS = 32
MAX_TAG = 40
"""characters"""
_TAG = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def check_tags(given: Iterable[str], field: str) -> tuple[str, ...]:
    """The tags in lower case, sorted, each once.

    A tag has at most 40 letters and digits of any script, and single hyphens inside. Raises ``InvalidInput``:
    ``wrong_type``, ``bad_tag``, ``too_many_tags`` beyond 32.
    """
    tags: list[Any] = [given] if isinstance(given, str) else list(given)
    if isinstance(given, str) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput("wrong_type", field=field, expected="list of strings", got=type(given).__name__)
    if len(tags) > MAX_TAGS:
        raise InvalidInput("too_many_tags", field=field, limit=MAX_TAGS)
    for tag in tags:
        if len(tag) > MAX_TAG or not _TAG.fullmatch(tag):
            raise InvalidInput("bad_tag", field=field, limit=MAX_TAG)
    return tuple(sorted({tag.lower() for tag in tags}))
