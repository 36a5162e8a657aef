"""Credentials in encrypted slots, of a user, a tenant or a skill (U4)."""

from __future__ import annotations

from pydantic import SecretStr

from prowess.errors import InvalidInput
from prowess.events.model import Actor
from prowess.kernel.names import normalise_skill_name
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT
from prowess.secrets.model import SecretInfo, SecretOwner


class Secrets(Facade):
    """Credentials in encrypted slots. Exactly one owner is named; none named: the tenant. No method shows a value."""

    def set_secret(
        self,
        name: str,
        value: str | SecretStr,
        *,
        user: str | None = None,
        skill: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> SecretInfo:
        """Fill a slot, or replace what is in it. Raises as ``SecretService.set``."""
        return self._parts.secrets.set(_actor(user), tenant, _owner(tenant, user, skill), name, value)

    def delete_secret(
        self, name: str, *, user: str | None = None, skill: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        """Empty a slot for good. Raises ``NotFound('secret_missing')``."""
        self._parts.secrets.delete(_actor(user), tenant, _owner(tenant, user, skill), name)

    def secrets(
        self, *, user: str | None = None, skill: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> list[SecretInfo]:
        """The filled slots of a user or a skill, or all of the tenant's; names and times, never a value."""
        owner = None if user is None and skill is None else _owner(tenant, user, skill)
        return self._parts.secrets.list(tenant, owner)

    def rotate_secrets(self, *, tenant: str = DEFAULT_TENANT) -> int:
        """Encrypt every value anew under the first key; returns how many."""
        return self._parts.secrets.rotate(OPERATOR, tenant)


def _actor(user: str | None) -> Actor:
    return OPERATOR if user is None else Actor("user", user)


def _owner(tenant: str, user: str | None, skill: str | None) -> SecretOwner:
    if user is not None and skill is not None:
        raise InvalidInput("bad_secret_owner", field="owner", known=["user", "skill"])
    if user is not None:
        return SecretOwner("user", user)
    return SecretOwner("tenant", tenant) if skill is None else SecretOwner("skill", normalise_skill_name(skill))
