"""The keys that secrets are encrypted with: read from the environment or a file, kept in memory, never shown.

AES-256-GCM (NIST SP 800-38D) with a random nonce of 12 bytes. What a ciphertext belongs to is authenticated with it, so
that it opens nowhere else. A key is known by its id, the beginning of a digest of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from prowess.errors import Conflict, StorageError

KEY_VARIABLE = "PROWESS_SECRET_KEY"
KEY_FILE_VARIABLE = "PROWESS_SECRET_KEY_FILE"
KEY_BYTES = 32
_NONCE_BYTES = 12
_MAX_FILE = 65_536
_HEADER = "# Keys for the secrets of Prowess, newest first. Whoever reads this file reads the secrets.\n"
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
_URLSAFE = bytes.maketrans(b"-_", b"+/")


class Sealed(NamedTuple):
    """A nonce and the ciphertext after it, and the id of the key."""

    key_id: str
    data: bytes


class KeyRing:
    """The first key encrypts, every key decrypts."""

    __slots__ = ("_ciphers", "key_id", "key_ids")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """``keys``: one or more of 32 bytes. Raises ``ValueError``."""
        # Loading the library takes longer than a whole turn: only those wait who have a key.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key ring needs keys of {KEY_BYTES} bytes")
        self._ciphers: Mapping[str, Any] = {_key_id(key): AESGCM(key) for key in keys}
        self.key_ids = tuple(self._ciphers)
        self.key_id = self.key_ids[0]
        """of the key that encrypts"""

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.key_ids)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key ring does not travel")

    def seal(self, plain: bytes, context: bytes) -> Sealed:
        """Encrypt for ``context``, without which it does not open."""
        nonce = os.urandom(_NONCE_BYTES)
        return Sealed(self.key_id, nonce + self._ciphers[self.key_id].encrypt(nonce, plain, context))

    def open(self, sealed: Sealed, context: bytes) -> bytes:
        """Decrypt.

        Raises ``StorageError``: ``secret_key_unknown`` where the key is none of these, ``secret_damaged`` where the
        ciphertext was changed or is another context's.
        """
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(sealed.key_id)
        if cipher is None:
            raise StorageError("secret_key_unknown", key=sealed.key_id, known=list(self.key_ids))
        try:
            plain: bytes = cipher.decrypt(sealed.data[:_NONCE_BYTES], sealed.data[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise StorageError("secret_damaged", key=sealed.key_id) from None
        return plain


def read_keys(file: Path | None = None, environment: Mapping[str, str] | None = None) -> KeyRing:
    """The key ring of ``file``; else of ``PROWESS_SECRET_KEY``; else of the file ``PROWESS_SECRET_KEY_FILE``.

    Keys are base64 of 32 bytes each, the one that encrypts first, between white space; in a file, lines that begin with
    ``#`` are passed over. Raises ``StorageError``: ``secret_key_missing`` where none of the three is given or the file
    is absent, ``secret_key_exposed`` where others may read the file, ``secret_key_malformed``.
    """
    variables = os.environ if environment is None else environment
    if file is None and (text := variables.get(KEY_VARIABLE)):
        return _parse(text.encode("utf-8", "surrogateescape"), KEY_VARIABLE)
    if file is None and (name := variables.get(KEY_FILE_VARIABLE)):
        file = Path(name)
    if file is None:
        raise StorageError("secret_key_missing", source=KEY_VARIABLE)
    return _parse(_read(file), str(file))


def new_key_file(file: Path) -> str:
    """Write a fresh key that its owner alone may read; returns its id.

    Raises ``Conflict('secret_key_exists')``: a key that is overwritten takes every secret with it. Raises
    ``StorageError('secret_key_unwritable')``.
    """
    key = os.urandom(KEY_BYTES)
    content = _HEADER.encode() + base64.b64encode(key) + b"\n"
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
    except FileExistsError:
        raise Conflict("secret_key_exists", file=str(file)) from None
    except OSError as error:
        raise StorageError("secret_key_unwritable", file=str(file), cause=type(error).__name__) from None
    return _key_id(key)


def _read(file: Path) -> bytes:
    try:
        # A pipe in the place of the file must not hold the program up.
        descriptor = os.open(file, os.O_RDONLY | _NO_WAIT)
    except OSError as error:
        raise StorageError("secret_key_missing", source=str(file), cause=type(error).__name__) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE:
            raise StorageError("secret_key_malformed", source=str(file), line=1)
        if sys.platform != "win32" and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise StorageError("secret_key_exposed", file=str(file), mode=f"{stat.S_IMODE(found.st_mode):04o}")
        return os.read(descriptor, _MAX_FILE)
    finally:
        os.close(descriptor)


def _parse(content: bytes, source: str) -> KeyRing:
    keys = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.lstrip().startswith(b"#"):
            continue
        for word in line.split():
            try:
                key = base64.b64decode(word.translate(_URLSAFE), validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if len(key) != KEY_BYTES:
                raise StorageError("secret_key_malformed", source=source, line=number)
            keys.append(key)
    if not keys:
        raise StorageError("secret_key_malformed", source=source, line=1)
    return KeyRing(keys)


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"prowess secret key id\n" + key).hexdigest()[:16]
