"""Find the horizon of a long-term goal in the user's own words: a duration, a deadline or a calendar period (W10).

Nothing here guesses: the same text gives the same phrase, and a phrase that speaks of the past, of an age, of a rate
or of a price is no horizon. A duration is returned without its preposition (``three months`` out of "over the next
three months"), a deadline with the word that makes it one (``by December``, ``年底前``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from prowess.kernel.text import fold

SHORTEST_HORIZON = timedelta(days=28)
"""A duration below four weeks is no long-term horizon."""

_DAYS = {"day": 1, "week": 7, "month": 30.4375, "quarter": 91.3125, "semester": 152, "year": 365.25, "decade": 3652.5}


@dataclass(frozen=True, slots=True)
class Horizon:
    """A horizon that was found."""

    phrase: str
    """as the user wrote it, runs of space made one"""
    span: timedelta | None
    """how long it is where that can be said without today's date; null for deadlines and calendar periods"""


def extract_horizon(text: str) -> str | None:
    """The horizon that ``text`` names, as written, or none (W10).

    Where several are named, one that looks ahead ("未来三个月", "within a year", "by December") comes before a bare
    one, and the earlier before the later.
    """
    found = find_horizon(text)
    return found.phrase if found else None


def find_horizon(text: str) -> Horizon | None:
    """The same with its length."""
    folded = _aligned_fold(text)
    candidates = [*_chinese(folded), *_english(folded)]
    if not candidates:
        return None
    best = min(candidates, key=lambda candidate: (not candidate.ahead, candidate.start, -candidate.end))
    return Horizon(" ".join(text[best.start : best.end].split()), best.span)


def time_left(text: str, today: date) -> timedelta | None:
    """How long the horizon that ``text`` names lasts from ``today``, where that can be computed and is four weeks or more."""
    horizon = find_horizon(text)
    if horizon is None:
        return None
    if horizon.span is not None:
        return horizon.span
    end = _end_of_period(_aligned_fold(horizon.phrase), today)
    if end is None or end - today < SHORTEST_HORIZON:
        return None
    return end - today


@dataclass(frozen=True, slots=True)
class _Candidate:
    start: int
    end: int
    ahead: bool
    span: timedelta | None


def _aligned_fold(text: str) -> str:
    """Folded text in which every character keeps its position, so that a match can be cut out of the original."""
    if text.isascii():
        return text.lower()
    return "".join(folded if len(folded := fold(char)) == 1 else char for char in text)


def _long_enough(count: float, unit: str) -> timedelta | None:
    span = timedelta(days=count * _DAYS[unit])
    return span if SHORTEST_HORIZON <= span <= timedelta(days=100 * 366) else None


# --- Chinese ---------------------------------------------------------------------------------------------------------

_ZH_DIGITS = {
    **{char: value for value, char in enumerate("一二三四五六七八九", start=1)},
    **dict.fromkeys("两兩", 2),
    **dict.fromkeys("几幾数數", 3),
}
_ZH_COUNT = r"(?:\d{1,3}(?:\.\d)?|[一二两兩三四五六七八九十百几幾数數]{1,5})"
_ZH_UNIT = r"(?:[个個](?:季度|学期|學期)|[个個]半?月|年|[周週](?![年岁歲末围圍边邊期])|[个個]?(?:星期|礼拜|禮拜)|天)"
_ZH_DURATION = re.compile(
    rf"(?<![\d.一二两兩三四五六七八九十百第])(?!百年)"
    rf"(?:(?P<half>[大小]?(?<![上下])半)\s*(?P<halved>年)"
    rf"|(?P<count>{_ZH_COUNT})(?:\s*(?:到|至|或|-|~|–|—)\s*(?P<upto>{_ZH_COUNT}))?\s*(?:整|多|来)?\s*(?P<unit>{_ZH_UNIT})"
    rf"(?P<more>(?<=年)半(?![载載])|(?<=年)[零又]?[一二两三四五六七八九十\d]{{1,2}}个月)?)"
)
_ZH_UNIT_NAMES = (("季度", "quarter"), ("学期", "semester"), ("學期", "semester"), ("月", "month"), ("年", "year"))

