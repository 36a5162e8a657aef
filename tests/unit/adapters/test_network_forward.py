"""The forwarder that runs inside a sandbox, between this machine's loopback address and a socket of the test's own."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.kit import LIMIT

from prowess.adapters.sandboxes.network import forward
from prowess.adapters.sandboxes.network.forward import BUFFER, Forwarder

Serve = Callable[[socket.socket], None]


@contextmanager
def service(folder: Path, serve: Serve) -> Iterator[str]:
    """A unix socket, each connection of which is served in a thread."""
    path = str(folder / "proxy.sock")
    threads: list[threading.Thread] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.settimeout(LIMIT)
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

        def one(connection: socket.socket) -> None:
            with connection:
                serve(connection)

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join(LIMIT)
            for thread in threads:
                thread.join(LIMIT)


@contextmanager
def forwarding(to: str, most: int = 16) -> Iterator[Forwarder]:
    forwarder = Forwarder(("127.0.0.1", 0), to, most)
    forwarder.start()
    try:
        yield forwarder
    finally:
        forwarder.close()


def connect(forwarder: Forwarder) -> socket.socket:
    return socket.create_connection(forwarder.address, timeout=LIMIT)


def rest(connection: socket.socket) -> bytes:
    received = b""
    while data := connection.recv(BUFFER):
        received += data
    return received


def echo_all(connection: socket.socket) -> None:
    """Reads to the end, and then sends it all back."""
    connection.sendall(rest(connection))


def test_x6_both_directions_and_their_ends_are_carried(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    with service(tmp_path, echo_all) as path, forwarding(path) as forwarder, connect(forwarder) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection) == content


def test_x6_what_one_side_does_not_take_is_not_kept_without_end(tmp_path: Path) -> None:
    begin = threading.Event()

    def late(connection: socket.socket) -> None:
        assert begin.wait(LIMIT)
        echo_all(connection)

    with service(tmp_path, late) as path, forwarding(path) as forwarder, connect(forwarder) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        connection.settimeout(0.2)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 * 2**20:
                sent += connection.send(bytes(BUFFER))
        connection.settimeout(LIMIT)
        connection.shutdown(socket.SHUT_WR)
        begin.set()
        assert len(rest(connection)) == sent


def test_x6_a_flood_of_connections_waits_its_turn(tmp_path: Path) -> None:
    served: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        served.append(rest(connection))
        connection.sendall(served[-1])

    with service(tmp_path, serve) as path, forwarding(path, most=4) as forwarder:
        connections = [connect(forwarder) for _ in range(40)]
        for number, connection in enumerate(connections):
            connection.sendall(b"%d" % number)
            connection.shutdown(socket.SHUT_WR)
        assert [rest(connection) for connection in connections] == [b"%d" % number for number in range(40)]
        assert len(served) == 40
        for connection in connections:
            connection.close()


def test_x6_without_a_proxy_connections_are_closed_and_the_forwarder_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "proxy.sock")
    with forwarding(path) as forwarder:
        with connect(forwarder) as connection:
            assert rest(connection) == b""
        with service(tmp_path, echo_all), connect(forwarder) as connection:
            connection.sendall(b"now")
            connection.shutdown(socket.SHUT_WR)
            assert rest(connection) == b"now"


def test_x6_a_side_that_is_gone_takes_the_other_with_it(tmp_path: Path) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        rest(connection)
        ended.set()

    with service(tmp_path, serve) as path, forwarding(path, most=1) as forwarder:
        for _ in range(3):
            ended.clear()
            connection = connect(forwarder)
            connection.sendall(b"x")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends by a reset
            connection.close()
            assert ended.wait(LIMIT)


def test_x6_closing_ends_what_is_open(tmp_path: Path) -> None:
    def speak(connection: socket.socket) -> None:
        connection.sendall(b"x")
        rest(connection)

    with service(tmp_path, speak) as path:
        with forwarding(path) as forwarder:
            connection = connect(forwarder)
            assert connection.recv(1) == b"x"
        assert rest(connection) == b""
        connection.close()
        with pytest.raises(ConnectionRefusedError):
            connect(forwarder)


def test_x6_an_address_that_is_taken_is_an_error_at_the_start(tmp_path: Path) -> None:
    with forwarding(str(tmp_path / "none")) as forwarder, pytest.raises(OSError, match="in use"):
        forward.start(forwarder.address, tmp_path / "none")


def test_x6_the_forwarder_needs_nothing_but_an_older_python() -> None:
    file = Path(forward.__file__)
    source = file.read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 9))
    # Alone, and without site packages, as in a sandbox.
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        source + "\nimport sys\nprint(*(m for m in sys.modules if 'prowess' in m))",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "\n"
