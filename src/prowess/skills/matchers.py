"""Deterministic matching of a message against a skill's trigger rules (T5).

Text and rules are compared after NFKC and case folding. A Latin keyword is bounded by non-alphanumerics, so that
``git`` is not found in ``digital`` but is in ``用git提交``; a Chinese keyword of two characters or more matches as a
substring. One generic word alone never fires: ``min_keywords`` different ones must occur (two unless the author says
otherwise).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from prowess.kernel.text import fold, has_cjk
from prowess.skills.manifest import TriggerRules


class Match(NamedTuple):
    """A rule that fired. ``score`` is in (0, 1]; ``reason`` names the rule, never the user's text."""

    score: float
    reason: str


class Matchers:
    """Compiled trigger rules. Patterns are trusted code: only built-in definitions carry them."""

    def __init__(self, rules: TriggerRules) -> None:
        self._patterns = tuple(re.compile(pattern) for pattern in rules.patterns)
        self._exclude = tuple(re.compile(pattern) for pattern in rules.exclude)
        self._min_keywords = rules.min_keywords
        keywords = dict.fromkeys(fold(keyword).strip() for keyword in rules.keywords)
        self._keywords = tuple((keyword, _keyword_pattern(keyword)) for keyword in keywords if _usable(keyword))

    def match(self, folded: str) -> Match | None:
        """The strongest rule that fires on text already passed through ``kernel.text.fold``, or none."""
        if any(pattern.search(folded) for pattern in self._exclude):
            return None
        for index, pattern in enumerate(self._patterns):
            if pattern.search(folded):
                return Match(1.0, f"pattern {index + 1}")
        hits = self._hits(folded)
        if not hits or len(hits) < self._min_keywords:
            return None
        return Match(min(0.99, 0.5 + 0.1 * len(hits)), "keywords " + ", ".join(hits[:5]))

    def near_miss(self, folded: str) -> float | None:
        """The score, below .5, of text that holds some of the keywords but too few; null where it holds none."""
        hits = self._hits(folded)
        return 0.5 * len(hits) / self._min_keywords if 0 < len(hits) < self._min_keywords else None

    def _hits(self, folded: str) -> list[str]:
        return [keyword for keyword, pattern in self._keywords if pattern.search(folded)]


def _usable(keyword: str) -> bool:
    return len(keyword) >= 2


def _keyword_pattern(keyword: str) -> re.Pattern[str]:
    literal = re.escape(keyword)
    chinese = has_cjk(keyword)
    # In a keyword of both scripts, only a Latin end is bounded.
    before = "" if chinese and not _latin(keyword[0]) else "(?<![a-z0-9])"
    after = "" if chinese and not _latin(keyword[-1]) else "(?![a-z0-9])"
    return re.compile(before + literal + after)


def _latin(character: str) -> bool:
    return character.isascii() and character.isalnum()
