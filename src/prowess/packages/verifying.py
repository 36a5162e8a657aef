"""Who signed a skill, and whether it is unchanged since; for a person who looks at a folder before installing it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prowess.packages.model import TrustedKey
from prowess.packages.signing import key_id_of, parse_signature, read_public_key
from prowess.packages.trust import judge
from prowess.packages.unpacking import opened_package
from prowess.skills.skill_md import read_skill_folder
from prowess.skills.trust import Trust

_WORDS = {"signature_invalid": "invalid", "signer_unknown": "unknown"}


def trusted_alone(key: str | Path) -> list[TrustedKey]:
    """One key as if it were trusted for every skill. Raises as ``read_public_key``."""
    public = read_public_key(key)
    return [TrustedKey(key_id_of(public), "", public, "", datetime.fromtimestamp(0, UTC), None)]


def verify_skill(path: str | Path, keys: Iterable[TrustedKey]) -> dict[str, Any]:
    """``{"path", "id", "version", "digest", "key_id", "signature": "verified|unknown|invalid|unsigned", "ok"}``.

    ``ok`` is true for ``verified`` alone. Raises ``SkillFileError``.
    """
    with opened_package(path) as package:
        skill = read_skill_folder(package.folder)
        signature = None if package.signature is None else parse_signature(package.signature)
        judged = judge(skill, signature, keys)
    verified = judged.trust is Trust.VERIFIED
    word = "verified" if verified else "unsigned" if judged.problem is None else _WORDS[judged.problem[0]]
    return {
        "path": str(path),
        "id": skill.manifest.id,
        "version": skill.declared_version,
        "digest": skill.digest,
        "key_id": None if signature is None else signature.key_id,
        "signature": word,
        "ok": verified,
    }
