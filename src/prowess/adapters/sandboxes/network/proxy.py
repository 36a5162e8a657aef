"""The proxy that scripts reach the network through: CONNECT to declared hosts, over TLS, at public addresses (X6, S5).

Each run has a socket of its own, and that is its identity: no name or token is asked for. A name is looked up here and
once; every address found must be public; and the connection goes to one of those that were checked, whatever the name
answers a moment later. The first thing through the tunnel must be a ClientHello that asks for the same name.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from prowess.adapters.sandboxes.network.background import BackgroundLoop, SharedLoop
from prowess.adapters.sandboxes.network.hello import HEADER, BadHello, HelloReader
from prowess.adapters.sandboxes.network.ledger import Ledger
from prowess.adapters.sandboxes.network.model import NetworkLimits, NetworkRecord, Refusal
from prowess.adapters.sandboxes.network.names import HTTPS_PORT, declared
from prowess.adapters.sandboxes.network.requests import Refused, read_connect
from prowess.adapters.sandboxes.network.tunnel import CHUNK, Stream, Tunnel
from prowess.errors import InvalidInput
from prowess.kernel.addresses import is_public, read_address

SOCKET = "proxy.sock"
MAX_PATH = 107
"""bytes of a unix socket's path (``sun_path`` without its final zero)"""
MAX_DIALLED = 4
"""addresses of a name that are tried"""

Resolve = Callable[[str], Sequence[str]]
"""(name in lower case ASCII) → its addresses; may block; raises ``OSError``"""
Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""(address, port) → a connection; raises ``OSError``"""

ANSWERS = {
    Refusal.REQUEST: "400 Not a request that this proxy reads",
    Refusal.METHOD: "405 Only HTTPS is let through, by CONNECT",
    Refusal.TARGET: "403 Not a host name with a port",
    Refusal.PORT: "403 Only port 443 is let through",
    Refusal.HOST: "403 Host not declared in the permissions of the skill",
    Refusal.LOOKUP: "502 Host not found",
    Refusal.ADDRESS: "403 Host is at an address that is not public",
    Refusal.UNREACHABLE: "502 Host not reached",
    Refusal.TIME: "504 Too slow",
    Refusal.CONNECTIONS: "503 Too many connections of this run",
}
"""The status line of each refusal that comes before the tunnel: clients show its words."""
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ALERT = bytes((21, 3, 3, 0, 2, 2, 49))
"""fatal access_denied (RFC 8446, 6.2): what a TLS client can say about a tunnel that was refused"""

_SHARED = SharedLoop()


def look_up(name: str) -> Sequence[str]:
    """The addresses of a name by the resolver of the system, and of no longer name: the final dot ends it.

    Raises ``OSError``.
    """
    found = socket.getaddrinfo(f"{name}.", HTTPS_PORT, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def dial(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to an address, which is not looked up. Raises ``OSError``."""
    return await asyncio.open_connection(address, port, limit=CHUNK)


