"""When a message asks for long-term planning (W10): deterministic rules over folded text.

The grammar is *request + planning verb + long span or long-term noun* in one clause. A long span alone does not fire
("三个月大的宝宝"), nor does a plan for a short time ("帮我安排明天计划"), nor talk about plans: past ones, other people's,
quoted ones, and questions about what they are. Where in doubt, no skill: the command is always there.
"""

from __future__ import annotations

from prowess.skills.manifest import TriggerRules

_PASTED_DOCUMENT = r"(?s)\A.{4000}"
"""so long a message is a document and no request; it also bounds the time that the other rules may take"""

# --- Chinese ---------------------------------------------------------------------------------------------------------

_ZH_NEAR = r"[^。！？!?\n;；]"
"""any character of the same sentence"""
_ZH_MONTHS = r"(?:[二两兩三四五六七八九十几幾]{1,3}|[2-9]|[1-9]\d)(?:\s*[到至或~-]\s*(?:[一二两兩三四五六七八九十]{1,2}|\d{1,2}))?\s*[个個]半?月"
_ZH_YEARS = r"(?:[一二两兩三四五六七八九十几幾]{1,3}|\d{1,2})(?:\s*[到至或~-]\s*(?:[一二两兩三四五六七八九十]{1,2}|\d{1,2}))?\s*年(?:半|(?![级級前代]))"
_ZH_SHORTER = r"(?:1\d|[2-9]\d|[89]|十[一二三四五六]?|八|九)\s*(?:周|週|个?星期|個星期)|(?:[6-9]\d|[1-9]\d\d|[六七八九]十|一?百[二三四五六七八九十]*)\s*天"
_ZH_HALF = r"[大小]?半年(?![报報前线線检檢])"
_ZH_SPAN = rf"(?<![第每\d])(?:{_ZH_MONTHS}|{_ZH_YEARS}|{_ZH_HALF}|{_ZH_SHORTER})"
_ZH_CALENDAR = r"(?:今年|明年|后年|後年|20\d\d年|[上下]半年|新的一年|年度|半年度|(?:未来|未來|接下来|接下來|今后|今後)(?:几|幾|好几)年)"
_ZH_AHEAD = rf"(?:(?:未来|未來|接下来|接下來|今后|今後|往后|往後|将来|用|花|在)的?\s*{_ZH_SPAN}|{_ZH_SPAN}(?:之|以)?(?:内|內|后|後)|{_ZH_CALENDAR}|年底前)"
_ZH_LONG_WORD = r"(?:分阶段的?|分階段的?)?(?:中?长期|長期|长远|長遠|远期|跨年度?)"
_ZH_PLAN = r"(?:规划|規劃|计划|計劃|計畫|目标|目標|路线图|路線圖|蓝图)"
_ZH_LONG_PLAN = (
    rf"(?:{_ZH_LONG_WORD}的?{_ZH_NEAR}{{0,10}}?{_ZH_PLAN}"
    rf"|(?:{_ZH_SPAN}|{_ZH_CALENDAR})(?:的|内的|期|度)?{_ZH_NEAR}{{0,16}}?{_ZH_PLAN})"
)
_ZH_ASK = r"(?:帮|幫|请|請|麻烦|给我|給我|替我|为我|為我|陪我|和我|跟我|教我|我想|我要|我打算|我准备|我需要|我希望|咱们|我们|我們|想要?|来|來|一起|怎么|怎麼|如何|该|該)"
_ZH_MAKE = r"(?:规划|規劃|计划|計劃|制定|制订|制訂|订|定|做|设定|設定|设|列|拟|擬|安排|设计|設計|排|搞|弄|写|寫|梳理|整理|理清|想清楚|出)(?:一下|好|出)?"

