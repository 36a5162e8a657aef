"""Secret slots, whose they are, and what may be shown of them: everything but the value (U4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from prowess.errors import InvalidInput
from prowess.kernel.clock import iso

OwnerKind = Literal["user", "tenant", "skill"]
OWNER_KINDS: tuple[OwnerKind, ...] = ("user", "tenant", "skill")
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class SecretOwner(NamedTuple):
    """Whose slot it is. The id of a tenant is the tenant's own."""

    kind: OwnerKind
    id: str


@dataclass(frozen=True, slots=True)
class SecretSlot:
    """A slot that a skill asks for. Raises ``InvalidInput`` (``bad_secret_name``, ``bad_secret_owner``)."""

    name: str
    owner_kind: OwnerKind

    def __post_init__(self) -> None:
        check_name(self.name)
        check_kind(self.owner_kind)

    def owner(self, *, tenant: str, user: str, skill: str) -> SecretOwner:
        """Whose slot serves when ``user`` has ``skill`` called: the caller's, and never another user's."""
        return SecretOwner(self.owner_kind, {"user": user, "tenant": tenant, "skill": skill}[self.owner_kind])


@dataclass(frozen=True, slots=True)
class SecretInfo:
    """A slot that is filled. ``last_used_at`` is right to the minute; null where it was never opened."""

    tenant: str
    owner: SecretOwner
    name: str
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    key_id: str

    def to_json(self) -> dict[str, Any]:
        """The shape of a list of slots."""
        return {
            "owner": {"kind": self.owner.kind, "id": self.owner.id},
            "name": self.name,
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "last_used_at": iso(self.last_used_at),
            "key_id": self.key_id,
        }


def check_name(name: object) -> str:
    """Return ``name`` if it can name a slot: 1 to 64 capital letters, digits and ``_``, a letter first.

    Raises ``InvalidInput('bad_secret_name')``. The name is not repeated: it may be a value in the wrong place.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput("bad_secret_name", field="name")
    return name


def check_kind(kind: object) -> None:
    """Raises ``InvalidInput('bad_secret_owner')`` for what is no kind of owner."""
    if kind not in OWNER_KINDS:
        raise InvalidInput("bad_secret_owner", field="owner", known=list(OWNER_KINDS))
