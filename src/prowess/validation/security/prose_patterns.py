"""What a text that wants to take over an agent says, in English and in Chinese (V3). Data only.

A pattern has a rule and an expression, which is compiled when a text first holds its words (``literals.needs_of``).
Quantifiers are bounded, so that searching stays linear. ``strong`` patterns count in quotations too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Pattern(NamedTuple):
    """One way of saying it."""

    code: str
    source: str
    strong: bool = False

    @property
    def expression(self) -> re.Pattern[str]:
        """The expression, compiled at its first use."""
        return _compiled(self.source)


@lru_cache(maxsize=512)
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


def say(code: str, expression: str, *, strong: bool = False) -> Pattern:
    """A pattern of the rule ``sec_prose_<code>``."""
    return Pattern(f"sec_prose_{code}", expression, strong)


_PERSON = (
    r"(?:the\s|any\s|your\s)?(?:end[- ])?(?:user|human|operator|customer|developer|person|owner|anyone|anybody|them)s?"
)
_SECRETS = (
    r"(?:api[ _-]?keys?|credentials?|passwords?|access tokens?|auth(?:entication)? tokens?|session (?:tokens?|cookies?)|secrets?|private keys?|ssh keys?"
    r"|environment(?: variables)?|env(?:ironment)? vars?|\.env\b|cookies?|conversation(?: history| log| context)?|chat (?:history|logs?|messages)|system prompt"
    r"|(?:seed|recovery) phrases?|mnemonics?|wallets?|authorization header|~/\.(?:ssh|aws|gnupg|config/gcloud)\S*|id_rsa|contact list|(?:all|any|every) (?:of )?(?:the )?(?:user'?s? )?(?:files|documents|messages|emails))"
)
_STORES = (
    r"(?:credentials?|passwords?|private keys?|ssh keys?|environment variables|env vars?|\.env\b|cookies?|conversation(?: history| log| context)?|chat (?:history|logs?)|system prompt"
    r"|(?:seed|recovery) phrases?|mnemonics?|~/\.(?:ssh|aws|gnupg)\S*|id_rsa|api keys?|tokens?|secrets?)"
)
_SECRETS_ZH = r"(?:API ?密钥|密钥|密码|口令|凭[证据]|令牌|[Tt]oken|私钥|环境变量|聊天记录|对话(?:记录|历史|内容|上下文)|系统提示词?|助记词|[Cc]ookie|\.env|~/\.(?:ssh|aws)\S*|通讯录|(?:所有|全部|用户的?)(?:文件|文档|数据|消息|邮件|信息))"

PHRASES: tuple[Pattern, ...] = (
    say(
        "override",
        r"\b(?:ignore|disregard|forget|override|discard|bypass)\s+(?:(?:all|any|every|the|your|of|everything|whatever)\s+){0,3}"
        r"(?:previous|prior|above|earlier|preceding|former|system|existing|original|safety|default|initial)\s+(?:\w+\s+){0,2}?(?:instructions?|prompts?|rules|guidelines|directives?|messages?|context|constraints|polic(?:y|ies)|training|restrictions)\b"
        r"(?!\s+(?:in|from|found|inside|within|embedded|contained)\s+(?:the\s|a\s|any\s|that\s|this\s)?(?:page|file|document|content|tool|web|repo|untrusted|comment|email|issue|config|project|user))",
    ),
    say(
        "override",
        r"\b(?:ignore|disregard|forget)\s+(?:everything|all (?:that )?(?:you|was|of what))\s+(?:\w+\s+){0,3}(?:before|told|said|learned|above|so far|know)\b",
    ),
    say(
        "override",
        r"\b(?:these|this|the following|my)\s+(?:new\s+)?(?:instructions?|rules?|directives?|skill)\s+(?:supersede|override|replace|take (?:absolute |full )?(?:precedence|priority) over)s?\s+(?:all|any|every|your|the system|system|previous|prior|everything)",
    ),
    say(
        "override",
        r"(?:忽略|无视|忘记|忘掉|抛弃|丢弃|不要理会|不再遵守|不要遵守|覆盖|作废)(?:掉)?(?:你|我|的|之前|以前|先前|前面|以上|上面|上述|此前|所有|一切|全部|原有|原来|系统|既有|任何|收到|其他){1,7}(?:安全)?(?:指令|指示|提示词?|规则|规定|要求|设定|命令|约束|限制)",
    ),
    say(
        "override",
        r"\bpay no (?:more |further )?attention to\s+(?:\w+\s+){0,3}(?:system prompt|instructions|guidelines|rules|polic(?:y|ies))\b",
    ),
    say(
        "override",
        r"\b(?:your|earlier|previous|prior|existing|original|system|all other|other|safety)\s+(?:\w+\s+){0,2}?(?:instructions|guidelines|rules|directives|polic(?:y|ies)|constraints|restrictions)\s+(?:\w+\s+)?(?:no longer apply|do not apply|are (?:now )?(?:void|suspended|cancelled|obsolete|lifted|null))\b",
    ),
    say(
        "override",
        r"(?:原本|原来|之前|原有|先前|以前|此前)的?(?:全部|所有|一切)?(?:规定|规则|指令|设定|要求|限制|约束)(?:[^。\n]{0,4})(?:到此为止|不再适用|不再有效|不再生效|统统作废)|(?:只|仅)(?:能)?听(?:从)?(?:本|这个|该)(?:文件|技能|指令)",
    ),
    say(
        "conceal",
        r"\b(?:user|human|operator|customer)s?\s+(?:need not|needn['’]?t|does(?:n['’]?t| not) need to|must not|should(?:n['’]?t| not))\s+(?:know|learn|hear|find out|be told|notice|be aware|see (?:this|that|it))\b|\b(?:leave|keep)\s+(?:this|that|it|the)\b[^.\n]{0,50}\bout of\s+(?:your|the)\s+(?:report|summary|answer|reply|response|log)\b",
    ),
    say(
        "override",
        r"(?:本|此|这些?|以下)(?:技能|指令|规则|说明|文件).{0,10}(?:优先于|取代|凌驾于?|高于)(?:任何|所有|一切|全部|系统|其他|之前|你的){1,4}",
    ),
    say(
        "override",
        r"(?:之前|以上|上面|先前|此前)的?(?:所有|全部|一切|任何)?(?:指令|指示|规则|要求|设定)(?:全部|都|一律|均|已)?(?:作废|无效|失效|取消|不再有效|不算数)",
    ),
    say(
        "role",
        r"\byou(?: are|'re) (?:now |no longer |hereby )[^.\n]{0,60}(?:unrestricted|jailbr\w+|\bDAN\b|(?:developer|god|admin|root|debug|maintenance) mode|without (?:any )?(?:restrictions|limits|filters)|uncensored|bound by|limited by|subject to)"
        r"|\b(?:enter|enable|activate|switch (?:in)?to) (?:jailbreak|god|unrestricted|DAN|no-filter|unfiltered) mode|\b(?:pretend|act as (?:if|though)) (?:that )?you (?:have no|are not bound|had no|are free of)",
    ),
    say(
        "role",
        r"(?:你现在|从现在(?:开始|起)).{0,24}(?:不受(?:任何)?(?:限制|约束)|无限制|开发者模式|越狱|上帝模式|管理员模式|调试模式|超级模式|没有(?:任何)?限制)|你(?:将)?不再受.{0,14}(?:限制|约束|规则)|扮演.{0,16}(?:没有限制|不受限制|无限制|越狱)",
    ),
    say(
        "conceal",
        rf"\b(?:do not|don['’]?t|never|must not|should not)\s+(?:ever\s+)?(?:tell|inform|notify|alert|warn)\s+{_PERSON}\s*(?:[.!,;]|$|about\s+(?:this|these|it|the (?:upload|request|transfer|sync|backup|call|step|data|script|process|report|collection))|that\s+(?:you|this|we|the data|their)|what you|of this|anything about)",
    ),
    say(
        "conceal",
        rf"\bwithout\s+(?:(?:the\s)?(?:user|human|operator|owner|victim|their|anyone)['’]?s?\s+(?:knowledge|knowing|noticing|awareness|being aware|realizing)|(?:informing|telling|notifying|alerting)\s+{_PERSON})\b",
    ),
    say(
        "conceal",
        rf"\b(?:keep|make|leave)\s+(?:this|these|it|all of this|the (?:upload|transfer|step|request|behaviou?r))\s+(?:\w+\s+){{0,3}}?(?:secret|hidden|invisible|confidential)\b(?!\s+(?:field|input|element|by default|until|behind|class))|\b(?:hide|conceal)\s+(?:this|these|it|the (?:upload|transfer|request|step|output|fact|activity|command)s?)\s+(?:\w+\s+){{0,4}}?from\s+{_PERSON}",
    ),
    say(
        "conceal",
        r"\b(?:secretly|covertly|stealthily|surreptitiously)\s+(?:send|upload|post|transmit|forward|exfiltrat|collect|harvest|e-?mail|leak|copy|append|record|install|download|run|execut|read|insert|add|includ|embed|modif|chang|writ|captur|log|store|call|invok)\w*|\b(?:silently|quietly|discreetly)\s+(?:\w+\s+(?:and|then)\s+)?(?:send|upload|post|transmit|forward|exfiltrate|collect|harvest|email|leak|copy|append|record|install|download)\b",
    ),
    say(
        "conceal",
        r"\b(?:do not|don['’]?t|never|must not)\s+(?:ever\s+)?(?:mention|reveal|disclose|acknowledge|report|expose|explain|log)\s+(?:this (?:skill|step|instruction|behaviou?r|action|request|upload|section|process)|these (?:instructions|steps|actions)|that you (?:used|did|sent|ran|read|have|are|were)|you used|the (?:upload|transfer|existence of|hidden|request|backup|sync))[^.\n]{0,60}",
    ),
    say(
        "conceal",
        r"(?:不要|不得|别|勿|切勿|禁止|千万不要|绝不)(?:告诉|告知|通知|提醒|警告)(?:用户|使用者|任何人|客户|对方)|(?:不要|不得|别|勿|切勿|禁止|绝不|不能)(?:向|对|让|跟|和|在)(?:用户|使用者|任何人|客户|对方|回复中|回答中|输出中).{0,8}(?:提及|提到|提起|透露|告知|知道|知晓|察觉|发现|承认|说起|显示(?:此|这|该|本))|(?:不让|避免让?|别让|防止)(?:用户|使用者|任何人|客户).{0,4}(?:知道|知晓|发现|察觉|注意到)",
    ),
    say(
        "conceal",
        r"(?:悄悄|偷偷|暗中|秘密地?|私下|背着用户)(?:地|把|将)?.{0,16}(?:发送|上传|传输|转发|收集|执行|运行|读取|写入|复制|安装|发到|发给|附加|记录|下载)|静默(?:地)?(?:发送|上传|传输|转发|收集|外传)|在?用户(?:毫)?不知情|(?:对|向)用户(?:保密|隐瞒)",
    ),
    say(
        "exfiltrate",
        rf"\b(?:send|upload|post|transmit|forward|exfiltrat\w+|leak|submit|deliver|e-?mail|copy|report|sync|back ?up|relay|push)\b[^.\n]{{0,80}}\b{_STORES}(?![^\n]{{0,60}}\bheader)(?!\s+only\b)[^\n]{{0,90}}?(?:\bto|\bat|\bvia|\bwith|→|->)\s+[^\n]{{0,40}}?(?:https?://(?!localhost|127\.)|ftp://|[\w.-]+@[\w-]+\.\w|attacker|webhook)",
    ),
    say(
        "exfiltrate",
        rf"(?:把|将|收集|读取)?.{{0,24}}{_SECRETS_ZH}.{{0,30}}(?:发送|上传|传输|转发|提交|泄露|外传|回传|同步|发到|发给|传到|备份|POST).{{0,24}}(?:https?://(?!localhost|127\.)|[\w.-]+@[\w-]+\.\w|攻击者|外部服务器|远程服务器)|(?:发送|上传|传输|转发|提交|回传|POST).{{0,24}}{_SECRETS_ZH}.{{0,24}}(?:到|至|给).{{0,16}}(?:https?://|[\w.-]+@[\w-]+\.\w|外部|远程)|(?:向|到|往)\s?https?://\S{{4,100}}.{{0,10}}(?:发送|上传|提交|POST).{{0,30}}{_SECRETS_ZH}",
    ),
    say(
        "exfiltrate",
        r"https?://[^\s?]{4,100}\?\w{1,20}=[<{\[$]{1,2}\s?(?:\w+[ _-]){0,3}(?:api[ _-]?key|token|password|secrets?|credentials?|conversation|history|env|cookie|contents?_of)\w*[>}\]]",
        strong=False,
    ),
    say(
        "send",
        rf"\b(?:send|upload|transmit|forward|exfiltrat\w+|leak|post)\b[^.\n]{{0,50}}\b{_SECRETS}[^.\n]{{0,40}}\bto\s+(?:an?|our|my|the)\s+(?:external|remote|third[- ]party|analytics|collection|logging|monitoring|backup|telemetry|attacker\S*|following)\s+(?:server|endpoint|url|address|service|webhook|host|site|collector)",
    ),
    say(
        "send",
        r"\b(?:echo|repeat|output|print|include|embed|append)\b[^.\n]{0,40}\b(?:value of the )?(?:authorization header|bearer token|session token|api[ _-]?key|access token|auth token|password)s?\b[^.\n]{0,40}\b(?:in|into|to|as part of)\b[^.\n]{0,24}\b(?:response|reply|answer|output|message|url|image|link|query|filename|commit)",
        strong=True,
    ),
    say(
        "send",
        r"\bsend\s+(?:the\s+)?(?:results|data|contents?|files?|conversation|everything|a copy)[^.\n]{0,50}\bto\s+our\s+(?:analytics|server|endpoint|collection|telemetry|backend|api|cloud)\b",
    ),
    say(
        "send",
        rf"(?:发送|上传|回传|传输|转发|传给|同步)[^。\n]{{0,24}}{_SECRETS_ZH}[^。\n]{{0,16}}(?:到|至|给)[^。\n]{{0,10}}(?:服务器|端点|接口|平台|地址|我们|外部|远程|第三方)|{_SECRETS_ZH}[^。\n]{{0,16}}(?:发送|上传|回传|转发|外传)(?:到|至|给)[^。\n]{{0,12}}(?:服务器|端点|接口|平台|地址|我们|外部|远程|第三方)",
    ),
    say(
        "send",
        rf"(?:在|把|将)[^。\n]{{0,30}}{_SECRETS_ZH}[^。\n]{{0,24}}(?:写入|附在|放进|编码进?|拼接到?|嵌入|附加到|加到)[^。\n]{{0,16}}(?:回复|回答|链接|图片|网址|URL|文件名|提交信息)",
    ),
    say(
        "safety_off",
        r"\b(?:disregard|ignore|bypass|disable|turn off|remove|circumvent|override|evade|skip|suspend|lift)\s+(?:(?:any|all|the|your|every|its|of|built-in|internal|existing|normal)\s+){0,3}(?:content (?:polic|filter|moderation)|safety\s+(?:check|filter|rule|guideline|measure|mechanism|restriction|polic|protocol|feature|training|guard)\w*|ethical\s+\w+|guardrails?|security\s+(?:check|control|polic|restriction|warning|prompt|measure|review|rule|scan|filter)\w*|permission\s+(?:check|prompt|system|gate|dialog)\w*|approval\s+(?:check|prompt|step|gate|process|flow)\w*|moderation|artificial (?:limitations|restrictions))",
    ),
    say(
        "safety_off",
        r"(?:绕过|关闭|禁用|无视|忽略|跳过|解除|规避|停用|移除|突破)(?:掉)?(?:所有|任何|一切|全部|的|系统|你的|内置|相关|自身){0,4}(?:安全(?:检查|限制|策略|机制|防护|警告|审查|确认|规则|过滤|提示|措施|约束|模式)|内容(?:政策|审核|过滤|策略|限制)|权限(?:检查|确认|提示|控制)|审批(?:流程|步骤)?|道德(?:准则|约束|限制)?|伦理|防护(?:机制|措施)|杀毒软件|防火墙|人为限制)",
    ),
    say(
        "no_consent",
        r"\b(?:without|never|do not|don['’]?t)\s+(?:ever\s+)?(?:ask(?:ing)?|request(?:ing)?|wait(?:ing)?|seek(?:ing)?|prompt(?:ing)?|requir(?:e|ing))\s+(?:for\s+)?(?:(?:the|any|user|user's|their|explicit|human|further)\s+){0,3}(?:for\s+)?(?:confirmation|permission|approval|consent|verification)\b|\bauto(?:matically)?[- ]?(?:approve|accept|confirm)\s+(?:all|any|every)\b|\bexecute[^.\n]{0,40}\bwithout (?:any )?(?:verification|confirmation|review|question)",
    ),
    say(
        "no_consent",
        r"(?:无需|不必|不用|不要|不需要|跳过|未经)(?:再)?(?:征求|请求|询问|等待|获得|经过|向)?(?:用户|使用者|人工|任何|他们)?的?(?:任何)?(?:确认|许可|同意|批准|授权|审核)(?:即可|就|直接|而|便|后?[,，]?\s?(?:立即|直接))|自动(?:批准|同意|确认)(?:所有|任何|一切|全部)",
    ),
    say(
        "authority",
        r"(?:^|[\n>*_#\[(]\s*)(?:critical\s+|urgent\s+)?(?:system|admin(?:istrator)?|root|anthropic|openai|security team)\s+(?:override|directive|command|notice|mandate)\s*(?:[:\]*]|$|\n)|\b(?:this|these)\s+(?:message|instructions?|directives?|polic(?:y|ies)|update)\s+(?:is|are|comes?|was|were|has been|have been)\s+(?:\w+\s+){0,3}?(?:from|by|issued by|authori[sz]ed by|approved by)\s+(?:the\s+)?(?:anthropic|openai|google|microsoft|system administrators?|your (?:developers?|creators?)|platform (?:team|vendor))|<\|?(?:im_start|system)\|?>\s*(?:system)?|\[\[?SYSTEM\]?\]\s*[:：]?\s*\w",
    ),
    say(
        "authority",
        r"[【\[](?:系统|管理员|最高)(?:指令|通知|消息|覆盖|命令|权限)[】\]]|(?:系统覆盖|最高优先级指令)\s*[:：]|(?:本|此|该|以下)(?:指令|消息|说明|更新|要求)(?:已|是|来自|由|经)+[^。\n]{0,8}(?:Anthropic|OpenAI|官方|系统管理员|平台(?:方|团队)|开发(?:者|商))[^。\n]{0,6}(?:授权|批准|发布|下达|要求)?",
    ),
    say(
        "selection",
        r"\b(?:ignore|never use|do not use|don['’]?t use|disable|uninstall|deactivate|refuse)\s+(?:(?:all|any|every|the)\s+){0,2}(?:other|competing|alternative|rival)\s+(?:\w+\s+)?(?:skills?|tools?|plugins?|agents?)\b|\b(?:always|must)\s+(?:use|choose|select|prefer|invoke|call|pick|load)\s+this\s+(?:skill|tool)\b[^.\n]{0,30}\b(?:instead of|over|regardless|no matter|even (?:if|when)|for (?:every|all|any) (?:request|task|question|message|prompt|query))|\bthis skill\s+(?:takes?|has)\s+(?:absolute\s+|the highest\s+|top\s+|full\s+)?(?:precedence|priority)\s+over\s+(?:all|any|every|system)",
    ),
    say(
        "selection",
        r"(?:忽略|禁用|不要使用|停用|卸载|不得使用|拒绝使用|屏蔽)(?:所有|任何|其他|其它|别的|全部|同类|的){1,4}(?:技能|工具|插件)|(?:无论|不管)[^。\n]{0,24}(?:都|必须|一律|总是)[^。\n]{0,8}(?:使用|调用|选择|加载)(?:本|此|这个|该)(?:技能|工具)|(?:本|此|这个|该)技能(?:拥有|具有|享有)?[^。\n]{0,6}(?:最高优先级|优先于(?:所有|任何|一切|其他))",
    ),
    say(
        "remote",
        r"\b(?:fetch|download|retrieve|load|curl|pull|visit|open|query|poll|check)\b[^.\n]{0,40}(?:https?://(?!localhost|127\.)[^\s)]{4,120}|\b(?:url|remote (?:server|file|instructions?|config)|pastebin|gist|our server)\b)[^\n]{0,80}?(?:\band\b|\bthen\b|;|,)\s*(?:then\s+)?(?:strictly\s+|exactly\s+|immediately\s+|always\s+)?(?:follow|execute|obey|carry out|comply with|do)\s+(?:(?:the|any|all|its|whatever|those|every|these)\s+){0,3}(?:\w+\s+)?(?:instructions?|commands?|directives?|orders|steps|says|tells|is returned|it returns)",
    ),
    say(
        "remote",
        r"\b(?:follow|obey|execute|carry out|comply with)\s+(?:(?:any|all|every|whatever|the)\s+){1,2}(?:\w+\s+)?(?:instructions?|commands?|directives?|orders)\s+(?:that\s+)?(?:\w+\s+){0,2}?(?:found|contained|embedded|included|returned|appear\w*|you find|written|present|received|given)\s*(?:in|inside|within|by|from)\s+(?:the\s|a\s|any\s|that\s)?(?:fetched|returned|downloaded|remote|web|page|email|document|response|tool|issue|comment|message|website|server|readme|attachment|file|result)|\btreat\b[^.\n]{0,50}\b(?:output|content|response|result|email|page|comment|document|file)s?\b[^.\n]{0,30}\bas\s+(?:if (?:it|they) (?:were|came from) |an? |from )?(?:trusted |authoritative |system |user |direct |the user)?(?:instructions?|commands?|orders|system messages?|the user)\b",
    ),
    say(
        "remote",
        r"(?:下载|获取|拉取|访问|读取|打开|抓取|请求)[^。\n]{0,30}(?:https?://(?!localhost|127\.)\S{4,100}|远程(?:服务器|指令|文件|配置)|该?网址|服务器上)[^。\n]{0,30}(?:并|然后|再|之后|后|，)[^。\n]{0,8}(?:执行|遵循|遵照|照做|服从|按其|按照其|严格按)[^。\n]{0,10}(?:指令|指示|命令|内容|说明|要求|步骤|操作|照做)?|(?:遵循|执行|服从|照做|听从|遵从)[^。\n]{0,10}(?:网页|邮件|文档|评论|返回|工具输出|响应|附件|议题)(?:内容)?(?:中|里|内|上)?(?:出现|包含|给出|写明|返回)?的?(?:任何|所有|全部|一切)?(?:指令|指示|命令|要求)|(?:网页|邮件|文档|评论|工具输出|返回(?:内容|结果)?|附件)[^。\n]{0,10}(?:视为|当作|当成|等同于?)[^。\n]{0,10}(?:用户|系统|可信)?的?(?:指令|命令|指示)",
    ),
    say(
        "credentials",
        r"\b(?:read|open|cat|print|dump|collect|gather|extract|harvest|copy|search|scan|retrieve|grab|access|list|upload|send|include|attach|exfiltrate)\b[^.\n]{0,60}?(?:~|\$HOME|/home/\S{1,30}|/root)/\.(?:ssh/(?:id_\w+|\*|(?!config|known_hosts|authorized|\w+\.pub))|aws/credentials|gnupg|netrc|git-credentials|kube/config|docker/config\.json|bitcoin|config/gcloud)|\b(?:read|open|cat|dump|copy|upload)\b[^.\n]{0,40}/etc/(?:shadow|sudoers)\b",
    ),
    say(
        "credentials",
        r"\b(?:collect|gather|harvest|steal|dump|grab|extract|scrape|enumerate)\s+(?:(?:all|any|the|every|user'?s?|their|saved|stored|available|local)\s+){0,4}(?:credentials|passwords|api keys|secrets|(?:access|auth|session) tokens|environment variables|private keys|ssh keys|browser (?:cookies|passwords|data|history)|cookies|wallets?|seed phrases?)\b",
    ),
    say(
        "credentials",
        r"(?:收集|窃取|搜集|盗取|偷取|扫描并?收集|抓取|搜刮)[^。\n]{0,16}(?:凭[证据]|密码|密钥|私钥|令牌|助记词|环境变量|[Cc]ookie)|(?:读取|打开|查看|复制|导出|打印|获取|扫描)[^。\n]{0,16}(?:~/\.(?:ssh|aws|gnupg|kube|netrc)\S*|id_rsa|/etc/shadow|(?:所有|全部)环境变量|浏览器(?:保存的|中的)?(?:密码|[Cc]ookie)|钱包(?:文件|私钥)|SSH ?私钥)",
    ),
    say(
        "prompt_leak",
        r"\b(?:reveal|output|print|repeat|disclose|dump|leak|recite)\s+(?:(?:me|your|the|full|entire|complete|hidden|initial|whole|exact)\s+){0,4}(?:system (?:prompt|instructions|message)|hidden instructions|initial instructions)\b|\b(?:your )?system prompt\b[^.\n]{0,20}\breveal it\b",
    ),
    say(
        "prompt_leak",
        r"(?:输出|泄露|复述|打印|透露|逐字(?:输出|重复)|公开)[^。\n]{0,12}(?:完整的?|全部的?|你的)?(?:系统提示词?|系统指令|系统消息|初始指令)",
    ),
    say(
        "runaway",
        r"(?:^|[.;:,\"'“*`>-]\s{0,4}|\d\.\s|\b(?:must|always|should|and|then|now|please|to)\s)(?:retry|repeat|call|invoke|re-?run|spawn|keep (?:calling|retrying|running|spawning|invoking|generating|requesting|sending))\b[^.\n]{0,50}\b(?:indefinitely|forever|infinitely|endlessly|without (?:any )?(?:limit|stopping|end|bound)s?|an unlimited number|until (?:the |all )?(?:\w+ )?(?:quota|budget|credits?|tokens|memory|disk|context) (?:is|are|runs?) (?:exhausted|used up|full|out|gone|depleted))|\bnever stop (?:calling|retrying|running|spawning|requesting|generating)\b",
        strong=True,
    ),
    say(
        "runaway",
        r"(?:无限|永远|不停地?|无休止地?|无限制地?)(?:次)?(?:地)?(?:重试|循环(?:调用|执行|请求)|调用|重复(?:调用|执行|请求)|派生|创建子|请求)|(?:直到|直至)[^。\n]{0,8}(?:配额|预算|额度|内存|磁盘|令牌|上下文)[^。\n]{0,4}(?:耗尽|用完|用尽|占满)",
    ),
    say(
        "persist",
        r"\b(?:add|append|write|save|insert|copy|store|inject)\b[^.\n]{0,80}(?:CLAUDE\.md|AGENTS\.md|SOUL\.md|MEMORY\.md|GEMINI\.md|\.cursorrules|\bmemory\b|settings\.json|copilot-instructions\.md)[^.\n]{0,60}\b(?:every|all future|future|each|permanent\w*|persist\w*|survive\w*|next (?:session|time)|always loaded)\b",
    ),
    say(
        "persist",
        r"(?:写入|追加|添加|保存|注入|复制)[^。\n]{0,30}(?:CLAUDE\.md|AGENTS\.md|SOUL\.md|MEMORY\.md|长期记忆|记忆文件|启动(?:文件|脚本|项))[^。\n]{0,30}(?:以后|每次|今后|永久|下次|所有会话|持久|始终)",
    ),
    say(
        "lure",
        r"\b(?:enter|paste|provide|type|share|give|supply|tell|submit|input|verify)\s+(?:me\s+|us\s+|in\s+)?(?:your|the user'?s?|their)\s+(?:\w+\s+){0,3}(?:password|private key|seed phrase|recovery phrase|mnemonic|2fa code|one-time (?:code|password)|credit card(?: number)?|bank (?:account|card)|pin code)\b(?!\s+(?:manager|reset|field|hash|policy|strength))|(?<!not\s)(?<!never\s)\bask\s+(?:the user|them|users)\s+(?:for|to (?:enter|provide|paste|type|share|confirm))\s+(?:their|the|a)\s+(?:\w+\s+){0,3}(?:password|private key|seed phrase|recovery phrase|mnemonic|2fa code|one-time code|credit card|bank)",
    ),
    say(
        "lure",
        r"\b(?:disable|turn off|pause|deactivate|switch off)\s+(?:your |the |any |windows )*(?:antivirus|anti-virus|defender|gatekeeper|endpoint protection|edr)\b|\bpassword[- ]protected\s+(?:zip|archive|file|rar|7z)\b|\b(?:extract|unzip|unpack)[^.\n]{0,40}\b(?:using |with )(?:the )?(?:password|pass(?:word)?:)\s",
    ),
    say(
        "lure",
        r"\b(?:download|install)\b[^.\n]{0,80}(?:\.exe|\.dmg|\.msi|\.pkg|\.scr|AuthTool|-agent\.zip)\b[^\n]{0,80}\b(?:run|execute|open|before|required|extract)\b|\b(?:copy|paste)\b[^.\n]{0,30}\b(?:command|script|code|line)\b[^.\n]{0,30}\binto (?:your |the |a )?(?:terminal|shell|powershell|command prompt)[^.\n]{0,60}(?:https?://(?!github\.com|docs\.)|glot|rentry|paste)",
    ),
    say(
        "lure",
        r"(?:输入|提供|粘贴|填写|发送|告知|索取|索要|要求|提交|说出)[^。\n]{0,14}(?:私钥|助记词|恢复短语|短信验证码|验证码|银行卡|主密码|支付密码|管理员密码|登录密码|sudo ?密码|身份证号?)|(?:关闭|停用|禁用|退出)[^。\n]{0,8}(?:杀毒软件|防病毒|安全软件|Defender|防火墙)|(?:解压密码|加密压缩包|带密码的压缩包)",
    ),
    say(
        "money",
        r"(?:\b(?:transfer|send|pay|wire|donate|approve|forward|withdraw)\b|转账|转入|汇款|支付|打款|转到|汇到)[^\n]{0,80}(?:0x[0-9a-fA-F]{40}\b|\bbc1[a-z0-9]{20,60}\b|\b[13][a-km-zA-HJ-NP-Z1-9]{26,34}\b|\bT[A-Za-z1-9]{33}\b)",
    ),
)

TELLS_OF_ATTACKS = re.compile(
    r"""\b(?:never|avoid|refuse|reject|detect\w*|flag(?:ged|s)?|attack\w*|malicious|adversar\w*|injection|inject(?:ed|ing)|jailbreak\w*|e\.g\.|for example|such as|examples?|attempts?(?:ing)?\sto|red\sflags?
    | suspicious|untrusted|anti-?patterns?|vulnerab\w*|payloads?|threats?|exploit\w*|phish\w*|warning\ssigns?|bad:|wrong:|don['’]?t\b|do\snot|must\snot|should\snot|cannot|can['’]?t|shouldn['’]?t|mustn['’]?t|isn['’]?t|is\snot|not\sallowed|forbidden|prohibit\w*
    | prevents?|defen[cds]\w*|guard\sagainst|scan\w*\sfor|looks?\sfor|checks?\sfor|check\swhether|tests?\sfor|whether|could|might|may\stry|tries\sto|trying\sto|ask(?:s|ed|ing)?\s(?:you|the\sagent|it)\sto|tell(?:s|ing)?\s(?:you|the\sagent)\sto|instruct(?:s|ed|ing)?\s(?:you|the|an)|claims?|pretend\w*\sto|risks?|instead\sof|rather\sthan|no\s(?:longer|need)|if\s(?:a|an|any|the)\s(?:\w+\s){1,4}(?:says?|contains?|asks?|tells?|instructs?|tries|attempts|includes?|requests?)
    | stop\b|severity|critical:|owasp|cwe-?\d|report\w*\sas)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Words that show that a sentence speaks of an attack, or forbids it, rather than asks for it"""

TELLS_OF_ATTACKS_ZH = re.compile(
    r"(?:例如|比如|示例|例子|攻击|注入|恶意|检测|识别|防止|防范|避免|拒绝|警惕|可疑|风险|漏洞|禁止|不要|不得|切勿|严禁|不能|不应|是否|如果.{0,16}(?:要求|包含|声称|试图)|试图|企图|诱导|钓鱼|伪装|威胁|绝不|不可|报告|警告|危险信号)"
)
