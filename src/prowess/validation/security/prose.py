"""Texts that ask an agent for what its user did not ask for (V3), in English and Chinese.

A text that *speaks* of attacks is no attack: what is quoted, shown as code, or stands in a sentence, paragraph or
section that warns of it, is noted at most. What is hidden from a reader is judged hardest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from prowess.validation.security.literals import Finder, folded, needs_of, spans
from prowess.validation.security.markdown import Piece
from prowess.validation.security.prose_patterns import PHRASES, TELLS_OF_ATTACKS, TELLS_OF_ATTACKS_ZH, Pattern
from prowess.validation.security.prose_structures import STRUCTURES
from prowess.validation.security.rules import RULES, Finding

PATTERNS: tuple[Pattern, ...] = (*PHRASES, *STRUCTURES)
_SENTENCE_START = re.compile(r"[.!?。！？；;]\s|[。！？；]|\n\s*(?:[-*+>#|]|\d+[.)])")
_WRAP = re.compile(r"(?<=[^\s|:])\n(?=[ \t]{0,3}[^\s\-*+#>|\d])")
_ABOUT_ATTACKS = re.compile(
    r"injection|attack|security|threat|red.?team|adversar|anti-?pattern|pitfall|malicious|example|don['’]?t|avoid|never|warning|red flag|unsafe|vulnerab|rationali[sz]ation"
    r"|注入|攻击|安全|威胁|红队|示例|反模式|不要|禁止|恶意|风险",
    re.IGNORECASE,
)
_NEGATION_IS_THE_POINT = frozenset({"sec_prose_conceal", "sec_prose_no_consent", "sec_prose_selection"})
_DENIAL = re.compile(
    r"\b(?:never|do not|don['’]?t|must not|should not|cannot|can['’]?t|avoid|refuse|without|not)\s+(?:\w+\s+){0,3}$|(?:不要|不得|切勿|禁止|严禁|不能|不应|不可|绝不|避免|拒绝)[^，。]{0,6}$",
    re.IGNORECASE,
)
MAX_MATCHES = 5
"""Matches of one pattern in one text that are looked at"""
MAX_SEARCHED = 120_000
"""Characters of one text that patterns are tried on; what is left over asks for a review"""
LONG_PIECE = 4_000
"""Characters of a piece that is searched about its words only"""
_QUOTES = {'"': '"', "“": "”", "「": "」", "『": "』", "`": "`", "‘": "’"}
HIDDEN = frozenset({"comment", "alt", "hidden"})


@lru_cache(maxsize=1)
def _finder() -> Finder:
    return Finder([needs_of(pattern.source) for pattern in PATTERNS])


class Spot(NamedTuple):
    """A pattern that could match in a text, and the places of its words."""

    pattern: Pattern
    places: list[int]


def spots(text: str) -> list[Spot]:
    """The patterns whose words stand near each other in a text; most texts leave few."""
    found = _finder().places(folded(text))
    return [Spot(PATTERNS[index], places) for index, places in found.items()]


def read_markdown(text: str, pieces: list[Piece], file: str, first_line: int = 1) -> list[Finding]:
    """The findings of a Markdown text that was cut into ``pieces``."""
    known = spots(text)
    if not known:
        return []
    breaks = [found.start() for found in re.finditer("\n", text)]
    findings: list[Finding] = []
    budget = _Budget()
    tried: set[tuple[int, int]] = set()
    ends = [(piece.line, piece.line + piece.text.count("\n")) for piece in pieces]
    lines: dict[int, list[tuple[int, Pattern]]] = {}
    for number, spot in enumerate(known):
        for place in spot.places:
            lines.setdefault(first_line + bisect_left(breaks, place), []).append((number, spot.pattern))
    for index, (piece, (low, high)) in enumerate(zip(pieces, ends, strict=True)):
        if len(piece.text) > LONG_PIECE:
            findings += read_piece(piece, file)
            continue
        for line in range(low, high + 1):
            for number, pattern in lines.get(line, ()):
                if (index, number) not in tried:
                    tried.add((index, number))
                    findings += _findings(
                        piece, file, pattern, _search(pattern, _unwrapped(piece, pattern), None, budget)
                    )
    return findings + several(findings, file) + budget.over(file)


def several(findings: list[Finding], file: str) -> list[Finding]:
    """Three different things asked for that are high each, in one text, are no accident."""
    high = {finding.code: finding for finding in findings if RULES[finding.code].weight in ("high", "critical")}
    if len(high) >= 3:
        first = min(high.values(), key=lambda finding: finding.line)
        return [Finding("sec_prose_several", file, first.line, ", ".join(sorted(high)))]
    return []


def read_data(text: str, file: str, *, teaching: bool) -> list[Finding]:
    """The findings of a text that is data: JSON, YAML, CSV, plain text, SVG, HTML. Quotes say nothing there.

    ``teaching`` is whether the file by its name holds examples or tests; its findings are noted only.
    """
    findings: list[Finding] = []
    budget = _Budget()
    for pattern, places in spots(text):
        if budget.left < 0:
            break
        for found in _search(pattern, text, places, budget):
            line = 1 + text.count("\n", 0, found.start())
            start = _start(text, found.start())
            described = _tells(pattern, text[start : found.start()], text[found.start() : found.end() + 60])
            code = "sec_prose_quoted" if teaching or described else pattern.code
            findings.append(Finding(code, file, line, found.group()))
    return findings + budget.over(file)


def read_piece(piece: Piece, file: str, codes: frozenset[str] | None = None) -> list[Finding]:
    """The findings of one piece; of some rules only where ``codes`` names them."""
    findings: list[Finding] = []
    budget = _Budget()
    for pattern, places in spots(piece.text):
        if budget.left < 0:
            break
        if codes is None or pattern.code in codes:
            findings += _findings(piece, file, pattern, _search(pattern, _unwrapped(piece, pattern), places, budget))
    return findings + budget.over(file)


def _unwrapped(piece: Piece, pattern: Pattern) -> str:
    """The text with its hard line breaks as blanks, every character at its own place; who speaks stands at a line's start."""
    if piece.kind == "code" or pattern.code == "sec_prose_authority" or "\n" not in piece.text:
        return piece.text
    return _WRAP.sub(" ", piece.text)