_ZH_MONTH = r"(?:十[一二]?|[一二三四五六七八九]|1[0-2]|0?[1-9])月份?"
_ZH_YEAR = r"(?:今年|明年|后年|後年|20\d\d年)"
_ZH_FEAST = (
    r"(?:春节|春節|过年|過年|元旦|国庆|國慶|中秋|圣诞节?|聖誕節?|暑假|寒假|毕业|畢業|高考|考研|[春夏秋冬][天季])"
)
_ZH_POINT = rf"(?:{_ZH_MONTH}(?:[底末初中]|[上中下]旬)?|年?[底末]|年中|上半年|下半年|{_ZH_FEAST})"
_ZH_DEADLINE = re.compile(
    rf"(?<![\d一二两三四五六七八九十])(?:"
    rf"(?:{_ZH_YEAR}的?\s*)?{_ZH_POINT}(?:结束|結束)?(?:之|以)?前(?!端|途|景|期|提)"
    rf"|到(?:{_ZH_YEAR}的?\s*{_ZH_POINT}?|{_ZH_MONTH}[底末]|年[底末])(?:为止|為止)?"
    rf"|{_ZH_YEAR}年?[底末]|年[底末](?!奖|獎|总结|總結|盘点|盤點|聚|了|会|會))"
)
_ZH_PERIOD = re.compile(
    r"(?<!\d)(?:(?:今年|明年|后年|後年)(?:上半年|下半年|年?内|年?內|之内|全年|一整年)?|[上下]半年|[年](?:内|內)"
    r"|(?:本|这个?|這個?|下个?|下個?)(?:季度|学期|學期)"
    r"|20\d\d年(?=的?(?:\w{0,6})(?:目标|目標|计划|計劃|规划|規劃))"
    r"|(?:半?年度|(?<!个)季度)(?=的?(?:\w{0,6})(?:目标|目標|计划|計劃|规划|規劃)))"
)

_ZH_PAST_BEFORE = r"过去|過去|最近|近|此前|前|上|已经|已經|已|(?<![为為除])了|头|頭"
_ZH_OTHER_BEFORE = r"每隔?|第|[那同某另]|满|滿|年满|长达|長達"
_ZH_REFUSED_BEFORE = re.compile(
    rf"(?:{_ZH_PAST_BEFORE}|{_ZH_OTHER_BEFORE})(?:的|这|這|整整|大概|大约|大約|将近|差不多|有)?\s*$"
)
_ZH_PAST_AFTER = (
    r"(?:以|之)?前(?!端|途|景|期|提)|以来|以來|[来來](?=[,，。、\s]|我|一直|都|的|$)|间|間|了|没|沒|未(?![来來])"
)
_ZH_OWNED = (
    r"宝宝|寶寶|婴儿|嬰兒|孩子|小孩|儿子|女儿|小?猫|小?狗|幼儿|工资|薪水|房租|租金|租约|押金|社保|保修|质保|保质期|有效期"
    r"|会员|试用期|工作经验|经验|經驗|工龄|历史|婚姻|感情|友谊|交情|老店|老友|老员工|有期徒刑|徒刑|陈酿|利率|期国债"
)
_ZH_WORDS_WITH_YEAR = (
    r"[级級代轻輕龄齡纪紀货貨终終味薪假糕夜报報关關限检檢费費票卡年]|生(?:草|植)|四季|一度|到头|之计|比一年|线|線"
)
_ZH_REFUSED_AFTER = re.compile(
    rf"\s*(?:{_ZH_PAST_AFTER}|大(?:的|了|$|[,，。])|一[次回遍换換届更付聚轮輪]|的?(?:{_ZH_OWNED})"
    rf"|[有是](?:多少|几|幾)|等于|(?:的|第)?(?:今天|那天))"
)
_ZH_AHEAD_BEFORE = re.compile(
    r"(?:未来|未來|接下来|接下來|今后|今後|往后|往後|将来|下|在|用|花|新的?)(?:的|这|這|大概|大约)?\s*$"
)
_ZH_AHEAD_AFTER = re.compile(r"\s*(?:之|以)?(?:内|內|后|後)(?!悔|端|台)")
_ZH_PERIOD_REFUSED_AFTER = re.compile(
    r"\s*(?:(?:已经?|都)?(?:\d+|[一二三四五六七八九十]+)(?:岁|歲|了)|多大|几岁|的?(?:春晚|天气|天氣|春天|夏天|秋天|冬天|雨)"
    r"|已经|已經|刚|剛|才|过了|過了|年?初|以来|以來|还没|真|特别|我(?:\w{0,4})[过過了])"
)


