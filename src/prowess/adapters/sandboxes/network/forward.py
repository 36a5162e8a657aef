"""The way to the proxy from inside a sandbox: TCP at a loopback address, carried to the run's unix socket.

It runs in the sandbox, under whatever Python is there: standard library only, Python 3.9 or later, and nothing of
Prowess. It knows no rule; the proxy outside does. One thread, a fixed number of connections, a fixed buffer for each:
a script that floods it waits in the queue of the kernel.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading

ADDRESS = ("127.0.0.1", 3128)
SOCKET = "/run/net/proxy.sock"
MAX_PAIRS = 16
BUFFER = 65536
"""Bytes that are kept for a side that does not take them."""
BACKLOG = 64
_REST_S = 0.1


class _Side:
    """One end of a pair: what is still to be sent to it, and whether it may still speak."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.pending = bytearray()
        self.speaks = True
        self.told_end = False
        self.other: _Side = self

    def events(self) -> int:
        reads = selectors.EVENT_READ if self.speaks and len(self.other.pending) < BUFFER else 0
        return reads | (selectors.EVENT_WRITE if self.pending else 0)


class Forwarder:
    """Serves until it is closed. Binds where it is made, so that a failure is seen there. Raises ``OSError``."""

    def __init__(self, listen: tuple[str, int] = ADDRESS, to: str = SOCKET, most: int = MAX_PAIRS) -> None:
        self._to = to
        self._most = most
        self._pairs = 0
        self._resting = False
        self._listener = socket.create_server(listen, backlog=BACKLOG)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()
        self._wake, self._waker = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="forward", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, with every connection."""
        os.write(self._waker, b"x")
        if self._thread is not None:
            self._thread.join()

    def serve(self) -> None:
        """Serve in this thread, until ``close`` is called from another."""
        try:
            while True:
                self._listen_again()
                rest, self._resting = self._resting, False
                for key, events in self._selector.select(_REST_S if rest else None):
                    if key.fileobj == self._wake:
                        return
                    self._handle(key.data, events)
        finally:
            self._close_all()

    def _listen_again(self) -> None:
        """Take new connections while there is room."""
        registered = self._listener.fileno() in self._selector.get_map()
        wanted = self._pairs < self._most and not self._resting
        if wanted and not registered:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif registered and not wanted:
            self._selector.unregister(self._listener)

    def _handle(self, side: _Side | None, events: int) -> None:
        if side is None:
            self._accept()
            return
        if side.connection.fileno() < 0:  # closed by its other end, in this very turn
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._send(side)
            if events & selectors.EVENT_READ and side.speaks:
                self._receive(side)
        except OSError:
            self._drop(side)
            return
        self._settle(side)

    def _accept(self) -> None:
        try:
            inside, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptors left: without a rest, this would be asked again at once and for ever
            self._resting = True
            return
        outside = None
        try:
            outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            outside.connect(self._to)
            near, far = _Side(inside), _Side(outside)
        except OSError:
            inside.close()
            if outside is not None:
                outside.close()
            return
        near.other, far.other = far, near
        self._pairs += 1
        self._settle(near)

    def _receive(self, side: _Side) -> None:
        try:
            data = side.connection.recv(BUFFER)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if data:
            side.other.pending += data
            self._send(side.other)
        else:
            side.speaks = False

    def _send(self, side: _Side) -> None:
        if not side.pending:
            return
        try:
            sent = side.connection.send(side.pending, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return
        del side.pending[:sent]

    def _settle(self, side: _Side) -> None:
        """After a change: pass on an end, and watch for what matters now."""
        both = (side, side.other)
        if not any(one.speaks or one.pending for one in both):
            self._drop(side)
            return
        for one in both:
            if not one.other.speaks and not one.pending and not one.told_end:
                one.told_end = True
                try:
                    one.connection.shutdown(socket.SHUT_WR)
                except OSError:
                    self._drop(side)
                    return
        for one in both:
            self._watch(one)

    def _watch(self, side: _Side) -> None:
        events, fileno = side.events(), side.connection.fileno()
        registered = self._selector.get_map().get(fileno)
        if registered is None and events:
            self._selector.register(fileno, events, side)
        elif registered is not None and not events:
            self._selector.unregister(fileno)
        elif registered is not None and registered.events != events:
            self._selector.modify(fileno, events, side)

    def _drop(self, side: _Side) -> None:
        for one in (side, side.other):
            if one.connection.fileno() in self._selector.get_map():
                self._selector.unregister(one.connection.fileno())
            one.connection.close()
        self._pairs -= 1

    def _close_all(self) -> None:
        sides = [key.data for key in self._selector.get_map().values() if key.data is not None]
        for side in sides:
            if side.connection.fileno() >= 0:
                self._drop(side)
        self._selector.close()
        self._listener.close()
        os.close(self._wake)
        os.close(self._waker)


def start(listen: tuple[str, int] = ADDRESS, to: str | os.PathLike[str] = SOCKET) -> Forwarder:
    """Serve ``listen`` in a daemon thread. Raises ``OSError`` where that address cannot be bound."""
    forwarder = Forwarder(listen, os.fspath(to))
    forwarder.start()
    return forwarder
