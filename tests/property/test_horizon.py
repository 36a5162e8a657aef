"""The horizon of a goal: found wherever it stands, never seen where there is none (W10)."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from prowess.builtin.long_term_goal_planning.horizon import SHORTEST_HORIZON, extract_horizon, time_left

CHINESE = (
    "三个月", "3个月", "半年", "一年", "两年半", "今年", "年底前", "明年六月前", "90天", "12周", "四个月", "一百天",
    "两到三年", "十八个月", "春节前", "下半年", "这个学期", "2028年底前", "一年零三个月", "三個月", "到明年六月",
)  # fmt: skip
ENGLISH = (
    "three months", "half a year", "by December", "90 days", "6 weeks", "this year", "two to three years", "18 months",
    "a year and a half", "twenty-four months", "by the end of the year", "before next summer", "by March 2027",
    "next year", "until next summer", "a couple of years", "3-6 months",
)  # fmt: skip
NEGATIVE = (
    # Chinese: other units, the past, ages, rates, prices, words that only begin alike
    "三个苹果", "明天", "本周", "两周", "再过三天", "五分钟", "半天就做完了", "一个半小时", "12点30分", "三月八日", "十二月",
    "三年级", "一年级新生", "半年报", "一年四季", "一年一度", "九十年代", "六周年", "年纪大了", "百年孤独", "第三个月",
    "三个月前我开始学英语", "半年前", "过去三个月我学了什么", "三个月没运动了", "学了三年", "这本书我读了两年",
    "三个月大的宝宝", "我今年30岁", "孩子今年六岁", "我家狗两岁半了", "每三个月体检", "两个月工资", "买了三年的保险",
    "五年工作经验", "二十年的老店", "他坐了五年牢", "上个季度的业绩", "2026年的天气", "给我一点时间", "三个月有多少天",
    # English
    "a yearbook", "half an hour", "2 months ago", "tomorrow", "by tomorrow", "by noon", "by bus", "in 10 minutes", "in three hours",
    "two days from now", "once a month", "twice a year", "read 20 books a year", "10% a year", "$100 a month", "per year",
    "every six months I see the dentist", "once every two years", "I'm 30 years old", "two-year-old", "my two year old son",
    "a three-year-old laptop", "she is ten years older", "two-year warranty", "five years of experience", "three months' rent",
    "ten years of marriage", "sentenced to five years in prison", "last year I planned", "for the past three months",
    "I spent two years in Berlin", "I waited six months", "a month ago", "the third year", "the year was hard", "a leap year",
    "light years away", "yearlong drought", "yearly weather", "the month of May", "December", "the last two years were tough",
)  # fmt: skip

# Words around the phrase that neither count nor look back.
chinese_words = st.text(alphabet="我想学画好英语每跑步吉他写作，。！ ", max_size=30)
english_words = st.lists(st.sampled_from(["learn", "to", "draw,", "run!", "Greek", "savings.", "well"]), max_size=8)


def test_w10_the_negatives_are_many_and_hold_no_horizon() -> None:
    assert len(NEGATIVE) >= 80
    assert {text: extract_horizon(text) for text in NEGATIVE if extract_horizon(text)} == {}


@given(chinese_words, st.sampled_from(CHINESE), chinese_words)
def test_w10_a_chinese_horizon_is_found_inside_longer_text(before: str, phrase: str, after: str) -> None:
    assert extract_horizon(f"{before}，{phrase}，{after}") == phrase


@given(english_words, st.sampled_from(ENGLISH), english_words)
def test_w10_an_english_horizon_is_found_inside_longer_text(before: list[str], phrase: str, after: list[str]) -> None:
    text = " ".join([*before, "within", phrase + ";", *after])
    assert extract_horizon(text) == phrase


@given(st.lists(st.sampled_from(NEGATIVE), min_size=2, max_size=4))
def test_w10_negatives_together_make_no_horizon(texts: list[str]) -> None:
    assert extract_horizon("。\n".join(texts)) is None


@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from([*CHINESE, *ENGLISH, *NEGATIVE])).map(" ".join)))
def test_w10_extraction_is_deterministic_and_gives_the_users_own_words(text: str) -> None:
    found = extract_horizon(text)
    assert found == extract_horizon(text)
    if found is not None:
        assert found == " ".join(found.split())
        assert found in " ".join(text.split())


@given(
    st.text(alphabet="三3半两个月年周天前后内一二十百几到by months year 2027", max_size=60),
    st.dates(date(2020, 1, 1), date(2090, 1, 1)),
)
def test_the_time_that_is_left_is_long_enough_or_unknown(text: str, today: date) -> None:
    left = time_left(text, today)
    assert left is None or SHORTEST_HORIZON <= left <= timedelta(days=100 * 366)


@given(st.sampled_from([*CHINESE, *ENGLISH]))
def test_w10_space_is_all_that_is_normalised(phrase: str) -> None:
    spaced = phrase.replace(" ", " \n\t ")
    assert extract_horizon(spaced) == phrase