def _chinese_number(word: str) -> float:
    if word[0].isdigit():
        return float(word)
    total = current = 0
    for char in word:
        if char in "十百":
            total += (current or 1) * (10 if char == "十" else 100)
            current = 0
        else:
            current = _ZH_DIGITS[char]
    return total + current


def _chinese_unit(word: str) -> str:
    for mark, unit in _ZH_UNIT_NAMES:
        if mark in word:
            return unit
    return "day" if word == "天" else "week"


def _chinese_span(match: re.Match[str]) -> timedelta | None:
    if match["half"]:
        return _long_enough(0.5, "year")
    unit = _chinese_unit(match["unit"])
    count = _chinese_number(match["upto"] or match["count"])
    if "半" in (match["more"] or "") or "半" in match["unit"]:
        count += 0.5
    elif match["more"]:
        count += _chinese_number(match["more"].strip("零又个月")) / 12
    return _long_enough(count, unit)


def _chinese(text: str) -> Iterator[_Candidate]:
    for match in _ZH_DURATION.finditer(text):
        start, end = match.span()
        span = _chinese_span(match)
        if span is None or _ZH_REFUSED_BEFORE.search(text, max(0, start - 10), start):
            continue
        if _ZH_REFUSED_AFTER.match(text, end) or (text[end - 1] == "年" and re.match(_ZH_WORDS_WITH_YEAR, text[end:])):
            continue
        ahead = _ZH_AHEAD_BEFORE.search(text, max(0, start - 10), start) or _ZH_AHEAD_AFTER.match(text, end)
        yield _Candidate(start, end, ahead is not None, span)
    for match in _ZH_DEADLINE.finditer(text):
        yield _Candidate(*match.span(), True, None)
    for match in _ZH_PERIOD.finditer(text):
        if not _ZH_PERIOD_REFUSED_AFTER.match(text, match.end()):
            yield _Candidate(*match.span(), False, None)


# --- English ---------------------------------------------------------------------------------------------------------

_EN_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_EN_NUMBERS = {
    **{word: value for value, word in enumerate(_EN_ONES, start=1)},
    "fifteen": 15,
    "sixteen": 16,
    "eighteen": 18,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
    "hundred": 100,
    "couple": 2,
    "few": 3,
    "several": 4,
    "dozen": 12,
    "half": 0.5,
    "a": 1,
    "an": 1,
}
_EN_WORD = "|".join(word for word in _EN_NUMBERS if word not in {"a", "an", "half", "couple", "few", "dozen"})
_EN_COUNT = (
    rf"(?:\d{{1,3}}(?:\.\d)?|(?:twenty|thirty|forty|fifty|sixty|ninety)[-\s](?:{'|'.join(_EN_ONES[:9])})"
    rf"|(?:a\s+)?(?:couple\s+of|couple|few|hundred)|(?:{_EN_WORD})(?:\s+and\s+a\s+half)?|half\s+an?|a\s+half|half|an?)"
)
_EN_DURATION = re.compile(
    rf"(?<![\w.$€£'’-])(?P<count>{_EN_COUNT})(?:\s*(?:-|–|to|or)\s*(?P<upto>{_EN_COUNT}))?(?P<gap>\s+|-)"
    r"(?:(?:full|whole|more|solid|calendar)\s+)?(?P<unit>day|week|month|quarter|semester|year|decade)(?P<plural>s?)"
    r"(?P<half>\s+and\s+a\s+half)?(?!\w)"
)
_EN_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_EN_END_OF = r"(?:the\s+)?(?:end|close|start|beginning|middle)\s+of\s+"
_EN_SEASON = r"(?:spring|summer|autumn|fall|winter|christmas|new\s+year(?:['’]s(?:\s+(?:eve|day))?)?|graduation|semester|quarter)"
_EN_DEADLINE = re.compile(
    rf"(?<!\w)(?:by|before|until|till|through)\s+(?:"
    rf"(?:{_EN_END_OF})?(?:(?:this|next|early|mid|late)[-\s]+)?"
    rf"(?:{_EN_MONTH}(?:\s+\d{{1,2}}(?:st|nd|rd|th)?(?!\d))?(?:,?\s+20\d\d)?"
    rf"|(?:the\s+year\s+)?20\d\d|(?:this|next|the\s+coming)?\s*{_EN_SEASON})"
    rf"|(?:{_EN_END_OF})(?:the|this|next)\s+(?:school\s+)?(?:year|quarter|semester|decade|summer)"
    r"|(?:the\s+)?(?:year[-\s]?end|end\s+of\s+year|year['’]s\s+end)|next\s+year)(?!\w)"
)
_EN_PLANNED = r"(?:goals?|plans?|objectives?|resolutions?|targets?|roadmap|planning)"
_EN_PERIOD = re.compile(
    r"(?<!\w)(?:(?:this|next)\s+(?:school\s+)?(?:year|quarter|semester)|the\s+(?:next|coming)\s+(?:year|quarter|semester|decade)"
    r"|the\s+year\s+ahead|the\s+rest\s+of\s+(?:the|this)\s+year|in\s+20\d\d"
    rf"|(?:20\d\d|annual|yearly|quarterly)(?=\s+(?:\w+\s+){{0,2}}{_EN_PLANNED}\b))(?!\w)"
)

