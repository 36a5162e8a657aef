"""Rules that select (T5, C22–C24): tight in Latin script, found inside Chinese, silent where nothing fits."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.kernel.text import fold
from prowess.skills.manifest import TriggerRules
from prowess.skills.matchers import Match, Matchers

LINEAR = TriggerRules(keywords=("linear", "issue", "ticket", "backlog"))
GITHUB = TriggerRules(keywords=("github", "pull request", "repository"))
DEPLOY = TriggerRules(keywords=("docker", "deploy", "部署", "上线", "容器"))
MINUTES = TriggerRules(keywords=("会议", "纪要", "整理"))


def match(rules: TriggerRules, text: str) -> Match | None:
    return Matchers(rules).match(fold(text))


def test_c22_generic_words_in_passing_fire_nothing() -> None:
    text = "the linear growth on github last week"
    assert match(LINEAR, text) is None
    assert match(GITHUB, text) is None


@pytest.mark.parametrize("rules", [LINEAR, GITHUB, DEPLOY, MINUTES])
def test_c22_no_single_keyword_fires(rules: TriggerRules) -> None:
    for keyword in rules.keywords:
        assert match(rules, f"{keyword} {keyword.upper()} {keyword}!") is None


def test_t5_two_different_keywords_fire() -> None:
    assert match(LINEAR, "File a ticket in Linear, please") == Match(0.7, "keywords linear, ticket")
    assert match(GITHUB, "open a PULL REQUEST on GitHub") == Match(0.7, "keywords github, pull request")


def test_c23_latin_inside_chinese_and_all_chinese_are_found() -> None:
    assert match(DEPLOY, "用docker部署") == Match(0.7, "keywords docker, 部署")
    assert match(DEPLOY, "把容器部署上线") == Match(0.8, "keywords 部署, 上线, 容器")
    assert match(MINUTES, "帮我整理一下今天的会议纪要") is not None
    assert match(DEPLOY, "用ＤＯＣＫＥＲ部署") == match(DEPLOY, "用docker部署")


@pytest.mark.parametrize(
    "text", ["hello there", "今天天气不错", "", " ", "¿qué tal?", "Как дела", "🦓", "digital dockers redeployed"]
)
def test_c24_no_match_is_none_in_any_language(text: str) -> None:
    for rules in (LINEAR, GITHUB, DEPLOY, MINUTES, TriggerRules(), TriggerRules(min_keywords=1)):
        assert match(rules, text) is None


@pytest.mark.parametrize("text", ["digital", "git2 legit", "agit", "0git"])
def test_t5_a_latin_keyword_is_a_whole_word(text: str) -> None:
    rules = TriggerRules(keywords=("git",), min_keywords=1)
    assert match(rules, text) is None
    assert match(rules, f"{text} git") is not None
    assert match(rules, "用git提交") is not None
    assert match(rules, "git-flow, (git) 和git。") is not None


def test_t5_a_keyword_of_both_scripts_is_bounded_on_its_latin_side() -> None:
    rules = TriggerRules(keywords=("git提交", "打开pdf"), min_keywords=1)
    assert match(rules, "帮我用git提交代码") is not None
    assert match(rules, "digit提交") is None
    assert match(rules, "请打开pdf文件") is not None
    assert match(rules, "打开pdfx") is None


def test_t5_keywords_are_literal() -> None:
    rules = TriggerRules(keywords=("c++", "a.b"), min_keywords=1)
    assert match(rules, "my c++ code") is not None
    assert match(rules, "ccc axb") is None


def test_t5_one_letter_is_no_keyword() -> None:
    assert match(TriggerRules(keywords=("c", "的", " x "), min_keywords=1), "c 的 x") is None


def test_t5_repeated_keywords_count_once() -> None:
    assert match(TriggerRules(keywords=("Docker", "docker", "ｄｏｃｋｅｒ")), "docker docker") is None


def test_t5_the_author_may_ask_for_more_or_fewer() -> None:
    assert match(TriggerRules(keywords=("docker",), min_keywords=1), "docker") == Match(0.6, "keywords docker")
    three = TriggerRules(keywords=("aa", "bb", "cc"), min_keywords=3)
    assert match(three, "aa bb") is None
    assert match(three, "aa bb cc") == Match(0.8, "keywords aa, bb, cc")


def test_t5_patterns_go_first_and_exclusions_before_them() -> None:
    rules = TriggerRules(patterns=("plan .* trip", "旅行.*计划"), keywords=("plan", "trip"), exclude=("no plan",))
    assert match(rules, "Plan my TRIP") == Match(1.0, "pattern 1")
    assert match(rules, "做个旅行的计划") == Match(1.0, "pattern 2")
    assert match(rules, "trip plan") == Match(0.7, "keywords plan, trip")
    assert match(rules, "no plan for my trip") is None


def test_t5_many_keywords_never_outrank_a_pattern() -> None:
    words = tuple(f"word{number:02}" for number in range(12))
    found = match(TriggerRules(keywords=words), " ".join(words))
    assert found == Match(0.99, "keywords word00, word01, word02, word03, word04")


def test_r3_the_reason_names_the_rule_not_the_text() -> None:
    found = match(DEPLOY, "deploy my secret project zebra with docker")
    assert found is not None
    assert "zebra" not in found.reason


@given(st.text(max_size=200))
def test_t5_the_same_text_gives_the_same_match(text: str) -> None:
    for rules in (LINEAR, GITHUB, DEPLOY, MINUTES):
        assert match(rules, text) == match(rules, text)


def test_t5_a_long_message_is_matched_quickly() -> None:
    text = fold("docker" * 5000)
    started = time.process_time()
    assert Matchers(DEPLOY).match(text) is None
    assert time.process_time() - started < 1
