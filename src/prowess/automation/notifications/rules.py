"""Which event is told to whom, as a table, and what makes a burst of denials (U6, U7, R5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from prowess.automation.notifications.model import OPERATORS, Notice, Severity, Subject
from prowess.chat.model import ChatRef
from prowess.events.model import Event
from prowess.kernel.clock import to_ms

BURST_SIZE = 10
BURST_WINDOW = timedelta(seconds=60)
BURST = "denials.burst"
TEST = "hook.test"
"""what ``test`` of a webhook sends; in no inbox"""

Target = Literal["approval", "job", "trigger", "hook"]
_TARGETS: tuple[Target, ...] = ("approval", "job", "trigger", "hook")
_CODE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_CODE_FIELDS = ("error_code", "code", "outcome", "reason")
DENIALS = ("tool.decided", "tool.refused")
"""types of event that count towards a burst, where they were denied"""


class Rule(NamedTuple):
    """How events of one type are told."""

    kind: str
    severity: Severity
    target: Target | None = None
    """what the event's target is"""
    owner: bool = True
    """whether the event's user is told; an alert is told to the operators besides"""
    when: Callable[[Event], bool] = lambda _event: True
    goes_out: bool = True
    """whether webhooks carry it; what tells of a webhook's own failure would fail with it"""


def _not_ok(event: Event) -> bool:
    return bool(event.data.get("outcome") != "ok")


def _failed(event: Event) -> bool:
    """A trigger's failures are told by its own events."""
    return event.decision == "failed" and event.data.get("trigger") is None


def _unattended(event: Event) -> bool:
    return bool(event.data.get("origin", "user") != "user")


RULES: Mapping[str, Rule] = {
    "approval.requested": Rule("approval.requested", Severity.WARNING, "approval"),
    "approval.expired": Rule("approval.expired", Severity.ALERT, "approval"),
    "automation.completed": Rule("automation.failed", Severity.ALERT, "trigger", when=_not_ok),
    "automation.rate_limited": Rule("automation.rate_limited", Severity.WARNING, "trigger"),
    "automation.skipped": Rule("automation.skipped", Severity.WARNING, "trigger"),
    "automation.deferred": Rule("automation.deferred", Severity.WARNING, "trigger"),
    "automation.broken": Rule("automation.broken", Severity.ALERT, "trigger"),
    "automation.proposed": Rule("automation.proposed", Severity.INFO, "trigger"),
    "incident.opened": Rule("incident.opened", Severity.ALERT),
    "job.finished": Rule("job.failed", Severity.ALERT, "job", when=_failed),
    "turn.failed": Rule("turn.failed", Severity.ALERT, when=_unattended),
    "task.completed_by_peer": Rule("task.completed_by_peer", Severity.INFO),
    "quota.exceeded": Rule("quota.exceeded", Severity.ALERT),
    "quota.warned": Rule("quota.warned", Severity.WARNING),
    "mount.tool_changed": Rule("mount.tool_changed", Severity.ALERT, owner=False),
    "mount.tool_gone": Rule("mount.tool_gone", Severity.ALERT, owner=False),
    "skill.quarantined": Rule("skill.quarantined", Severity.ALERT, owner=False),
    "notification_hook.failing": Rule("hook.failing", Severity.ALERT, "hook", goes_out=False),
    "notification_hook.paused": Rule("hook.paused", Severity.ALERT, "hook", goes_out=False),
}
"""By the type of the event. A type that nobody emits costs nothing."""

_BURST_RULE = Rule(BURST, Severity.ALERT, owner=False)
KINDS: Mapping[str, Rule] = {rule.kind: rule for rule in (*RULES.values(), _BURST_RULE)}
"""Every kind of notice."""
HOOK_KINDS = frozenset(kind for kind, rule in KINDS.items() if rule.goes_out)
"""Those that webhooks can take."""


def notices(event: Event) -> list[Notice]:
    """Who is to be told of an event, each reader once; most events are told to nobody."""
    rule = RULES.get(event.type)
    if rule is None or not rule.when(event):
        return []
    return _told(rule, event)


def burst_notices(event: Event) -> list[Notice]:
    """Who is to be told that this denial made a burst."""
    return _told(_BURST_RULE, event)


def _told(rule: Rule, event: Event) -> list[Notice]:
    readers = [event.user] if rule.owner and event.user else []
    readers += [reader for reader in _named(event) if reader not in readers]
    if rule.severity is Severity.ALERT or not readers:
        readers.append(OPERATORS)
    subject = _subject(rule, event)
    return [
        Notice(
            tenant=event.tenant,
            reader=reader,
            kind=rule.kind,
            severity=rule.severity,
            seq=event.seq,
            at=event.at,
            subject=subject,
        )
        for reader in readers
    ]


def _named(event: Event) -> list[str]:
    """People whom the event itself names to be told: those who may answer an approval (U8)."""
    named = event.data.get("approvers")
    return [user for user in named if isinstance(user, str)] if isinstance(named, list) else []


def _subject(rule: Rule, event: Event) -> Subject:
    ids = {name: _text(event.data.get(name)) for name in _TARGETS}
    if rule.target is not None:
        ids[rule.target] = event.target or ids[rule.target]
    chat = None
    if event.chat_kind in ("conversation", "group") and event.chat_id is not None:
        chat = ChatRef(event.chat_kind, event.chat_id)  # type: ignore[arg-type]  # narrowed by the line above
    return Subject(user=event.user, agent=event.agent, skill=event.skill_id, chat=chat, code=_code(event.data), **ids)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _code(data: Mapping[str, Any]) -> str | None:
    """The first field that holds a code; what does not look like one could be somebody's words (R3)."""
    for name in _CODE_FIELDS:
        value = data.get(name)
        if isinstance(value, str) and _CODE.fullmatch(value):
            return value
    return None


class Denials(NamedTuple):
    """The latest denials of one user, in milliseconds, oldest first, and when their last burst was told."""

    recent: tuple[int, ...] = ()
    told_at: int | None = None


def is_denial(event: Event) -> bool:
    """Whether an event counts towards a burst."""
    return event.type in DENIALS and event.decision == "denied" and event.user is not None


def count_denial(known: Denials, event: Event) -> tuple[Denials, bool]:
    """One denial more; true where it makes a burst of ``BURST_SIZE`` within ``BURST_WINDOW`` that was not told yet."""
    at, window = to_ms(event.at), BURST_WINDOW // timedelta(milliseconds=1)
    recent = (*(one for one in known.recent if one > at - window), at)[-BURST_SIZE:]
    told = known.told_at is not None and at - known.told_at < window
    burst = len(recent) == BURST_SIZE and not told
    return Denials(recent, at if burst else known.told_at), burst
