"""A network of a test's own: a child process in a new network namespace, where any address can be had.

The child serves calls by JSON lines; nothing it does is seen by this machine's network. It needs no root: the namespace
belongs to a user namespace of its own.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Call = Callable[..., Any]
"""(name of a function, its keyword arguments) → what it returned"""

_SIOCSIFADDR, _SIOCGIFFLAGS, _SIOCSIFFLAGS, _UP = 0x8916, 0x8913, 0x8914, 1


@contextmanager
def process_in_namespace(module: str) -> Iterator[Call]:
    """Run a module, which calls ``serve_calls``, in a namespace. A call raises ``AssertionError`` for what it raised."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--kill-child", sys.executable, "-m", module]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    sent, received = child.stdin, child.stdout

    def call(name: str, /, **arguments: Any) -> Any:
        sent.write(json.dumps([name, arguments]) + "\n")
        sent.flush()
        line = received.readline()
        assert line, "the process in the namespace ended; its standard error says why"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    try:
        yield call
    finally:
        sent.close()
        child.wait(30)
        received.close()


def serve_calls(functions: dict[str, Callable[..., Any]]) -> None:
    """Answer calls until there are no more."""
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": functions[name](**arguments)}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


def bring_up(addresses: list[str]) -> None:
    """Give this namespace's loopback device more addresses."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control6,
    ):
        flags = struct.unpack_from("16xH", fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0)))[0]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
        for number, text in enumerate(addresses):
            address = ip_address(text)
            if address.version == 6:
                request = struct.pack("16sIi", address.packed, 128, socket.if_nametoindex("lo"))
                fcntl.ioctl(control6, _SIOCSIFADDR, request)
            else:
                label = f"lo:{number}".encode()
                fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16sH2x4s8x", label, socket.AF_INET, address.packed))


def die_with_parent() -> None:
    """End this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, 9)
