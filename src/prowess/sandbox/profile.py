"""From what a skill declares to what its script may touch: a whitelist, and nothing beside it (S5)."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from prowess.errors import InvalidInput
from prowess.sandbox.model import SandboxLimits, SandboxProfile
from prowess.skills.manifest import Constraints, ResourcePermissions, names_everything

CEILING = SandboxLimits(wall_ms=30_000, memory_mb=512)
"""what no skill gets past, whatever it asks for"""
MAX_ENTRIES = 64
"""of one kind"""
_MAX_PATH = 1024
_RESERVED = ("/proc", "/sys", "/dev", "/skill", "/out", "/run/net")
"""the sandbox has its own"""
_REPLACED = (
    "/",
    "/tmp",
    "/run",
    "/usr",
    "/var",
    "/home",
    "/root",
    "/etc",
    "/opt",
    "/srv",
    "/mnt",
    "/lib",
    "/lib64",
    "/bin",
)
"""too much to be named as a whole, or the sandbox has its own"""
_PROGRAMS = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/boot", "/etc")
"""never changed by a script"""
_HOST = re.compile(r"(?=.{1,253}\Z)(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))+\Z")
_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def compile_profile(
    permissions: ResourcePermissions,
    constraints: Constraints | None = None,
    *,
    roots: Sequence[str] | None = None,
    limits: SandboxLimits | None = None,
) -> SandboxProfile:
    """What a script with these permissions may touch. Links in paths are followed once, here.

    ``roots``: the folders that the operator lets scripts touch; null where whoever runs the script is the operator.
    Raises ``InvalidInput``: ``sandbox_path`` (not absolute, or a pattern other than ``/folder/**`` and an exact path),
    ``sandbox_path_broad``, ``sandbox_path_reserved``, ``sandbox_path_outside``, ``sandbox_name``, ``sandbox_too_many``.
    """
    files, network, shell = permissions.filesystem, permissions.network, permissions.shell
    real_roots = None if roots is None else [os.path.realpath(root) for root in roots]
    return SandboxProfile(
        read=_paths("filesystem.read", files.read, real_roots),
        write=_paths("filesystem.write", files.write, real_roots, changed=True),
        delete=_paths("filesystem.delete", files.delete, real_roots, changed=True),
        hosts=_names("network.domains", (host.lower() for host in network.domains), _HOST) if network.allowed else (),
        commands=_names("shell.commands", shell.commands, _COMMAND) if shell.allowed else (),
        read_environment=_names("env_vars.read", permissions.env_vars.read, _VARIABLE),
        write_environment=_names("env_vars.write", permissions.env_vars.write, _VARIABLE),
        read_layers=_unique(permissions.memory.read_layers),
        write_layers=_unique(permissions.memory.write_layers),
        limits=limits_of(constraints, limits),
    )


def limits_of(constraints: Constraints | None, base: SandboxLimits | None = None) -> SandboxLimits:
    """The limits of a run: what the skill asks for, within the ceilings; else ``base``."""
    limits = base or SandboxLimits()
    if constraints is None:
        return limits
    wall = constraints.max_execution_time or limits.wall_ms
    memory = constraints.max_memory_usage or limits.memory_mb
    return replace(limits, wall_ms=min(wall, CEILING.wall_ms), memory_mb=min(memory, CEILING.memory_mb))


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _names(field: str, names: Iterable[str], shape: re.Pattern[str]) -> tuple[str, ...]:
    found = _unique(names)
    _counted(field, found)
    for name in found:
        if not shape.match(name):
            raise InvalidInput("sandbox_name", field=f"permissions.{field}", name=name[:100])
    return found


def _counted(field: str, found: Sequence[str]) -> None:
    if len(found) > MAX_ENTRIES:
        raise InvalidInput("sandbox_too_many", field=f"permissions.{field}", limit=MAX_ENTRIES)


def _paths(
    field: str, patterns: Sequence[str], roots: Sequence[str] | None, *, changed: bool = False
) -> tuple[str, ...]:
    _counted(field, patterns)
    return _unique(_path(f"permissions.{field}", pattern, roots, changed) for pattern in patterns)


def _path(field: str, pattern: str, roots: Sequence[str] | None, changed: bool) -> str:
    shown = pattern[:100]
    named = pattern.removesuffix("/**")
    if names_everything(pattern):
        raise InvalidInput("sandbox_path_broad", field=field, path=shown)
    strange = any(mark in named for mark in "*?[]{}~\\\0\n") or any(ord(letter) < 32 for letter in named)
    if strange or not named.startswith("/") or named != posixpath.normpath(named) or len(named) > _MAX_PATH:
        raise InvalidInput("sandbox_path", field=field, path=shown)
    real = os.path.realpath(named)
    for place in (named, real):
        if place in _REPLACED:
            raise InvalidInput("sandbox_path_broad", field=field, path=shown)
        if _below(place, _RESERVED) or (changed and _below(place, _PROGRAMS)):
            raise InvalidInput("sandbox_path_reserved", field=field, path=shown)
    if named == pattern and Path(real).is_dir():  # a folder is named as one, with all below it
        raise InvalidInput("sandbox_path", field=field, path=shown)
    if roots is not None and not _below(real, roots):
        raise InvalidInput("sandbox_path_outside", field=field, path=shown)
    return real


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
