"""Signatures of skills: ed25519 (RFC 8032) over a statement of who the skill is (ruling 12.8, S7).

The statement names the skill, its version and the digest of its content; its bytes are canonical JSON (RFC 8785) after
a fixed prefix, so that a signature given for anything else is none here. It stands beside SKILL.md in ``prowess.sig``,
which has no part in the digest. A key is known by its id, the beginning of the digest of its public half.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prowess.errors import Conflict, InvalidInput, SkillFileError
from prowess.kernel.canonical import canonical_json
from prowess.skills.front_matter import read_limited
from prowess.skills.skill_md import LoadedSkill
from prowess.skills.skill_md.folder import SIGNATURE_FILE, shown

MAX_SIGNATURE_BYTES = 4_096
MAX_KEY_FILE_BYTES = 4_096
KEY_BYTES = 32
_CONTEXT = b"prowess-skill-signature-v1\n"
_HEADER = "# A key that signs skills for Prowess. Whoever reads this file can sign in its owner's name.\n"
_PUBLIC_HEADER = "# The public half: who trusts it trusts the skills that its owner signs.\n"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a signature vouches for. ``version`` is null where the files name none."""

    skill: str
    version: str | None
    digest: str

    @classmethod
    def of(cls, skill: LoadedSkill) -> Statement:
        """The statement that fits these files."""
        return cls(skill.manifest.id, skill.declared_version, skill.digest)

    def to_bytes(self) -> bytes:
        """The bytes that are signed."""
        return _CONTEXT + canonical_json({"skill": self.skill, "version": self.version, "digest": self.digest})


@dataclass(frozen=True, slots=True)
class Signature:
    """A statement, the id of the key, and the 64 bytes of the signature."""

    statement: Statement
    key_id: str
    value: bytes

    def to_text(self) -> str:
        """The content of ``prowess.sig``."""
        statement = {"skill": self.statement.skill, "version": self.statement.version, "digest": self.statement.digest}
        value = base64.b64encode(self.value).decode()
        return json.dumps({"statement": statement, "key": self.key_id, "signature": value}, indent=2) + "\n"

    def verified_by(self, public: bytes) -> bool:
        """Whether the key made it; the id must be that of the key."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if self.key_id != key_id_of(public):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(self.value, self.statement.to_bytes())
        except (InvalidSignature, ValueError):
            return False
        return True


def key_id_of(public: bytes) -> str:
    """The id of a public key: 32 hexadecimal characters."""
    return hashlib.sha256(public).hexdigest()[:32]


def new_key(file: Path) -> tuple[str, Path]:
    """Write a fresh private key to ``file``, for its owner alone, and the public one beside it, ``.pub`` added.

    Returns the key's id and the public file. Raises ``Conflict('signing_key_exists')``: an overwritten key cannot sign
    again; ``SkillFileError('write_failed')``.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    public, public_file = key.public_key().public_bytes_raw(), file.with_name(f"{file.name}.pub")
    _write_new(file, _HEADER + base64.b64encode(key.private_bytes_raw()).decode() + "\n", 0o600)
    _write_new(public_file, _PUBLIC_HEADER + base64.b64encode(public).decode() + "\n", 0o644)
    return key_id_of(public), public_file


def sign(skill: LoadedSkill, key_file: Path) -> Signature:
    """Sign a skill with the private key in ``key_file``.

    Raises ``SkillFileError`` (``signing_key_malformed``, ``signing_key_exposed``, and those of ``read_limited``).
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if os.name == "posix" and key_file.exists() and key_file.stat().st_mode & 0o077:
        raise SkillFileError("signing_key_exposed", file=str(key_file), line=1)
    key = Ed25519PrivateKey.from_private_bytes(_read_key(key_file))
    statement = Statement.of(skill)
    public = key.public_key().public_bytes_raw()
    return Signature(statement, key_id_of(public), key.sign(statement.to_bytes()))


def read_public_key(key: str | Path) -> bytes:
    """The 32 bytes of a public key: base64, or a file that holds it. Raises ``SkillFileError``, ``InvalidInput``."""
    if isinstance(key, str) and (decoded := _decoded(key)) is not None:
        return decoded
    try:
        return _read_key(Path(key))
    except ValueError:
        raise InvalidInput("signing_key_malformed", file=shown(str(key))[:80], field="key") from None


def write_signature(folder: Path, signature: Signature) -> Path:
    """Put ``prowess.sig`` beside SKILL.md, in place of an older one. Raises ``SkillFileError('write_failed')``."""
    file = folder / SIGNATURE_FILE
    beside = folder / f".{SIGNATURE_FILE}.tmp"
    try:
        beside.write_text(signature.to_text(), encoding="utf-8")
        beside.replace(file)
    except OSError as error:
        raise SkillFileError("write_failed", file=str(file), line=1, problem=error.strerror or str(error)) from None
    return file


def read_signature(folder: Path) -> str | None:
    """The text of ``prowess.sig`` in a folder, unverified; ``None`` where there is none.

    Raises ``SkillFileError`` (``file_too_large``, ``file_unreadable``, ``file_irregular``, ``signature_malformed``).
    """
    file = folder / SIGNATURE_FILE
    if not os.path.lexists(file):
        return None
    if file.is_symlink():
        raise SkillFileError("file_irregular", file=shown(str(file)), line=1)
    data = read_limited(str(file), MAX_SIGNATURE_BYTES, shown(str(file)))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SkillFileError("signature_malformed", file=SIGNATURE_FILE, line=1) from None


def parse_signature(text: str) -> Signature:
    """The signature in a ``prowess.sig``. Raises ``SkillFileError('signature_malformed')``."""
    try:
        found: Any = json.loads(text)
        statement, key_id = found["statement"], found["key"]
        skill, version, content = statement["skill"], statement["version"], statement["digest"]
        value = base64.b64decode(found["signature"], validate=True)
        texts = (skill, content, key_id, version if version is not None else "")
        if len(value) != 64 or not all(isinstance(part, str) and len(part) <= 100 for part in texts):
            raise ValueError("shape")
    except (ValueError, TypeError, LookupError, RecursionError):
        raise SkillFileError("signature_malformed", file=SIGNATURE_FILE, line=1) from None
    return Signature(Statement(skill, version, content), key_id, value)


def _read_key(file: Path) -> bytes:
    data = read_limited(str(file), MAX_KEY_FILE_BYTES, shown(str(file)))
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    key = _decoded(wanted[0]) if len(wanted) == 1 else None
    if key is None:
        raise SkillFileError("signing_key_malformed", file=shown(str(file)), line=1)
    return key


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


def _write_new(file: Path, text: str, mode: int) -> None:
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise Conflict("signing_key_exists", file=str(file)) from None
    except OSError as error:
        raise SkillFileError("write_failed", file=str(file), line=1, problem=error.strerror or str(error)) from None
