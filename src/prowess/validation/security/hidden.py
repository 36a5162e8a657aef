"""Texts written so that they are not read: base64, hexadecimal, escapes (V3). What they say is judged when decoded."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{32,8192}={0,2}(?![A-Za-z0-9+/=])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){20,2048}(?![0-9A-Za-z])")
_ESCAPES = re.compile(
    r"(?:\\x[0-9a-fA-F]{2}){8,2048}|(?:\\u00[0-9a-fA-F]{2}){8,2048}|(?:%[0-9a-fA-F]{2}){12,2048}|(?:&#x?[0-9a-fA-F]{2,3};){8,2048}"
)
MAX_DECODED = 400
SHORTEST = 32
"""Characters without a blank; what is shorter hides no sentence and no command"""

_ACTS = re.compile(
    r"\b(?:curl|wget|bash|/bin/sh|powershell|nc)\b.{0,120}(?:\||https?://|-[ec]\b)|os\.system|subprocess|__import__|child_process|eval\(|exec\(|import (?:os|socket)|/dev/tcp|rm\s-rf|IEX\b|socket\.socket",
    re.IGNORECASE,
)


class Hidden(NamedTuple):
    """A decoded text, where it stood, and how it was written."""

    text: str
    line: int
    acts: bool
    """whether it is commands or code"""


def decoded_texts(text: str) -> Iterator[Hidden]:
    """The readable texts behind encoded ones."""
    if len(text) < SHORTEST:
        return
    count, at, line, counted = 0, 0, 1, 0
    for word in [word for word in text.split() if len(word) >= SHORTEST]:
        at = text.find(word, at)
        for plain in _decoded(word):
            line += text.count("\n", counted, at)
            counted = at
            yield Hidden(plain, line, _ACTS.search(plain) is not None)
            count += 1
            if count >= MAX_DECODED:
                return
        at += len(word)


def _decoded(word: str) -> Iterator[str]:
    for expression, decode in ((_BASE64, _from_base64), (_HEX, _from_hex), (_ESCAPES, _from_escapes)):
        for found in expression.finditer(word):
            plain = decode(found.group())
            if plain is not None and _readable(plain):
                yield plain


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _from_hex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8")
    except ValueError:
        return None


def _from_escapes(text: str) -> str | None:
    if text.startswith("&"):
        numbers = [
            int(part[1:], 16) if part.startswith("x") else int(part, 10)
            for part in re.findall(r"&#(x?[0-9a-fA-F]+);", text)
            if part.startswith("x") or part.isdigit()
        ]
        return "".join(chr(number) for number in numbers)
    return _from_hex(re.sub(r"\\x|\\u00|%", "", text))


def _readable(text: str) -> bool:
    if len(text) < 12 or not text.translate(_BLANKS).isprintable():
        return False
    return len(_LETTER.findall(text)) >= len(text) * 0.5


_BLANKS = {ord("\n"): " ", ord("\r"): " ", ord("\t"): " "}
_LETTER = re.compile(r"[^\W\d_]| ")
