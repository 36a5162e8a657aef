"""An internet for one test: web servers at public and other addresses, and a run that tries to reach them.

Runs in a namespace (``tests.support.namespaces``); its functions are called from there.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support import hellos, namespaces
from tests.support.certificates import make

from prowess.adapters.sandboxes.network.forward import Forwarder
from prowess.adapters.sandboxes.network.model import NetworkLimits
from prowess.adapters.sandboxes.network.proxy import FilteringProxy

API = "api.example.test"
OTHER = "other.example.test"
ADDRESSES = {API: "93.184.216.34", OTHER: "93.184.216.35"}
API6 = "2606:2800:220:1::34"
INTERNAL = ("127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fd00::5")
LIMIT_S = 10.0

LOG: list[list[str]] = []
"""what the servers saw: ``[address, what, …]``"""
SERVERS: list[Server] = []
MARKS: set[tuple[str, int]] = set()
"""(server's address, client's port) of connections that ``settle`` makes"""
CHANGED = threading.Condition()
"""of the marks, and of how many connections are open"""
OPEN: set[int] = set()


class Handler(BaseHTTPRequestHandler):
    """Says hello, or what it is asked for."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        LOG.append([self.server.server_address[0], "request", self.headers["host"]])
        count = int(self.path.rpartition("/")[2] or 0)
        self._answer(b"x" * count if count else f"hello from {self.headers['host']}".encode())

    def do_POST(self) -> None:
        LOG.append([self.server.server_address[0], "request", self.headers["host"]])
        self._answer(str(len(self.rfile.read(int(self.headers["content-length"])))).encode())

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """TLS at port 443, and plain at any other."""

    daemon_threads = True
    context: ssl.SSLContext | None = None

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        self.socket.bind(self.server_address)

    def get_request(self) -> tuple[Any, Any]:
        connection, client = super().get_request()
        with CHANGED:
            OPEN.add(client[1])
            if (mark := (self.server_address[0], client[1])) in MARKS:
                MARKS.remove(mark)
            else:
                LOG.append([self.server_address[0], "connection"])
            CHANGED.notify_all()
        if self.context is not None:
            connection = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, client

    def process_request_thread(self, request: Any, client: Any) -> None:
        super().process_request_thread(request, client)
        with CHANGED:
            OPEN.discard(client[1])
            CHANGED.notify_all()

    def handle_error(self, request: Any, client: Any) -> None:
        pass


class Server6(Server):
    address_family = socket.AF_INET6


def settle() -> None:
    """Wait until the servers have seen all there was to see: connections are taken in the order they came."""
    for server in SERVERS:
        with socket.socket(server.address_family) as connection:
            connection.bind(("", 0))
            MARKS.add((server.server_address[0], connection.getsockname()[1]))
            connection.connect(server.server_address[:2])
    with CHANGED:
        assert CHANGED.wait_for(lambda: not MARKS and not OPEN, LIMIT_S), (MARKS, OPEN)


class Run:
    """A sandboxed run with its proxy: how it reaches out."""

    def __init__(self, proxy: FilteringProxy, forwarder: Forwarder) -> None:
        self.proxy = proxy
        self.address = forwarder.address

    def fetch(self, url: str, data: bytes | None = None) -> tuple[str, str]:
        """(body, error) of a request by urllib."""
        where = f"http://127.0.0.1:{self.address[1]}"
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"https": where, "http": where}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(AUTHORITY))),
        )
        try:
            with opener.open(url, data=data, timeout=LIMIT_S) as answer:
                return answer.read().decode(), ""
        except (OSError, HTTPException) as error:
            return "", str(getattr(error, "reason", error))

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=LIMIT_S)


