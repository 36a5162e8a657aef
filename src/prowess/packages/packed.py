"""A packed stream read piece by piece, with a limit on what comes out: gzip, bzip2, xz, or not packed at all."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

CHUNK = 64 * 1024
MAX_DICTIONARY = 64 * 1024 * 1024
"""bytes of memory that an xz stream may ask for"""


class Unpacked:
    """Reads like a file. What ``too_large`` makes is raised where more than ``limit`` bytes come out."""

    def __init__(self, file: BinaryIO, kind: str, limit: int, too_large: Callable[[], Exception]) -> None:
        self._file = file
        self._kind = kind
        self._left = limit
        self._too_large = too_large
        self._waiting = b""
        """packed bytes that were read and not yet unpacked"""
        self._decoder = _decoder(kind)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; empty at the end. Raises ``EOFError`` where the stream is cut off."""
        piece = self._file.read(size) if self._decoder is None else self._unpack(size)
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_large()
        return piece

    def close(self) -> None:
        """Whoever opened the file closes it."""

    def _unpack(self, size: int) -> bytes:
        while True:
            if self._decoder.eof and not self._next_stream():
                return b""
            if not self._waiting and getattr(self._decoder, "needs_input", True):
                self._waiting = self._file.read(CHUNK)
            cut_off = not self._waiting and getattr(self._decoder, "needs_input", True)
            try:
                piece: bytes = self._decoder.decompress(self._waiting, size)
            except (OSError, _lzma_error()) as error:
                raise ValueError(str(error)) from None
            self._waiting = getattr(self._decoder, "unconsumed_tail", b"")
            if piece:
                return piece
            if cut_off and not self._decoder.eof:
                raise EOFError("cut off")

    def _next_stream(self) -> bool:
        """Whether another stream follows, as these formats allow; it is begun then."""
        self._waiting = self._decoder.unused_data or self._file.read(CHUNK)
        if not self._waiting.strip(b"\0"):
            return False
        self._decoder = _decoder(self._kind)
        return True


def _decoder(kind: str) -> Any:
    if kind == "tar":
        return None
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    import lzma

    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY)


def _lzma_error() -> type[Exception]:
    import lzma

    return lzma.LZMAError
