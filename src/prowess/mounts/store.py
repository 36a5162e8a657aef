"""Tables and queries of mounts and their tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Integer, Table, Text, bindparam, delete, insert, select, update

from prowess.db.metadata import instant, metadata
from prowess.db.statements import Statement, upsert
from prowess.kernel.canonical import compact_json
from prowess.kernel.clock import from_ms, to_ms
from prowess.mounts.model import Mount, MountedTool, MountSpec, Override, ToolListing, ToolState

mounts = Table(
    "mounts",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("server", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("added_by", Text, nullable=False),
    instant("added_at"),
    instant("listed_at", nullable=True),
    Column("error", Text),
)

mounted_tools = Table(
    "mounted_tools",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("server", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("listed", Text, nullable=False),
    Column("gone", Boolean, nullable=False),
    Column("pinned", Text),
    Column("override", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("approved_by", Text),
    instant("approved_at", nullable=True),
)

_OF_TENANT = Statement(select(mounts).where(mounts.c.tenant == bindparam("tenant")).order_by(mounts.c.server))
_TOOLS_OF_TENANT = Statement(
    select(mounted_tools)
    .where(mounted_tools.c.tenant == bindparam("tenant"))
    .order_by(mounted_tools.c.server, mounted_tools.c.name)
)
_KEY = ("tenant", "server", "name")


def mounts_of(connection: Connection, tenant: str) -> list[Mount]:
    """The tenant's mounts, by name."""
    return [_to_mount(row) for row in _OF_TENANT.all(connection, {"tenant": tenant})]


def find_mount(connection: Connection, tenant: str, server: str) -> Mount | None:
    """One mount."""
    return next((mount for mount in mounts_of(connection, tenant) if mount.server == server), None)


def put_mount(connection: Connection, mount: Mount) -> None:
    """Store a mount, new or changed."""
    row = {
        "tenant": mount.tenant,
        "server": mount.server,
        "spec": compact_json(mount.spec.to_json()),
        "revision": mount.revision,
        "added_by": mount.added_by,
        "added_at": to_ms(mount.added_at),
        "listed_at": None if mount.listed_at is None else to_ms(mount.listed_at),
        "error": mount.error,
    }
    changed = {name: value for name, value in row.items() if name not in _KEY}
    stored = upsert(connection, mounts).values(row)
    connection.execute(stored.on_conflict_do_update(index_elements=["tenant", "server"], set_=changed))


def lock_mount(connection: Connection, tenant: str, server: str) -> bool:
    """Whether there is such a mount; until the transaction ends nobody else changes it or its tools."""
    own = (mounts.c.tenant == tenant) & (mounts.c.server == server)
    return connection.execute(update(mounts).where(own).values(revision=mounts.c.revision)).rowcount == 1


def delete_mount(connection: Connection, tenant: str, server: str) -> None:
    """Take a mount away with its tools."""
    for table in (mounted_tools, mounts):
        connection.execute(delete(table).where(table.c.tenant == tenant, table.c.server == server))


def tools_of(connection: Connection, tenant: str, server: str | None = None) -> list[MountedTool]:
    """The tenant's mounted tools, or those of one server, by server and name."""
    rows = _TOOLS_OF_TENANT.all(connection, {"tenant": tenant})
    return [_to_tool(row) for row in rows if server is None or row.server == server]


def put_tools(connection: Connection, tools: Iterable[MountedTool]) -> None:
    """Store tools, new or changed."""
    for tool in tools:
        row = _to_row(tool)
        changed = {name: value for name, value in row.items() if name not in _KEY}
        own = [mounted_tools.c[name] == row[name] for name in _KEY]
        if connection.execute(update(mounted_tools).where(*own).values(changed)).rowcount == 0:
            connection.execute(insert(mounted_tools).inline(), row)


def drop_tools(connection: Connection, tools: Iterable[MountedTool]) -> None:
    """Forget tools."""
    for tool in tools:
        row = _to_row(tool)
        connection.execute(delete(mounted_tools).where(*(mounted_tools.c[name] == row[name] for name in _KEY)))


def count_mounts(connection: Connection) -> tuple[int, int, int]:
    """Of all tenants: servers, tools that wait to be approved, and servers that could not be reached."""
    errors = list(connection.execute(select(mounts.c.error)).scalars())
    waiting = sum(
        _to_tool(row).state in (ToolState.PENDING, ToolState.CHANGED)
        for row in connection.execute(select(mounted_tools))
    )
    return len(errors), waiting, sum(error is not None for error in errors)


def _to_row(tool: MountedTool) -> dict[str, Any]:
    return {
        "tenant": tool.tenant,
        "server": tool.server,
        "name": tool.listed.name,
        "listed": compact_json(tool.listed.to_json()),
        "gone": tool.gone,
        "pinned": None if tool.pinned is None else compact_json(tool.pinned.to_json()),
        "override": compact_json(tool.override.to_json()),
        "revision": tool.revision,
        "approved_by": tool.approved_by,
        "approved_at": None if tool.approved_at is None else to_ms(tool.approved_at),
    }


def _to_mount(row: Any) -> Mount:
    return Mount(
        tenant=row.tenant,
        spec=MountSpec.from_json(json.loads(row.spec)),
        revision=row.revision,
        added_by=row.added_by,
        added_at=from_ms(row.added_at),
        listed_at=None if row.listed_at is None else from_ms(row.listed_at),
        error=row.error,
    )


def _to_tool(row: Any) -> MountedTool:
    return MountedTool(
        tenant=row.tenant,
        server=row.server,
        listed=ToolListing.from_json(json.loads(row.listed)),
        gone=bool(row.gone),
        pinned=None if row.pinned is None else ToolListing.from_json(json.loads(row.pinned)),
        override=Override.from_json(json.loads(row.override)),
        revision=row.revision,
        approved_by=row.approved_by,
        approved_at=None if row.approved_at is None else from_ms(row.approved_at),
    )
