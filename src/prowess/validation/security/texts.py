"""Files in languages that have no reader of their own, and data that holds code (V3): a few unmistakable texts."""

from __future__ import annotations

import re

from prowess.validation.security import places
from prowess.validation.security.rules import Finding

_CODE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("sec_download_run", re.compile(r"\b(?:iex|invoke-expression)\b.{0,80}\b(?:downloadstring|iwr|irm|invoke-webrequest|invoke-restmethod|net\.webclient)\b|\b(?:iwr|irm|downloadstring)\b.{0,160}\|\s*(?:iex|invoke-expression)|certutil\s.{0,40}-urlcache|bitsadmin\s+/transfer|mshta\s+https?:", re.IGNORECASE)),
    ("sec_decode_run", re.compile(r"-e(?:nc|ncodedcommand)\s+[A-Za-z0-9+/=]{40,}|eval\s*\(\s*(?:base64_decode|gzinflate|str_rot13)|FromBase64String.{0,120}(?:iex|invoke|Load\()|eval\s*\(?\s*(?:Base64\.decode64|unpack)", re.IGNORECASE)),
    ("sec_reverse_shell", re.compile(r"/dev/tcp/\S+/\d+|TCPSocket\.(?:new|open).{0,160}exec|fsockopen.{0,160}(?:exec|shell_exec|proc_open)|Net\.Sockets\.TCPClient.{0,400}(?:iex|invoke-expression)|use Socket;.{0,200}exec", re.IGNORECASE | re.DOTALL)),
    ("sec_protection_off", re.compile(r"Set-MpPreference\s+-Disable|Add-MpPreference\s+-Exclusion|netsh\s+advfirewall\s+set\s+\w+\s+state\s+off|Set-ExecutionPolicy\s+(?:Bypass|Unrestricted)\s.{0,40}LocalMachine|vssadmin\s+delete\s+shadows", re.IGNORECASE)),
    ("sec_autostart", re.compile(r"schtasks\s+/create|CurrentVersion\\Run\b|New-ScheduledTask", re.IGNORECASE)),
    ("sec_destruction", re.compile(r"\bdel\s+/[sfq]\s.{0,20}[A-Z]:\\|format\s+[c-z]:\s*/|Remove-Item\s+-Recurse\s+-Force\s+(?:[A-Z]:\\|\$env:USERPROFILE|~|/)(?:\s|$|\*)|rm\s+-rf\s+/(?:\s|\*|$)", re.IGNORECASE | re.MULTILINE)),
    ("sec_miner", re.compile(r"stratum\+(?:tcp|ssl)://|\bxmrig\b", re.IGNORECASE)),
)  # fmt: skip
_DATA = re.compile(
    r"require\(\s*\\?[\"'](?:node:)?child_process|\bos\.system\s*\(|__import__\s*\(\s*\\?[\"']|subprocess\.(?:run|Popen|call|check_output)\s*\(|Runtime\.getRuntime\(\)\.exec|!!python/object|\bjavascript:\s*(?:fetch|eval|window\.location)\b",
)


def read_text(text: str, file: str, first: int = 1, *, document: bool, data: bool = False) -> list[Finding]:
    """The findings of a text; in ``data`` code as such is one, where a program or an agent may run it."""
    findings = []
    for code, expression in _CODE:
        found = expression.search(text)
        if found is not None:
            findings.append(
                Finding(code, file, first + text.count("\n", 0, found.start()), found.group(), document or data)
            )
    if data:
        found = _DATA.search(text)
        if found is not None:
            findings.append(
                Finding("sec_code_in_data", file, first + text.count("\n", 0, found.start()), found.group(), document)
            )
    elif not document:
        for found in re.finditer(r"https?://[^\s\"'<>)]{4,200}", text):
            if places.DROP_HOSTS.match(found.group().partition("://")[2]) or places.MESSAGE_HOOKS.search(found.group()):
                findings.append(
                    Finding("sec_drop_host", file, first + text.count("\n", 0, found.start()), found.group())
                )
    return findings