_EN_REFUSED_BEFORE = re.compile(
    r"(?<!\w)(?:last|past|previous|prior|every|each|per|first|second|third|fourth|fifth|final|preceding|age\s+of|aged"
    r"|turned|i\s*a?['’]?m|is|are|was|were|once|twice|times?|earlier|so\s+far|early|late)\s+(?:the\s+|these\s+|about\s+|almost\s+)?$"
)
_EN_THINGS = (
    r"experience|warranty|contract|lease|anniversary|rent|salary|notice|membership|subscription|degree|grader|loan|sentence"
    r"|bond|mortgage|supply|probation|reports?|results|marriage|friendship|service|schooling|history|winner|budget\s+deficit|weather|election"
)
_EN_REFUSED_AFTER = re.compile(
    rf"\s*(?:-?olds?\b|\s?(?:ago|old|earlier|back|later|since|prior)\b|-?(?:round|to-date)\b"
    rf"|['’]?s?['’]?\s+(?:worth\s+)?(?:of\s+)?(?:\w+\s+)?(?:{_EN_THINGS})\b|\s*(?:a|an|per|every|each|out\s+of\s+the)\s+(?:day|week|month|year)\b"
    r"|\s*(?:in|of)\s+(?:prison|jail)\b|\s*(?:have|has)\s+(?:passed|gone|been)\b|\s*(?:was|were|did|had)\b)"
)
_EN_AHEAD_BEFORE = re.compile(
    r"(?<!\w)(?:next|coming|upcoming|following|within|in|over|under|another)\s+(?:the\s+)?(?:next\s+|coming\s+|about\s+)?$"
)
_EN_CUE_BEFORE = re.compile(
    r"(?:^|[.!?,;:(\n]|(?<!\w)(?:in|within|over|for|next|coming|take|takes|spend|have|give|given|myself|me|us|about|around"
    r"|roughly|approximately|under|than|maybe|perhaps|say|after|it))\s*$"
)
_EN_ATTRIBUTE_OF = re.compile(
    rf"\s+(?:[\w-]+\s+){{0,3}}(?:{_EN_PLANNED}|horizon|timeline|timeframe|period|schedule|programme?|journey|strategy|challenge)\b"
)
_EN_PAST_CLAUSE = re.compile(
    r"(?:(?<!\w)(?:have|has|had|i['’]ve|we['’]ve|\w+['’]s)\s+(?:\w+\s+)?(?:been|had|known|gone|taken|spent|lived|done|\w{2,}ed)\b"
    r"|(?<!\w)(?:i|we|he|she|they|it)\s+(?:\w+ly\s+|just\s+)?"
    r"(?:(?!want|need|decid|hop|plann|aim|promis|agre|intend)\w{2,}ed|spent|took|was|were|lasted|ran|went|lost|wrote)\b)"
)
_EN_CLAUSE_BREAK = re.compile(r"[.,;:!?\n]|\s(?:and|but|so|then)\s")


