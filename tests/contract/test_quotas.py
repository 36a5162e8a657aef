"""Budgets: reserved before, settled after, never overdrawn (U9)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.kit import (
    AGENT,
    CHAT,
    USER,
    Answer,
    OpenApp,
    Question,
    Recorder,
    ScriptedVoice,
    at_once,
    many_check_ins,
    recaller,
    request,
    tool,
    turn,
)
from tests.support.model_server import ModelServer, status, text, tool_calls

from prowess import InvalidInput, LimitExceeded, NotFound, Prowess, ToolContext, TurnLimits, VoiceError, VoiceLimits
from prowess.access.quotas.model import Quota, Usage
from prowess.adapters.voices.providers import model_voice
from prowess.adapters.voices.retries import RetryBudget
from prowess.kernel.clock import ManualClock


def usage(app: Prowess, quota: Quota) -> tuple[int, int]:
    """Used and reserved, over all counts of a quota."""
    found = [item for item in app.quota_usage() if item.quota.id == quota.id]
    return sum(item.used for item in found), sum(item.reserved for item in found)


def types(app: Prowess) -> list[str]:
    return [event.type for event in app.events() if event.type.startswith("quota.")]


def call(app: Prowess, message: str, name: str = "tool.lookup", *, user: str = USER) -> dict[str, Any]:
    plan = app.begin(request(message, "hello", user=user, conversation=f"c-{user}"))
    return app.call(plan, name, {"text": "?"}).to_json()


# --- calls -----------------------------------------------------------------------------------------------------------


def test_u9_with_budget_for_one_twenty_calls_at_once_make_one(open_app: OpenApp) -> None:
    recorder = Recorder()
    app = open_app(tool("lookup", recorder))
    quota = app.set_quota("calls", 1)
    outcomes = at_once([lambda n=n: call(app, f"m{n}") for n in range(20)])  # type: ignore[misc]
    assert sorted(outcome["status"] for outcome in outcomes) == ["denied"] * 19 + ["succeeded"]
    assert len(recorder.calls) == 1
    assert usage(app, quota) == (1, 0)
    denied = [event for event in app.events() if event.type == "tool.decided" and event.decision == "denied"]
    assert len(denied) == 19
    assert {(event.data["reason"], event.data["layer"], event.data["rule"]) for event in denied} == {
        ("quota_exhausted", "quota", quota.id)
    }
    assert types(app) == ["quota.set", "quota.warned", "quota.exceeded"]


def test_u9_two_processes_share_one_budget(open_app: OpenApp, url: str) -> None:
    app = open_app()
    app.grant(user=USER, skill="memory-recall", code="memory:read")
    quota = app.set_quota("calls", 5, window="total")
    program = (
        "import sys, prowess\n"
        "with prowess.open(sys.argv[1]) as app:\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        "    for n in range(8):\n"
        "        text = '/memory-recall what do you know?'\n"
        "        result = app.turn(user='u1', agent='mira', conversation='c' + sys.argv[2],\n"
        "                          message_id=f'm{sys.argv[2]}-{n}', text=text)\n"
        "        print(result.run.status, flush=True)\n"
    )
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", program, url, name], stdin=pipe, stdout=pipe, text=True)
        for name in ("a", "b")
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        said = "".join(process.communicate("go\n", timeout=60)[0] for process in processes).split()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert (said.count("completed"), said.count("denied")) == (5, 11)
    assert usage(app, quota) == (5, 0)


def test_u9_a_refusal_says_what_is_used_up_and_when_it_frees(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(tool("lookup"))
    quota = app.set_quota("calls", 1, window="hour", user="*")
    assert call(app, "m1")["status"] == "succeeded"
    refused = call(app, "m2")
    assert (refused["status"], refused["error_code"]) == ("denied", "quota_exhausted")
    assert refused["decision"]["layer"] == "quota"
    assert f"1 of 1 (calls a hour, quota {quota.id})" in refused["message"]
    assert call(app, "m3", user="u2")["status"] == "succeeded"
    clock.advance(timedelta(hours=1))
    assert call(app, "m4")["status"] == "succeeded"


def test_u9_a_message_that_selects_a_tool_is_told_so(open_app: OpenApp) -> None:
    app = open_app(tool("lookup"))
    app.set_quota("calls", 0, skill="lookup")
    result = turn(app, "m1", "/lookup where?")
    assert result.reply == "I could not use lookup: the budget for it is used up."
    assert result.run is not None
    assert result.run.status == "denied"
    assert result.decision is not None
    assert result.decision.reason == "quota_exhausted"


def test_u9_nothing_is_kept_reserved_where_another_budget_refuses(open_app: OpenApp) -> None:
    app = open_app(tool("lookup"))
    first = app.set_quota("calls", 5, user="*")
    app.set_quota("calls", 0, agent=AGENT)
    last = app.set_quota("calls", 5)
    assert call(app, "m1")["status"] == "denied"
    assert usage(app, first) == usage(app, last) == (0, 0)


def test_x4_u9_a_repeated_write_uses_nothing(open_app: OpenApp) -> None:
    app = open_app(tool("lookup", effect="write"))
    quota = app.set_quota("calls", 1)
    assert turn(app, "m1", "/lookup a").tool_calls[0].status == "succeeded"
    plan = app.begin(request("m1", "/lookup a"))
    assert plan.replayed
    assert usage(app, quota) == (1, 0)


def test_u9_time_is_reserved_in_full_and_settled_as_it_was(open_app: OpenApp, url: str) -> None:
    seen: list[tuple[int, int]] = []

    def look(_context: ToolContext, question: Question) -> Answer:
        seen.append(usage(app, quota))
        return Answer(text=question.text)

    app = open_app(tool("lookup", look, timeout=timedelta(seconds=20)))
    quota = app.set_quota("wall_ms", 30_000)
    assert call(app, "m1")["status"] == "succeeded"
    assert seen == [(0, 20_000)]
    used, reserved = usage(app, quota)
    assert reserved == 0
    assert 0 <= used < 10_000


def test_u9_what_failed_is_counted(open_app: OpenApp) -> None:
    def fail(_context: ToolContext, _question: Question) -> Answer:
        raise RuntimeError

    app = open_app(tool("lookup", fail))
    quota = app.set_quota("calls", 2)
    assert call(app, "m1")["status"] == "failed"
    assert usage(app, quota) == (1, 0)


def test_u9_a_refused_call_uses_nothing(open_app: OpenApp) -> None:
    app = open_app(recaller())
    quota = app.set_quota("calls", 2)
    assert call(app, "m1", "tool.recaller")["status"] == "denied"
    assert usage(app, quota) == (0, 0)


def test_s3_u9_a_skill_limits_its_own_calls_a_minute(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(tool("lookup", constraints={"rate_limit": 2}))
    assert [call(app, f"m{n}")["status"] for n in range(3)] == ["succeeded", "succeeded", "denied"]
    assert call(app, "m4", user="u2")["status"] == "succeeded"
    clock.advance(timedelta(minutes=1))
    assert call(app, "m5")["status"] == "succeeded"


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_u9_b16_jobs_over_budget_are_put_off_until_it_frees(app: Prowess, clock: ManualClock) -> None:
    app.grant(user=USER, skill="goal-check-in-reminder", code="proactive_message:write")
    many_check_ins(app, 3, clock.now() + timedelta(minutes=1))
    app.set_quota("calls", 2, window="hour", user="*")
    clock.advance(timedelta(minutes=2))
    app.work()
    assert sorted(job.status for job in app.jobs(user=USER)) == ["completed", "completed", "retrying"]
    late = next(job for job in app.jobs(user=USER) if job.status == "retrying")
    assert (late.error_code, late.attempts) == ("quota_exhausted", 0)
    clock.advance(timedelta(hours=1))
    app.work()
    assert {job.status for job in app.jobs(user=USER)} == {"completed"}


def test_u9_an_automation_has_a_budget_of_its_own(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(tool("lookup"))
    quota = app.set_quota("calls", 1, trigger="*")
    for name in ("one", "two"):
        made = app.add_automation(
            user=USER, agent=AGENT, name=name, kind="interval", prompt="/lookup where?", spec={"seconds": 600}
        )
        for _ in range(2):
            app.fire_automation(made.id, user=USER)
            app.work()
    assert usage(app, quota) == (2, 0)
    assert len([item for item in app.quota_usage() if item.quota.id == quota.id]) == 2
    assert call(app, "m1")["status"] == "succeeded"


# --- replies ---------------------------------------------------------------------------------------------------------


def speaking(open_app: OpenApp, server: ModelServer, tokens: int = 1_000, **options: Any) -> Prowess:
    voice = model_voice("test", base_url=server.url, api_key="k", retries=RetryBudget(attempts=1))
    limits = TurnLimits(voice=VoiceLimits(tokens=tokens))
    return open_app(tool("lookup"), voice=voice, limits=limits, **options)


def said(app: Prowess, message: str) -> str:
    return app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id=message, text="hello").reply


def test_u9_tokens_are_counted_and_a_reply_without_budget_is_not_begun(open_app: OpenApp) -> None:
    with ModelServer([tool_calls(("c1", "tool_lookup", '{"text": "?"}')), text("done"), text("again")]) as server:
        app = speaking(open_app, server)
        quota = app.set_quota("model_tokens", 1_020)
        assert said(app, "m1") == "done"
        assert usage(app, quota) == (30, 0)
        assert said(app, "m2") == "again"
        app.set_quota("model_tokens", 500)
        with pytest.raises(LimitExceeded) as caught:
            said(app, "m3")
    assert caught.value.code == "quota_exhausted"
    assert caught.value.detail["resource"] == "model_tokens"
    assert len(server.requests) == 3
    assert [event.type for event in app.events()][-1] == "turn.failed"


def test_u9_a_reply_is_held_to_what_is_left(open_app: OpenApp) -> None:
    costly = replace(text("dear"), usage=(400, 200))
    with ModelServer([costly, costly]) as server:
        app = speaking(open_app, server, tokens=100_000)
        quota = app.set_quota("model_tokens", 1_150)
        assert said(app, "m1") == "dear"
        with pytest.raises(VoiceError, match="voice_limit"):
            said(app, "m2")
    assert usage(app, quota) == (1_200, 0)


def test_u9_a_failed_request_gives_its_tokens_back(open_app: OpenApp) -> None:
    with ModelServer([status(400), text("now")]) as server:
        app = speaking(open_app, server)
        quota = app.set_quota("model_tokens", 1_000)
        with pytest.raises(VoiceError, match="voice_rejected"):
            said(app, "m1")
        assert usage(app, quota) == (0, 0)
        assert said(app, "m1") == "now"


def test_u9_cost_is_counted_by_the_prices_and_refused_without(open_app: OpenApp) -> None:
    with ModelServer([text("cheap")]) as server:
        app = speaking(open_app, server, prices={})
        app.set_quota("cost_micros", 10_000)
        with pytest.raises(LimitExceeded) as caught:
            said(app, "m1")
        assert caught.value.code == "price_unknown"
        assert server.requests == []
        priced = speaking(open_app, server, prices={caught.value.detail["voice"]: (300, 1_500)})
        assert said(priced, "m1") == "cheap"
        (found,) = priced.quota_usage()
    assert found.used == -(-(10 * 300 + 5 * 1_500) // 1000)


def test_u9_a_voice_without_a_model_uses_no_tokens(open_app: OpenApp) -> None:
    app = open_app(voice=ScriptedVoice(instant=True))
    app.set_quota("model_tokens", 0)
    assert turn(app, "m1", "hello").reply


# --- setting ---------------------------------------------------------------------------------------------------------


def test_u9_another_limit_keeps_the_count(open_app: OpenApp) -> None:
    app = open_app(tool("lookup"))
    first = app.set_quota("calls", 1)
    call(app, "m1")
    assert call(app, "m2")["status"] == "denied"
    changed = app.set_quota("calls", 2)
    assert (changed.id, changed.limit) == (first.id, 2)
    assert call(app, "m3")["status"] == "succeeded"
    assert usage(app, changed) == (2, 0)
    app.remove_quota(changed.id)
    assert (app.quotas(), app.quota_usage()) == ([], [])
    with pytest.raises(NotFound, match="quota_not_found"):
        app.remove_quota(changed.id)


@pytest.mark.parametrize(
    ("resource", "limit", "more", "code"),
    [
        ("moods", 1, {}, "bad_choice"),
        ("calls", -1, {}, "bad_quota"),
        ("calls", 1.5, {}, "bad_quota"),
        ("calls", True, {}, "bad_quota"),
        ("calls", 1, {"window": "week"}, "bad_choice"),
        ("calls", 1, {"user": "a\nb"}, "bad_id"),
    ],
)
def test_u9_what_is_no_quota_is_refused(app: Prowess, resource: str, limit: Any, more: Any, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        app.set_quota(resource, limit, **more)
    assert caught.value.code == code
    assert app.quotas() == []


def test_u12_g14_a_used_up_budget_is_the_reason_that_is_given(open_app: OpenApp) -> None:
    app = open_app(tool("lookup", keywords=["where", "place"]))
    quota = app.set_quota("calls", 0)
    explained = app.explain(user=USER, agent=AGENT, tool="tool.lookup", arguments={"text": "?"})
    assert (explained.decision.effect, explained.decision.layer, explained.decision.rule) == ("deny", "quota", quota.id)
    why = {item.skill_id: item.reason for item in app.why_not(user=USER, agent=AGENT, text="/lookup where?")}
    assert why["lookup"] == "over_budget"


def test_u9_the_shapes_are_plain_json(app: Prowess) -> None:
    quota = app.set_quota("calls", 3, user="u1", skill="Memory_Recall")
    assert quota.skill == "memory-recall"
    (found,) = app.quota_usage()
    assert isinstance(found, Usage)
    shown = json.loads(json.dumps(found.to_json()))
    assert (shown["used"], shown["left"], shown["counter"], shown["limit"]) == (0, 3, [], 3)