_ZH_REQUESTED_PLAN = rf"{_ZH_ASK}{_ZH_NEAR}{{0,12}}?{_ZH_MAKE}{_ZH_NEAR}{{0,12}}?{_ZH_LONG_PLAN}"
_ZH_PLAN_THE_SPAN = (
    rf"(?:{_ZH_ASK}{_ZH_NEAR}{{0,10}}?|^\s*)(?:规划|規劃|计划|計劃|安排)(?:一下|好)?(?:我的?|我们的?)?{_ZH_AHEAD}"
)
_ZH_SPAN_THEN_PLAN = (
    rf"{_ZH_AHEAD}{_ZH_NEAR}{{0,40}}?(?:帮|幫|请|請|给我|給我|替我|陪我|和我|跟我|想|要|需要){_ZH_NEAR}{{0,8}}?"
    r"(?:规划|規劃|(?:制定|制订|制訂|做|定|列|拟|出|写|安排)(?:一下|一?[个個份套])?(?:\w{0,6})?(?:计划|計劃|計畫|规划|目标|目標))"
)
_ZH_PLAN_THEN_SPAN = rf"{_ZH_ASK}{_ZH_NEAR}{{0,12}}?{_ZH_MAKE}{_ZH_NEAR}{{0,16}}?(?:规划|規劃|计划|計劃|計畫){_ZH_NEAR}{{0,12}}?{_ZH_AHEAD}"
_ZH_PLAN_ALONE = rf"^\s*(?:我的|我们的|做个?|定个?|制定|来个?|来一份|写一份|写个?)?(?:未来|未來|接下来|今后)?的?{_ZH_LONG_PLAN}(?:制定|设定)?\s*[。.!！~吧]*\s*$"
_ZH_BA = rf"把{_ZH_NEAR}{{0,6}}?(?:{_ZH_LONG_PLAN}|{_ZH_AHEAD}{_ZH_NEAR}{{0,10}}?){_ZH_NEAR}{{0,6}}?(?:定下来|列出来|排出来|做出来|定好|规划好|规划一下|理清楚|想清楚|梳理一下|定一下)"

_ZH_HOW = rf"{_ZH_LONG_PLAN}{_ZH_NEAR}{{0,4}}?(?:怎么|怎麼|如何|该|該){_ZH_NEAR}{{0,4}}?(?:定|做|制定|制订|规划|規劃|设|安排|拟|写)"

_ZH_WANTED_PLAN = rf"(?:我|我们|我們)(?:需要|想要|要|想有|缺)(?:一|有一)?[个個份套]?(?:为期|為期)?{_ZH_LONG_PLAN}"

_ZH_NOT = rf"(?:不想|不要|不用|不需要|无需|無需|没必要|沒必要|别|別|先不|懒得|从不|從不|从来不|讨厌|不喜欢|不愿){_ZH_NEAR}{{0,8}}?(?:{_ZH_LONG_PLAN}|{_ZH_PLAN})"
_ZH_PAST = rf"(?:过去|過去|之前|以前|曾经|曾經|去年|前年|上个?(?:月|季度|学期)|昨天|当时|那年|早就|已经|已經|刚刚?|剛剛?){_ZH_NEAR}{{0,14}}?(?:{_ZH_SPAN}|{_ZH_PLAN})"
_ZH_DONE = rf"{_ZH_MAKE}(?:过|過|完|好?了){_ZH_NEAR}{{0,14}}?{_ZH_PLAN}|{_ZH_PLAN}{_ZH_NEAR}{{0,6}}?(?:泡汤|失败了|完成了|实现了|做完了|写完了|已经|已經|出来了|发布|發布|通过了)"
_ZH_ABOUT = (
    rf"什么是{_ZH_NEAR}{{0,10}}?{_ZH_PLAN}|{_ZH_PLAN}{_ZH_NEAR}{{0,8}}?(?:是什么|是啥|什么意思|的定义|的意义|区别|的好处|重要吗|有用吗|靠谱吗|有必要|多少钱|为什么|几点|在哪)"
    rf"|为什么{_ZH_NEAR}{{0,12}}?{_ZH_PLAN}|(?:听说|新闻|报道|国家|政府|公司|十[一二三四]五|别人|老板|朋友|同事|他|她){_ZH_NEAR}{{0,10}}?(?:说|的|发布了?|公布了?){_ZH_NEAR}{{0,8}}?{_ZH_PLAN}"
)
_ZH_TEXT_WORK = (
    rf"(?:翻译|翻譯|总结|總結|回顾|回顧|复盘|複盤|评价|批改|润色|朗读|背诵|介绍|解释|解釋|讲讲|查一?查|搜一?搜|了解|下载|打印){_ZH_NEAR}{{0,16}}?{_ZH_PLAN}"
    rf"|{_ZH_PLAN}{_ZH_NEAR}{{0,10}}?(?:翻译|翻譯|润色|总结|發给|发给|打印|删掉|改成英文|的(?:新闻|文章|作文|论文|小说|稿|ppt|报告|书))"
)
_ZH_QUOTED = rf"[\"“「『《‘]{_ZH_NEAR}{{0,30}}?(?:{_ZH_PLAN}){_ZH_NEAR}{{0,20}}?[\"”」』》’]"
_ZH_PRODUCTS = r"(?:套餐|存款|定期|国债|理财|保险|贷款|租约|合同|资费|流量)"
_ZH_PRODUCT = rf"{_ZH_SPAN}{_ZH_NEAR}{{0,4}}?{_ZH_PRODUCTS}"

