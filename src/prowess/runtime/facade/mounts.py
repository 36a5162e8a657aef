"""MCP servers as tools: mounted, reviewed, mapped (X7). For operators; no agent has a road here (G15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prowess.mounts.model import Mount, MountedTool, MountSpec, MountView, Override, SecretUse
from prowess.runtime.facade.base import OPERATOR, Facade
from prowess.runtime.settings import DEFAULT_TENANT


class Mounts(Facade):
    """Mounted MCP servers and their tools (X7)."""

    def mount(
        self,
        server: str,
        *,
        command: Iterable[str] = (),
        url: str | None = None,
        environment: Iterable[str] = (),
        secrets: Iterable[SecretUse | Mapping[str, str]] = (),
        call_ms: int = 20_000,
        start_ms: int = 15_000,
        tenant: str = DEFAULT_TENANT,
    ) -> Mount:
        """Mount a server, by a ``command`` that speaks MCP on standard input and output or by the ``url`` of one.

        A command runs with the rights of Prowess itself; the host of a URL must be in ``outgoing_hosts``.
        ``environment``: names of variables that the command gets from ours; ``secrets``: slots, each under the name of
        a variable or header. Nothing is started: ``refresh_mount`` lists its tools, ``approve_mounted_tools`` lets them
        be called. Raises ``InvalidInput`` (``bad_mount_name``, ``bad_mount``, ``bad_hook_url``, ``bad_secret_name``),
        ``Denied`` (``host_not_allowed``, ``https_required``), ``LimitExceeded('too_many_mounts')``.
        """
        spec = MountSpec(
            server=server,
            command=(command,) if isinstance(command, str) else tuple(command),
            url=url,
            environment=tuple(environment),
            secrets=tuple(item if isinstance(item, SecretUse) else SecretUse(**item) for item in secrets),  # type: ignore[arg-type]
            call_ms=call_ms,
            start_ms=start_ms,
        )
        return self._parts.mounts.add(actor=OPERATOR, tenant=tenant, spec=spec)

    def unmount(self, server: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Take a server away with all that was approved of it. Raises ``NotFound('mount_not_found')``."""
        self._parts.mounts.remove(actor=OPERATOR, tenant=tenant, server=server)

    def mounts(self, *, tenant: str = DEFAULT_TENANT) -> list[MountView]:
        """Every mounted server with its tools, by name."""
        return self._parts.mounts.list(tenant)

    def mounted(self, server: str, *, tenant: str = DEFAULT_TENANT) -> MountView:
        """One of them. Raises ``NotFound('mount_not_found')``."""
        return self._parts.mounts.view(tenant, server)

    def refresh_mount(self, server: str, *, user: str | None = None, tenant: str = DEFAULT_TENANT) -> MountView:
        """Connect to a server anew and list its tools; ``user``: with whose credentials, where it needs any of users.

        Raises ``NotFound`` (``mount_not_found``, ``secret_missing``), ``InvalidInput('mount_needs_user')``,
        ``MountError`` where the server cannot be reached, is too slow, or lists what cannot be taken.
        """
        return self._parts.mounts.refresh(actor=OPERATOR, tenant=tenant, server=server, user=user)

    def approve_mounted_tools(
        self, server: str, tools: Iterable[str] = (), *, tenant: str = DEFAULT_TENANT
    ) -> list[MountedTool]:
        """Let tools be called as they are listed now; none named: all that wait. ``"name@digest"``: only if it is that.

        Raises ``NotFound`` (``mount_not_found``, ``mounted_tool_not_found``), ``InvalidInput``
        (``mounted_tool_unusable``, ``bad_mounted_digest``), ``Conflict('mounted_tool_changed')``.
        """
        named = (tools,) if isinstance(tools, str) else tools
        return self._parts.mounts.approve(actor=OPERATOR, tenant=tenant, server=server, tools=named)

    def override_mounted_tool(
        self, server: str, tool: str, *, reset: bool = False, tenant: str = DEFAULT_TENANT, **changes: Any
    ) -> MountedTool:
        """Say what a tool needs in place of its server's hints; what is not named stays, with ``reset`` nothing does.

        ``risk`` (L1 to L4), ``effect`` (``read``, ``write``), ``destructive``, ``network``, ``ask``, ``hidden``: bool,
        ``code``: a permission code. Raises ``NotFound``, ``InvalidInput('bad_override')``.
        """
        said = Override.from_json({name: value for name, value in changes.items() if value is not None})
        return self._parts.mounts.override(
            actor=OPERATOR, tenant=tenant, server=server, tool=tool, changes=said, reset=reset
        )
