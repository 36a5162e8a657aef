"""``POST /hooks/{trigger}``: the listener for signed requests from outside (B2, C59).

A request is small and comes at once: a body is read up to its limit and for some seconds, and a connection serves one
request. Whatever is not a hook, and whatever is not signed for one, is answered alike.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from prowess.errors import InvalidInput, NotFound, ProwessError
from prowess.runtime.app import Prowess
from prowess.runtime.facade.automations import MAX_HOOK_BODY

LOOPBACK = "127.0.0.1"
PORT = 8766
SECONDS = 10.0
"""for the head of a request, and again for its body"""
MAX_HEAD = 16 * 1024
MAX_CONNECTIONS = 200
_CLOSE = {"Connection": "close"}


def hooks_app(app: Prowess, *, seconds: float = SECONDS) -> Starlette:
    """The ASGI application. Answers 202 ``{"status": "accepted"}``, 200 ``duplicate`` or ``ignored``, or an error.

    Errors have the one JSON shape; their status is that of the error's class: 400, 404, 408, 409, 413, 429.
    """

    async def receive(request: Request) -> JSONResponse:
        trigger = request.path_params["trigger"]
        try:
            body = await _body(request, seconds)
            status = await asyncio.to_thread(app.receive_hook, trigger, dict(request.headers), body)
        except TimeoutError:
            return _refused(InvalidInput("payload_timeout", seconds=seconds), 408)
        except ProwessError as error:
            return _refused(error)
        return JSONResponse({"status": status}, 202 if status == "accepted" else 200, _CLOSE)

    async def nothing(_request: Request, _error: Exception) -> JSONResponse:
        return _refused(NotFound("webhook_not_found"))

    async def failed(_request: Request, error: Exception) -> JSONResponse:
        return _refused(ProwessError("internal", cause=type(error).__name__))

    routes = [Route("/hooks/{trigger}", receive, methods=["POST"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: nothing, Exception: failed})


@asynccontextmanager
async def serving_hooks(
    app: Prowess, *, host: str = LOOPBACK, port: int = PORT, seconds: float = SECONDS
) -> AsyncIterator[int]:
    """Listen for as long as the block runs; yields the port, which is chosen by the machine where ``port`` is 0.

    Raises ``OSError`` where the address cannot be used.
    """
    config = Config(
        hooks_app(app, seconds=seconds),
        host=host,
        port=port,
        http=_impatient(seconds),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_graceful_shutdown=int(seconds) + 1,
    )
    listening = config.bind_socket()
    server = _Embedded(config)
    task = asyncio.create_task(server.serve([listening]))
    try:
        await server.ready.wait()
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await task
        listening.close()


class _Embedded(Server):
    """A server that leaves the signals of its process alone and says when it listens."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def _impatient(seconds: float) -> type[H11Protocol]:
    """The protocol, but for connections that say nothing: the server itself waits for a first line for ever."""

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._waiting = self.loop.call_later(seconds, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._waiting.cancel()
            super().connection_lost(exc)

        def _give_up(self) -> None:
            if getattr(self, "cycle", None) is None:
                self.transport.close()

    return Impatient


async def _body(request: Request, seconds: float) -> bytes:
    """The body, read no further than its limit. Raises ``TimeoutError``, ``PayloadTooLarge``."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > MAX_HOOK_BODY:
        return b"\0" * (MAX_HOOK_BODY + 1)  # refused like any other that is too large, without being read
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                received += piece
                if len(received) > MAX_HOOK_BODY:
                    break
    except ClientDisconnect:
        raise TimeoutError from None
    return bytes(received)


def _refused(error: ProwessError, status: int | None = None) -> JSONResponse:
    return JSONResponse(error.to_json(), status or error.http_status, _CLOSE)
