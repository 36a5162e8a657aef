"""Sentences shown to people: a folder a language, a file a room, the same keys in each language (tested).

A key is ``error.<code>``, ``remedy.<code>`` or a name of another room. Placeholders are those of ``str.format``; a
missing field shows as its name in braces rather than breaking the report of another fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh")


class _Fields(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """All sentences of one language; unknown languages read English."""
    folder = files(__package__).joinpath(language if language in LANGUAGES else "en")
    sentences: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".json"):
            sentences |= json.loads(file.read_text(encoding="utf-8"))
    return sentences


def render(key: str, language: str = "en", fields: Mapping[str, Any] | None = None) -> str:
    """The sentence for ``key``, or the key itself where there is none."""
    if not fields:
        return _plain(key, language)
    template = catalogue(language).get(key)
    if template is None:
        return key
    return template.format_map(_Fields({name: _shown(value) for name, value in fields.items()}))


@lru_cache(maxsize=4_096)
def _plain(key: str, language: str) -> str:
    template = catalogue(language).get(key)
    return key if template is None else template.format_map(_Fields())


def _shown(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
