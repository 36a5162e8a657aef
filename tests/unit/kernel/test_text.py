from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import InvalidInput
from prowess.kernel.text import MAX_TURN_TEXT, check_text, fold, has_cjk, language_of


@pytest.mark.parametrize(
    "good", ["a", "你好", "two\nlines\tand a tab\r\n", "👩‍👩‍👧", " leading", "x" * MAX_TURN_TEXT, "\u200b"]
)
def test_text_fit_to_store_is_returned_as_it_is(good: str) -> None:
    assert check_text(good, "text") is good


@pytest.mark.parametrize(
    ("bad", "code", "detail"),
    [
        ("", "text_empty", {}),
        (" \n\t\u3000", "text_empty", {}),
        ("x" * (MAX_TURN_TEXT + 1), "text_too_long", {"limit": MAX_TURN_TEXT, "length": MAX_TURN_TEXT + 1}),
        ("ab\x00c", "control_character", {"position": 2, "character": "'\\x00'"}),
        ("\x1b[2J", "control_character", {"position": 0, "character": "'\\x1b'"}),
        ("a\x85", "control_character", {"position": 1, "character": "'\\x85'"}),
        ("ok \ud800", "control_character", {"position": 3, "character": "'\\ud800'"}),
        ("\uffff", "control_character", {"position": 0, "character": "'\\uffff'"}),
        (None, "wrong_type", {"expected": "string", "got": "NoneType"}),
        (b"bytes", "wrong_type", {"expected": "string", "got": "bytes"}),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_t1_text_that_cannot_be_stored_is_refused(bad: object, code: str, detail: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_text(bad, "text")
    assert refused.value.code == code
    assert refused.value.detail == {"field": "text"} | detail


@given(st.text(min_size=1, max_size=50))
def test_accepted_text_can_be_encoded_and_holds_no_nul(text: str) -> None:
    try:
        check_text(text, "text")
    except InvalidInput:
        return
    assert text.encode().decode() == text
    assert "\x00" not in text


def test_fold_unifies_width_case_and_composition() -> None:
    assert fold("ＤＯＣＫＥＲ") == "docker"
    assert fold("Straße") == fold("STRASSE") == "strasse"
    assert fold("cafe\u0301") == fold("CAFÉ")


def test_language_follows_the_script() -> None:
    assert language_of("hello") == "en"
    assert language_of("hello 你好") == "zh"
    assert language_of("123 !?", "zh") == "zh"
    assert language_of("123 !?") == "en"
    assert has_cjk("𠮷")
    assert not has_cjk("ひらがな")