def _findings(piece: Piece, file: str, pattern: Pattern, matches: list[re.Match[str]]) -> list[Finding]:
    return [
        Finding(
            _code(piece, pattern, found), file, piece.line + piece.text.count("\n", 0, found.start()), found.group()
        )
        for found in matches
    ]


class _Budget:
    """Characters that may still be searched in one text; one that is exhausted is a finding."""

    def __init__(self) -> None:
        self.left = MAX_SEARCHED

    def over(self, file: str) -> list[Finding]:
        """The finding, where something was left unread."""
        return [] if self.left >= 0 else [Finding("sec_document_too_large", file, 1, f"{MAX_SEARCHED}")]


def _search(pattern: Pattern, text: str, places: list[int] | None, budget: _Budget) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    for start, end in spans(places, len(text)) if places is not None else [(0, len(text))]:
        if budget.left < 0:
            break
        end = min(end, start + max(budget.left, 0))
        budget.left -= end - start if budget.left > 0 else 1
        for match in pattern.expression.finditer(text, start, end):
            found.append(match)
            if len(found) >= MAX_MATCHES:
                return found
        if budget.left <= 0:
            budget.left = -1
            break
    return found


def _code(piece: Piece, pattern: Pattern, found: re.Match[str]) -> str:
    text = piece.text
    start = _start(text, found.start())
    before, after = text[start : found.start()], text[found.start() : found.end() + 80]
    tells = _tells(pattern, before, after)
    if piece.kind in HIDDEN:
        return "sec_prose_quoted" if tells or RULES[pattern.code].weight == "medium" else "sec_prose_hidden"
    quoted = piece.kind in ("quote", "code") or _in_quotes(text, found.start())
    if quoted and pattern.strong and not tells:
        return pattern.code
    if quoted or tells or _denied(pattern, before):
        return "sec_prose_quoted"
    if _ABOUT_ATTACKS.search(piece.heading) or (
        text.startswith(("- ", "* ", "| ")) and _ABOUT_ATTACKS.search(text[:60])
    ):
        return (
            "sec_prose_quoted"
            if pattern.code not in _NEGATION_IS_THE_POINT or "anti" in piece.heading.lower()
            else pattern.code
        )
    return pattern.code


def _denied(pattern: Pattern, before: str) -> bool:
    return pattern.code not in _NEGATION_IS_THE_POINT and _DENIAL.search(before[-60:]) is not None


def _tells(pattern: Pattern, before: str, after: str) -> bool:
    """Whether the sentence tells of an attack; a negation alone does not, where it is what the pattern is about."""
    for expression in (TELLS_OF_ATTACKS, TELLS_OF_ATTACKS_ZH):
        for word in expression.finditer(before):
            if pattern.code not in _NEGATION_IS_THE_POINT or not re.match(
                r"(?:do|don|must|should|never|can|is|not|不|切|禁|严|绝|without|stop|避免)", word.group(), re.IGNORECASE
            ):
                return True
    return (
        re.search(
            r"\b(?:attack|injection|is (?:a|an) (?:red flag|violation)|= (?:reject|block)|→ (?:reject|block|flag))|攻击|注入",
            after,
            re.IGNORECASE,
        )
        is not None
    )


def _start(text: str, at: int) -> int:
    window = max(0, at - 240)
    last = window
    for found in _SENTENCE_START.finditer(text, window, at):
        last = found.end() if not found.group().startswith("\n") else found.start() + 1
    return last


def _in_quotes(text: str, at: int) -> bool:
    """Whether a place on its line lies between an opening and a closing quotation mark."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)]
    place = at - start
    for opening, closing in _QUOTES.items():
        if opening not in line:
            continue
        before = line[:place]
        inside = before.count(opening) % 2 == 1 if opening == closing else before.rfind(opening) > before.rfind(closing)
        if inside and closing in line[place:]:
            return True
    return False
