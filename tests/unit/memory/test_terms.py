from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.memory.service import MAX_MEMORY_TEXT
from prowess.memory.terms import MAX_TERMS, query_terms, terms_of


def test_english_words_are_folded_and_stemmed() -> None:
    assert terms_of("Running RUNS run, Café") == {"run", "café"}
    assert terms_of("allergies") == terms_of("allergy")
    assert terms_of("ｇｒｅｅｎ  tea\n(organic)") == terms_of("Green tea organic")


def test_chinese_becomes_pairs() -> None:
    assert terms_of("喜欢喝绿茶") == {"喜欢", "欢喝", "喝绿", "绿茶"}
    assert terms_of("茶") == {"茶"}
    assert terms_of("喝茶，吃饭") == {"喝茶", "吃饭"}


def test_mixed_text_splits_where_the_script_changes() -> None:
    assert terms_of("用docker部署v2") == {"用", "docker", "部署", "v2"}


@pytest.mark.parametrize("text", ["", "   ", "…！？。", "_-_", "🦓🦓"])
def test_nothing_to_find_has_no_terms(text: str) -> None:
    assert terms_of(text) == frozenset()


@pytest.mark.parametrize(
    "question", ["Do you remember what I told you about it?", "你还记得我之前跟你说过什么吗", "what did we say", "请问"]
)
def test_common_words_of_a_question_carry_no_meaning(question: str) -> None:
    assert query_terms(question) <= {"前跟"}


@pytest.mark.parametrize(
    ("question", "memory"),
    [
        ("Do you remember my locker code?", "The code of the locker is 4711"),
        ("what are my allergies", "She has a peanut allergy"),
        ("我喜欢喝什么茶？", "用户喜欢喝绿茶"),
        ("docker部署在哪台机器", "服务用Docker部署在二号机"),
    ],
)
def test_a_question_shares_terms_with_what_answers_it(question: str, memory: str) -> None:
    assert query_terms(question) & terms_of(memory)


@given(st.text(max_size=300))
def test_asking_for_a_text_never_finds_terms_that_it_lacks(text: str) -> None:
    assert query_terms(text) <= terms_of(text)
    assert len(terms_of(text)) <= MAX_TERMS
    assert terms_of(text) == terms_of(text.upper()) or text.upper().casefold() != text.casefold()


def test_the_longest_memory_keeps_all_its_terms() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(MAX_MEMORY_TEXT))
    assert len(terms_of(text)) == MAX_MEMORY_TEXT - 1 < MAX_TERMS
    assert len(terms_of(text * 3)) == MAX_TERMS