# --- English ---------------------------------------------------------------------------------------------------------

_EN_GAP = r"(?:[^.!?\n;]{0,%d}?)"
_EN_NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten|twelve|eighteen|twenty|thirty|couple\s+of|few|several|[2-9]|[1-9]\d)"
_EN_RANGE = rf"{_EN_NUMBER}(?:\s*(?:-|–|to|or)\s*{_EN_NUMBER})?"
_EN_WEEKS = r"(?:(?:eight|nine|ten|twelve|sixteen|twenty|[89]|[1-9]\d)\s+weeks|(?:sixty|ninety|hundred|[6-9]\d|[1-9]\d\d)\s+days)"
_EN_SPAN = (
    rf"(?:{_EN_RANGE}\s+(?:months|years|quarters)|(?:one|a|1)\s+(?:full\s+|whole\s+)?(?:year|decade)|half\s+(?:a\s+|of\s+the\s+)?year"
    rf"|a\s+half\s+year|a\s+year\s+and\s+a\s+half|{_EN_WEEKS})"
)
_EN_NEXT = (
    rf"(?:(?:the|my|our)\s+)?(?:(?:next|coming|upcoming)\s+(?:{_EN_SPAN}|(?:half\s+)?(?:year|decade))|year\s+ahead|new\s+year"
    r"|rest\s+of\s+(?:the|this)\s+year)|(?:this|next)\s+(?:year|semester)|20\d\d"
)
_EN_WITHIN = rf"(?:(?:for|over|in|within|across|during|by)\s+(?:about\s+|roughly\s+)?(?:{_EN_NEXT}|{_EN_SPAN}|the\s+end\s+of\s+(?:the|this|next)\s+year))"
_EN_LONG = (
    rf"(?:long[-\s](?:term|range|run)|multi-?year|annual|yearly|half-?\s?year(?:ly)?"
    rf"|(?:{_EN_NUMBER}|one|1|\d\d?)[-\s](?:year|month)(?<!one-month)(?<!1-month)(?<!one\smonth)(?<!1\smonth)|(?:{_EN_NEXT})['’]s|12[-\s]week|90[-\s]day|100[-\s]day)"
)
_EN_PLAN = r"(?:plans?|planning|goals?|roadmaps?|objectives?|resolutions?|targets?|strategy)"
_EN_LONG_PLAN = rf"(?:{_EN_LONG}\s+(?:[\w'’-]+\s+){{0,4}}?{_EN_PLAN})\b"
_EN_MAKE = (
    r"(?:plan|map|lay|set|make|create|build|draft|design|write|develop|outline|organi[sz]e|structure|prepare|define|sketch|figure"
    r"|work\s+out|work\s+on|come\s+up\s+with|put\s+together|propose|suggest)"
)
_EN_ASK = (
    r"(?:help|please|can\s+(?:you|we)|could\s+(?:you|we)|would\s+you|let['’]?s|let\s+us|i\s+(?:want|need|would\s+like|wanna)|i['’]d\s+like"
    r"|we\s+(?:want|need)|give\s+me|how\s+(?:should|do|can)\s+(?:i|we))"
)

