"""What of an installed skill does not work here: the catalog says so instead of pretending."""

from __future__ import annotations

from collections.abc import Iterable

from prowess.skills.manifest import SkillKind, SkillManifest
from prowess.skills.store import StoredSkill

_OF_PROMPTS = frozenset({"scripts_not_run", "served_as_prompt"})


def notes_of(manifest: SkillManifest, paths: Iterable[str]) -> tuple[str, ...]:
    """What is stored with a version: codes with a sentence under ``note.<code>``, as for a skill whose scripts rest."""
    notes: list[str] = []
    if any(path.startswith("scripts/") for path in paths):
        notes.append("scripts_not_run")
    if manifest.kind is not SkillKind.PROMPT or manifest.tools:
        notes.append("served_as_prompt")
    if manifest.triggers.patterns or manifest.triggers.exclude:
        notes.append("patterns_ignored")
    return tuple(notes)


def served_notes(stored: StoredSkill, served: SkillKind) -> tuple[str, ...]:
    """What holds at this moment, on this machine, of a version that is served as ``served``."""
    if served is SkillKind.PROMPT:
        return stored.notes
    return tuple(note for note in stored.notes if note not in _OF_PROMPTS)