@contextmanager
def running(
    hosts: list[str], answers: dict[str, list[list[str]]] | None = None, limits: dict[str, Any] | None = None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """A run, and what is known of it afterwards. ``answers``: of each lookup of a name, one after the other."""
    given = {name: iter(found) for name, found in (answers or {}).items()}
    report: dict[str, Any] = {"lookups": []}

    def resolve(name: str) -> list[str]:
        report["lookups"].append(name)
        if name in given:
            return next(given[name])
        if name in ADDRESSES:
            return [ADDRESSES[name]]
        raise OSError("not found")

    LOG.clear()
    with tempfile.TemporaryDirectory() as folder:
        proxy = FilteringProxy(hosts, Path(folder), resolve=resolve, limits=NetworkLimits(**(limits or {})))
        with proxy:
            forwarder = Forwarder(("127.0.0.1", 0), str(proxy.path))
            forwarder.start()
            try:
                yield Run(proxy, forwarder), report
            finally:
                forwarder.close()
        report["socket_left"] = proxy.path.exists()
    settle()
    record = proxy.record()
    report |= {
        "log": list(LOG),
        "denied": list(record.denied),
        "audit": record.to_audit(),
        "refused": {refusal.value: count for refusal, count in record.refusals.items()},
    }


def fetch(hosts: list[str], url: str, post: int | None = None, times: int = 1, **given: Any) -> dict[str, Any]:
    """``url`` fetched ``times`` over, the answers in order."""
    data = None if post is None else b"x" * post
    with running(hosts, **given) as (run, report):
        answers = [run.fetch(url, data) for _ in range(times)]
    return report | {"bodies": [body for body, _ in answers], "errors": [error for _, error in answers]}


def raw(hosts: list[str], sent: str, **given: Any) -> dict[str, Any]:
    """What the proxy says to these bytes (latin-1), all of it until it closes."""
    with running(hosts, **given) as (run, report), run.connect() as connection:
        connection.sendall(sent.encode("latin-1"))
        received = _rest(connection)
    return report | {"received": received.decode("latin-1")}


def tunnel(hosts: list[str], host: str, first: str, end: bool = False, **given: Any) -> dict[str, Any]:
    """What comes out of a tunnel to ``host`` after these first bytes (latin-1), until it closes; ``end``: no more is said."""
    with running(hosts, **given) as (run, report), run.connect() as connection:
        report["connected"] = _connect(connection, host)
        connection.sendall(first.encode("latin-1"))
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = _rest(connection)
    return report | {"received": received.decode("latin-1")}


def handshake(hosts: list[str], host: str, name: str | None, http_host: str = "", **given: Any) -> dict[str, Any]:
    """TLS through a tunnel to ``host``, asking for ``name``, then a request for ``http_host``."""
    context = ssl.create_default_context(cafile=str(AUTHORITY))
    context.check_hostname = False
    with running(hosts, **given) as (run, report), run.connect() as connection:
        report["connected"] = _connect(connection, host)
        try:
            with context.wrap_socket(connection, server_hostname=name) as secure:
                secure.sendall(f"GET / HTTP/1.1\r\nhost: {http_host or host}\r\nconnection: close\r\n\r\n".encode())
                report["body"] = _rest(secure).decode("latin-1").rpartition("\r\n\r\n")[2]
        except OSError as error:
            report["error"] = str(error)
    return report


def crowd(hosts: list[str], count: int, **given: Any) -> dict[str, Any]:
    """Many connections that say nothing, and one more that asks; then these are closed, and one asks again."""
    with running(hosts, **given) as (run, report):
        idle = [socket.socket(socket.AF_UNIX) for _ in range(count)]
        for connection in idle:
            connection.settimeout(LIMIT_S)
            connection.connect(str(run.proxy.path))
        with socket.socket(socket.AF_UNIX) as late:
            late.settimeout(LIMIT_S)
            late.connect(str(run.proxy.path))
            report["late"] = _rest(late).decode()
        for connection in idle:
            connection.shutdown(socket.SHUT_WR)
            _rest(connection)
            connection.close()
        report["again"] = run.fetch(f"https://{API}/")
    return report


def flood(hosts: list[str], count: int, **given: Any) -> dict[str, Any]:
    """How many of so many connections, one after the other, were taken at all."""
    taken = 0
    with running(hosts, **given) as (run, report):
        for _ in range(count):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(LIMIT_S)
                try:
                    connection.connect(str(run.proxy.path))
                    taken += 1
                    connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                    _rest(connection)
                except OSError:
                    continue
    return report | {"taken": taken}


def leave_open(hosts: list[str], **given: Any) -> dict[str, Any]:
    """A run that ends while a tunnel is open."""
    with running(hosts, **given) as (run, report):
        connection = run.connect()
        report["connected"] = _connect(connection, API)
        connection.sendall(hellos.real(API))
        connection.recv(1)
    report["rest"] = len(_rest(connection)) > 0
    connection.close()
    left = [thread.name for thread in threading.enumerate() if thread.name in ("prowess-network", "forward")]
    return report | {"threads": left}


def measure(hosts: list[str], count: int, mebibytes: int) -> dict[str, Any]:
    """Figures: milliseconds of a request, directly and through forwarder and proxy; and MiB per second."""
    context = ssl.create_default_context(cafile=str(AUTHORITY))

    def direct() -> None:
        plain = socket.create_connection((ADDRESSES[API], 443))
        with plain, context.wrap_socket(plain, server_hostname=API) as secure:
            secure.sendall(f"GET / HTTP/1.1\r\nhost: {API}\r\nconnection: close\r\n\r\n".encode())
            _rest(secure)

    limits = {"connections_in_all": 10 * count, "down_bytes": 2**40, "up_bytes": 2**40}
    with running(hosts, limits=limits) as (run, report):

        def through() -> None:
            with run.connect() as plain:
                _connect(plain, API)
                with context.wrap_socket(plain, server_hostname=API) as secure:
                    secure.sendall(f"GET / HTTP/1.1\r\nhost: {API}\r\nconnection: close\r\n\r\n".encode())
                    _rest(secure)

        for name, work in (("direct", direct), ("through", through)):
            took = []
            for _ in range(count):
                begun = time.perf_counter()
                work()
                took.append(time.perf_counter() - begun)
            report[f"{name}_ms"] = round(sorted(took)[count // 2] * 1000, 2)
            report[f"{name}_per_s"] = round(count / sum(took), 1)
        begun = time.perf_counter()
        run.fetch(f"https://{API}/{mebibytes * 2**20}")
        report["mib_per_s"] = round(mebibytes / (time.perf_counter() - begun), 1)
    return {key: value for key, value in report.items() if key.endswith(("_ms", "_s"))}


def _connect(connection: socket.socket, host: str) -> str:
    connection.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        head += byte
    return head.decode().partition("\r\n")[0]


def _rest(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65_536):
            received += data
    except ConnectionError:
        pass
    return received


def begin(folder: Path) -> Path:
    """Servers at all addresses; the certificate of who vouches for them."""
    namespaces.bring_up([*ADDRESSES.values(), API6, *INTERNAL[1:3], INTERNAL[4]])
    files = make(folder, [API, OTHER])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server)
    for address in (*ADDRESSES.values(), API6, *INTERNAL):
        for port in (80, 443, 8443):
            server = (Server6 if ":" in address else Server)((address, port), Handler)
            server.context = context if port == 443 else None
            SERVERS.append(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()
    return files.authority


if __name__ == "__main__":
    namespaces.die_with_parent()
    with tempfile.TemporaryDirectory() as scratch:
        AUTHORITY = begin(Path(scratch))
        namespaces.serve_calls(
            {
                function.__name__: function
                for function in (fetch, raw, tunnel, handshake, crowd, flood, leave_open, measure)
            }
        )
