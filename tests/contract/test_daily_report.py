"""``daily-report``: a Markdown report from what the agent may read, and from nothing else."""

from __future__ import annotations

from datetime import timedelta

from tests.support.kit import AGENT, USER, OpenApp, recaller, turn

from prowess import ManualClock, Prowess


def consent(app: Prowess) -> None:
    for code in ("activity:read", "memory:read"):
        app.grant(user=USER, skill="daily-report", code=code)


def test_the_report_counts_what_passed_and_quotes_what_is_remembered(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(recaller())
    app.add_memory(USER, AGENT, "likes <b>tea</b> | and\n# headings", importance=0.9)
    turn(app, "m1", "/recaller tea")
    turn(app, "m2", "Help me plan my fitness goals for the next six months.", conversation="plan")
    turn(app, "x1", "hello", user="u2", conversation="theirs")
    consent(app)
    reply = turn(app, "m3", "/daily-report").reply
    lines = [line for line in reply.splitlines() if line]
    assert lines == [
        "# Daily report, 2026-01-05 (UTC)".replace("2026-01-05", clock.now().date().isoformat()),
        "## Conversation",
        "3 messages from you, 2 from me, 0 started by automations.",
        "## Skills used",
        "| skill | uses | completed | refused or failed |",
        "|---|---:|---:|---:|",
        "| daily-report | 1 | 0 | 0 |",
        "| long-term-goal-planning | 1 | 0 | 0 |",
        "| recaller | 1 | 0 | 1 |",
        "## Waiting for your answer",
        "- long-term-goal-planning",
        "## What I keep in mind",
        r"> likes \<b\>tea\</b\> \| and \# headings",
    ]


def test_the_report_is_in_the_language_it_is_asked_in(app: Prowess) -> None:
    consent(app)
    assert turn(app, "m1", "/daily-report 请给我今天的报告").reply.startswith("# 每日报告")
    assert turn(app, "m2", "给我今天的日报").reply.startswith("# 每日报告")


def test_what_is_older_than_a_day_is_not_counted(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "hello")
    clock.advance(timedelta(days=1, seconds=1))
    consent(app)
    assert "1 messages from you, 0 from me" in turn(app, "m2", "/daily-report").reply


def test_g1_without_consent_nothing_is_read(app: Prowess) -> None:
    app.add_memory(USER, AGENT, "likes tea", importance=0.9)
    app.grant(user=USER, skill="daily-report", code="memory:read")
    result = turn(app, "m1", "/daily-report")
    assert result.decision is not None
    assert (result.decision.effect, result.decision.missing) == ("deny", ("activity:read",))
    assert "tea" not in result.reply


def test_a_command_is_no_language(open_app: OpenApp) -> None:
    """An agent that speaks Chinese answers a bare command in Chinese."""
    app = open_app()
    app.create_agent("lan", language="zh")
    for code in ("activity:read", "memory:read"):
        app.grant(user=USER, skill="daily-report", code=code)
    assert turn(app, "m1", "/daily-report", agent="lan").reply.startswith("# 每日报告")
