"""How far a skill is trusted, and what that lets it ask for (V3, V6, L10, ruling 12.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from prowess.packages.model import TrustedKey
from prowess.skills.trust import Trust

if TYPE_CHECKING:
    from prowess.packages.signing import Signature
    from prowess.skills.manifest import SkillManifest
    from prowess.skills.skill_md import LoadedSkill

SOURCE_CAPS = {"frequency": 2, "self_heal": 2, "user_correction": 1, "manual": 4}
"""by ``trigger_source``"""
TRUST_CAPS = {Trust.BUILT_IN: 4, Trust.VERIFIED: 3, Trust.COMMUNITY: 2, Trust.GENERATED: 2}
UNKNOWN_CAP = 1
GENERATED_SOURCES = frozenset({"frequency", "self_heal", "user_correction"})

_READ_LEVELS = {"L1": 0, "L2": 1, "L3": 1, "L4": 3, "L5": 4}
_WRITE_LEVELS = {"L1": 1, "L2": 2, "L3": 3, "L4": 4, "L5": 4}
_RISK_LEVELS = {"L0": 0, "L1": 1, "L2": 2, "L3": 3, "L4": 3}


class Judgement(NamedTuple):
    """Trust, the key that gives it, and what is wrong with the signature: a code, and fields of its sentence."""

    trust: Trust
    signer: str | None = None
    problem: tuple[str, dict[str, Any]] | None = None


class Reason(NamedTuple):
    """What raises a level: the path of the field in the manifest, and the value."""

    path: tuple[str | int, ...]
    value: str


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


def cap_for(source: str | None, trust: Trust) -> int:
    """The highest permission level for a ``trigger_source`` and a trust, the lower of the two."""
    by_source = 4 if source is None else SOURCE_CAPS.get(source, UNKNOWN_CAP)
    return min(by_source, TRUST_CAPS[trust])


def permission_level(manifest: SkillManifest) -> tuple[int, Reason | None]:
    """The level, 0 to 4, of what a manifest asks for, and what raises it to there (V6)."""
    best, why = 0, None
    for level, path, value in _asked(manifest):
        if level > best:
            best, why = level, Reason(path, value)
    return best, why


def _asked(manifest: SkillManifest) -> Iterable[tuple[int, tuple[str | int, ...], str]]:
    asked = manifest.permissions
    for verb, level in (("read", 1), ("write", 2), ("delete", 2)):
        for index, pattern in enumerate(getattr(asked.filesystem, verb)):
            yield level, ("permissions", "filesystem", verb, index), pattern
    if asked.network.allowed or asked.network.domains:
        yield 2, ("permissions", "network"), ", ".join(asked.network.domains[:3])
    if asked.shell.allowed or asked.shell.commands:
        yield 2 if asked.shell.commands else 3, ("permissions", "shell"), ", ".join(asked.shell.commands[:3])
    for layer in asked.memory.read_layers:
        yield _READ_LEVELS[layer], ("permissions", "memory", "read_layers"), layer
    for layer in asked.memory.write_layers:
        yield _WRITE_LEVELS[layer], ("permissions", "memory", "write_layers"), layer
    for verb, level in (("read", 1), ("write", 2)):
        for index, name in enumerate(getattr(asked.env_vars, verb)):
            yield level, ("permissions", "env_vars", verb, index), name
    for index, requirement in enumerate(manifest.requirements):
        yield _RISK_LEVELS[str(requirement.risk)], ("requirements", index), requirement.code
