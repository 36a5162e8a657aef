"""Rule matchers, workflow before tool before prompt (T2, T5)."""

from __future__ import annotations

from collections.abc import Sequence

from prowess.skills.manifest import SkillKind
from prowess.turns.definitions import SkillDefinition
from prowess.turns.request import Selection

_ORDER = (SkillKind.WORKFLOW, SkillKind.TOOL, SkillKind.PROMPT)


def select_by_rule(folded: str, candidates: Sequence[SkillDefinition]) -> Selection | None:
    """The best match of the first kind that has one; equal scores go to the id that sorts first."""
    for kind in _ORDER:
        best: Selection | None = None
        for candidate in candidates:
            manifest = candidate.manifest
            if manifest.kind is not kind:
                continue
            match = candidate.matchers.match(folded)
            if match is None:
                continue
            if best is None or (-match.score, manifest.id) < (-best.score, best.skill_id):
                best = Selection(manifest.id, manifest.version, str(kind), "rule", match.score, match.reason)
        if best is not None:
            return best
    return None
