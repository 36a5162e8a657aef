"""Which event is told to whom (U6, U7, R5), in words of both languages."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.automation.notifications.model import OPERATORS, Severity, Subject
from prowess.automation.notifications.rules import (
    BURST_SIZE,
    BURST_WINDOW,
    HOOK_KINDS,
    KINDS,
    RULES,
    TEST,
    Denials,
    burst_notices,
    count_denial,
    is_denial,
    notices,
)
from prowess.chat.model import ChatRef
from prowess.events.model import EVENT_TYPES, SYSTEM, Event
from prowess.messages import LANGUAGES, catalogue

START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def event(kind: str, *, at: datetime = START, **fields: Any) -> Event:
    fields.setdefault("data", {})
    fields.setdefault("user", "ann")
    return Event(seq=7, tenant="default", type=kind, at=at, actor=SYSTEM, **fields)


def told(kind: str, **fields: Any) -> list[tuple[str, str, str]]:
    return [(notice.reader, notice.kind, notice.severity.value) for notice in notices(event(kind, **fields))]


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("approval.requested", {}, [("ann", "approval.requested", "warning")]),
        ("approval.requested", {"user": None}, [(OPERATORS, "approval.requested", "warning")]),
        (
            "approval.expired",
            {"data": {"reason": "permission_timeout"}},
            [("ann", "approval.expired", "alert"), (OPERATORS, "approval.expired", "alert")],
        ),
        ("automation.completed", {"data": {"outcome": "ok"}}, []),
        (
            "automation.completed",
            {"data": {"outcome": "failed"}},
            [("ann", "automation.failed", "alert"), (OPERATORS, "automation.failed", "alert")],
        ),
        (
            "automation.completed",
            {},
            [("ann", "automation.failed", "alert"), (OPERATORS, "automation.failed", "alert")],
        ),
        ("automation.proposed", {}, [("ann", "automation.proposed", "info")]),
        ("job.finished", {"decision": "succeeded"}, []),
        (
            "job.finished",
            {"decision": "failed"},
            [("ann", "job.failed", "alert"), (OPERATORS, "job.failed", "alert")],
        ),
        ("turn.failed", {"data": {"origin": "user"}}, []),
        ("turn.failed", {}, []),
        (
            "turn.failed",
            {"data": {"origin": "trigger"}},
            [("ann", "turn.failed", "alert"), (OPERATORS, "turn.failed", "alert")],
        ),
        ("skill.quarantined", {}, [(OPERATORS, "skill.quarantined", "alert")]),
        ("turn.completed", {}, []),
        ("message.unheard_of", {}, []),
    ],
)
def test_u7_who_is_told_what(kind: str, fields: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert told(kind, **fields) == expected


def test_u7_every_alert_reaches_the_operators_and_none_twice() -> None:
    for kind, rule in RULES.items():
        data = {"outcome": "failed", "origin": "trigger"}
        readers = [notice.reader for notice in notices(event(kind, decision="failed", data=data))]
        assert len(readers) == len(set(readers)) >= 1
        assert (OPERATORS in readers) is (rule.severity is Severity.ALERT), kind
    assert [notice.reader for notice in burst_notices(event("tool.decided"))] == [OPERATORS]


def test_u7_what_tells_of_a_webhook_does_not_go_out_by_one() -> None:
    assert KINDS.keys() - HOOK_KINDS == {"hook.failing", "hook.paused"}
    assert {
        "notification_hook.failing",
        "notification_hook.paused",
        "job.finished",
        "turn.failed",
    } <= EVENT_TYPES.keys()


def test_r3_a_notice_holds_ids_and_a_code_and_no_words() -> None:
    data = {"error_code": "Call mum at 5, she said", "reason": "permission_timeout", "text": "words", "job": "job-1"}
    fields: dict[str, Any] = {"agent": "mira", "chat_kind": "group", "chat_id": "g1", "skill_id": "mail"}
    (notice, _) = notices(event("approval.expired", target="approval-3", data=data, **fields))
    assert notice.subject == Subject(
        user="ann",
        agent="mira",
        skill="mail",
        chat=ChatRef("group", "g1"),
        approval="approval-3",
        job="job-1",
        code="permission_timeout",
    )
    assert (notice.seq, notice.at) == (7, START)


def test_every_kind_has_words_in_both_languages_with_the_same_ids() -> None:
    words = {language: catalogue(language) for language in LANGUAGES}
    for kind in (*KINDS, TEST):
        fields = [
            {name for _, name, _, _ in string.Formatter().parse(words[language][f"notice.{kind}"]) if name}
            for language in LANGUAGES
        ]
        assert fields[0] == fields[1] <= set(Subject._fields), kind
    assert {key for key in words["en"] if key.startswith("notice.")} == {f"notice.{kind}" for kind in (*KINDS, TEST)}


def counted(instants: list[datetime]) -> list[int]:
    """Which of these denials made a burst."""
    known, found = Denials(), []
    for number, at in enumerate(instants):
        known, burst = count_denial(known, event("tool.decided", at=at, decision="denied"))
        if burst:
            found.append(number)
    return found


def test_r5_ten_denials_within_a_minute_are_a_burst_once_a_window() -> None:
    second = timedelta(seconds=1)
    assert counted([START + second * number for number in range(9)]) == []
    assert counted([START + second * number for number in range(10)]) == [9]
    assert counted([START + second * number for number in range(60)]) == [9]
    assert counted([START + second * number for number in range(70)]) == [9, 69]
    assert counted([START + second * 6 * number for number in range(10)]) == [9], "54 seconds"
    assert counted([START + second * 7 * number for number in range(40)]) == [], "63 seconds"


@given(st.lists(st.integers(0, 30_000), max_size=60))
def test_r5_bursts_as_they_are_defined(steps: list[int]) -> None:
    instants, at = [], START
    for step in steps:
        at += timedelta(milliseconds=step)
        instants.append(at)
    expected: list[int] = []
    for number, at in enumerate(instants):
        recent = [one for one in instants[: number + 1] if one > at - BURST_WINDOW]
        waited = not expected or at - instants[expected[-1]] >= BURST_WINDOW
        if len(recent) >= BURST_SIZE and waited:
            expected.append(number)
    assert counted(instants) == expected


def test_r5_only_denials_of_somebody_count() -> None:
    assert is_denial(event("tool.decided", decision="denied"))
    assert is_denial(event("tool.refused", decision="denied"))
    assert not is_denial(event("tool.decided", decision="allowed"))
    assert not is_denial(event("tool.refused", decision="failed"))
    assert not is_denial(event("tool.finished", decision="denied"))
    assert not is_denial(event("tool.decided", decision="denied", user=None))
