"""Connections to mounted servers, in one background thread: opened when needed, given up when idle, never shared.

A connection belongs to a mount at a revision, to one user where the mount has credentials of users, and to the very
values of its secrets. What a server asks of us, sampling, elicitation and roots, is refused: we declare none of them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from prowess.automation.notifications.addresses import Allowlist
from prowess.errors import ProwessError
from prowess.kernel.canonical import digest
from prowess.mounts.http import http_transport
from prowess.mounts.listings import MAX_TOOLS, read_listings
from prowess.mounts.model import Mount, ToolListing
from prowess.mounts.stdio import environment, stdio_transport
from prowess.turns.definitions import CancelToken

if TYPE_CHECKING:
    from mcp import Client

MAX_CONNECTIONS = 64
IDLE_S = 600.0
"""after so long without a call a connection is given up"""
RELIST_S = 10.0
"""a listing serves so long; a server that announces a change is asked again at the next call"""
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.5, 60.0
CLOSE_S = 10.0

T = TypeVar("T")
Listings = tuple[ToolListing, ...]


class MountFailure(Exception):
    """What came of a server that did not serve. ``listings``: what it lists now, where that is new."""

    def __init__(self, code: str, listings: Listings | None = None) -> None:
        self.code = code
        self.listings = listings
        super().__init__(code)


class Route(NamedTuple):
    """To which server, for whom, with which secrets (name of the variable or header → value)."""

    mount: Mount
    user: str | None
    secrets: Mapping[str, str]

    @property
    def key(self) -> str:
        """Whatever differs in any of it is another connection. A digest: no secret is kept as a key."""
        mount = self.mount
        return digest([mount.tenant, mount.revision, mount.spec.to_json(), self.user, dict(self.secrets)])

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Of connections to one place only the newest stays."""
        return self.mount.tenant, self.mount.server, self.user


class Answer(NamedTuple):
    """A result as the protocol has it, and the listing where it was asked for again."""

    result: Any
    listings: Listings | None


@dataclass(slots=True)
class _Trouble:
    failures: int
    until: float


class Connections:
    """Every connection of this process. Its methods are called from any thread but its own."""

    def __init__(self, allowlist: Allowlist, ticks: Callable[[], float] = time.monotonic) -> None:
        """``ticks`` counts seconds."""
        self._allowlist = allowlist
        self._ticks = ticks
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._open: dict[str, _Connection] = {}
        self._troubles: dict[str, _Trouble] = {}

    def listings(self, route: Route) -> Listings:
        """What the server lists now, over a connection of its own making. Raises ``MountFailure``."""
        return self._run(self._list(route))

    def call(
        self, route: Route, tool: str, pinned: str, arguments: Mapping[str, Any], cancel: CancelToken | None = None
    ) -> Answer:
        """Call a tool that is still what was pinned; when ``cancel`` is set the server is told and nothing waits.

        Raises ``MountFailure``.
        """
        return self._run(self._call(route, tool, pinned, arguments), cancel)

    def drop(self, tenant: str, server: str) -> None:
        """Give up every connection to a server; returns when they are down."""
        with self._lock:
            idle = self._loop is None
        if not idle:
            self._run(self._drop(lambda item: item.route.place[:2] == (tenant, server)))

    def close(self) -> None:
        """Give up everything; nothing can be called after that."""
        with self._lock:
            self._closed, loop, thread = True, self._loop, self._thread
        if loop is None or thread is None:
            return
        with suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._drop(lambda _: True), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)
        if not thread.is_alive():
            loop.close()
        self._loop = None

    # in the caller's thread

    def _run(self, work: Coroutine[Any, Any, T], cancel: CancelToken | None = None) -> T:
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        except MountFailure:
            work.close()
            raise
        if cancel is not None:
            cancel.then(lambda: future.cancel())
        try:
            return future.result()
        except (concurrent.futures.CancelledError, asyncio.CancelledError):
            raise MountFailure("timeout") from None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise MountFailure("mount_unavailable")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="mcp mounts", daemon=True)
                self._thread.start()
            return self._loop

    # in the background thread: nothing here runs at once with another part of it

    async def _list(self, route: Route) -> Listings:
        await self._drop(lambda item: item.route.place == route.place)
        connection = self._begin(route)
        await connection.client()
        return connection.listed

    async def _call(self, route: Route, tool: str, pinned: str, arguments: Mapping[str, Any]) -> Answer:
        connection = await self._find(route)
        connection.busy += 1
        try:
            return await connection.call(tool, pinned, arguments)
        finally:
            connection.busy -= 1
            connection.used_at = self._ticks()

    async def _find(self, route: Route) -> _Connection:
        found = self._open.get(route.key)
        if found is not None and not found.over:
            return found
        now = self._ticks()
        trouble = self._troubles.get(route.key)
        if trouble is not None and now < trouble.until:
            raise MountFailure("mount_unavailable")
        await self._make_room(route, now)
        found = self._open.get(route.key)  # another call may have been here meanwhile
        return found if found is not None and not found.over else self._begin(route)

    async def _make_room(self, route: Route, now: float) -> None:
        def idle(item: _Connection) -> bool:
            replaced = item.route.place == route.place and item.route.key != route.key
            return not item.busy and (replaced or now - item.used_at > IDLE_S)

        await self._drop(idle)
        if len(self._open) >= MAX_CONNECTIONS:
            resting = sorted((item for item in self._open.values() if not item.busy), key=lambda item: item.used_at)
            if not resting:
                raise MountFailure("mount_busy")
            await self._drop(lambda item: item is resting[0])

    def _begin(self, route: Route) -> _Connection:
        connection = _Connection(route, self._allowlist, self._ticks, self._ended)
        self._open[route.key] = connection
        connection.task = asyncio.create_task(connection.serve())
        return connection

    def _ended(self, connection: _Connection, failed: bool) -> None:
        key = connection.route.key
        if self._open.get(key) is connection:
            del self._open[key]
        if not failed:
            self._troubles.pop(key, None)
            return
        known = self._troubles.get(key)
        failures = 1 if known is None else known.failures + 1
        wait = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (min(failures, 16) - 1))
        if len(self._troubles) >= 1_000:
            self._troubles.clear()
        self._troubles[key] = _Trouble(failures, self._ticks() + wait)

    async def _drop(self, wanted: Callable[[_Connection], bool]) -> None:
        going = [item for item in self._open.values() if wanted(item)]
        for item in going:
            item.give_up()
        await asyncio.gather(*(item.task for item in going if item.task is not None), return_exceptions=True)


