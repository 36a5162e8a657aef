"""What a grant's resource covers (G2, ruling 12.32).

- An address is scheme, host and port, and optionally a path prefix, on whole segments.
- A path that ends with ``/**`` is everything below a folder; any other path is itself.
- Anything else is itself, character by character.

An address or path that could be read in two ways (credentials, ``..``, an encoded slash, a backslash, a path
parameter, double encoding) covers nothing and is covered by nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from prowess.errors import InvalidInput

MAX_RESOURCE = 2_048

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}


_AMBIGUOUS = re.compile(r"[/\\;%]")
"""in a decoded segment: an encoded slash, a parameter that some servers cut off, what was encoded twice"""


class _Address(NamedTuple):
    origin: tuple[str, str, int]
    path: tuple[str, ...]


def covers(granted: str, asked: str | None) -> bool:
    """Whether a grant for the resource ``granted`` serves a request for ``asked``; null is no resource."""
    if asked is None:
        return False
    if "://" in granted or "://" in asked:
        outer, inner = _address(granted), _address(asked)
        if outer is None or inner is None or outer.origin != inner.origin:
            return False
        return inner.path[: len(outer.path)] == outer.path
    if granted.endswith("/**"):
        below = granted.removesuffix("**")
        return _plain_path(below) and _plain_path(asked) and asked.startswith(below) and asked != below
    return granted == asked


def check_resource(resource: str) -> str:
    """``resource`` as it may be granted. Raises ``InvalidInput('bad_resource')`` where it could cover nothing."""
    unusable = (
        not resource.strip()
        or len(resource) > MAX_RESOURCE
        or not resource.isprintable()
        or ("://" in resource and _address(resource) is None)
        or (resource.endswith("/**") and (resource in ("/**", "~/**", "./**") or not _plain_path(resource)))
    )
    if unusable:
        raise InvalidInput("bad_resource", field="resource", limit=MAX_RESOURCE)
    return resource


@lru_cache(maxsize=4_096)
def _address(text: str) -> _Address | None:
    if len(text) > MAX_RESOURCE or "\\" in text or any(character.isspace() for character in text):
        return None
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        if not host or "@" in parts.netloc or "*" in host:
            return None
        name = host.rstrip(".").encode("idna").decode("ascii").lower() if ":" not in host else host.lower()
    except ValueError:  # a bad port, a bad name: UnicodeError is one
        return None
    port = _PORTS.get(scheme) if port is None else port
    if port is None or not name:
        return None
    segments = tuple(segment for segment in parts.path.split("/") if segment)
    decoded = tuple(unquote(segment) for segment in segments)
    if any(segment in (".", "..") or _AMBIGUOUS.search(segment) for segment in decoded):
        return None
    return _Address((scheme, name, port), decoded)


def _plain_path(path: str) -> bool:
    return "\\" not in path and "\0" not in path and not any(part in (".", "..") for part in path.split("/"))