_EN_REQUESTED_PLAN = (
    rf"(?:(?:^|[.!?,;:\n]\s*)|\b{_EN_ASK}\b{_EN_GAP % 30}\b)(?:{_EN_MAKE})\s+{_EN_GAP % 30}\b{_EN_LONG_PLAN}"
)
_EN_PLAN_THE_SPAN = rf"(?:^\s*|[.!?,;:\n]\s*|\b{_EN_ASK}\b{_EN_GAP % 30}\b)(?:plan|map|lay)\s+(?:out\s+)?(?:my\s+|our\s+|the\s+)?(?:{_EN_NEXT})(?=\s*(?:$|[.!?,;:\n]|of\b|with\b|for\b|so\b|and\b|to\b|please\b|['’]s\s+goals?))"
_EN_PLAN_GOALS_WITHIN = rf"(?:^\s*|[.!?,;:\n]\s*|\b{_EN_ASK}\b{_EN_GAP % 30}\b)(?:{_EN_MAKE})\s+{_EN_GAP % 30}\b{_EN_PLAN}\b{_EN_GAP % 60}\b{_EN_WITHIN}\b"
_EN_WITHIN_THEN_PLAN = rf"\b{_EN_WITHIN}\b[^\n]{{0,60}}?\b(?:help\s+me\s+plan|(?:make|create|build|draft|write|need|want|give\s+me)\s+(?:me\s+)?(?:a|an|some|my)\s+(?:\w+\s+){{0,3}}?(?:plan|goals|roadmap))\b"
_EN_WANTED_PLAN = (
    r"\b(?:i|we)(?:\s+really)?(?:\s+(?:want|need|would\s+like)|['’]d\s+like)\s+(?:to\s+have\s+)?(?:a|an|some|my|our)\s+"
    rf"(?:\w+\s+)?{_EN_LONG_PLAN}|\bgive\s+me\s+(?:a|an|some)\s+(?:\w+\s+)?{_EN_LONG_PLAN}"
)
_EN_PLAN_ALONE = rf"^\s*(?:my\s+|our\s+|a\s+)?{_EN_LONG_PLAN}(?:\s+for\s+[\w\s]{{1,40}})?[.!\s]*$"

_EN_NOT = rf"\b(?:do\s+not|don['’]?t|never|not|no\s+need|rather\s+not|hate|without|stop|instead\s+of)\b{_EN_GAP % 30}\b{_EN_PLAN}\b"
_EN_PAST = (
    rf"\b(?:last\s+(?:year|month|quarter|spring|summer|fall|winter|week)|years?\s+ago|months?\s+ago|yesterday|previously|used\s+to"
    rf"|(?:i|we|they|he|she|it)(?:['’]ve|\s+have|\s+had|\s+has)?\s+(?:already\s+|just\s+)?(?:planned|made|set|wrote|written|had|finished|created|drafted)"
    rf"|(?:past|last|previous)\s+{_EN_SPAN})\b"
)
_EN_ABOUT = (
    rf"\b(?:what\s+(?:is|are|was|were|does|do)|what['’]s|why|when\s+(?:is|was|did)|who|define|definition\s+of|meaning\s+of|difference\s+between"
    rf"|explain|according\s+to|news|announced|government|soviet|national|the\s+(?:company|city|council|president|ceo|board)(?:['’]s)?|company['’]s|city['’]s"
    rf"|he|she|they|boss|friend)\b{_EN_GAP % 50}\b{_EN_PLAN}\b"
)
_EN_TEXT_WORK = (
    rf"\b(?:translate|summari[sz]e|proofread|edit|review|essay|article|report|story|poem|paper|presentation|read|print|delete|email|send|find|open|explain)\b{_EN_GAP % 50}\b{_EN_PLAN}\b"
    rf"|\b{_EN_PLAN}\b\s+(?:was|were|failed|fell|worked)\b"
)
_EN_QUOTED = rf"[\"“][^\"”\n]{{0,60}}\b{_EN_PLAN}\b[^\"”\n]{{0,40}}[\"”]"
_EN_PRODUCT = r"\b(?:phone|data|insurance|cell|mobile|payment|subscription|warranty|pricing|mortgage|loan|instal?lment|health\s+insurance|dental|floor|savings\s+account)\s+plans?\b"


RULES = TriggerRules(
    patterns=(
        _ZH_REQUESTED_PLAN,
        _ZH_PLAN_THE_SPAN,
        _ZH_SPAN_THEN_PLAN,
        _ZH_PLAN_THEN_SPAN,
        _ZH_PLAN_ALONE,
        _ZH_BA,
        _ZH_HOW,
        _ZH_WANTED_PLAN,
        _EN_REQUESTED_PLAN,
        _EN_PLAN_THE_SPAN,
        _EN_PLAN_GOALS_WITHIN,
        _EN_WITHIN_THEN_PLAN,
        _EN_WANTED_PLAN,
        _EN_PLAN_ALONE,
    ),
    exclude=(
        _PASTED_DOCUMENT,
        _ZH_NOT,
        _ZH_PAST,
        _ZH_DONE,
        _ZH_ABOUT,
        _ZH_TEXT_WORK,
        _ZH_QUOTED,
        _ZH_PRODUCT,
        _EN_NOT,
        _EN_PAST,
        _EN_ABOUT,
        _EN_TEXT_WORK,
        _EN_QUOTED,
        _EN_PRODUCT,
    ),
)
