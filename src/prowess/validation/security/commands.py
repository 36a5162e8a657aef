"""Which programs a command really starts (C40): paths, wrappers, ``sh -c``, ``xargs``; unknown stays unknown.

``resolve`` yields each program with its arguments, the wrappers too: ``env -i sudo sh -c 'id'`` starts env, sudo, sh
and id. A name that only the run can know is ``UNKNOWN``; whoever decides treats it as "ask".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from prowess.validation.security.words import MAX_DEPTH, UNKNOWN, Command, Pipeline, pipelines

SHELLS = frozenset("sh bash zsh dash ksh ash fish csh tcsh".split())
INTERPRETERS = SHELLS | frozenset(
    "python python2 python3 perl ruby node php lua deno bun osascript pwsh powershell".split()
)
DOWNLOADERS = frozenset(
    "curl wget aria2c fetch http https lwp-download iwr invoke-webrequest invoke-restmethod irm".split()
)

_WRAPPERS: dict[str, tuple[str, int]] = {
    # name: (options that take a value, positional words before the command)
    "sudo": ("ugpCThRrtD", 0),
    "doas": ("uC", 0),
    "env": ("uCS", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "nice": ("n", 0),
    "ionice": ("cnp", 0),
    "timeout": ("ks", 1),
    "time": ("fo", 0),
    "stdbuf": ("ioe", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("a", 0),
    "xargs": ("IndLPsaE", 0),
    "parallel": ("j", 0),
    "watch": ("n", 0),
    "strace": ("eop", 0),
    "chroot": ("", 1),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "unshare": ("", 0),
    "script": ("c", 0),
    "flock": ("wEc", 1),
    "chrt": ("", 1),
    "caffeinate": ("tw", 0),
    "winpty": ("", 0),
}
_VERSION = re.compile(r"(?<=[a-z])[0-9][0-9.]*$")


class Program(NamedTuple):
    """One program that is started: name without path and version, arguments, and the line."""

    name: str
    arguments: list[str]
    line: int
    command: Command


def program_name(word: str) -> str:
    """``/usr/bin/Python3.11`` → ``python``; ``UNKNOWN`` where the name is not known before the run."""
    if UNKNOWN in word:
        return UNKNOWN
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2].lower().removesuffix(".exe")
    plain = _VERSION.sub("", name)
    return plain if plain in INTERPRETERS or plain in ("pip",) else name


def resolve(command: Command, depth: int = 0) -> Iterator[Program]:
    """The programs that one simple command starts, outermost first, then those of its scripts and substitutions."""
    yield from _unwrap(command.words, command, depth)
    if depth < MAX_DEPTH:
        for pipe in command.inner:
            for inner in pipe:
                yield from resolve(inner, depth + 1)


def _unwrap(words: list[str], command: Command, depth: int) -> Iterator[Program]:
    while words and depth < MAX_DEPTH:
        name = program_name(words[0])
        arguments = words[1:]
        yield Program(name, arguments, command.line, command)
        depth += 1
        script = script_of(name, arguments)
        if script is not None:
            for pipe in pipelines(script, command.line, depth):
                for inner in pipe:
                    yield from resolve(inner, depth)
            return
        if name == "find":
            words = _after(arguments, ("-exec", "-execdir", "-ok", "-okdir"))
        elif name in _WRAPPERS:
            words = _inner_words(name, arguments)
        else:
            return


def script_of(name: str, arguments: list[str]) -> str | None:
    """The script that ``sh -c``, ``eval``, ``su -c`` or ``env -S`` gets as text."""
    if name == "eval":
        return " ".join(arguments)
    if name in SHELLS or name in ("su", "runuser", "script"):
        for index, word in enumerate(arguments):
            if word == "--command" or (word.startswith("-") and not word.startswith("--") and "c" in word[1:]):
                return arguments[index + 1] if index + 1 < len(arguments) else None
            if not word.startswith("-") and name in SHELLS:
                return None
    if name == "env":
        for index, word in enumerate(arguments):
            if word in ("-S", "--split-string") and index + 1 < len(arguments):
                return " ".join(arguments[index + 1 :])
    return None


def _after(arguments: list[str], marks: tuple[str, ...]) -> list[str]:
    for index, word in enumerate(arguments):
        if word in marks:
            return [word for word in arguments[index + 1 :] if word not in (";", "+", "{}")]
    return []


def _inner_words(name: str, arguments: list[str]) -> list[str]:
    valued, positional = _WRAPPERS[name]
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            index += 1
            break
        if word.startswith("--"):
            index += 1
        elif word.startswith("-") and len(word) > 1:
            index += 2 if word[-1] in valued and len(word) == 2 else 1
        elif name in ("env", "sudo") and "=" in word:
            index += 1
        else:
            break
    return arguments[index + positional :]


def programs_of(pipes: list[Pipeline]) -> Iterator[Program]:
    """Every program of a script."""
    for pipe in pipes:
        for command in pipe:
            yield from resolve(command)
