"""Time frames in the user's own words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.builtin.long_term_goal_planning.horizon import extract_horizon

FOUND = {
    "我想在三个月内学会游泳": "三个月",
    "3个月内减重五公斤": "3个月",
    "用半年时间转行": "半年",
    "一年后考研": "一年",
    "90天养成早起习惯": "90天",
    "I want to learn this in three months": "three months",
    "finish my novel by December": "by December",
    "within 90 days": "90 days",
    "over the next 6 weeks": "6 weeks",
    "in half a year": "half a year",
}
NOT_FOUND = (
    "明天早上", "今晚", "三个苹果", "三个人", "一年级的孩子", "半年报", "一天到晚", "下午三点", "两点半", "五公里",
    "第三季", "三月风筝", "百年孤独", "千年等一回", "年轻人", "月亮", "周杰伦", "星期五", "", "hello",
    "a yearbook", "half an hour", "tomorrow", "tonight", "three apples", "the monthly report", "a week-old puppy",
    "yearly", "month", "daylight", "2 hours", "thirty minutes", "the 1990s", "May I ask", "march forward", "one day at a time",
    "weekend", "yesterday", "semi-annual", "in a minute",
)  # fmt: skip


@pytest.mark.parametrize(("text", "phrase"), FOUND.items())
def test_w10_a_horizon_is_found_as_it_was_written(text: str, phrase: str) -> None:
    found = extract_horizon(text)
    assert found is not None
    assert phrase in found
    assert found in text


@pytest.mark.parametrize("text", NOT_FOUND)
def test_w10_what_is_no_horizon_is_not_taken_for_one(text: str) -> None:
    assert extract_horizon(text) is None


@given(st.text(max_size=300))
def test_extraction_is_deterministic_and_quotes_the_text(text: str) -> None:
    found = extract_horizon(text)
    assert found == extract_horizon(text)
    if found is not None:
        assert "".join(found.split()) in "".join(text.split())


@given(
    st.sampled_from(["我打算", "目标是", "I would like to, "]),
    st.sampled_from(["三个月", "半年", "six months", "12 weeks"]),
)
def test_a_horizon_is_found_inside_longer_text(before: str, phrase: str) -> None:
    assert phrase in (extract_horizon(f"{before} 在 {phrase} 内完成 and then rest") or "")
