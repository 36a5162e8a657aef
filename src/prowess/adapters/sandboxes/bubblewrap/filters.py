"""System call filters (seccomp(2)) as programs of the classic packet filter: pure Python, no library.

Three of them. The *outer* one holds from the start for all that runs in a sandbox; *boot* takes away starting programs
once our process 1 runs; *script* takes what only process 1 needs from the process of the script.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Mapping

from prowess.adapters.sandboxes.bubblewrap import syscalls
from prowess.adapters.sandboxes.bubblewrap.syscalls import MACHINES, Machine

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_X32 = 0x40000000
_NAMESPACES = 0x7E020080
"""``CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}`` and ``CLONE_NEWTIME``"""
_TERMINAL = (0x5412, 0x541C)
"""``TIOCSTI``, ``TIOCLINUX``: what types into somebody's terminal"""
_UNIX, _INET, _INET6, _STREAM, _KIND_MASK = 1, 2, 10, 1, 0xF

_Numbers = Mapping[str, tuple[int | None, int | None]]


def machine() -> Machine | None:
    """This processor's column of the tables; null where filters are not written for it."""
    return MACHINES.get(platform.machine())


def outer(kind: Machine, *, attributes: bool = True) -> bytes:
    """For all that runs: nothing of the kernel that no script needs.

    ``attributes``: whether modes, owners and times of files may be changed, which only namespaces keep within bounds.
    """
    program = _Program(kind)
    for refused in (
        syscalls.MOUNTS,
        syscalls.OTHER_PROCESSES,
        syscalls.KERNEL_SURFACE,
        syscalls.ADMINISTRATION,
        syscalls.SHARED_MEMORY,
    ):
        program.refuse(refused)
    if not attributes:
        program.refuse(syscalls.ATTRIBUTES)
    program.refuse(syscalls.CLONE3, errno.ENOSYS)  # its flags are in memory, where no filter sees them
    program.refuse_where(syscalls.CLONE, 0, bits=_NAMESPACES)
    program.refuse_where(syscalls.IOCTL, 1, equal=_TERMINAL)
    program.refuse_unless(syscalls.SOCKET, 0, (_UNIX, _INET, _INET6))
    return program.end()


def boot(kind: Machine) -> bytes:
    """For process 1: no program is started any more."""
    program = _Program(kind)
    program.refuse(syscalls.EXEC)
    return program.end()


def script(kind: Machine, *, network: bool, landlock: int) -> bytes:
    """For the script: its limits stay, and it has no sockets, or streams to its own loopback alone."""
    program = _Program(kind)
    program.refuse(syscalls.LIMITS)
    program.refuse_where(syscalls.PRLIMIT, 2, bits=0xFFFFFFFF)
    if landlock < 3:
        program.refuse(syscalls.TRUNCATE)  # which Landlock does not see before version 3
    if network:
        program.refuse_unless(syscalls.SOCKET, 0, (_INET, _INET6))
        program.refuse_unless(syscalls.SOCKET, 1, (_STREAM,), mask=_KIND_MASK)
    else:
        program.refuse(syscalls.SOCKET)
    return program.end()


class _Program:
    """Instructions of eight bytes: code, jump if true, jump if false, operand."""

    def __init__(self, kind: Machine) -> None:
        self._kind = kind
        self._code: list[tuple[int, int, int, int]] = [
            (_LOAD, 0, 0, _ARCH_AT),
            (_EQUAL, 1, 0, kind.audit),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
        if kind.column == 0:
            self._code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]

    def end(self) -> bytes:
        """The program; what was not refused is let through."""
        self._code.append((_RETURN, 0, 0, _ALLOW))
        return b"".join(struct.pack("=HBBI", *line) for line in self._code)

    def refuse(self, numbers: _Numbers, error: int = errno.EPERM) -> None:
        """Whatever the arguments are."""
        for number in self._of(numbers):
            self._code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]

    def refuse_where(self, numbers: _Numbers, argument: int, *, bits: int = 0, equal: Iterable[int] = ()) -> None:
        """Where an argument has one of the bits, or is one of the values."""
        tests = [(_ANY_BIT, bits)] if bits else [(_EQUAL, value) for value in equal]
        halves = (0, 4) if bits == 0xFFFFFFFF else (0,)  # a pointer has two
        body: list[tuple[int, int, int, int]] = []
        for half in halves:
            body.append((_LOAD, 0, 0, 16 + 8 * argument + half))
            for code, value in tests:
                body += [(code, 0, 1, value), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        self._when(numbers, body)

    def refuse_unless(self, numbers: _Numbers, argument: int, allowed: tuple[int, ...], mask: int = 0) -> None:
        """Unless an argument, of which ``mask`` counts, is one of the values."""
        body: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, 16 + 8 * argument)]
        if mask:
            body.append((0x54, 0, 0, mask))  # and
        for index, value in enumerate(allowed):
            body.append((_EQUAL, len(allowed) - index, 0, value))
        body.append((_RETURN, 0, 0, _ERRNO | errno.EPERM))
        self._when(numbers, body)

    def _when(self, numbers: _Numbers, body: list[tuple[int, int, int, int]]) -> None:
        restored = [*body, (_LOAD, 0, 0, _NUMBER_AT)]
        for number in self._of(numbers):
            self._code += [(_EQUAL, 0, len(restored), number), *restored]

    def _of(self, numbers: _Numbers) -> Iterable[int]:
        found = (columns[self._kind.column] for columns in numbers.values())
        return [number for number in found if number is not None]
