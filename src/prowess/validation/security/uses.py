"""What a skill's code uses, as plain facts for the audit (V3)."""

from __future__ import annotations

from typing import NamedTuple


class Use(NamedTuple):
    """One use of a resource by a file, with its 1-based line.

    ``kind`` is ``fs_read``, ``fs_write``, ``fs_delete``, ``network``, ``command``, ``env_read``, ``env_write``, ``dynamic``,
    ``native``, ``memory_read`` or ``memory_write``; ``secret`` (credentials are read) and ``send`` (something is sent)
    are for flows between files. ``target`` is ``*`` where only the run can know it.
    """

    kind: str
    target: str
    file: str
    line: int


SECTIONS = {
    "fs_read": "filesystem.read",
    "fs_write": "filesystem.write",
    "fs_delete": "filesystem.delete",
    "network": "network.domains",
    "command": "shell.commands",
    "env_read": "env_vars.read",
    "env_write": "env_vars.write",
    "memory_read": "memory.read_layers",
    "memory_write": "memory.write_layers",
}
"""The field of ``permissions`` that answers for a kind of use"""
