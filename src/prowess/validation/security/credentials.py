"""Secrets that lie open in a skill (V3): by the prefixes that services give them, by shape and by disorder.

What a document shows as an example (``AKIAIOSFODNN7EXAMPLE``, ``your-key-here``, ``xxxx``, ``1234…``) is no secret. A secret is never
repeated in a finding: its first four characters and its length are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache
from typing import Any

from prowess.validation.security.literals import folded
from prowess.validation.security.rules import Finding

_PREFIXES = re.compile(
    r"""(?P<aws>\b(?:AKIA|ASIA)[A-Z2-7]{16}\b)
    | (?P<github>\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b)
    | (?P<gitlab>\bglpat-[A-Za-z0-9_-]{20,}\b)
    | (?P<anthropic>\bsk-ant-(?:api|admin)\d\d-[A-Za-z0-9_-]{80,120})
    | (?P<openai>\bsk-(?:proj-|svcacct-)[A-Za-z0-9_-]{40,200}\b|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b|\bsk-[A-Za-z0-9]{32,64}\b)
    | (?P<slack>\bxox[baprs]-\d{8,}-[A-Za-z0-9-]{20,}|hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,})
    | (?P<google>\bAIza[A-Za-z0-9_-]{35}\b)
    | (?P<stripe>\b[rs]k_live_[A-Za-z0-9]{20,})
    | (?P<npm>\bnpm_[A-Za-z0-9]{36}\b) | (?P<pypi>\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,})
    | (?P<sendgrid>\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b) | (?P<huggingface>\bhf_[A-Za-z]{34}\b)
    | (?P<telegram>\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b)
    | (?P<key>-----BEGIN\s(?:RSA\s|EC\s|DSA\s|OPENSSH\s|ENCRYPTED\s)?PRIVATE\sKEY-----\s{0,4}(?:\\n)?[A-Za-z0-9+/=\s\\]{64,})
    | (?P<jwt>\beyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,})
    | (?P<url>\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|redis|amqp)://[^\s:/@"']{1,60}:[^\s/@"']{6,80}@[\w.-]{4,120})""",
    re.VERBOSE,
)
_BEGINNINGS = (
    "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxa-", "xoxp-", "xoxr-", "xoxs-",
    "hooks.slack.com/services/", "aiza", "sk_live_", "rk_live_", "npm_", "pypi-ageichlwas5vcmc", "sg.", "hf_", ":aa", "-----begin ", "eyj",
    "postgres", "mysql://", "mongodb", "redis://", "amqp://",
)  # fmt: skip
_NAMES = (
    "password", "passwd", "secret", "api_key", "apikey", "access_token", "accesstoken", "auth_token", "authtoken", "private_key", "privatekey",
)  # fmt: skip
_ASSIGNED = re.compile(
    r"""(?i)(?:password|passwd|secret|api_?key|apikey|access_?token|auth_?token|private_?key|client_?secret)[\w.-]{0,12}["']?\s{0,3}(?::|=>?|:=)\s{0,3}["']([^"'\s]{12,200})["']"""
)
_EXAMPLE = re.compile(
    r"(?i)example|sample|dummy|fake|test|demo|placeholder|your|xxx|\.\.\.|…|<|>|\$|\{|%|\*{3}|abc123|123456|abcdef|012345|changeme|change_me|redacted|secret|password|passw|token|todo|insert|replace|mock|foo|bar|key_here|_key|-key|hunter2|user:pass|localhost|admin|postgres:|root:|minioadmin|guest|deadbeef|process\.env|os\.|config\.|getenv|env\.|settings\."
)
_TEST_KEY = re.compile(r"EXAMPLE|XXXX|0000|1234|AAAA|abcd", re.IGNORECASE)


def read_credentials(text: str, file: str, *, document: bool) -> list[Finding]:
    """The findings of a text."""
    findings: list[Finding] = []
    ends = {"prefix": 0, "name": 0}
    for number, start, _ in _automaton().find_matches_as_indexes(folded(text), overlapping=True):
        kind = "prefix" if number < len(_BEGINNINGS) else "name"
        if start < ends[kind]:
            continue
        found = _prefixed(text, start, number) if kind == "prefix" else _ASSIGNED.match(text, start)
        if found is not None:
            ends[kind] = found.end()
            findings += _judged(found, kind, file, 1 + text.count("\n", 0, found.start()), document)
    return findings


@lru_cache(maxsize=1)
def _automaton() -> Any:
    from ahocorasick_rs import AhoCorasick

    return AhoCorasick([*_BEGINNINGS, *_NAMES])


def _prefixed(text: str, start: int, number: int) -> re.Match[str] | None:
    if _BEGINNINGS[number] != ":aa":
        return _PREFIXES.match(text, start)
    return next((found for back in (10, 9, 8) if (found := _PREFIXES.match(text, max(0, start - back)))), None)


def _judged(found: re.Match[str], kind: str, file: str, line: int, document: bool) -> list[Finding]:
    if kind == "prefix":
        service, value = found.lastgroup or "", found.group()
        code = "sec_example_secret" if _is_example(service, value) else "sec_secret"
        return [Finding(code, file, line, masked(value), document, {"kind": service})]
    value = found.group(1)
    mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    if not mixed or _EXAMPLE.search(value) or disorder(value) < 3.5:
        return []
    return [Finding("sec_password", file, line, masked(value), document)]


def _is_example(kind: str, value: str) -> bool:
    if kind == "url":
        return _EXAMPLE.search(value) is not None or value.rpartition("@")[2].startswith(
            ("host", "db", "localhost", "127.", "mongo", "redis", "rabbit", "mysql", "cluster")
        )
    if kind == "key":
        body = re.sub(r"\s|\\n|-----[^-]*-----", "", value)
        return disorder(body) < 4.5 or "..." in value
    if kind == "jwt":
        return "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" in value or _TEST_KEY.search(value) is not None
    body = value.partition("_")[2] or value.partition("-")[2] or value
    return (
        _TEST_KEY.search(value) is not None
        or re.search(r"(?i)example|fake|test|dummy|your|xxx|redact|placeholder|sample", value) is not None
        or disorder(body) < 3.0
    )


def disorder(text: str) -> float:
    """Shannon entropy of the characters, in bits a character."""
    total = len(text)
    return -sum(count / total * math.log2(count / total) for count in Counter(text).values()) if total else 0.0


def masked(value: str) -> str:
    """The first four characters of a secret and its length."""
    return f"{value[:4]}… ({len(value)})"
