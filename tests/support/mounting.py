"""Servers that are only told of: what they list and answer, without any process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent

from prowess import Prowess
from prowess.mounts.connections import Answer, Listings, MountFailure, Route
from prowess.mounts.listings import read_listings
from prowess.turns.definitions import CancelToken

READ = {"readOnlyHint": True, "openWorldHint": False}


def raw(name: str, **changed: Any) -> dict[str, Any]:
    """A tool as the protocol writes it: it reads, and takes a text."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"All about {name}.", "inputSchema": schema, "annotations": READ, **changed}


class ToldConnections:
    """In place of ``Connections``: lists what it is told to, and remembers what was called."""

    def __init__(self, *tools: Mapping[str, Any]) -> None:
        self.tools: list[Mapping[str, Any]] = list(tools)
        self.called: list[tuple[str, str, dict[str, Any]]] = []

    def listings(self, route: Route) -> Listings:
        return read_listings(self.tools)

    def call(
        self, route: Route, tool: str, pinned: str, arguments: Mapping[str, Any], cancel: CancelToken | None = None
    ) -> Answer:
        listings = read_listings(self.tools)
        listed = next((item for item in listings if item.name == tool), None)
        if listed is None or listed.digest != pinned:
            raise MountFailure("mount_tool_changed" if listed else "mount_tool_gone", listings)
        self.called.append((route.mount.server, tool, dict(arguments)))
        return Answer(CallToolResult(content=[TextContent(type="text", text="done")]), None)

    def drop(self, tenant: str, server: str) -> None:
        pass

    def close(self) -> None:
        pass


def told(app: Prowess, *tools: Mapping[str, Any], server: str = "demo") -> ToldConnections:
    """Mount a server that lists ``tools``; nothing is approved yet."""
    connections = ToldConnections(*tools)
    app._parts.mounts._connections = connections  # type: ignore[assignment]
    app.mount(server, command=["told"])
    app.refresh_mount(server)
    return connections
