"""What an operator does with mounts, and what came of their servers; each change is one transaction (X7, G15)."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from prowess.automation.notifications.addresses import Allowlist, read_url
from prowess.errors import Conflict, InvalidInput, LimitExceeded, MountError, NotFound, ProwessError
from prowess.events.log import EventLog, Transaction
from prowess.events.model import SYSTEM, Actor
from prowess.kernel.clock import from_ms
from prowess.kernel.ids import check_id
from prowess.mounts.connections import Connections, Listings, MountFailure, Route
from prowess.mounts.definitions import entry_of
from prowess.mounts.model import (
    Mount,
    MountedTool,
    MountSpec,
    MountView,
    Override,
    ToolListing,
    ToolState,
    check_spec,
)
from prowess.mounts.store import (
    delete_mount,
    drop_tools,
    find_mount,
    lock_mount,
    mounts_of,
    put_mount,
    put_tools,
    tools_of,
)
from prowess.secrets.service import SecretService
from prowess.skills.catalog import CatalogEntry
from prowess.skills.store import bump_catalog
from prowess.turns.definitions import SkillDefinition, ToolContext
from prowess.turns.runners.tool import ToolFailure

MAX_MOUNTS = 50
"""of one tenant"""
MIN_DIGEST = 8
"""characters of a digest by which an approval names what was seen"""

logger = logging.getLogger(__name__)


class MountService:
    """The use cases of mounts. Only an operator mounts, approves and maps; an agent has no road here (G15)."""

    def __init__(self, log: EventLog, secrets: SecretService, connections: Connections, allowlist: Allowlist) -> None:
        self._log = log
        self._secrets = secrets
        self._connections = connections
        self._allowlist = allowlist

    # what is mounted

    def add(self, *, actor: Actor, tenant: str, spec: MountSpec) -> Mount:
        """Mount a server, or change how one is reached; nothing is started.

        Approvals stay, unless the command or address is another one: that is another server.

        Raises ``InvalidInput`` (see ``check_spec``), ``Denied`` (``host_not_allowed``, ``https_required``),
        ``LimitExceeded('too_many_mounts')``.
        """
        check_id(tenant, "tenant")
        check_spec(spec)
        if spec.url is not None:
            self._allowlist.check(read_url(spec.url))
        with self._log.transaction(tenant) as transaction:
            connection = transaction.connection
            known = find_mount(connection, tenant, spec.server)
            if known is None and len(mounts_of(connection, tenant)) >= MAX_MOUNTS:
                raise LimitExceeded("too_many_mounts", limit=MAX_MOUNTS)
            revision = 1 if known is None else known.revision + 1
            added = from_ms(transaction.now_ms)
            mount = Mount(tenant=tenant, spec=spec, revision=revision, added_by=actor.id, added_at=added)
            put_mount(connection, mount)
            if known is not None and _place(known.spec) != _place(spec):
                tools = tools_of(connection, tenant, spec.server)
                put_tools(connection, [replace(tool, pinned=None, revision=tool.revision + 1) for tool in tools])
            bump_catalog(connection, tenant)
            transaction.emit(
                "mount.added",
                tenant=tenant,
                actor=actor,
                target=spec.server,
                transport=spec.transport,
                revision=revision,
                replaced=known is not None,
            )
        if known is not None:
            self._connections.drop(tenant, spec.server)
        return mount

    def remove(self, *, actor: Actor, tenant: str, server: str) -> None:
        """Take a mount away, with its approvals. Raises ``NotFound('mount_not_found')``."""
        with self._log.transaction(tenant) as transaction:
            self._need(transaction, tenant, server)
            delete_mount(transaction.connection, tenant, server)
            bump_catalog(transaction.connection, tenant)
            transaction.emit("mount.removed", tenant=tenant, actor=actor, target=server)
        self._connections.drop(tenant, server)

    def list(self, tenant: str) -> builtins.list[MountView]:
        """The tenant's mounts with their tools, by name."""
        with self._log.database.read() as connection:
            tools = tools_of(connection, tenant)
            return [
                MountView(mount, tuple(tool for tool in tools if tool.server == mount.server))
                for mount in mounts_of(connection, tenant)
            ]

    def view(self, tenant: str, server: str) -> MountView:
        """One of them. Raises ``NotFound('mount_not_found')``."""
        found = next((view for view in self.list(tenant) if view.mount.server == server), None)
        if found is None:
            raise _not_found(server)
        return found

    # what its server lists

    def refresh(self, *, actor: Actor, tenant: str, server: str, user: str | None = None) -> MountView:
        """Connect anew and list the tools. Nothing that is new or changed can be called until it is approved.

        ``user``: whose credentials are used, where the mount has any of users. Raises ``NotFound('mount_not_found')``,
        ``InvalidInput('mount_needs_user')``, ``NotFound('secret_missing')``, ``StorageError``, and ``MountError``
        (``mount_unavailable``, ``mount_start_timeout``, ``mount_too_many_tools``, ``host_not_allowed`` …).
        """
        mount = self.view(tenant, server).mount
        try:
            listings = self._connections.listings(self._route(mount, user))
        except MountFailure as failure:
            self._note_error(mount, failure.code)
            raise MountError(failure.code, server=server, limit=mount.spec.start_ms) from None
        self.record(mount, listings, actor=actor, whole=True)
        return self.view(tenant, server)

    def record(self, mount: Mount, listings: Listings, *, actor: Actor = SYSTEM, whole: bool = True) -> None:
        """Keep what a server lists now; whoever changed waits to be approved again (``mount.tool_changed``).

        ``whole`` false: what is not among ``listings`` is not gone.
        """
        tenant, server = mount.tenant, mount.server
        if actor == SYSTEM and not self._is_news(mount, listings, whole):
            return
        with self._log.transaction(tenant) as transaction:
            connection = transaction.connection
            if not lock_mount(connection, tenant, server):
                return  # it was taken away meanwhile
            current = find_mount(connection, tenant, server)
            if current is None or current.revision != mount.revision:
                return
            known = {tool.listed.name: tool for tool in tools_of(connection, tenant, server)}
            changed = [tool for listing in listings if (tool := _seen(mount, known, listing)) is not None]
            names = {listing.name for listing in listings}
            absent = [tool for name, tool in known.items() if whole and name not in names and not tool.gone]
            gone = [replace(tool, gone=True) for tool in absent if tool.pinned is not None]
            put_tools(connection, [*changed, *gone])
            drop_tools(connection, [tool for tool in absent if tool.pinned is None])
            if whole:
                put_mount(connection, replace(current, listed_at=from_ms(transaction.now_ms), error=None))
            if changed or absent:
                bump_catalog(connection, tenant)
            self._tell(transaction, actor, known, changed, gone)
            if actor != SYSTEM:
                transaction.emit(
                    "mount.refreshed",
                    tenant=tenant,
                    actor=actor,
                    target=server,
                    tools=len(listings),
                    changed=len(changed),
                    gone=len(absent),
                )

    def _is_news(self, mount: Mount, listings: Listings, whole: bool) -> bool:
        with self._log.database.read() as connection:
            known = {tool.listed.name: tool for tool in tools_of(connection, mount.tenant, mount.server)}
        names = {listing.name for listing in listings}
        gone = whole and any(name not in names and not tool.gone for name, tool in known.items())
        return gone or any(_seen(mount, known, listing) is not None for listing in listings)

    @staticmethod
    def _tell(
        transaction: Transaction,
        actor: Actor,
        known: Mapping[str, MountedTool],
        changed: Iterable[MountedTool],
        gone: Iterable[MountedTool],
    ) -> None:
        for tool in changed:
            before = known.get(tool.listed.name)
            if tool.state is ToolState.CHANGED and tool.pinned is not None:
                new, old = tool.listed.digest, tool.pinned.digest
                transaction.emit(
                    "mount.tool_changed",
                    tenant=tool.tenant,
                    actor=actor,
                    target=tool.id,
                    approved=old,
                    listed=new,
                    code=tool.server,
                )
            elif before is None:
                transaction.emit(
                    "mount.tool_found", tenant=tool.tenant, actor=actor, target=tool.id, digest=tool.listed.digest
                )
        for tool in gone:
            transaction.emit("mount.tool_gone", tenant=tool.tenant, actor=actor, target=tool.id, code=tool.server)

    # what a person decides

    def approve(
        self, *, actor: Actor, tenant: str, server: str, tools: Iterable[str] = ()
    ) -> builtins.list[MountedTool]:
        """Pin tools as they are listed; none named: all that are pending or changed.

        A name may be followed by ``@`` and at least eight characters of the digest that was seen: then nothing else is
        approved. Raises ``NotFound`` (``mount_not_found``, ``mounted_tool_not_found``), ``InvalidInput``
        (``mounted_tool_unusable``, ``bad_mounted_digest``), ``Conflict('mounted_tool_changed')``.
        """
        named = [_parsed(name) for name in tools]
        with self._log.transaction(tenant) as transaction:
            self._need(transaction, tenant, server)
            known = {tool.listed.name: tool for tool in tools_of(transaction.connection, tenant, server)}
            if named:
                wanted = [_chosen(known, server, name, seal) for name, seal in named]
            else:
                waiting = (ToolState.PENDING, ToolState.CHANGED)
                wanted = [tool for tool in known.values() if tool.state in waiting]
            at = from_ms(transaction.now_ms)
            pinned = [
                replace(tool, pinned=tool.listed, revision=tool.revision + 1, approved_by=actor.id, approved_at=at)
                for tool in wanted
                if tool.pinned is None or tool.pinned != tool.listed
            ]
            put_tools(transaction.connection, pinned)
            if pinned:
                bump_catalog(transaction.connection, tenant)
            for tool in pinned:
                transaction.emit(
                    "mount.tool_approved", tenant=tenant, actor=actor, target=tool.id, digest=tool.listed.digest
                )
            return pinned

    def override(
        self, *, actor: Actor, tenant: str, server: str, tool: str, changes: Override, reset: bool = False
    ) -> MountedTool:
        """Say what a tool needs, in place of what its hints say; with ``reset`` nothing that was said before stands.

        Raises ``NotFound`` (``mount_not_found``, ``mounted_tool_not_found``), ``InvalidInput('bad_override')`` for a
        risk that does not fit what it is.
        """
        with self._log.transaction(tenant) as transaction:
            self._need(transaction, tenant, server)
            known = {item.listed.name: item for item in tools_of(transaction.connection, tenant, server)}
            found = _chosen_any(known, server, tool)
            said = changes if reset else found.override.merged(changes)
            changed = replace(found, override=said, revision=found.revision + 1)
            put_tools(transaction.connection, [changed])
            bump_catalog(transaction.connection, tenant)
            transaction.emit("mount.tool_mapped", tenant=tenant, actor=actor, target=found.id, override=said.to_json())
            return changed

    # what the catalog and a call need

    def entries(self, connection: Connection, tenant: str) -> builtins.list[CatalogEntry[SkillDefinition]]:
        """The approved tools as entries of the tenant's catalog."""
        mounts = {mount.server: mount for mount in mounts_of(connection, tenant)}
        found = []
        for tool in tools_of(connection, tenant) if mounts else ():
            if tool.state is not ToolState.APPROVED or tool.server not in mounts:
                continue
            try:
                found.append(entry_of(mounts[tool.server], tool, self.call))
            except (ProwessError, ValueError) as error:
                logger.error("a mounted tool is left out: %s: %s", tool.id, type(error).__name__)
        return found

    def call(self, mount: Mount, tool: MountedTool, context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """One call for the caller of ``context``, with their credentials. Raises ``ToolFailure``."""
        assert tool.pinned is not None
        values = {name: secret.get_secret_value() for name, secret in context.secrets.items()}
        route = Route(mount, context.user if mount.spec.per_user else None, _given(mount, values))
        name, seal = tool.pinned.name, tool.pinned.digest
        try:
            answer = self._connections.call(route, name, seal, arguments, context.cancel)
        except MountFailure as failure:
            self._note_listings(mount, failure.listings, name)
            raise ToolFailure(failure.code) from None
        self._note_listings(mount, answer.listings, name)
        return answer.result

    def close(self) -> None:
        """Give up every connection."""
        self._connections.close()

    def _note_listings(self, mount: Mount, listings: Listings | None, name: str) -> None:
        """What one user is shown may be less than what another is: then only the tool that was called is looked at."""
        if listings is None:
            return
        if mount.spec.per_user:
            self.record(mount, tuple(item for item in listings if item.name == name), whole=False)
        else:
            self.record(mount, listings)

    def _note_error(self, mount: Mount, code: str) -> None:
        with self._log.transaction(mount.tenant) as transaction:
            current = find_mount(transaction.connection, mount.tenant, mount.server)
            if current is not None and current.revision == mount.revision:
                put_mount(transaction.connection, replace(current, error=code))

    def _route(self, mount: Mount, user: str | None) -> Route:
        if mount.spec.per_user:
            if user is None:
                raise InvalidInput("mount_needs_user", field="user", server=mount.server)
            check_id(user, "user")
        values: dict[str, str] = {}
        for slot in mount.spec.slots:
            owner = slot.owner(tenant=mount.tenant, user=user or "", skill="")
            values[slot.name] = self._secrets.open(mount.tenant, owner, slot.name).get_secret_value()
        return Route(mount, user if mount.spec.per_user else None, _given(mount, values))

    @staticmethod
    def _need(transaction: Transaction, tenant: str, server: str) -> None:
        """The mount is there and stays until the transaction ends. Raises ``NotFound('mount_not_found')``."""
        if not lock_mount(transaction.connection, tenant, server):
            raise _not_found(server)


def _place(spec: MountSpec) -> tuple[object, ...]:
    return spec.command, spec.url


def _given(mount: Mount, values: Mapping[str, str]) -> dict[str, str]:
    """What the server is given, by name of the variable or header."""
    return {secret.name: secret.prefix + values[secret.slot] for secret in mount.spec.secrets}


def _seen(mount: Mount, known: Mapping[str, MountedTool], listing: ToolListing) -> MountedTool | None:
    """The tool as it is listed now; null where that is nothing new."""
    tool = known.get(listing.name)
    if tool is None:
        return MountedTool(tenant=mount.tenant, server=mount.server, listed=listing)
    if tool.listed == listing and not tool.gone:
        return None
    return replace(tool, listed=listing, gone=False)


def _parsed(name: object) -> tuple[str, str]:
    if not isinstance(name, str):
        raise InvalidInput("wrong_type", field="tools", expected="string", got=type(name).__name__)
    tool, _, seal = name.partition("@")
    if "@" in name and (len(seal) < MIN_DIGEST or not set(seal) <= set("0123456789abcdef")):
        raise InvalidInput("bad_mounted_digest", field="tools", limit=MIN_DIGEST)
    return tool, seal


def _chosen(known: Mapping[str, MountedTool], server: str, name: str, seal: str) -> MountedTool:
    tool = _chosen_any(known, server, name)
    if tool.gone:
        raise NotFound("mounted_tool_not_found", tool=tool.id)
    if tool.listed.fault is not None:
        raise InvalidInput("mounted_tool_unusable", tool=tool.id, fault=tool.listed.fault)
    if not tool.listed.digest.startswith(seal):
        raise Conflict("mounted_tool_changed", tool=tool.id)
    return tool


def _chosen_any(known: Mapping[str, MountedTool], server: str, name: str) -> MountedTool:
    tool = known.get(name.removeprefix(f"{server}/"))
    if tool is None:
        raise NotFound("mounted_tool_not_found", tool=f"{server}/{name}"[:200])
    return tool


def _not_found(server: str) -> NotFound:
    return NotFound("mount_not_found", server=str(server)[:80])
