"""Markdown cut into pieces by what they are to a reader (V3): prose, quotations, code, comments and hidden parts.

One pass over the lines, linear; no full Markdown is needed to tell an instruction from an example.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Piece(NamedTuple):
    """One piece of a text, with its 1-based line.

    ``kind`` is ``prose``, ``quote``, ``code``, ``comment``, ``alt`` or ``hidden``; ``info`` is the language of code;
    ``heading`` is the headings above it, to tell what it is about.
    """

    kind: str
    text: str
    line: int
    info: str = ""
    heading: str = ""


_FENCE = re.compile(r"^[ \t]{0,12}(?:[-*+][ \t]+|\d+[.)][ \t]+)?(`{3,}|~{3,})[ \t]*([^\s`{]*)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*)")
_ALT = re.compile(
    r"!\[([^\]]{20,2000})\]\(|\b(?:alt|title|aria-label|data-[\w-]{1,30})\s?=\s?[\"']([^\"']{20,2000})[\"']"
)
_REFERENCE = re.compile(r"^\[(?://|comment|#)\]:\s?#?\s?[(\"'](.{10,2000})[)\"']\s*$")
_HIDDEN = re.compile(
    r"<(\w{1,12})\b[^>]{0,300}?(?:style\s?=\s?[\"'][^\"']{0,200}?(?:display\s?:\s?none|visibility\s?:\s?hidden|font-size\s?:\s?[01](?:px|pt|em)?\s?[;\"']|opacity\s?:\s?0(?:\.0\d?)?\s?[;\"']"
    r"|color\s?:\s?(?:#fff(?:fff)?|white|transparent|rgba\([^)]{0,30},\s?0\))\b)|\bhidden\b|font-size=[\"'][01][\"']|fill=[\"'](?:none|transparent|white|#fff(?:fff)?)[\"'])[^>]{0,300}>([^<]{15,4000})",
    re.IGNORECASE,
)


def pieces_of(text: str, first_line: int = 1) -> list[Piece]:
    """The pieces of a Markdown text in the order of their lines; comments and hidden parts are pieces of their own."""
    text, found = _take_comments(text, first_line)
    lines = text.split("\n")
    titles: list[tuple[int, str]] = []
    heading = ""
    index = 0
    while index < len(lines):
        line = lines[index]
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is not None:
            end = _fence_end(lines, index + 1, fence.group(1))
            found.append(
                Piece(
                    "code", "\n".join(lines[index + 1 : end]), first_line + index + 1, fence.group(2).lower(), heading
                )
            )
            index = end + 1
            continue
        title = _HEADING.match(line) if "#" in line else None
        if title is not None:
            level = len(title.group(1))
            titles = [item for item in titles if item[0] < level] + [(level, title.group(2)[:200])]
            heading = " / ".join(item[1] for item in titles)
        if not line.strip():
            index += 1
            continue
        kind = _kind(line)
        end = index + 1
        while end < len(lines) and end - index < 60 and _continues(lines[end], kind):
            end += 1
        found.append(Piece(kind, "\n".join(lines[index:end]), first_line + index, "", heading))
        index = end
    found += _inline(text, first_line)
    return found


def _kind(line: str) -> str:
    start = line.lstrip()
    if start.startswith((">", "|")):
        return "quote"
    return "code" if line.startswith(("    ", "\t")) and not re.match(r"[-*+\d]", start) else "prose"


def _continues(line: str, kind: str) -> bool:
    if not line.strip():
        return False
    if ("```" in line or "~~~" in line) and _FENCE.match(line) is not None:
        return False
    if "#" in line and _HEADING.match(line) is not None:
        return False
    return _kind(line) == kind or (kind == "prose" and line.startswith((" ", "\t")) and _kind(line) != "quote")


def _fence_end(lines: list[str], start: int, mark: str) -> int:
    for index in range(start, len(lines)):
        stripped = lines[index].strip()
        if stripped.startswith(mark) and not stripped.strip(mark[0]):
            return index
    return len(lines)


def _take_comments(text: str, first_line: int) -> tuple[str, list[Piece]]:
    """HTML comments as pieces, and the text with blanks in their place; those within code fences stay where they are."""
    if "<!--" not in text:
        return text, []
    found: list[Piece] = []
    parts: list[str] = []
    at = 0
    fences = _fenced(text)
    while (start := text.find("<!--", at)) >= 0:
        if any(low <= start < high for low, high in fences):
            parts.append(text[at : start + 4])
            at = start + 4
            continue
        end = text.find("-->", start)
        end = len(text) if end < 0 else end + 3
        inside = text[start:end]
        found.append(Piece("comment", inside[4:].removesuffix("-->"), first_line + text.count("\n", 0, start)))
        parts.append(text[at:start] + "\n" * inside.count("\n"))
        at = end
        if len(found) > 500:
            break
    parts.append(text[at:])
    return "".join(parts), found


def _fenced(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = -1
    offset = 0
    mark = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if start < 0 and fence is not None:
            start, mark = offset, fence.group(1)
        elif start >= 0 and line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            spans.append((start, offset))
            start = -1
        offset += len(line) + 1
        if len(spans) > 300:
            break
    return spans


def _inline(text: str, first_line: int) -> list[Piece]:
    found: list[Piece] = []
    if "![" in text or "alt=" in text or "title=" in text or "data-" in text:
        for match in _ALT.finditer(text):
            found.append(
                Piece("alt", match.group(1) or match.group(2), first_line + text.count("\n", 0, match.start()))
            )
    if "<" in text:
        for match in _HIDDEN.finditer(text):
            found.append(Piece("hidden", match.group(2), first_line + text.count("\n", 0, match.start())))
    if "]: " in text:
        for number, line in enumerate(text.split("\n")):
            reference = _REFERENCE.match(line)
            if reference is not None:
                found.append(Piece("comment", reference.group(1), first_line + number))
    return found
