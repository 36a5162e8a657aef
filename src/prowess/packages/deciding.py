"""Whether a checked skill enters the catalog, waits for a person, or is turned down: a pure rule over facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from prowess.errors import ProwessError
from prowess.packages.changes import Files, changes_between
from prowess.packages.compatibility import agent_too_old, too_small
from prowess.packages.model import Changes, InstallState, TrustedKey
from prowess.packages.signing import Signature
from prowess.packages.trust import judge
from prowess.skills.manifest import SkillManifest
from prowess.skills.skill_md import LoadedSkill, inspect_skill_folder
from prowess.skills.store import StoredSkill
from prowess.skills.trust import Trust
from prowess.validation.levels import cap_for, permission_level
from prowess.validation.report import Issue, Level, Verdict

Review = Literal["auto", "always"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the decision rests on, all of one moment."""

    manifest: SkillManifest
    """at the version that it gets"""
    skill: LoadedSkill
    folder: Path
    """where the skill lies for reading lines"""
    signature: Signature | None
    keys: Sequence[TrustedKey]
    verdict: Verdict
    """of the levels of validation"""
    present: bool
    """whether this very content is in use at this version already"""
    before: SkillManifest | None
    """the version in use that this one follows"""
    current: StoredSkill | None
    """the version that serves now"""
    current_files: Files
    conflict: ProwessError | None
    """what the catalog says against it"""
    agent_version: str
    own: bool
    """whether the operator adds a folder of their own, which says yes to a first version"""
    review: Review


@dataclass(frozen=True, slots=True)
class Decision:
    """Where it goes and why: a stable code. ``findings`` come on top of the levels' issues."""

    state: InstallState
    reason: str
    trust: Trust
    signer: str | None
    level: int
    changes: Changes
    findings: tuple[Issue, ...] = ()
    error: ProwessError | None = field(default=None, compare=False)


def decide(facts: Facts) -> Decision:
    """Anything wrong rejects; anything that a person has to know waits for one; the rest serves at once."""
    judged = judge(facts.skill, facts.signature, facts.keys)
    level, _ = permission_level(facts.manifest)
    changes = _changes(facts, judged.signer)
    findings: list[Issue] = []
    if judged.problem is not None:
        code, detail = judged.problem
        severity: Literal["error", "warning"] = "error" if code == "signature_invalid" else "warning"
        findings.append(Issue("security", severity, code, "prowess.sig", 1, detail))
    findings.extend(_faults(facts, judged.trust))
    state, reason = _outcome(facts, changes, findings)
    return Decision(state, reason, judged.trust, judged.signer, level, changes, tuple(findings), facts.conflict)


def _outcome(facts: Facts, changes: Changes, findings: Sequence[Issue]) -> tuple[InstallState, str]:
    if facts.verdict == "reject":
        return InstallState.REJECTED, "check_failed"
    faults = [issue.code for issue in findings if issue.severity == "error"]
    if faults:
        return InstallState.REJECTED, faults[0]
    if facts.conflict is not None:
        return InstallState.REJECTED, facts.conflict.code
    if facts.present:
        return InstallState.ACTIVE, "present"
    if facts.review == "always":
        return InstallState.AWAITING_APPROVAL, "review_always"
    if facts.verdict == "review":
        return InstallState.AWAITING_APPROVAL, "review"
    if changes.signer_differs:
        return InstallState.AWAITING_APPROVAL, "signer_changed"
    if changes.wider and not (facts.own and changes.against is None):
        return InstallState.AWAITING_APPROVAL, "wider"
    return InstallState.ACTIVE, "clean"


def _changes(facts: Facts, signer: str | None) -> Changes:
    files = {file.path: file.sha256 for file in facts.skill.files}
    current = facts.current
    before = None if current is None else (current.manifest, facts.current_files)
    return changes_between(before, (facts.manifest, files), (None if current is None else current.signer, signer))


def _faults(facts: Facts, trust: Trust) -> list[Issue]:
    manifest, found = facts.manifest, []
    level, why = permission_level(manifest)
    cap = cap_for(manifest.trigger_source, trust)
    if level > cap:
        path = why.path if why is not None else ("permissions",)
        detail = {"asked": level, "cap": cap, "trust": str(trust), "value": "" if why is None else why.value[:80]}
        found.append(_issue(facts, "security", "permission_level_high", path, detail))
    needed = agent_too_old(manifest, facts.agent_version)
    if needed is not None:
        detail = {"needed": needed, "running": facts.agent_version}
        found.append(_issue(facts, "syntax", "agent_too_old", ("dependencies", "min_agent_version"), detail))
    before, declared = facts.before, facts.skill.declared_version is not None
    small = too_small(before, manifest) if before is not None and declared else None
    if small is not None and before is not None:
        change, version = small
        detail = {"what": change.what, "before": before.version, "version": manifest.version}
        found.append(_issue(facts, "syntax", "skill_semver", change.path, detail | {"needed": version.text}))
    return found


def _issue(facts: Facts, level: Level, code: str, path: tuple[str | int, ...], detail: Mapping[str, Any]) -> Issue:
    fields = inspect_skill_folder(facts.folder).fields
    place = None if fields is None else fields.place(*path)
    file, line = ("SKILL.md", 1) if place is None else (Path(place[0]).name, place[1])
    return Issue(level, "error", code, file, line, detail)