class FilteringProxy:
    """Serves one run at a unix socket, from entering to leaving the block. Methods may be called from any thread.

    ``hosts`` are exact names; ``folder`` is one that only this run and its starter can reach, and where the socket
    ``proxy.sock`` is made, for ``owner`` (a uid; null: this process') alone. Raises ``InvalidInput`` for a host that is
    no name (``bad_network_host``), for too many (``too_many_network_hosts``), and for a folder whose path is too long
    for a socket (``socket_path_too_long``); entering raises ``OSError`` where the socket cannot be made.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        folder: Path,
        *,
        owner: int | None = None,
        resolve: Resolve = look_up,
        connect: Connect = dial,
        limits: NetworkLimits | None = None,
    ) -> None:
        self._hosts = declared(hosts)
        self.path = folder / SOCKET
        """of the socket"""
        if len(os.fsencode(self.path)) > MAX_PATH:
            raise InvalidInput("socket_path_too_long", path=str(folder), limit=MAX_PATH - len(SOCKET) - 1)
        self._owner = owner
        self._resolve = resolve
        self._connect = connect
        self._limits = limits or NetworkLimits()
        self._ledger = Ledger(self._limits)
        self._loop: BackgroundLoop | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0

    def __enter__(self) -> Self:
        self._loop = _SHARED.borrow()
        try:
            self._loop.call(self._listen(self._loop))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the service and every tunnel. Once is enough; twice does no harm."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.call(self._end())
        finally:
            _SHARED.give_back()
            self.path.unlink(missing_ok=True)

    def record(self) -> NetworkRecord:
        """What the run asked for so far, and after closing all of it."""
        return self._ledger.record()

    async def _listen(self, loop: BackgroundLoop) -> None:
        self._lookups = loop.lookups
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(os.fspath(self.path))
            # Before it listens, so that nobody else is ever let in.
            self.path.chmod(0o600)
            if self._owner is not None:
                os.chown(self.path, self._owner, -1)
            self._server = await asyncio.start_unix_server(
                self._accept, sock=listener, limit=self._limits.head_bytes, backlog=64
            )
        except BaseException:
            listener.close()
            raise

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = Stream(reader, writer)
        self._accepted += 1
        if self._accepted > self._limits.connections_in_all and self._server is not None:
            self._server.close()  # a flood costs nothing from here on
        if len(self._tasks) >= self._limits.connections or self._accepted > self._limits.connections_in_all:
            self._answer(stream, Refused(Refusal.CONNECTIONS))
            return
        task = asyncio.get_running_loop().create_task(self._serve(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, inside: Stream) -> None:
        try:
            await self._connection(inside)
        except Refused as refused:
            self._answer(inside, refused)
        except OSError:
            pass  # the run went away
        except BaseException:
            inside.abort()
            raise
        await inside.finish()

    def _answer(self, inside: Stream, refused: Refused) -> None:
        self._ledger.refuse(refused.refusal, refused.asked)
        status = ANSWERS.get(refused.refusal)
        if status is not None and not inside.writer.is_closing():
            inside.writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        inside.writer.close()

    async def _connection(self, inside: Stream) -> None:
        head = await self._head(inside.reader)
        if not head:
            return
        name = read_connect(head)
        if name not in self._hosts:
            raise Refused(Refusal.HOST, name)
        outside = await self._dial(name, await self._addresses(name))
        try:
            await self._tunnel(name, inside, outside)
        except BaseException:
            outside.abort()
            raise
        await outside.finish()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        """Up to the empty line; nothing where the connection was closed unused."""
        try:
            async with asyncio.timeout(self._limits.head_s):
                return await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise Refused(Refusal.TIME) from None
        except asyncio.IncompleteReadError as ended:
            if not ended.partial:
                return b""
            raise Refused(Refusal.REQUEST) from None
        except asyncio.LimitOverrunError:
            raise Refused(Refusal.REQUEST) from None

    async def _addresses(self, name: str) -> Sequence[str]:
        """Of a name, looked up once: all public, or it is refused. An answer that mixes them is no honest one."""
        lookup = asyncio.get_running_loop().run_in_executor(self._lookups, self._resolve, name)
        try:
            async with asyncio.timeout(self._limits.lookup_s):
                found = await lookup
        except TimeoutError:
            raise Refused(Refusal.TIME, name) from None
        except (OSError, UnicodeError):
            raise Refused(Refusal.LOOKUP, name) from None
        if not found:
            raise Refused(Refusal.LOOKUP, name)
        for text in found:
            address = read_address(text)
            if address is None or not is_public(address):
                raise Refused(Refusal.ADDRESS, name)
        return found

    async def _dial(self, name: str, addresses: Sequence[str]) -> Stream:
        try:
            async with asyncio.timeout(self._limits.dial_s):
                for address in addresses[:MAX_DIALLED]:
                    try:
                        return Stream(*await self._connect(address, HTTPS_PORT))
                    except OSError:
                        continue
        except TimeoutError:
            raise Refused(Refusal.TIME, name) from None
        raise Refused(Refusal.UNREACHABLE, name)

    async def _tunnel(self, name: str, inside: Stream, outside: Stream) -> None:
        inside.writer.write(ESTABLISHED)
        try:
            hello = await self._hello(name, inside)
        except Refused as refused:
            self._ledger.refuse(refused.refusal, refused.asked)
            inside.writer.write(ALERT)
            return
        self._ledger.tunnel(name)
        if not self._ledger.up(name, len(hello)):
            inside.abort()
            return
        outside.writer.write(hello)
        tunnel = Tunnel(inside, outside, self._limits)
        try:
            await tunnel.run(lambda count: self._ledger.up(name, count), lambda count: self._ledger.down(name, count))
        except TimeoutError:
            self._ledger.refuse(Refusal.TIME, name)
            inside.abort()

    async def _hello(self, name: str, inside: Stream) -> bytes:
        """The records of the ClientHello, once its name is that of the tunnel."""
        reader, raw, asked = HelloReader(), bytearray(), None
        try:
            async with asyncio.timeout(self._limits.hello_s):
                while asked is None:
                    header = await inside.reader.readexactly(HEADER)
                    fragment = await inside.reader.readexactly(reader.length(header))
                    raw += header + fragment
                    asked = reader.add(fragment)
        except TimeoutError:
            raise Refused(Refusal.TIME, name) from None
        except (BadHello, asyncio.IncompleteReadError):
            raise Refused(Refusal.HELLO, name) from None
        if asked != name:
            raise Refused(Refusal.NAME, asked or name)
        return bytes(raw)
