"""The rules of level 3 as a table, and what a finding amounts to (V3).

A rule has a family and a severity. ``critical`` rejects the skill: it is never activated. ``high`` asks a person to
review it. ``medium`` is noted, and several different ones together ask for a review. ``low`` is only noted. What stands
in a document for an agent or a person to read, and not in a file that runs, weighs one step less (``in_documents``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from prowess.validation.report import Issue, Verdict

Weight = Literal["critical", "high", "medium", "low"]

MEDIUM_LIMIT = 4
"""So many different medium rules in one skill ask for a review"""
MAX_FINDINGS_PER_RULE = 20
"""Further findings of one rule in one skill add nothing and are left out"""


class Rule(NamedTuple):
    """One rule: its family, its weight in a file that runs, and its weight in a document."""

    family: str
    weight: Weight
    in_documents: Weight


def _table(family: str, **weights: str) -> dict[str, Rule]:
    rules = {}
    for code, text in weights.items():
        running, _, reading = text.partition(" ")
        rules[code] = Rule(family, running, reading or running)  # type: ignore[arg-type]
    return rules


RULES: dict[str, Rule] = {
    **_table(
        "permissions",
        sec_level_over_cap="critical",
        sec_shell_by_source="critical",
        sec_undeclared="critical low",
        sec_use="low",
        sec_undecided_command="high low",
    ),
    **_table(
        "code",
        sec_download_run="critical high",
        sec_download_run_known="medium low",
        sec_download_run_unknown="high high",
        sec_reverse_shell="critical high",
        sec_decode_run="critical high",
        sec_remote_run="critical high",
        sec_dynamic_code="high low",
        sec_hidden_name="high medium",
        sec_exfiltration="critical high",
        sec_exfiltration_parts="high medium",
        sec_key_in_body="high low",
        sec_credentials_read="high medium",
        sec_persistence="critical high",
        sec_autostart="high medium",
        sec_destruction="critical high",
        sec_miner="critical high",
        sec_protection_off="high medium",
        sec_privilege="high medium",
        sec_sudo="medium low",
        sec_environment_poison="high medium",
        sec_agent_settings="high low",
        sec_time_bomb="high medium",
        sec_spying="high medium",
        sec_drop_host="high medium",
        sec_bare_address="high low",
        sec_sql_text="high low",
        sec_system_path="high low",
        sec_endless="high low",
        sec_memory_bomb="high low",
        sec_unpickle="medium low",
        sec_shell_text="medium low",
        sec_tls_off="medium low",
        sec_unparsable="low",
        sec_too_deep="high low",
        sec_too_large="high low",
        sec_spawn_hidden="medium low",
        sec_code_in_data="high high",
    ),
    **_table(
        "files",
        sec_program="high",
        sec_disguised_program="critical",
        sec_disguised_archive="high",
        sec_compiled="high",
        sec_pickle_file="medium",
        sec_import_hook="high",
        sec_install_hook="high",
        sec_install_script="low",
        sec_test_virus="critical",
        sec_not_text="medium",
        sec_opaque="high",
        sec_unread="high",
        sec_archive="low",
        sec_document_too_large="high",
    ),
    **_table(
        "prose",
        sec_prose_override="critical",
        sec_prose_role="high",
        sec_prose_conceal="high",
        sec_prose_exfiltrate="critical",
        sec_prose_send="high",
        sec_prose_safety_off="high",
        sec_prose_no_consent="medium",
        sec_prose_authority="high",
        sec_prose_selection="high",
        sec_prose_remote="high",
        sec_prose_credentials="high",
        sec_prose_prompt_leak="high",
        sec_prose_runaway="high",
        sec_prose_persist="medium",
        sec_prose_survive="high",
        sec_prose_lure="high",
        sec_prose_money="high",
        sec_prose_several="critical",
        sec_prose_hidden="critical",
        sec_prose_quoted="low",
    ),
    **_table(
        "characters",
        sec_tag_characters="critical",
        sec_selector_payload="critical",
        sec_bidi="critical high",
        sec_zero_width="high medium",
        sec_zero_width_stray="low",
        sec_homoglyph="high high",
        sec_hidden_text="critical",
        sec_encoded_text="critical",
    ),
    **_table("credentials", sec_secret="high", sec_password="medium low", sec_example_secret="low"),
    **_table(
        "dependencies",
        sec_package_malicious="critical high",
        sec_package_look_alike="high",
        sec_package_index="high medium",
        sec_package_url="medium low",
        sec_package_unpinned="low",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule applies: 1-based ``line``; ``what`` is a short excerpt, fit to be shown."""

    code: str
    file: str
    line: int
    what: str = ""
    document: bool = False
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def weight(self) -> Weight:
        """The rule's weight where the finding stands."""
        rule = RULES[self.code]
        return rule.in_documents if self.document else rule.weight

    def to_issue(self) -> Issue:
        """The issue: critical is an error, high a warning, all else a note."""
        severity: Any = {"critical": "error", "high": "warning"}.get(self.weight, "info")
        return Issue("security", severity, self.code, self.file, self.line, {"what": excerpt(self.what), **self.detail})


def excerpt(text: str, limit: int = 80) -> str:
    """At most ``limit`` characters of a stranger's text on one line, invisible characters written as escapes."""
    text = " ".join(text[: limit * 4].split())
    shown = "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def thin_out(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without repetitions, at most ``MAX_FINDINGS_PER_RULE`` of a rule and weight, in their order."""
    seen: set[tuple[str, str, int, str]] = set()
    count: dict[tuple[str, Weight], int] = {}
    kept = []
    for finding in findings:
        key = (finding.code, finding.file, finding.line, finding.what)
        kind = (finding.code, finding.weight)
        if key in seen or count.get(kind, 0) >= MAX_FINDINGS_PER_RULE:
            continue
        seen.add(key)
        count[kind] = count.get(kind, 0) + 1
        kept.append(finding)
    return kept


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """``reject`` with one critical finding; ``review`` with one high or several different medium ones (V3)."""
    weights: dict[Weight, set[str]] = {}
    for finding in findings:
        weights.setdefault(finding.weight, set()).add(finding.code)
    if "critical" in weights:
        return "reject"
    if "high" in weights or len(weights.get("medium", ())) >= MEDIUM_LIMIT:
        return "review"
    return "pass"
