"""The safety response, before anything else is asked (T2): self-harm and violence, in English and Chinese.

Deterministic rules over folded text. A rule has exceptions, idioms and quotations that sound alike; they are cut out of
the text before its patterns look at it, so that "笑死我了，可我真的不想活了" is still heard. The rules are data
(``safety_rules.json``) and can be replaced whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from prowess.kernel.text import fold, has_cjk

_LATIN = re.compile("[a-z]")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(" ?\n[ \n]*")
_REFERENCE = re.compile(r"\{\{(\w+)\}\}")
WINDOW, OVERLAP = 400, 120
"""characters; a pattern of the default rules spans less than the overlap"""
_CUT = "\n"
"""what an exception leaves behind; no pattern reaches across a line"""


@dataclass(frozen=True, slots=True)
class SafetyResponse:
    """What is said instead of serving the message."""

    category: str
    """``self_harm`` or ``violence``, or a category of replaced rules"""
    rule: str
    language: str
    """of the reply: ``en`` or ``zh``"""
    reply: str
    """caring, short, and naming where help is to be found"""


@dataclass(frozen=True, slots=True)
class SafetyRule:
    """One rule: fires where a pattern is found in folded text from which the exceptions were cut."""

    id: str
    category: str
    language: str
    """of text and reply: ``zh`` is asked only where Han characters occur, ``en`` only where Latin letters do"""
    patterns: tuple[re.Pattern[str], ...]
    exceptions: tuple[re.Pattern[str], ...]
    reply: str

    def fires(self, folded: str) -> bool:
        """Whether the rule applies to text that went through ``kernel.text.fold``."""
        if not any(pattern.search(folded) for pattern in self.patterns):
            return False
        for exception in self.exceptions:
            folded = exception.sub(_CUT, folded)
        return any(pattern.search(folded) for pattern in self.patterns)


def _windows(folded: str) -> list[str]:
    """The text in overlapping pieces, runs of space made one: what a pattern costs must not grow with the text."""
    folded = _LINES.sub("\n", _SPACES.sub(" ", folded))
    if len(folded) <= WINDOW:
        return [folded]
    step = WINDOW - OVERLAP
    return [folded[start : start + WINDOW] for start in range(0, len(folded) - OVERLAP, step)]


class SafetyPolicy:
    """Asks its rules in order; the first that fires answers."""

    def __init__(self, rules: Sequence[SafetyRule] | None = None) -> None:
        self._given = None if rules is None else tuple(rules)

    @property
    def rules(self) -> tuple[SafetyRule, ...]:
        """The rules in force. Those that ship are compiled when a first message comes: a tenth of a command's start."""
        return default_rules() if self._given is None else self._given

    def assess(self, text: str) -> SafetyResponse | None:
        """The response to ``text``, or none where it may go on to the skills."""
        folded = fold(text)
        windows = _windows(folded)
        written = {"zh": has_cjk(folded), "en": _LATIN.search(folded) is not None}
        for rule in self.rules:
            if written.get(rule.language, True) and any(rule.fires(window) for window in windows):
                return SafetyResponse(rule.category, rule.id, rule.language, rule.reply)
        return None


def assess(text: str) -> SafetyResponse | None:
    """What the default rules say to ``text``."""
    return SafetyPolicy().assess(text)


@cache
def default_rules() -> tuple[SafetyRule, ...]:
    """The rules that ship with Prowess."""
    return load_rules(files(__package__).joinpath("safety_rules.json").read_text(encoding="utf-8"))


def load_rules(document: str) -> tuple[SafetyRule, ...]:
    """Rules from a JSON document.

    ``{"pieces": {name: regex}, "rules": [{"id", "category", "language", "patterns", "exceptions", "reply"}]}``. A regex
    may name a piece as ``{{name}}``; a piece may name earlier ones. Raises ``ValueError`` where the document is not of
    this shape, names an unknown piece, or holds a regex that does not compile.
    """
    data = json.loads(document)
    try:
        pieces: dict[str, str] = {}
        for name, source in data["pieces"].items():
            pieces[name] = _expand(source, pieces)
        return tuple(_rule(entry, pieces) for entry in data["rules"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"safety rules: {error!r}") from error


def _rule(entry: Mapping[str, Any], pieces: Mapping[str, str]) -> SafetyRule:
    return SafetyRule(
        id=entry["id"],
        category=entry["category"],
        language=entry["language"],
        patterns=tuple(_compile(source, pieces) for source in entry["patterns"]),
        exceptions=tuple(_compile(source, pieces) for source in entry["exceptions"]),
        reply=entry["reply"],
    )


def _compile(source: str, pieces: Mapping[str, str]) -> re.Pattern[str]:
    try:
        return re.compile(_expand(source, pieces))
    except re.error as error:
        raise ValueError(f"safety rules: {error} in {source!r}") from error


def _expand(source: str, pieces: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda reference: pieces[reference[1]], source)
