"""Text as it comes in: limits, normal forms for matching, language."""

from __future__ import annotations

import re
import unicodedata

from prowess.errors import InvalidInput

MAX_TURN_TEXT = 32_000
"""Characters in one message (T1)."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CJK = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


def check_text(value: object, field: str, *, limit: int = MAX_TURN_TEXT) -> str:
    """Return text fit to store: 1 to ``limit`` characters, not all space, no control characters but tab and newlines.

    Raises ``InvalidInput`` (``wrong_type``, ``text_empty``, ``text_too_long``, ``control_character``) naming field and
    position.
    """
    if not isinstance(value, str):
        raise InvalidInput("wrong_type", field=field, expected="string", got=type(value).__name__)
    if len(value) > limit:
        raise InvalidInput("text_too_long", field=field, limit=limit, length=len(value))
    if not value or value.isspace():
        raise InvalidInput("text_empty", field=field)
    if found := _CONTROL.search(value):
        raise InvalidInput("control_character", field=field, position=found.start(), character=ascii(found.group()))
    return value


def escape_controls(text: str) -> str:
    """``text`` with every character that ``check_text`` refuses written out as a Python escape; nothing is lost."""
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def fold(text: str) -> str:
    """The form that matchers compare: NFKC, then case folded."""
    return unicodedata.normalize("NFKC", text).casefold()


def has_cjk(text: str) -> bool:
    """Whether any Han character occurs."""
    return _CJK.search(text) is not None


def language_of(text: str, default: str = "en") -> str:
    """``zh`` where Han characters occur, ``en`` where Latin letters do, else ``default``."""
    if has_cjk(text):
        return "zh"
    return "en" if re.search("[A-Za-z]", text) else default
