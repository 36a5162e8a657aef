"""A server over streamable HTTP: allowed hosts alone, an address that was looked at, and answers of bounded size."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from prowess.automation.notifications.addresses import Allowlist, Endpoint, read_url
from prowess.mounts.stdio import MAX_MESSAGE

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0


class AnswerTooLarge(Exception):
    """More than a message may have."""


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], allowlist: Allowlist, seconds: float
) -> AsyncIterator[tuple[Any, Any]]:
    """Streams to a server. Neither proxies nor credentials of the environment are used; no redirect leaves the origin.

    Raises ``Denied`` (``host_not_allowed``, ``https_required``) before anything is sent.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    allowlist.check(read_url(url))
    timeout = httpx2.Timeout(CONNECT_S, read=seconds)
    client = httpx2.AsyncClient(
        transport=_guarded(allowlist), headers=dict(headers), timeout=timeout, trust_env=False, follow_redirects=False
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as (incoming, outgoing),
    ):
        yield incoming, outgoing


def _guarded(allowlist: Allowlist) -> httpx2.AsyncBaseTransport:
    """A transport that checks each request, connects to the address it has looked at, and counts what comes back."""
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        """A body of bounded length."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > MAX_MESSAGE:
                    raise AnswerTooLarge
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Guarded(httpx2.AsyncBaseTransport):
        """Over the ordinary transport."""

        def __init__(self) -> None:
            self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            endpoint = _checked(allowlist, str(request.url))
            address = allowlist.choose(endpoint, await _addresses(endpoint))
            request.extensions = {**request.extensions, "sni_hostname": endpoint.host}
            request.url = request.url.copy_with(host=address)
            response = await self._inner.handle_async_request(request)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                response.stream = Counted(response.stream)  # of a stream each event is counted by its reader
            return response

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Guarded()


def _checked(allowlist: Allowlist, url: str) -> Endpoint:
    wanted = read_url(url)
    allowlist.check(wanted)
    return wanted.endpoint


async def _addresses(endpoint: Endpoint) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in found]
