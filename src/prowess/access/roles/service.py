"""Defining roles and giving them to people, and the built-in resolver over them (U3)."""

from __future__ import annotations

import builtins
from typing import Any

from prowess.access.resolver import CallContext
from prowess.access.roles.model import Role, surface_of_roles
from prowess.access.roles.store import (
    delete_member,
    delete_role,
    list_roles,
    members_of,
    put_member,
    put_role,
    roles_of,
)
from prowess.access.surface import CapabilitySurface
from prowess.errors import NotFound
from prowess.events.log import EventLog
from prowess.events.model import Actor
from prowess.kernel.ids import check_id


class RoleService:
    """The use cases of roles, one transaction and one audit event each."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def define(self, *, actor: Actor, tenant: str, role: Role) -> Role:
        """Make a role or change what it gives; members have it at their next call. Raises ``InvalidInput``."""
        check_id(role.name, "role")
        with self._log.transaction(tenant) as transaction:
            put_role(transaction.connection, tenant, role, transaction.now_ms)
            given: dict[str, Any] = {"everything": role.everything, **role.surface.to_json()}
            transaction.emit("role.defined", tenant=tenant, actor=actor, target=role.name, **given)
        return role

    def remove(self, *, actor: Actor, tenant: str, name: str) -> None:
        """Remove a role from everybody. Raises ``NotFound('role_not_found')``."""
        with self._log.transaction(tenant) as transaction:
            if not delete_role(transaction.connection, tenant, name):
                raise NotFound("role_not_found", role=name)
            transaction.emit("role.removed", tenant=tenant, actor=actor, target=name)

    def assign(self, *, actor: Actor, tenant: str, name: str, user: str) -> bool:
        """Give a user a role; false where they have it. Raises ``NotFound('role_not_found')``."""
        check_id(user, "user")
        with self._log.transaction(tenant) as transaction:
            if name not in {role.name for role in list_roles(transaction.connection, tenant)}:
                raise NotFound("role_not_found", role=name)
            if not put_member(transaction.connection, tenant, name, user, transaction.now_ms):
                return False
            transaction.emit("role.assigned", tenant=tenant, actor=actor, user=user, target=name)
            return True

    def unassign(self, *, actor: Actor, tenant: str, name: str, user: str) -> bool:
        """Take a role back; false where they did not have it. In force at the user's next call."""
        with self._log.transaction(tenant) as transaction:
            if not delete_member(transaction.connection, tenant, name, user):
                return False
            transaction.emit("role.unassigned", tenant=tenant, actor=actor, user=user, target=name)
            return True

    def list(self, tenant: str) -> builtins.list[Role]:
        """The tenant's roles, by name."""
        with self._log.database.read() as connection:
            return list_roles(connection, tenant)

    def members(self, tenant: str, name: str | None = None) -> builtins.list[tuple[str, str]]:
        """(role, user) of each membership."""
        with self._log.database.read() as connection:
            return members_of(connection, tenant, name)

    def of_user(self, tenant: str, user: str) -> builtins.list[Role]:
        """The user's roles."""
        with self._log.database.read() as connection:
            return roles_of(connection, tenant, user)


class RoleResolver:
    """The built-in resolver: what the user's roles give, read anew for every call; no role, nothing."""

    grants_all_by_name = True
    """a role that gives everything was written by the operator, who chose it thereby (ruling 12.23)"""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def resolve(self, context: CallContext) -> CapabilitySurface:
        """The union of the user's roles."""
        with self._log.database.read() as connection:
            return surface_of_roles(roles_of(connection, context.tenant, context.user))
