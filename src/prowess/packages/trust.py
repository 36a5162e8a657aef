"""How far a skill is trusted, and what that lets it ask for (V3, V6, L10, ruling 12.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from prowess.packages.model import TrustedKey
from prowess.skills.trust import Trust

if TYPE_CHECKING:
    from prowess.packages.signing import Signature
    from prowess.skills.skill_md import LoadedSkill

GENERATED_SOURCES = frozenset({"frequency", "self_heal", "user_correction"})


class Judgement(NamedTuple):
    """Trust, the key that gives it, and what is wrong with the signature: a code, and fields of its sentence."""

    trust: Trust
    signer: str | None = None
    problem: tuple[str, dict[str, Any]] | None = None


def judge(skill: LoadedSkill, signature: Signature | None, keys: Iterable[TrustedKey]) -> Judgement:
    """The trust that a signature gives these files.

    A signature that does not fit the files is no signature of somebody unknown, but a sign of tampering: the problem is
    then ``signature_invalid``. A key that is not trusted here, or not for this skill, gives nothing:
    ``signer_unknown``.
    """
    from prowess.packages.signing import Statement

    made_by_program = skill.manifest.trigger_source in GENERATED_SOURCES
    plain = Trust.GENERATED if made_by_program else Trust.COMMUNITY
    if signature is None:
        return Judgement(plain)
    if signature.statement != Statement.of(skill):
        return Judgement(plain, None, ("signature_invalid", {"key": signature.key_id[:32]}))
    key = next((key for key in keys if key.key_id == signature.key_id and key.covers(skill.manifest.id)), None)
    if key is None:
        return Judgement(plain, None, ("signer_unknown", {"key": signature.key_id[:32]}))
    if not signature.verified_by(key.public):
        return Judgement(plain, None, ("signature_invalid", {"key": signature.key_id[:32]}))
    return Judgement(Trust.VERIFIED, key.key_id)