def _english_number(word: str) -> float:
    if word[0].isdigit():
        return float(word)
    parts = re.split(r"[-\s]+", word)
    if parts[0] == "half" or parts == ["a", "half"]:
        return 0.5
    half = 0.5 if parts[-1] == "half" else 0.0
    known = [_EN_NUMBERS[part] for part in parts if part in _EN_NUMBERS and part not in {"a", "an", "half"}]
    return (sum(known) if known else 1) + half


def _english_span(match: re.Match[str]) -> timedelta | None:
    count = _english_number(match["upto"] or match["count"]) + (0.5 if match["half"] else 0)
    return _long_enough(count, match["unit"])


def _english_duration_stands(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence around a duration lets it be a horizon."""
    start, end = match.span()
    if _EN_REFUSED_BEFORE.search(text, max(0, start - 30), start) or _EN_REFUSED_AFTER.match(text, end):
        return False
    clause = _EN_CLAUSE_BREAK.split(text[max(0, start - 80) : start])[-1]
    if _EN_PAST_CLAUSE.search(clause):
        return False
    attribute = match["gap"] == "-" or (not match["plural"] and match["count"] not in {"a", "an", "one", "1"})
    if match["half"] or ("half" in match["count"] and match["gap"] != "-"):
        attribute = False
    if attribute:
        return _EN_ATTRIBUTE_OF.match(text, end) is not None
    if match["count"] in {"a", "an"}:
        return _EN_CUE_BEFORE.search(text, max(0, start - 20), start) is not None
    return True


def _english(text: str) -> Iterator[_Candidate]:
    for match in _EN_DURATION.finditer(text):
        span = _english_span(match)
        if span is not None and _english_duration_stands(text, match):
            start, end = match.span()
            ahead = _EN_AHEAD_BEFORE.search(text, max(0, start - 30), start) is not None
            yield _Candidate(start, end, ahead, span)
    for match in _EN_DEADLINE.finditer(text):
        yield _Candidate(*match.span(), True, None)
    for match in _EN_PERIOD.finditer(text):
        start, end = match.span()
        if not _EN_REFUSED_BEFORE.search(text, max(0, start - 30), start) and not _EN_REFUSED_AFTER.match(text, end):
            yield _Candidate(start, end, False, None)


# --- deadlines and calendar periods, given today ---------------------------------------------------------------------

_EN_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR_WORDS = (("后年", 2), ("後年", 2), ("明年", 1), ("next year", 1), ("coming year", 1), ("year ahead", 1))


def _named_month(phrase: str) -> int | None:
    if match := re.search(r"(\d{1,2}|[一二三四五六七八九十]{1,2})月", phrase):
        return int(_chinese_number(match[1]))
    if match := re.search(rf"(?<!\w){_EN_MONTH}(?!\w)", phrase):
        return _EN_MONTHS.index(match[0][:3]) + 1
    return None


def _first_of(year: int, month: int) -> date:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)


def _end_of_period(phrase: str, today: date) -> date | None:
    if match := re.match(r"半?年度|季度|annual|yearly|quarterly", phrase):
        return today + timedelta(days={"半年度": 182, "季度": 91, "quarterly": 91}.get(match[0], 365))
    year_match = re.search(r"(20\d\d)", phrase)
    ahead = next((years for word, years in _YEAR_WORDS if word in phrase), 0)
    year = int(year_match[1]) if year_match else today.year + ahead
    at_end = re.search(r"[底末]|end", phrase) is not None
    if (month := _named_month(phrase)) is not None:
        if not year_match and not ahead and _first_of(year, month) <= today:
            year += 1
        return _first_of(year, month + (1 if at_end else 0))
    if "上半年" in phrase:
        return date(year, 7, 1)
    if re.search(r"季度|quarter", phrase):
        return _first_of(today.year, (today.month - 1) // 3 * 3 + (7 if re.search(r"下|next", phrase) else 4))
    if year_match and re.match(r"by|before|until|till", phrase) and not at_end:
        return date(year, 1, 1)
    if year_match or re.search(r"年|year|annual", phrase):
        return date(year + 1, 1, 1)
    return None
