"""A script with one declared host, and the tricks to get past the proxy (escape list, 34)."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import make

from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox
from prowess.adapters.sandboxes.network.proxy import FilteringProxy
from prowess.sandbox.model import SandboxJob, SandboxLimits, SandboxProfile, SandboxResult, ScriptFile

API = "api.example.test"
PUBLIC = "93.184.216.34"


class Internet:
    """One web server, at what looks like a public address, for whoever dials it through the proxy."""

    def __init__(self, folder: Path) -> None:
        files = make(folder, [API])
        self.authority = files.authority.read_text()
        self.seen: list[str] = []
        self.dialled: list[str] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(str(self.headers["host"]))
                self.send_response(200)
                self.send_header("content-length", "5")
                self.end_headers()
                self.wfile.write(b"hello")

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.server)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def proxy(self, hosts: tuple[str, ...], folder: Path, owner: int | None) -> FilteringProxy:
        async def connect(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            self.dialled.append(f"{address}:{port}")
            return await asyncio.open_connection("127.0.0.1", self.server.server_port)

        return FilteringProxy(hosts, folder, owner=owner, resolve=lambda name: [PUBLIC], connect=connect)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def internet(tmp_path: Path) -> Iterator[Internet]:
    made = Internet(tmp_path)
    yield made
    made.close()


def _run(internet: Internet, source: str) -> SandboxResult:
    profile = SandboxProfile(hosts=(API,), limits=SandboxLimits(wall_ms=8_000))
    given = {"authority": internet.authority, "port": internet.server.server_port}
    job = SandboxJob((ScriptFile("s.py", source.encode()),), "s.py", "main", given, profile)
    return BubblewrapSandbox(proxies=internet.proxy).run(job)


FETCH = """
import ssl, urllib.request
def fetch(authority, url):
    context = ssl.create_default_context(cadata=authority)
    return urllib.request.urlopen(url, context=context, timeout=5).read().decode()
"""


def test_x6_a_declared_host_is_reached_over_https(internet: Internet) -> None:
    result = _run(internet, f"{FETCH}\ndef main(authority, port): return fetch(authority, 'https://{API}/')")
    assert (result.output, result.denied) == ("hello", ()), result
    assert internet.seen == [API]
    assert internet.dialled == [f"{PUBLIC}:443"]
    assert result.network["hosts"][API]["tunnels"] == 1
    assert [name for name in os.listdir("/tmp") if name.startswith(f"prowess-net-{os.getpid()}-")] == []  # noqa: PTH208


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example.test/",
        f"https://{API}.evil.test/",
        f"https://evil{API}/",
        f"https://{API}:8443/",
        f"https://{PUBLIC}/",
        "https://1572395042/",
        f"http://{API}/",
    ],
)
def test_x6_another_host_port_or_spelling_is_denied(internet: Internet, url: str) -> None:
    result = _run(internet, f"{FETCH}\ndef main(authority, port): return fetch(authority, {url!r})")
    assert str(result.status) == "denied", result
    assert (internet.seen, internet.dialled) == ([], [])


@pytest.mark.parametrize(
    "target",
    [
        f"{API}@evil.test:443",
        f"evil.test#{API}:443",
        f"{API}\\x00.evil.test:443",
        f"{API} :443",
        "[::1]:443",
        "127.1:443",
    ],
)
def test_x6_a_trick_with_the_name_gets_no_tunnel(internet: Internet, target: str) -> None:
    source = f"""
import socket
def main(authority, port):
    proxy = socket.create_connection(("127.0.0.1", 3128), 5)
    proxy.sendall("CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n".encode())
    return proxy.recv(100).decode()
"""
    result = _run(internet, source)
    assert result.output is None or result.output.split()[1] in ("400", "403"), result
    assert (internet.seen, internet.dialled) == ([], [])
    assert result.denied != ()


@pytest.mark.parametrize(
    "attempt",
    [
        'socket.create_connection(("127.0.0.1", port), 1)',
        'socket.create_connection(("93.184.216.34", 443), 1)',
        'socket.socket(socket.AF_UNIX).connect("/run/net/proxy.sock")',
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        'socket.socket().bind(("127.0.0.1", 0))',
        f'socket.getaddrinfo("{API}", 443)',
    ],
)
def test_x6_there_is_no_way_but_the_proxy(internet: Internet, attempt: str) -> None:
    result = _run(internet, f"import socket\ndef main(authority, port): {attempt}; return 'escaped'")
    assert str(result.status) == "denied", result
    assert internet.seen == []
