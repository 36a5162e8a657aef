"""What comes out of a sandbox, read as hostile: lines of a script, and frames of our own process 1."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast, get_args

from prowess.sandbox.model import CallKind, ScriptCall

_KINDS = frozenset(get_args(CallKind))
_MAX_NAME = 256
_OVERHEAD = 4096
"""bytes of a line beside what it carries"""


class Forged(Exception):
    """A message that the guest module does not write: the run is ended."""


class TooLong(Exception):
    """A line beyond its limit: the run is ended."""


class Lines:
    """Cuts what a script sends into messages."""

    def __init__(self, limit: int) -> None:
        """``limit``: bytes of a returned value, or of the arguments of a call."""
        self._limit = limit + _OVERHEAD
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """The messages that are whole now. Raises ``Forged`` and ``TooLong``."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if len(line) > self._limit:
                raise TooLong
            yield _json_object(line)
        if len(self._rest) > self._limit:
            raise TooLong


def _json_object(line: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Forged("no JSON") from None
    if not isinstance(found, dict):
        raise Forged("no object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def call_of(message: Mapping[str, Any], number: int) -> ScriptCall:
    """The call that a message makes; it has to be the ``number``-th. Raises ``Forged``."""
    kind, name, arguments = message.get("call"), message.get("name"), message.get("arguments")
    if set(message) != {"id", "call", "name", "arguments"} or type(message["id"]) is not int or message["id"] != number:
        raise Forged("number")
    if kind not in _KINDS or not isinstance(name, str) or not isinstance(arguments, dict):
        raise Forged("shape")
    if not name or len(name) > _MAX_NAME or "\0" in name:
        raise Forged("name")
    return ScriptCall(cast(CallKind, kind), name, arguments)


class Frames:
    """Puts the frames of process 1 together: four bytes of length, JSON."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        """The frames that are whole now. Raises ``Forged``."""
        self._rest += data
        while len(self._rest) >= 4:
            length = int.from_bytes(self._rest[:4], "big")
            if length > self._limit:
                raise Forged("frame")
            if len(self._rest) < 4 + length:
                return
            body, self._rest = self._rest[4 : 4 + length], self._rest[4 + length :]
            yield _json_object(body)
