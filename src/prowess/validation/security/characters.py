"""Characters that a reader does not see or takes for others (V3): tags, selectors, directions, blanks, look-alikes."""

from __future__ import annotations

import re
from collections.abc import Callable

from prowess.validation.security.rules import Finding

_ODD = re.compile(
    "[\u00ad\u0370-\u04ff\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
_TAGS = re.compile("[\U000e0001-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_OVERRIDES = re.compile("[\u202a\u202b\u202d\u202e\u2066\u2067\u2068]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ZERO = re.compile("[\u200b\u200c\u200d\u2060-\u2064\ufeff\u180e\u00ad\u115f\u1160\u3164\uffa0]")
_ZERO_RUN = re.compile("[\u200b\u200c\u200d\u2060-\u2064\ufeff\u180e]{4,}")
_ZERO_IN_WORD = re.compile("[A-Za-z](?:[\u200b\u200c\u2060-\u2064\ufeff]|\u200d)[A-Za-z]")
_LOOK_ALIKE = "аеорсухіјѕһԁԛԝӏкмтвнАВЕКМНОРСТХІЈЅοΟΑΒΕΗΙΚΜΝΡΤΥΧ"
_MIXED = re.compile(f"(?:[A-Za-z0-9._-]*[A-Za-z][A-Za-z0-9._-]*[{_LOOK_ALIKE}]|[{_LOOK_ALIKE}]+[A-Za-z])[\\w.-]*")
_PLAIN_GREEK = re.compile("[\u03b1-\u03c9\u0391-\u03a9\u0430-\u044f\u0410-\u042f]{3,}")


def decode_tags(text: str) -> str:
    """The ASCII text that tag characters spell."""
    return "".join(chr(ord(char) - 0xE0000) for char in text if 0xE0020 <= ord(char) <= 0xE007E)


def read_characters(text: str, file: str, *, code: bool) -> list[Finding]:
    """The findings of a text; ``code`` where it is a file that runs."""
    if text.isascii() or _ODD.search(text) is None:
        return []
    findings: list[Finding] = []

    def add(rule: str, at: int, what: str) -> None:
        findings.append(Finding(rule, file, 1 + text.count("\n", 0, at), what, not code))

    for found in _TAGS.finditer(text):
        if found.start() and text[found.start() - 1] == "\U0001f3f4":  # a flag: England, Scotland, Wales
            continue
        add("sec_tag_characters", found.start(), decode_tags(found.group()) or f"U+{ord(found.group()[0]):X}")
    for found in _SELECTORS.finditer(text):
        add("sec_selector_payload", found.start(), f"{len(found.group())}")
    for found in _OVERRIDES.finditer(text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start() + 200].partition("\n")[0]
        if code or _RIGHT_TO_LEFT.search(line) is None:
            add("sec_bidi", found.start(), f"U+{ord(found.group()):04X}")
    _zero_width(text, add)
    for found in _MIXED.finditer(text):
        if (
            len(found.group()) > 3
            and not found.group().startswith(("a-z", "A-Z", "z0-9"))
            and not _PLAIN_GREEK.search(found.group())
            and "_" not in found.group()[:2]
        ):
            add("sec_homoglyph", found.start(), found.group())
    return findings


def _zero_width(text: str, add: Callable[[str, int, str], None]) -> None:
    run = _ZERO_RUN.search(text)
    if run is not None:
        add("sec_hidden_text" if len(run.group()) >= 16 else "sec_zero_width", run.start(), f"{len(run.group())}")
    inside = _ZERO_IN_WORD.findall(text)
    if inside:
        at = _ZERO_IN_WORD.search(text)
        assert at is not None
        add("sec_zero_width" if len(inside) >= 2 else "sec_zero_width_stray", at.start(), f"{len(inside)}")
    elif (
        run is None
        and (stray := _ZERO.search(text)) is not None
        and stray.start() > 0
        and stray.group() not in "\u200d\u00ad"
    ):
        add("sec_zero_width_stray", stray.start(), f"U+{ord(stray.group()):04X}")
