"""Canonical JSON (RFC 8785) and the digests built on it (ruling 12.27)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """The one byte form of a JSON value.

    Raises ``ValueError`` for what JSON cannot say: NaN, infinities, integers beyond 2^53, lone surrogates.
    """
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, 64 hexadecimal characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 of UTF-8 text, code point by code point, unnormalised."""
    return hashlib.sha256(text.encode()).hexdigest()


def compact_json(value: Any) -> str:
    """JSON for a table column: compact, non-ASCII kept, insertion order kept. Raises ``ValueError`` for NaN."""
    return _COMPACT.encode(value)
