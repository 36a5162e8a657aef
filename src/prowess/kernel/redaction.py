"""Redacting by value: whatever holds a secret, in whatever usual writing, loses it before it is kept (U4)."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

__all__ = ["MARK", "MAX_SECRET", "MIN_SECRET", "NO_REDACTION", "Redactor", "writings"]

MARK = "[secret]"
MIN_SECRET = 8
"""Characters. Redacting a shorter word would tear ordinary text apart."""
MAX_SECRET = 16_384

_HEAD = MIN_SECRET
"""The first characters of a writing, by which it is found; no writing is shorter than its value."""
_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|.)", re.DOTALL)
_DOCUMENT_MARKS = {"{": f'{{"{MARK}":"{MARK}"}}', "[": f'["{MARK}"]'}

_Span = tuple[int, int]


class Redactor:
    """Replaces secret values by ``[secret]``. Immutable, so that threads and transactions may share one."""

    __slots__ = ("_heads", "_pattern", "_values")

    def __init__(self, values: Collection[str] = ()) -> None:
        """``values`` of fewer than eight characters, outer space not counted, are passed over."""
        self._values: frozenset[str] = frozenset()
        self._heads: dict[str, tuple[str, ...]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._add(frozenset(values))

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return self._pattern is not None

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def __reduce__(self) -> str:
        raise TypeError("a redactor holds secrets and does not travel")

    def extended(self, values: Collection[str]) -> Redactor:
        """A redactor of these values too; itself where it knows them all."""
        new = frozenset(values) - self._values
        if not new:
            return self
        grown = Redactor()
        grown._values, grown._heads = self._values, dict(self._heads)
        grown._add(new)
        return grown

    def redact(self, text: str) -> str:
        """``text`` without any of the values, in any of their ``writings``; the same object where there was none.

        Overlapping values go together. A JSON document remains one: its strings and numbers are redacted one by one,
        as they are without their escapes, so that a writing within a document within a document is found too.
        """
        if self._pattern is None:
            return text
        spans = self._spans(text)
        if (spans or "\\" in text) and _is_document(text):
            return self._redact_json(text)
        return _cut(text, spans) if spans else text

    def redact_value(self, value: Any) -> Any:
        """The same for a JSON-like value, keys included; a number that is a secret becomes ``[secret]`` as well."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact_value(key): self.redact_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return MARK if self._is_secret(str(value)) else value
        return value

    def _add(self, values: frozenset[str]) -> None:
        self._values |= values
        found: dict[str, set[str]] = {}
        for value in values:
            for writing in writings(value):
                found.setdefault(writing[:_HEAD], set()).add(writing)
        for head, forms in found.items():
            self._heads[head] = tuple(sorted(forms.union(self._heads.get(head, ())), key=len, reverse=True))
        if self._heads:
            # A class of characters a place: small and quick to compile however many values there are. What it lets
            # through is looked up among the heads.
            places = (sorted(set(characters)) for characters in zip(*self._heads, strict=True))
            self._pattern = re.compile("".join(f"[{''.join(map(re.escape, place))}]" for place in places))

    def _spans(self, text: str) -> list[_Span]:
        """Where values stand, in order; those that overlap are one."""
        spans: list[_Span] = []
        for start, end in self._found(text):
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans

    def _found(self, text: str) -> Iterator[_Span]:
        assert self._pattern is not None
        search, heads = self._pattern.search, self._heads
        at = 0
        while match := search(text, at):
            at = match.start()
            for writing in heads.get(match[0], ()):
                if text.startswith(writing, at):
                    yield at, at + len(writing)
                    break
            at += 1

    def _is_secret(self, text: str) -> bool:
        return self._spans(text) == [(0, len(text))]

    def _redact_json(self, document: str) -> str:
        clean = _JSON_TOKEN.sub(self._redact_token, document)
        # What still stands there reaches over several tokens: a value that is a JSON document itself, or nearly so.
        spans = self._spans(clean)
        if spans:
            return _cut(clean, spans, in_json=True)
        return document if clean == document else clean

    def _redact_token(self, token: re.Match[str]) -> str:
        written = token[0]
        if written[0] != '"':
            return f'"{MARK}"' if self._is_secret(written) else written
        said = json.loads(written)
        clean = self.redact(said)
        return written if clean == said else json.dumps(clean, ensure_ascii=written.isascii())


NO_REDACTION = Redactor()
"""Looks for nothing, at the price of looking at one attribute."""


def writings(value: str) -> frozenset[str]:
    """Every form in which ``value`` is looked for; none where it is too short.

    As it is, without outer space, with either line end and in lower case; in JSON (plain, ASCII, every character
    escaped, with escaped slashes, as browsers and Go write it, and JSON within JSON); percent-encoded; in base64 of
    both alphabets, padded or not; in hexadecimal; as Python and HTML show it.
    """
    found: set[str] = set()
    for form in _plain_forms(value):
        found |= _escaped_forms(form)
        found |= _encoded_forms(form.encode("utf-8", "surrogatepass"))
    return frozenset(form for form in found if len(form) >= MIN_SECRET)


def _plain_forms(value: str) -> set[str]:
    if len(value.strip()) < MIN_SECRET:
        return set()
    lines = value.replace("\r\n", "\n")
    forms = {value, lines, lines.replace("\n", "\r\n"), value.casefold()}
    return {form for plain in forms for form in (plain, plain.strip()) if len(form) >= MIN_SECRET}


def _escaped_forms(value: str) -> set[str]:
    in_json = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
    in_json += [text.replace("/", "\\/") for text in in_json]
    in_json += [_escape(text, "<>&'\u2028\u2029") for text in in_json]
    in_json += [json.dumps(text, ensure_ascii=False)[1:-1] for text in in_json]
    in_json.append(_escape(value))
    octets = repr(value.encode("utf-8", "surrogatepass"))[2:-1]
    shown = [repr(value)[1:-1], ascii(value)[1:-1], octets]
    # Which quotes are escaped depends on the text around it.
    shown += [text.replace("\\'", "'").replace("'", "\\'") for text in shown]
    return {value, *in_json, *_both_cases(in_json), *shown, html.escape(value), html.escape(value, quote=False)}


def _both_cases(texts: Collection[str]) -> set[str]:
    return {_JSON_ESCAPE.sub(_capitals, text) for text in texts}


def _capitals(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] is None else f"\\u{escape[1].upper()}"


def _escape(text: str, only: str | None = None) -> str:
    """``text`` with four hexadecimal digits for every character, or for those named; eight beyond U+FFFF."""

    def units(character: str) -> str:
        octets = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{octets[at : at + 2].hex()}" for at in range(0, len(octets), 2))

    return "".join(units(character) if only is None or character in only else character for character in text)


def _encoded_forms(octets: bytes) -> set[str]:
    percent = {quote(octets, safe=safe) for safe in ("", "/", "!'()*~", "!'()*~;/?:@&=+$,#")} | {quote_plus(octets)}
    percent |= {re.sub("%..", lambda escape: escape[0].lower(), text) for text in percent}
    based = {base64.b64encode(octets).decode(), base64.urlsafe_b64encode(octets).decode()}
    return percent | based | {text.rstrip("=") for text in based} | {octets.hex(), octets.hex().upper()}


def _cut(text: str, spans: list[_Span], *, in_json: bool = False) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        # What reads it later may count on an object, or on an array.
        document = in_json and _is_document(text[start:end])
        pieces += (text[at:start], _DOCUMENT_MARKS[text[start]] if document else MARK)
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def _is_document(text: str) -> bool:
    """Whether it is a whole JSON object or array."""
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
