"""A receiver of webhooks on this machine: it keeps what it gets, and answers what it is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.kit import LIMIT


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """``status`` is what it answers; ``hang`` keeps every answer back until the receiver is closed."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b""
        self.hang = False
        self.closing = threading.Event()
        self.port = 0

    @property
    def host(self) -> str:
        """As an allowlist names it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook?team=1"


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of the loopback address, served by threads of its own."""
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.received.append(Received(self.path, headers, body))
            if state.hang:
                state.closing.wait(LIMIT)
                return
            try:
                self.send_response(state.status)
                for name, value in state.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(state.body)
            except OSError:
                self.close_connection = True  # the sender does not wait for what it does not read

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        thread.join(LIMIT)
        server.server_close()
