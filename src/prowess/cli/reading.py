"""What options hold that are more than a word: JSON objects, surfaces, roles, modes. Typing errors widen nothing."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from prowess.errors import InvalidInput

if TYPE_CHECKING:
    from prowess.access.model import Mode
    from prowess.access.roles.model import Role
    from prowess.access.surface import CapabilitySurface

DIMENSIONS = ("skills", "groups", "tools")


def read_object(text: str, option: str, known: Collection[str] | None = None) -> dict[str, Any]:
    """A JSON object, with none but the ``known`` keys.

    Raises ``InvalidInput`` (``bad_json_option``, ``unknown_keys``).
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise InvalidInput("bad_json_option", field=option) from None
    if not isinstance(found, dict):
        raise InvalidInput("bad_json_option", field=option)
    unknown = [] if known is None else [key[:80] for key in found if key not in known]
    if unknown:
        raise InvalidInput("unknown_keys", field=option, keys=unknown[:10], known=list(known or ()))
    return found


def read_surface(text: str, option: str) -> CapabilitySurface:
    """A capability surface, as ``CapabilitySurface.to_json`` writes it. Raises ``InvalidInput``."""
    from prowess.access.surface import CapabilitySurface

    return CapabilitySurface(**read_object(text, option, DIMENSIONS))


def read_role(text: str, option: str) -> Role:
    """A role as ``NAME=JSON``: the three dimensions, or ``{"everything": true}``. Raises ``InvalidInput``."""
    from prowess.access.roles.model import Role
    from prowess.access.surface import CapabilitySurface
    from prowess.kernel.ids import check_id

    name, equals, body = text.partition("=")
    if not equals:
        raise InvalidInput("bad_role_option", field=option)
    given = read_object(body, option, (*DIMENSIONS, "everything"))
    everything = given.pop("everything", False)
    if not isinstance(everything, bool):
        raise InvalidInput("wrong_type", field="everything", expected="boolean", got=type(everything).__name__)
    return Role(check_id(name, "role"), CapabilitySurface(**given), everything)


def read_mode(text: str | None) -> Mode | None:
    """A mode by its name; null is none. Raises ``InvalidInput('bad_mode')``."""
    from prowess.access.model import Mode

    if text is not None and text not in tuple(Mode):
        raise InvalidInput("bad_mode", field="mode", known=[str(known) for known in Mode])
    return None if text is None else Mode(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
