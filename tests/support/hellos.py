"""ClientHellos: as OpenSSL writes them, and built by hand with whatever is wrong."""

from __future__ import annotations

import ssl

SERVER_NAME = 0
ECH = 0xFE0D


def vector(size: int, content: bytes) -> bytes:
    """A vector with a length of ``size`` bytes before it."""
    return len(content).to_bytes(size, "big") + content


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2, "big") + vector(2, content)


def name_extension(*names: bytes, kind: int = 0) -> bytes:
    return extension(SERVER_NAME, vector(2, b"".join(bytes((kind,)) + vector(2, name) for name in names)))


def body(extensions: bytes | None) -> bytes:
    """Of a ClientHello; without extensions where they are null."""
    fixed = b"\x03\x03" + bytes(32) + vector(1, bytes(32)) + vector(2, b"\x13\x01") + vector(1, b"\x00")
    return fixed if extensions is None else fixed + vector(2, extensions)


def message(content: bytes) -> bytes:
    """A handshake message."""
    return b"\x01" + vector(3, content)


def records(content: bytes, size: int = 16_384) -> bytes:
    """A message in records of at most ``size`` bytes."""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"\x16\x03\x01" + vector(2, part) for part in parts)


def real(name: str | None) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake with nobody")
