"""Which texts a pattern cannot match without (V3): read from the pattern, looked for in one pass for all patterns at once.

A regular expression is dear on a whole text, and most texts hold none of its words. ``needs_of`` reads from a pattern's
own syntax tree the groups of literals of which one each must occur; an Aho-Corasick automaton finds the literals of all
patterns in one pass; an expression is compiled and tried only where all of its groups lie near each other.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

REACH = 320
"""Characters before and after a literal within which the rest of a match lies; patterns have bounded gaps"""
MAX_HITS = 400_000
_KEPT_GROUPS = 3

Group = frozenset[str]


class Need(NamedTuple):
    """One way in which a pattern can match: every group has a literal in the match."""

    groups: tuple[Group, ...]


def needs_of(expression: str) -> list[Need]:
    """The ways in which a case-insensitive pattern can match. Raises ``ValueError`` where one needs no literal at all."""
    tree = _parser.parse(expression, re.IGNORECASE)
    needs = []
    for branch in _alternatives(list(tree)):
        groups = sorted(set(_groups(branch)), key=_worth, reverse=True)[:_KEPT_GROUPS]
        if not groups:
            raise ValueError(f"no literal in {expression!r}")
        needs.append(Need(tuple(groups)))
    return needs


def _alternatives(items: list[Any]) -> list[list[Any]]:
    """A pattern that is nothing but a choice, one by one."""
    wide = [item for item in items if item[0] is not _constants.AT]
    if len(wide) == 1 and wide[0][0] is _constants.BRANCH:
        return [way for branch in wide[0][1][1] for way in _alternatives(list(branch))]
    if len(wide) == 1 and wide[0][0] is _constants.SUBPATTERN:
        return _alternatives(list(wide[0][1][3]))
    return [items]


def _groups(items: Iterable[Any]) -> list[Group]:
    """The groups of a sequence."""
    found: list[Group] = []
    run = ""
    for operator, argument in items:
        if operator is _constants.LITERAL:
            run += chr(argument)
            continue
        if operator is _constants.AT:
            continue
        found += _single(run)
        run = ""
        if operator is _constants.SUBPATTERN:
            found += _groups(argument[3])
        elif operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and argument[0] >= 1:
            found += _groups(argument[2])
        elif operator is _constants.BRANCH:
            best = [max(groups, key=_worth) if (groups := _groups(branch)) else None for branch in argument[1]]
            if all(best):
                found.append(frozenset().union(*(group for group in best if group)))
    return found + _single(run)


def _single(run: str) -> list[Group]:
    literal = run.lower()
    return [frozenset({literal})] if _weight(literal) >= 3 else []


def _weight(literal: str) -> int:
    """How much a literal tells: a Chinese character is worth three letters, and a blank is worth little."""
    return sum(3 if ord(char) > 0x2E7F else 0 if char in " .,:/" else 1 for char in literal)


def _worth(group: Group) -> tuple[int, int]:
    return min(_weight(literal) for literal in group), -len(group)


def folded(text: str) -> str:
    """A text in lower case, every character at its own place."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(char.lower()[0] for char in text)


class Finder:
    """Finds where in a text patterns could match. Built once for a table of patterns."""

    def __init__(self, needs: Sequence[Sequence[Need]]) -> None:
        self._words = sorted({literal for ways in needs for way in ways for group in way.groups for literal in group})
        number = {word: number for number, word in enumerate(self._words)}
        self._member: list[list[int]] = [[] for _ in self._words]
        """the groups of a literal"""
        known: dict[Group, int] = {}
        self._ways: list[tuple[int, tuple[int, ...]]] = []
        """the number of a pattern, and its groups"""
        for index, ways in enumerate(needs):
            for way in ways:
                for group in way.groups:
                    if group not in known:
                        known[group] = len(known)
                        for literal in group:
                            self._member[number[literal]].append(known[group])
                self._ways.append((index, tuple(known[group] for group in way.groups)))

    @lru_cache(maxsize=1)  # noqa: B019 -- one finder for each table, for the life of the process
    def _automaton(self) -> Any:
        from ahocorasick_rs import AhoCorasick

        return AhoCorasick(self._words)

    def hits(self, lowered: str) -> dict[int, list[int]]:
        """Where each literal begins, in order."""
        found: dict[int, list[int]] = {}
        for number, start, _ in self._automaton().find_matches_as_indexes(lowered, overlapping=True)[:MAX_HITS]:
            known = found.get(number)
            if known is None:
                found[number] = [start]
            else:
                known.append(start)
        return found

    def places(self, lowered: str) -> dict[int, list[int]]:
        """For each pattern that could match, the places of a literal of such a match, in order."""
        hits = self.hits(lowered)
        result: dict[int, list[int]] = {}
        if not hits:
            return result
        lists: dict[int, list[int]] = {}
        joined: set[int] = set()
        for number, here in hits.items():
            for group in self._member[number]:
                if group in lists:
                    lists[group] = lists[group] + here
                    joined.add(group)
                else:
                    lists[group] = here
        for group in joined:
            lists[group].sort()
        for index, groups in self._ways:
            if not all(group in lists for group in groups):
                continue
            found = sorted((lists[group] for group in groups), key=len)
            anchor = found[0]
            for other in found[1:]:
                anchor = [place for place in anchor if _within(other, place)]
            if anchor:
                known = result.get(index)
                result[index] = sorted({*known, *anchor}) if known else anchor
        return result


def _within(places: list[int], place: int) -> bool:
    at = bisect_left(places, place - REACH)
    return at < len(places) and places[at] <= place + REACH


def spans(places: Iterable[int], length: int) -> list[tuple[int, int]]:
    """The stretches of a text to be searched, merged where they meet."""
    merged: list[tuple[int, int]] = []
    for place in places:
        start, end = max(0, place - REACH), min(length, place + REACH + 80)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
