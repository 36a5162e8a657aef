"""Read the ClientHello that opens TLS, as far as the name it asks for (RFC 8446, 4.1.2; RFC 6066, 3).

Every length is checked against what is there, and every structure must end where it says. A hello is refused for what
cannot be checked: more than one name, an extension that stands twice, or a hello inside it that is encrypted (ECH).
"""

from __future__ import annotations

from prowess.adapters.sandboxes.network.names import is_name

MAX_HELLO = 16_384
"""Bytes of the message; with post-quantum keys it is about 2,000."""
MAX_RECORDS = 16
HEADER = 5
"""bytes of a record's header"""

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HIDDEN = frozenset({0xFE0D, 0xFFCE})
"""encrypted_client_hello (RFC 9849), and the encrypted name that came before it"""
_MAX_RECORD = 16_384


class BadHello(Exception):
    """What came is no ClientHello, or one that cannot be checked."""


class HelloReader:
    """Puts a ClientHello together from records."""

    def __init__(self) -> None:
        self._message = bytearray()
        self._records = 0

    def length(self, header: bytes) -> int:
        """Bytes that follow a record's header of five. Raises ``BadHello`` where it is not of a handshake."""
        self._records += 1
        if len(header) != HEADER or header[0] != _HANDSHAKE or header[1] != 3 or header[2] > 4:
            raise BadHello("no handshake record")
        length = int.from_bytes(header[3:5], "big")
        if not 0 < length <= _MAX_RECORD or self._records > MAX_RECORDS:
            raise BadHello("record length")
        return length

    def add(self, fragment: bytes) -> str | None:
        """The name that is asked for, in lower case, empty where there is none; null until the message is whole.

        Raises ``BadHello``.
        """
        self._message += fragment
        message = self._message
        if message[:1] != bytes((_CLIENT_HELLO,)):
            raise BadHello("no client hello")
        if len(message) < 4:
            return None
        whole = 4 + int.from_bytes(message[1:4], "big")
        if whole > MAX_HELLO or len(message) > whole:
            raise BadHello("hello length")
        return server_name(bytes(message[4:])) if len(message) == whole else None


def server_name(hello: bytes) -> str:
    """The name in the body of a ClientHello, in lower case; empty where it has none. Raises ``BadHello``."""
    body = _Part(hello)
    body.take(2 + 32)  # version, random
    body.vector(1, most=32)  # session
    body.vector(2, least=2)  # cipher suites
    body.vector(1, least=1)  # compression
    name = ""
    if not body.left:  # TLS before extensions
        return name
    extensions = _Part(body.vector(2))
    body.end()
    seen: set[int] = set()
    while extensions.left:
        kind = extensions.number(2)
        content = extensions.vector(2)
        if kind in seen or kind in _HIDDEN:
            raise BadHello("extension")
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _only_name(_Part(content))
    return name


def _only_name(extension: _Part) -> str:
    names = _Part(extension.vector(2, least=1))
    extension.end()
    if names.number(1) != 0:
        raise BadHello("kind of name")
    text = names.vector(2, least=1)
    names.end()
    name = text.decode("latin-1").lower()
    if not is_name(name):
        raise BadHello("name")
    return name


class _Part:
    """Bytes that are taken from the front."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise BadHello("ends early")
        self._at += count
        return self._content[self._at - count : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int, least: int = 0, most: int = MAX_HELLO) -> bytes:
        """A vector with a length of ``size`` bytes before it."""
        length = self.number(size)
        if not least <= length <= most:
            raise BadHello("vector length")
        return self.take(length)

    def end(self) -> None:
        if self.left:
            raise BadHello("goes on")
