"""What is known of a skill that is being taken in, of keys, and of locks (U11, ruling 12.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from prowess.kernel.clock import iso
from prowess.messages import render
from prowess.skills.trust import Trust

SourceKind = Literal["folder", "archive"]


class InstallState(StrEnum):
    """Where a skill is on its way into the catalog."""

    QUARANTINED = "quarantined"
    """its files are kept apart: in no catalog, no search, no workspace"""
    CHECKED = "checked"
    AWAITING_APPROVAL = "awaiting_approval"
    ACTIVE = "active"
    REJECTED = "rejected"


TRANSITIONS: Mapping[InstallState, frozenset[InstallState]] = {
    InstallState.QUARANTINED: frozenset({InstallState.CHECKED, InstallState.REJECTED}),
    InstallState.CHECKED: frozenset({InstallState.AWAITING_APPROVAL, InstallState.ACTIVE, InstallState.REJECTED}),
    # Checked again where the rules, the keys or the catalog have changed since.
    InstallState.AWAITING_APPROVAL: frozenset({InstallState.ACTIVE, InstallState.REJECTED, InstallState.CHECKED}),
    # A key was revoked, and what it vouched for asks for more than it may without.
    InstallState.ACTIVE: frozenset({InstallState.QUARANTINED}),
    InstallState.REJECTED: frozenset(),
}
"""The one table of moves; every move is an event with actor and reason."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a version asks for beyond the one that serves now, and what else differs.

    Each entry is ``[area, value]``, such as ``["network", "api.example.org"]``.
    """

    against: str | None
    """the version compared with; null: nothing of that skill is installed"""
    wider: tuple[tuple[str, str], ...] = ()
    narrower: tuple[tuple[str, str], ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()
    """``["added" | "changed" | "removed", path]``"""
    level: tuple[int, int] = (0, 0)
    """permission level (V6) before and after"""
    signer: tuple[str | None, str | None] = (None, None)
    """key ids before and after"""

    @property
    def signer_differs(self) -> bool:
        """Whether another key signed, or none any more; a first signature is no loss."""
        before, after = self.signer
        return before is not None and before != after

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess skills installs``."""
        return {
            "against": self.against,
            "wider": [list(item) for item in self.wider],
            "narrower": [list(item) for item in self.narrower],
            "scripts": [list(item) for item in self.scripts],
            "level": list(self.level),
            "signer": list(self.signer),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Changes:
        """As stored."""
        wider, narrower, scripts = (
            tuple((str(area), str(value)) for area, value in data[name]) for name in ("wider", "narrower", "scripts")
        )
        before, after = data["level"]
        return cls(data["against"], wider, narrower, scripts, (before, after), (data["signer"][0], data["signer"][1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One skill on its way in. ``report`` is that of the levels of validation (V4); ``told`` gives its sentences."""

    id: str
    tenant: str
    skill: str | None
    version: str | None
    digest: str | None
    """of the content (S7); an approval is bound to it"""
    source: str
    kind: SourceKind
    state: InstallState
    reason: str | None
    """why it is where it is: a stable code"""
    outcome: Literal["added", "present", "restored"] | None
    trust: Trust | None
    signer: str | None
    level: int | None
    report: Mapping[str, Any]
    changes: Changes | None
    installed_by: str
    decided_by: str | None
    created_at: datetime
    changed_at: datetime

    def told(self, language: str = "en") -> dict[str, Any]:
        """The report with its sentences in ``en`` or ``zh``."""
        issues = [_told(issue, language) for issue in self.report.get("issues", ())]
        return {**self.report, "issues": issues}

    def to_json(self, language: str = "en") -> dict[str, Any]:
        """The shape of ``prowess skills install``."""
        return {
            "id": self.id,
            "skill": self.skill,
            "version": self.version,
            "digest": self.digest,
            "source": self.source,
            "kind": self.kind,
            "state": str(self.state),
            "reason": self.reason,
            "outcome": self.outcome,
            "trust": None if self.trust is None else str(self.trust),
            "signer": self.signer,
            "level": self.level,
            "report": self.told(language),
            "changes": None if self.changes is None else self.changes.to_json(),
            "installed_by": self.installed_by,
            "decided_by": self.decided_by,
            "created_at": iso(self.created_at),
            "changed_at": iso(self.changed_at),
        }


def _told(issue: Mapping[str, Any], language: str) -> dict[str, Any]:
    detail = issue.get("detail", {})
    sentences = {
        "message": render(f"error.{issue['code']}", language, detail),
        "remedy": render(f"remedy.{issue['code']}", language, detail),
    }
    return {**{name: value for name, value in issue.items() if name != "detail"}, **sentences}


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key that a tenant trusts, for skills whose id begins with ``prefix`` (empty: all)."""

    key_id: str
    name: str
    public: bytes
    prefix: str
    trusted_at: datetime
    revoked_at: datetime | None

    def covers(self, skill: str) -> bool:
        """Whether it may vouch for the skill now: the prefix ends at a hyphen or is the whole id."""
        inside = not self.prefix or skill == self.prefix or skill.startswith(self.prefix.rstrip("-") + "-")
        return self.revoked_at is None and inside

    def to_json(self) -> dict[str, Any]:
        """The shape of ``prowess keys list``."""
        return {
            "key_id": self.key_id,
            "name": self.name,
            "prefix": self.prefix,
            "trusted_at": iso(self.trusted_at),
            "revoked_at": iso(self.revoked_at),
        }
