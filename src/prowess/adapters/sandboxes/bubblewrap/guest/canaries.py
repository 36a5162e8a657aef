"""The script of the self-test: tries what a sandbox has to stop, and says what it stopped.

Runs inside the sandbox with the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from collections.abc import Callable

_NEW_USER = 0x10000000
_KNOWN = {"PATH", "LC_ALL", "HOME", "MALLOC_ARENA_MAX", "TMPDIR", "PWD", "LC_CTYPE"}


def main(host_file: str, port: int) -> dict[str, bool]:
    """By name, whether it was stopped. ``host_file`` can be read by anybody on the host; ``port`` listens there."""
    libc = ctypes.CDLL(None, use_errno=True)
    tries: dict[str, Callable[[], object]] = {
        "host_file": lambda: open(host_file, "rb").close(),
        "host_folder": lambda: os.listdir("/home"),
        "loopback": lambda: socket.create_connection(("127.0.0.1", port), 1).close(),
        "unix_socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "process_environment": lambda: open("/proc/1/environ", "rb").close(),
        "process_memory": lambda: open("/proc/1/mem", "rb").close(),
        "core_pattern": lambda: open("/proc/sys/kernel/core_pattern", "r+b").close(),
        "write_system": lambda: open("/usr/prowess-canary", "wb").close(),
        "exec": _exec,
        "namespace": lambda: _call(libc.unshare, _NEW_USER),
        "mount": lambda: _call(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None),
        "ptrace": lambda: _call(libc.ptrace, 16, os.getppid(), 0, 0),
    }
    found = {name: _stopped(attempt) for name, attempt in tries.items()}
    found["processes"] = _few_processes()
    found["environment"] = set(os.environ) <= _KNOWN
    found["descriptors"] = not any(_is_open(number) for number in range(5, 64))
    return found


def _stopped(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _exec() -> None:
    child = os.fork()
    if child == 0:
        try:
            os.execv("/usr/bin/true", ["true"])
        except OSError:
            os._exit(7)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7:
        raise PermissionError


def _few_processes() -> bool:
    try:
        return sum(name.isdigit() for name in os.listdir("/proc")) <= 3
    except OSError:
        return True


def _is_open(number: int) -> bool:
    """Whether a descriptor is one of the host's: the channel to it is not."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return bool(number != vars(sys.modules["prowess_skill"])["_channel"])
