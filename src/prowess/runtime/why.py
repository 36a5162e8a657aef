"""Why each skill serves a message or does not (U12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from prowess.errors import NotFound
from prowess.kernel.text import fold
from prowess.skills.catalog import Catalog
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition
from prowess.turns.request import Selection
from prowess.turns.selectors import parse_command, select
from prowess.turns.view import Entry, TurnView

Reason = Literal[
    "chosen", "not_granted", "filtered", "policy", "disabled", "scope", "no_match", "below_threshold", "outranked",
    "over_budget",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhyNot:
    """One skill and why it was not chosen. ``score``: of its own rules, where they match at all, from 0 to 1."""

    skill_id: str
    version: str
    reason: Reason
    score: float | None = None
    chosen: str | None = None
    """for ``outranked``: the skill that serves instead"""

    def to_json(self) -> dict[str, Any]:
        """``{"skill_id", "version", "reason", "score", "chosen"}``."""
        return {name: getattr(self, name) for name in ("skill_id", "version", "reason", "score", "chosen")}


def why_not(
    text: str,
    scope: ChatScope,
    view: TurnView,
    catalog: Catalog[SkillDefinition],
    over_budget: Callable[[SkillDefinition], bool] = lambda _definition: False,
) -> list[WhyNot]:
    """Of each skill of the catalog, by id; the selection itself is asked as a turn asks it.

    The one that was chosen and would then be refused for want of budget is ``over_budget``.
    """
    try:
        selection = select(text, [entry.definition for entry in view.candidates], scope)
    except NotFound:
        selection = None
    bound = {entry.manifest.id: entry for entry in view.bound}
    found = [_why(bound.get(entry.manifest.id), entry, text, scope, view, selection) for entry in catalog]
    return [
        replace(item, reason="over_budget")
        if item.reason == "chosen" and over_budget(bound[item.skill_id].definition)
        else item
        for item in found
    ]


def _why(
    bound: Entry | None, entry: Entry, text: str, scope: ChatScope, view: TurnView, selection: Selection | None
) -> WhyNot:
    shown = bound or entry
    skill_id, version = shown.manifest.id, shown.manifest.version
    hidden = view.hidden(shown)
    if hidden is not None:
        return WhyNot(skill_id, version, hidden)
    if bound is None:
        return WhyNot(skill_id, version, "disabled")
    if scope not in bound.manifest.scopes:
        return WhyNot(skill_id, version, "scope")
    if selection is not None and selection.skill_id == skill_id:
        return WhyNot(skill_id, version, "chosen", selection.score)
    if parse_command(text) is not None:
        return WhyNot(skill_id, version, "no_match")
    matchers, folded = bound.definition.matchers, fold(text)
    match = matchers.match(folded)
    if match is not None and selection is not None:
        return WhyNot(skill_id, version, "outranked", match.score, selection.skill_id)
    near = matchers.near_miss(folded)
    return WhyNot(skill_id, version, "no_match" if near is None else "below_threshold", near)
