"""Programs that a script asks for: resolved here, run in a sandbox of their own. What counts is the file (C40).

The kernel lets the program alone be started there, and the loader that every program needs. A loader can be told to
load another file of ``/usr``, so a declared program that starts others (``find -exec``, ``env``) reaches those through
it: with the same files, limits and no network, whatever it is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from prowess.sandbox.model import SandboxProfile, ScriptCall
from prowess.sandbox.ports import ScriptCallRefused

_FOLDERS = ("/usr/bin", "/usr/sbin")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
MAX_WORDS = 256
MAX_WORD_BYTES = 32_768


def resolve(profile: SandboxProfile, call: ScriptCall) -> tuple[list[str], list[str]]:
    """(files that may be started, the program first; its words). Raises ``ScriptCallRefused``."""
    words = call.arguments.get("argv")
    if not isinstance(words, list) or not 0 < len(words) <= MAX_WORDS or words[0] != call.name:
        raise ScriptCallRefused("sandbox_command")
    if not all(isinstance(word, str) and "\0" not in word and len(word) <= MAX_WORD_BYTES for word in words):
        raise ScriptCallRefused("sandbox_command")
    for name in profile.commands:
        file = _file_of(name)
        if file is not None and (call.name == name or (call.name.startswith("/") and _same(call.name, file))):
            return [file, *(os.path.realpath(loader) for loader in _LOADERS if Path(loader).exists())], words
    raise ScriptCallRefused("sandbox_command")


def _same(path: str, file: str) -> bool:
    return os.path.normpath(path) == path and os.path.realpath(path) == file


def _file_of(name: str) -> str | None:
    """The program of that name: a binary of ``/usr``; a script would need its interpreter too."""
    for folder in _FOLDERS:
        file = os.path.realpath(f"{folder}/{name}")
        if file.startswith("/usr/") and os.access(file, os.X_OK):
            with Path(file).open("rb") as content:
                return file if content.read(4) == b"\x7fELF" else None
    return None


def profile_of(profile: SandboxProfile, left_ms: int) -> SandboxProfile:
    """The sandbox of a program: the files of the script, what is left of its time, nothing else."""
    return SandboxProfile(
        read=profile.read,
        write=profile.write,
        delete=profile.delete,
        limits=replace(profile.limits, wall_ms=max(left_ms, 1)),
    )


def document_of(files: Any, words: list[str], text: Any) -> dict[str, Any]:
    """What process 1 is sent of a program."""
    return {"files": files, "argv": words, "input": text if isinstance(text, str) else ""}