class _Connection:
    """One connection. A task of its own enters and leaves it, as its cancel scopes require."""

    def __init__(
        self,
        route: Route,
        allowlist: Allowlist,
        ticks: Callable[[], float],
        ended: Callable[[_Connection, bool], None],
    ) -> None:
        self.route = route
        self.task: asyncio.Task[None] | None = None
        self.busy = 0
        self.used_at = ticks()
        self.listed: Listings = ()
        self.over = False
        self._allowlist = allowlist
        self._ticks = ticks
        self._ended = ended
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._listed_at = 0.0
        self._stale = False
        self._too_long = False

    async def client(self) -> Client:
        """The client, once it is ready. Raises ``MountFailure``."""
        return await asyncio.shield(self._ready)

    def give_up(self) -> None:
        """No call begins here any more, and what runs ends."""
        self.over = True
        self._closing.set()

    async def serve(self) -> None:
        """Open, list, stay until given up or ended by the other side, and close."""
        failed = True
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.route.mount.spec.start_ms / 1000):
                    client = await stack.enter_async_context(self._made())
                    await self._relist(client)
                if not self.over:
                    failed = False
                    self._ready.set_result(client)
                    await self._closing.wait()
        except Exception as error:
            self._fail(_start_code(error))
        finally:
            self.over = True
            self._fail("mount_unavailable")
            self._ended(self, failed)

    async def call(self, tool: str, pinned: str, arguments: Mapping[str, Any]) -> Answer:
        """See ``Connections.call``."""
        from mcp import MCPError

        client = await self.client()
        fresh: Listings | None = None
        try:
            if self._stale or self._ticks() - self._listed_at >= RELIST_S:
                await self._relist(client)
                fresh = self.listed
            listing = next((item for item in self.listed if item.name == tool), None)
            if listing is None or listing.digest != pinned:
                raise MountFailure("mount_tool_gone" if listing is None else "mount_tool_changed", self.listed)
            return Answer(await _call_tool(client, tool, arguments), fresh)
        except MCPError as error:
            raise MountFailure(self._code_of(error.error.code), fresh) from None
        except (MountFailure, asyncio.CancelledError):
            raise
        except Exception as error:
            # The transport broke, or the server said what the protocol does not allow: begin anew at the next call.
            self.give_up()
            raise MountFailure(_call_code(error, self._too_long), fresh) from None

    def _code_of(self, code: int) -> str:
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if self._too_long:
            return "mount_output_too_large"
        if code in (CONNECTION_CLOSED, REQUEST_TIMEOUT) or self.over:
            self.give_up()
            return "mount_unavailable"
        return "mount_refused"

    def _made(self) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        spec, secrets = self.route.mount.spec, self.route.secrets
        if spec.url is None:
            variables = environment(spec.environment, secrets)
            transport: Any = stdio_transport(spec.command, variables, self._silent)
        else:
            transport = http_transport(spec.url, secrets, self._allowlist, spec.call_ms / 1000 + 5)
        me = Implementation(name="prowess", version="1")
        return Client(transport, message_handler=self._heard, client_info=me, cache=None)

    def _silent(self, too_long: bool) -> None:
        self._too_long = self._too_long or too_long
        self.give_up()

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            self._stale = True

    async def _relist(self, client: Client) -> None:
        """Raises ``LimitExceeded('mount_too_many_tools')``."""
        raw: list[dict[str, Any]] = []
        cursor: str | None = None
        pages: set[str] = set()
        self._stale = False
        while True:
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            raw += (tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools)
            cursor = page.next_cursor
            if not cursor or cursor in pages or len(raw) > MAX_TOOLS or len(pages) > MAX_TOOLS:
                break
            pages.add(cursor)
        self.listed, self._listed_at = read_listings(raw), self._ticks()

    def _fail(self, code: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(MountFailure(code))
            self._ready.exception()  # nobody may be waiting


async def _call_tool(client: Client, tool: str, arguments: Mapping[str, Any]) -> Any:
    """The result, not yet checked against its schema: that is done where nobody else waits for it."""
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
    adapter: TypeAdapter[Any] = TypeAdapter(CallToolResult | InputRequiredResult)
    result = await client.session.send_request(request, adapter)
    if not isinstance(result, CallToolResult):
        raise MountFailure("mount_asked")
    return result


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def _start_code(error: BaseException) -> str:
    for leaf in _leaves(error):
        if isinstance(leaf, ProwessError):
            return leaf.code
        if isinstance(leaf, TimeoutError):
            return "mount_start_timeout"
    return "mount_unavailable"


def _call_code(error: BaseException, too_long: bool) -> str:
    from prowess.mounts.http import AnswerTooLarge

    if too_long or any(isinstance(leaf, AnswerTooLarge) for leaf in _leaves(error)):
        return "mount_output_too_large"
    known = next((leaf.code for leaf in _leaves(error) if isinstance(leaf, ProwessError)), None)
    return known or "mount_unavailable"
