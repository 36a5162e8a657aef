"""The terms by which a memory is found: stemmed English words and pairs of Chinese characters.

The same function serves writing and asking, on both databases, so a recall needs no full-text engine and an old exact
memory is found among any number of newer ones (C26).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from prowess.kernel.text import fold

MAX_TERMS = 2_000
"""of one text; a memory of the longest allowed text stays below"""

_HAN_CLASS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_HAN = re.compile(f"[{_HAN_CLASS}]")
_RUN = re.compile(f"[{_HAN_CLASS}]+|[^\\W_{_HAN_CLASS}]+")

_COMMON_ENGLISH = frozenset(
    "a about am an and any are as at be been but by can could did do does for from had has have he her him his how i "
    "if in is it its know let me my of on or our please recall remember remind said say she so tell that the their "
    "them then there they this to told was we were what when where which who why will with would you your".split()
)
_COMMON_CHINESE = frozenset(
    "什么 怎么 怎样 哪些 哪个 多少 为什 你还 还记 记得 你记 得我 我之 之前 前跟 跟你 你说 说过 过我 我说 我的 你的 "
    "是什 是不 不是 有没 没有 一下 告诉 诉你 请问 可以 可不 能不 我们 你们 这个 那个 知道 你知 道我 记不 不记 了吗 "
    "么吗 过什 过吗 的吗 是吗 得吗 么呢".split()
)


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


def terms_of(text: str) -> frozenset[str]:
    """Every term of a text, at most ``MAX_TERMS``."""
    found: dict[str, None] = {}
    for match in _RUN.finditer(fold(text)):
        for term in _split(match.group()):
            found[term] = None
            if len(found) >= MAX_TERMS:
                return frozenset(found)
    return frozenset(found)


def query_terms(text: str) -> frozenset[str]:
    """The terms of a question that carry meaning: those of ``terms_of`` without common words."""
    return terms_of(text) - _COMMON_CHINESE - {_stem(word) for word in _COMMON_ENGLISH}


def _split(run: str) -> list[str]:
    if not _HAN.match(run):
        return [_stem(run)]
    if len(run) == 1:
        return [run]
    return [run[index : index + 2] for index in range(len(run) - 1)]
