"""The kernel's own means, called without a library: prctl, seccomp and Landlock (Linux 5.13 or later).

Runs inside the sandbox with the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SIGKILL = 9
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_RULE_NET_PORT = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""the rights that a rule about one file may name"""
_FIRST_WITH = {REFER: 2, TRUNCATE: 3, IOCTL_DEV: 5}
_BIND_TCP, _CONNECT_TCP = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _NetPort(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


class _Instructions(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.c_void_p)]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def hide_memory() -> None:
    """No process of the same user may look into this one: ``/proc/PID/{mem,environ,root}`` (prctl(2))."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE")


def stand_in_for_init() -> None:
    """Orphans of what this process starts come to it, and it ends with who started it."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "PR_SET_CHILD_SUBREAPER")
    end_with_parent()


def end_with_parent() -> None:
    """The kernel kills this process when its parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")


def no_new_privileges() -> None:
    """Programs with the set-user-id bit gain nothing from now on."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")


def install_filter(program: bytes) -> None:
    """Add a system call filter; 8 bytes an instruction. It cannot be taken off again."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filters = _Instructions(len(program) // 8, ctypes.addressof(buffer))
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filters), 0, 0), "PR_SET_SECCOMP")


def landlock_version() -> int:
    """The version of Landlock's interface, 0 where there is none."""
    found = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    return max(int(found), 0)


def restrict(rules: list[tuple[str, int]], ports: dict[int, int], abi: int) -> None:
    """Let this process and its children touch what is below the named paths, as named, and nothing else.

    ``ports``: TCP ports that may be connected to (kernel 6.7). From 6.12 on signals to outside and abstract sockets
    are cut off too. A path that is not there is left out. Raises ``OSError`` where the kernel does not do it.
    """
    handled = 0
    for bit in range(16):
        if abi >= _FIRST_WITH.get(1 << bit, 1):
            handled |= 1 << bit
    net = _BIND_TCP | _CONNECT_TCP if abi >= 4 else 0
    ruleset = _Ruleset(handled, net, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules_fd = _checked(_libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(ruleset), size, 0), "landlock")
    try:
        for path, rights in rules:
            _allow(rules_fd, path, rights & handled)
        if net:
            for port in ports:
                rule = _NetPort(_CONNECT_TCP, port)
                _checked(_libc.syscall(_LANDLOCK_ADD_RULE, rules_fd, _RULE_NET_PORT, ctypes.byref(rule), 0), "landlock")
        _checked(_libc.syscall(_LANDLOCK_RESTRICT_SELF, rules_fd, 0), "landlock")
    finally:
        os.close(rules_fd)


def _allow(rules_fd: int, path: str, rights: int) -> None:
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= OF_A_FILE
        rule = _PathBeneath(rights, found)
        _checked(_libc.syscall(_LANDLOCK_ADD_RULE, rules_fd, _RULE_PATH_BENEATH, ctypes.byref(rule), 0), path)
    finally:
        os.close(found)
