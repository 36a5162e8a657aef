"""From what a server sends as the list of its tools to listings that can be stored and shown (X7)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from prowess.errors import LimitExceeded
from prowess.kernel.canonical import canonical_json, digest, text_digest
from prowess.mounts.cleaning import clean, depth_of, holds_hidden
from prowess.mounts.model import ToolListing
from prowess.mounts.schemas import schema_fault

MAX_TOOLS = 200
"""of one server"""
MAX_DESCRIPTION = 2_000
MAX_PROSE = 500
"""characters of a description inside a schema"""
MAX_SCHEMA_BYTES = 32_768
MAX_DEPTH = 24

HINTS = ("readOnlyHint", "destructiveHint", "openWorldHint")
TOOL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_PROSE = frozenset(("title", "description", "$comment"))
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_SHOWN = 80


def read_listings(tools: Iterable[Mapping[str, Any]]) -> tuple[ToolListing, ...]:
    """Listings by name; those of one name that comes twice cannot be used.

    Raises ``LimitExceeded('mount_too_many_tools')``.
    """
    found: dict[str, ToolListing] = {}
    for count, raw in enumerate(tools):
        if count >= MAX_TOOLS:
            raise LimitExceeded("mount_too_many_tools", limit=MAX_TOOLS)
        listing = read_listing(raw)
        if listing.name in found:
            both = digest([found[listing.name].digest, listing.digest])
            listing = ToolListing(listing.name, both, fault="twice")
        found[listing.name] = listing
    return tuple(found[name] for name in sorted(found))


def read_listing(raw: Mapping[str, Any]) -> ToolListing:
    """One tool as the protocol writes it (``inputSchema``, ``readOnlyHint``). Never raises: a fault is a field."""
    name = raw.get("name")
    pinned = {key: raw.get(key) for key in _PINNED}
    if depth_of(pinned, MAX_DEPTH) > MAX_DEPTH:
        return ToolListing(_shown_name(name), text_digest(_shown_name(name)), fault="schema")
    try:
        found = canonical_json(pinned)
    except ValueError:
        return ToolListing(_shown_name(name), text_digest(_shown_name(name)), fault="schema")
    seal = digest(pinned)
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        return ToolListing(_shown_name(name), seal, fault="name")
    if len(found) > 2 * MAX_SCHEMA_BYTES + 4 * MAX_DESCRIPTION:
        return ToolListing(name, seal, fault="too_large")
    return _usable(name, seal, raw)


def _usable(name: str, seal: str, raw: Mapping[str, Any]) -> ToolListing:
    described = clean(str(raw.get("description") or ""), MAX_DESCRIPTION)
    notes = [] if not described.hidden else ["hidden_characters"]
    notes += ["description_cut"] if described.cut else []
    schemas: dict[str, Any] = {}
    for key in ("inputSchema", "outputSchema"):
        schema = raw.get(key)
        if schema is None and key == "outputSchema":
            schemas[key] = None
            continue
        if not isinstance(schema, Mapping):
            return ToolListing(name, seal, described.text, fault="schema")
        schemas[key] = kept = _without_hidden_prose(schema)
        if holds_hidden(kept):
            return ToolListing(name, seal, described.text, fault="hidden_in_schema")
        if len(canonical_json(kept)) > MAX_SCHEMA_BYTES:
            return ToolListing(name, seal, described.text, fault="too_large")
        if schema_fault(kept, arguments=key == "inputSchema"):
            return ToolListing(name, seal, described.text, fault="schema")
    hints = raw.get("annotations")
    annotations = {key: hints[key] for key in HINTS if isinstance(hints, Mapping) and isinstance(hints.get(key), bool)}
    return ToolListing(
        name, seal, described.text, schemas["inputSchema"], schemas["outputSchema"], annotations, tuple(notes)
    )


def _without_hidden_prose(value: Any) -> Any:
    """A schema whose prose is cleaned and cut; its names and values stay as they are, or it would mean another."""
    if isinstance(value, Mapping):
        return {
            key: clean(item, MAX_PROSE).text if key in _PROSE and isinstance(item, str) else _without_hidden_prose(item)
            for key, item in value.items()
        }
    return [_without_hidden_prose(item) for item in value] if isinstance(value, list) else value


def _shown_name(name: object) -> str:
    """A name that cannot be used, as it may be stored and shown; two that look alike do not fall together."""
    text = name if isinstance(name, str) else type(name).__name__
    plain = "".join(character if " " < character < "\x7f" else "?" for character in text[:_SHOWN])
    encoded = text.encode("utf-8", "backslashreplace").decode()
    return f"{plain}#{text_digest(encoded)[:8]}"
