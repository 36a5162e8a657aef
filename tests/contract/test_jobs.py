"""Background jobs: scheduling, the gate at the moment of execution, leases, fences, retries (B3 to B10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from tests.support.kit import AGENT, CHAT, LIMIT, USER, OpenApp, at_once, execute, many_check_ins, rows, turn

import prowess
from prowess import BackgroundContext, Conflict, Denied, InvalidInput, ManualClock, NotFound, Prowess, background_skill
from prowess.automation.jobs.ledger import require_job
from prowess.automation.jobs.model import TRANSITIONS, Job, JobStatus
from prowess.automation.jobs.store import change_job

SKILL, CODE = "goal-check-in-reminder", "proactive_message:write"
SOON = timedelta(minutes=2)
DAY = timedelta(days=1)


class Payload(BaseModel):
    """What jobs of these tests know."""

    model_config = ConfigDict(extra="forbid")

    agent_id: str
    agent_name: str
    conversation_id: str
    note: str


def worker_skill(id: str, execute: Callable[[BackgroundContext, Payload], None], **fields: Any) -> Any:
    """A background skill with effects of its own."""
    fields.setdefault("permissions", [(CODE, "L2")])
    return background_skill(id, description=f"Works on {id}.", payload_schema=Payload, execute=execute, **fields)


def consent(app: Prowess, skill: str = SKILL, user: str = USER) -> None:
    app.grant(user=user, skill=skill, code=CODE)


def said(app: Prowess, conversation: str = CHAT) -> list[tuple[str, str]]:
    return [(message.author_kind, message.id) for message in app.messages(conversation)]


def kinds(app: Prowess, job: Job) -> list[str]:
    return [event.type for event in app.events() if event.target == job.id]


# --- scheduling ------------------------------------------------------------------------------------------------------


def test_b3_b9_a_reminder_is_built_by_the_server_and_delivered_once(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "hello")
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "英语分享练习")
    assert (job.status, job.skill, job.attempts) == (JobStatus.SCHEDULED, (SKILL, "1.0.0"), 0)
    assert job.payload == {
        "agent_id": AGENT, "agent_name": "Mira", "conversation_id": CHAT, "note": "英语分享练习"
    }  # fmt: skip
    assert app.work() == 0
    clock.advance(SOON)
    assert app.work() == 1
    done = app.job(job.id)
    assert (done.status, done.attempts, done.result, done.error_code) == (JobStatus.COMPLETED, 1, job.id, None)
    message = app.messages(CHAT)[-1]
    assert (message.id, message.author_kind, message.author) == (job.id, "agent", AGENT)
    assert message.text.splitlines() == ["我们约定的目标复盘时间到了。", "> 英语分享练习", "现在进展到哪里了？"]
    assert app.work() == 0
    assert kinds(app, job) == ["job.created", "job.decided", "job.finished"]


def test_b9_without_a_note_the_reminder_has_a_default_prompt(app: Prowess, clock: ManualClock) -> None:
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON)
    app.work(until=clock.now() + SOON)
    assert job.chat is not None
    assert app.messages(job.chat.id)[-1].text.splitlines() == [
        "It is time for the check-in that we agreed on.",
        "Let us look at what you have done, what is in the way, and what comes next.",
        "How far have you come?",
    ]


@pytest.mark.parametrize(
    ("ahead", "code"),
    [
        (timedelta(seconds=59), "time_too_early"),
        (timedelta(minutes=-5), "time_too_early"),
        (timedelta(days=365, seconds=1), "time_too_late"),
    ],
)
def test_b9_a_reminder_is_planned_between_a_minute_and_a_year_ahead(
    app: Prowess, clock: ManualClock, ahead: timedelta, code: str
) -> None:
    consent(app)
    with pytest.raises(InvalidInput) as refused:
        app.schedule_check_in(USER, AGENT, clock.now() + ahead, "x")
    assert (refused.value.code, refused.value.detail["field"]) == (code, "at")
    assert app.jobs() == []


@pytest.mark.parametrize("ahead", [timedelta(minutes=1), timedelta(days=365)])
def test_b9_the_bounds_belong_to_it(app: Prowess, clock: ManualClock, ahead: timedelta) -> None:
    consent(app)
    assert app.schedule_check_in(USER, AGENT, clock.now() + ahead).planned_at == clock.now() + ahead


def test_g4_without_consent_no_job_is_made_and_the_refusal_is_audited(app: Prowess, clock: ManualClock) -> None:
    with pytest.raises(Denied) as refused:
        app.schedule_check_in(USER, AGENT, clock.now() + SOON)
    assert refused.value.code == "job_denied"
    assert refused.value.detail == {"layer": "consent", "reason": "consent_missing", "missing": [CODE]}
    assert app.jobs() == []
    denied = app.audit(decision="denied")
    assert [(event.type, event.user, event.skill_id) for event in denied] == [("job.decided", USER, SKILL)]


def test_b3_what_is_no_background_skill_cannot_be_scheduled(app: Prowess, clock: ManualClock) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.schedule(user=USER, agent=AGENT, skill="memory-recall", at=clock.now() + SOON)
    assert refused.value.code == "not_background"
    with pytest.raises(NotFound) as absent:
        app.schedule(user=USER, agent=AGENT, skill="no-such", at=clock.now() + SOON)
    assert absent.value.code == "skill_not_found"


def test_t2_a_background_skill_is_never_selected_by_a_message(app: Prowess) -> None:
    consent(app)
    assert turn(app, "m1", f"/{SKILL} now").selection is None
    assert turn(app, "m2", "Remind me to check in on my goals tomorrow").selection is None


@pytest.mark.parametrize(
    "broken",
    [
        {"compose": lambda payload, language: "x", "execute": lambda context, payload: None},
        {},
        {"compose": lambda payload, language: "x", "max_attempts": 0},
        {"compose": lambda payload, language: "x", "max_attempts": 11},
        {"compose": lambda payload, language: "x", "permissions": [("mail:send", "L3")]},
    ],
)
def test_b3_registration_refuses_what_a_background_skill_cannot_be(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        background_skill("odd", description="Odd.", payload_schema=Payload, **broken)
    assert refused.value.code == "background_bounds"


# --- at the moment of execution --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["revoked", "disabled", "expired"])
def test_g4_b6_consent_is_asked_again_at_the_moment_of_execution(app: Prowess, clock: ManualClock, how: str) -> None:
    turn(app, "m1", "hello")
    app.grant(user=USER, skill=SKILL, code=CODE, expires_at=clock.now() + SOON if how == "expired" else None)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    if how == "revoked":
        app.revoke(user=USER, skill=SKILL, code=CODE)
    elif how == "disabled":
        app.bind_skill(SKILL, user=USER, enabled=False)
    clock.advance(SOON)
    app.work()
    failed = app.job(job.id)
    reason = "skill_disabled" if how == "disabled" else "consent_missing"
    assert (failed.status, failed.error_code, failed.attempts) == (JobStatus.FAILED, reason, 1)
    assert [kind for kind, _ in said(app)] == ["user", "agent"]
    decided, finished = (event for event in reversed(app.audit()) if event.target == job.id and event.decision)
    assert (decided.type, decided.decision, decided.data["reason"]) == ("job.decided", "denied", reason)
    assert (finished.type, finished.decision, finished.data["error_code"]) == ("job.finished", "failed", reason)


def test_ruling_29_any_current_grant_serves_at_execution(app: Prowess, clock: ManualClock) -> None:
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    app.revoke(user=USER, skill=SKILL, code=CODE)
    other = app.grant(user=USER, skill=SKILL, code=CODE, agent=AGENT)
    app.work(until=clock.now() + SOON)
    assert app.job(job.id).status is JobStatus.COMPLETED
    decided = next(event for event in app.audit() if event.type == "job.decided")
    assert decided.data["grants"] == [other.id]


def test_b6_a_version_that_is_gone_fails_for_good(open_app: OpenApp, clock: ManualClock) -> None:
    old = open_app(worker_skill("chore", lambda context, payload: None))
    consent(old, "chore")
    job = old.schedule(user=USER, agent=AGENT, skill="chore", at=clock.now() + SOON)
    new = open_app(worker_skill("chore", lambda context, payload: None, version="1.1.0"))
    new.work(until=clock.now() + SOON)
    assert (new.job(job.id).status, new.job(job.id).error_code) == (JobStatus.FAILED, "version_missing")


def test_b6_a_payload_that_no_longer_fits_fails_for_good(app: Prowess, url: str, clock: ManualClock) -> None:
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    execute(url, "UPDATE skill_background_jobs SET payload = '{\"note\": 1}'")
    app.work(until=clock.now() + SOON)
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "invalid_payload")


def test_c54_a_corrupted_job_is_flagged_and_the_others_go_on(app: Prowess, url: str, clock: ManualClock) -> None:
    consent(app)
    broken, *good = (app.schedule_check_in(USER, AGENT, clock.now() + SOON, str(number)) for number in range(3))
    execute(url, f"UPDATE skill_background_jobs SET payload = 'no json' WHERE id = '{broken.id}'")
    app.work(until=clock.now() + SOON)
    assert [app.job(job.id).status for job in good] == [JobStatus.COMPLETED] * 2
    flagged = rows(url, "SELECT status, error_code FROM skill_background_jobs WHERE id = :id", id=broken.id)
    assert flagged == [{"status": "failed", "error_code": "job_corrupted"}]
    finished = [event for event in app.audit(decision="failed") if event.target == broken.id]
    assert [event.data["error_code"] for event in finished] == ["job_corrupted"]


def test_b5_what_a_surface_no_longer_holds_does_not_run(open_app: OpenApp, clock: ManualClock) -> None:
    app = open_app(resolver="roles")
    app.define_role("all", everything=True)
    app.assign_role("all", user=USER)
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    app.unassign_role("all", user=USER)
    app.work(until=clock.now() + SOON)
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "not_granted")


def test_c30_permission_revoked_between_two_sends(open_app: OpenApp, clock: ManualClock) -> None:
    def run(context: BackgroundContext, payload: Payload) -> None:
        context.send("first")
        app.revoke(user=USER, skill="twice", code=CODE)
        context.send("second")

    app = open_app(worker_skill("twice", run))
    turn(app, "m1", "hello")
    consent(app, "twice")
    job = app.schedule(user=USER, agent=AGENT, skill="twice", at=clock.now() + SOON)
    app.work(until=clock.now() + SOON)
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "consent_missing")
    assert [message.text for message in app.messages(CHAT)][2:] == ["first"]
    decisions = [event.decision for event in reversed(app.audit()) if event.type == "job.decided"]
    assert decisions == ["allowed", "allowed", "denied"]


# --- retries and cancelling ------------------------------------------------------------------------------------------


def test_b6_failures_back_off_and_end_after_three_attempts(open_app: OpenApp, clock: ManualClock) -> None:
    starts: list[tuple[int, datetime]] = []

    def run(context: BackgroundContext, payload: Payload) -> None:
        starts.append((context.attempt, clock.now()))
        raise RuntimeError("the printer is on fire")

    app = open_app(worker_skill("printing", run))
    consent(app, "printing")
    planned = clock.now() + SOON
    job = app.schedule(user=USER, agent=AGENT, skill="printing", at=planned)
    app.work(until=planned + DAY)
    assert [attempt for attempt, _ in starts] == [1, 2, 3]
    first, second = (later[1] - earlier[1] for earlier, later in pairwise(starts))
    assert timedelta(minutes=5) <= first <= timedelta(minutes=5.5)
    assert timedelta(minutes=10) <= second <= timedelta(minutes=11)
    assert starts[0][1] == planned
    failed = app.job(job.id)
    assert (failed.status, failed.error_code, failed.attempts) == (JobStatus.FAILED, "handler_failed", 3)
    assert kinds(app, job).count("job.retried") == 2
    assert "fire" not in str([event.data for event in app.events()])


def test_b6_a_job_that_recovers_is_completed(open_app: OpenApp, clock: ManualClock) -> None:
    def run(context: BackgroundContext, payload: Payload) -> None:
        if context.attempt == 1:
            raise TimeoutError
        context.send(f"attempt {context.attempt}")

    app = open_app(worker_skill("flaky", run))
    consent(app, "flaky")
    job = app.schedule(user=USER, agent=AGENT, skill="flaky", at=clock.now() + SOON)
    app.work(until=clock.now() + DAY)
    assert (app.job(job.id).status, app.job(job.id).attempts) == (JobStatus.COMPLETED, 2)
    assert job.chat is not None
    assert [message.text for message in app.messages(job.chat.id)] == ["attempt 2"]


def test_b7_cancelled_before_it_starts_nothing_happens(app: Prowess, clock: ManualClock) -> None:
    turn(app, "m1", "hello")
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    assert app.cancel_job(job.id, user=USER).status is JobStatus.CANCELLED
    app.work(until=clock.now() + SOON)
    assert said(app) == [("user", "m1"), ("agent", said(app)[1][1])]
    for _ in range(2):
        with pytest.raises(Conflict) as refused:
            app.cancel_job(job.id, user=USER)
        assert (refused.value.code, refused.value.detail["status"]) == ("job_finished", "cancelled")
    with pytest.raises(NotFound):
        app.cancel_job(job.id, user="somebody")


def test_b7_a_running_job_says_that_it_cannot_be_cancelled(open_app: OpenApp, clock: ManualClock) -> None:
    refusals: list[str] = []

    def run(context: BackgroundContext, payload: Payload) -> None:
        try:
            app.cancel_job(context.job_id)
        except Conflict as conflict:
            refusals.append(conflict.code)

    app = open_app(worker_skill("busy", run))
    consent(app, "busy")
    job = app.schedule(user=USER, agent=AGENT, skill="busy", at=clock.now() + SOON)
    app.work(until=clock.now() + SOON)
    assert refusals == ["job_running"]
    assert app.job(job.id).status is JobStatus.COMPLETED


def test_c58_a_thousand_races_of_running_and_cancelling(app: Prowess, clock: ManualClock) -> None:
    consent(app)
    jobs = many_check_ins(app, 1_000, clock.now() + SOON)
    clock.advance(SOON)
    cancelled: set[str] = set()
    wrong: list[str] = []

    def cancel(share: list[Job]) -> None:
        for job in share:
            try:
                app.cancel_job(job.id)
                cancelled.add(job.id)
            except Conflict as conflict:
                if conflict.code not in ("job_running", "job_finished"):
                    wrong.append(conflict.code)

    def run() -> None:
        while due := [job_id for job_id, at in app._parts.worker.due(7) if at <= clock.now()]:
            app._parts.worker.run(due)

    threads = [threading.Thread(target=cancel, args=(jobs[start::2][::-1],)) for start in (0, 1)]
    threads += [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    app.work()
    assert wrong == []
    assert jobs[0].chat is not None
    messages = {message.id for message in app.messages(jobs[0].chat.id, limit=2_000)}
    assert messages == {job.id for job in jobs} - cancelled
    states = {job.id: job.status for job in app.jobs(limit=2_000)}
    assert {job_id for job_id, status in states.items() if status is JobStatus.CANCELLED} == cancelled
    assert {status for job_id, status in states.items() if job_id not in cancelled} <= {JobStatus.COMPLETED}


def test_b7_a_job_that_is_given_up_between_attempts_says_that_it_had_begun(
    open_app: OpenApp, clock: ManualClock
) -> None:
    def run(context: BackgroundContext, payload: Payload) -> None:
        context.send("first")
        raise TimeoutError

    app = open_app(worker_skill("flaky", run))
    consent(app, "flaky")
    job = app.schedule(user=USER, agent=AGENT, skill="flaky", at=clock.now() + SOON)
    app.work(until=clock.now() + SOON)
    given_up = app.cancel_job(job.id)
    assert (given_up.status, given_up.attempts) == (JobStatus.CANCELLED, 1)
    app.work(until=clock.now() + DAY)
    assert job.chat is not None
    assert [message.text for message in app.messages(job.chat.id)] == ["first"]


def test_b4_a_job_moves_only_as_the_table_says(app: Prowess, url: str, clock: ManualClock) -> None:
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON)
    assert set(TRANSITIONS) == set(JobStatus)
    for status in JobStatus:
        for after in JobStatus:
            execute(url, f"UPDATE skill_background_jobs SET status = '{status}', lease_expires_at = NULL")
            with app._parts.database.write() as connection:
                found = require_job(connection, "default", job.id)
                if after in TRANSITIONS[status]:
                    assert change_job(connection, found, after)
                else:
                    with pytest.raises(ValueError, match=f"from {status} to {after}"):
                        change_job(connection, found, after)


# --- leases and fences -----------------------------------------------------------------------------------------------


def test_c56_a_holder_whose_lease_has_run_out_is_fenced_before_its_effect(
    open_app: OpenApp, clock: ManualClock
) -> None:
    """The first worker stalls for three leases without renewing; a second one takes over and is the only one to speak."""
    stalled, resumed = threading.Event(), threading.Event()
    started: list[int] = []

    def run(context: BackgroundContext, payload: Payload) -> None:
        started.append(context.attempt)
        if context.attempt == 1:
            stalled.set()
            assert resumed.wait(LIMIT)
        context.send(f"attempt {context.attempt}")

    skill = worker_skill("slow", run)
    first, second = open_app(skill, lease=timedelta(hours=1)), open_app(skill)
    consent(first, "slow")
    job = first.schedule(user=USER, agent=AGENT, skill="slow", at=clock.now() + SOON)
    clock.advance(SOON)
    thread = threading.Thread(target=first.work)
    thread.start()
    assert stalled.wait(LIMIT)
    clock.advance(timedelta(hours=3))
    second.work()
    assert (second.job(job.id).status, second.job(job.id).attempts) == (JobStatus.COMPLETED, 2)
    resumed.set()
    thread.join(LIMIT)
    assert started == [1, 2]
    assert job.chat is not None
    assert [message.text for message in second.messages(job.chat.id)] == ["attempt 2"]
    assert second.job(job.id).status is JobStatus.COMPLETED
    assert kinds(second, job)[-3:] == ["job.decided", "job.finished", "job.fenced"]
    assert kinds(second, job).count("job.taken_over") == 1


def test_c55_b5_the_first_sweep_after_the_lease_takes_over(open_app: OpenApp, clock: ManualClock) -> None:
    """Not a moment before: the holder may still be there; and no later than that."""

    class Killed(BaseException):
        pass

    def die(context: BackgroundContext, payload: Payload) -> None:
        if context.attempt == 1:
            raise Killed

    lease, skill = timedelta(seconds=30), worker_skill("deadly", die)
    app = open_app(skill)
    consent(app, "deadly")
    job = app.schedule(user=USER, agent=AGENT, skill="deadly", at=clock.now() + SOON)
    clock.advance(SOON)
    with pytest.raises(Killed):
        open_app(skill, lease=lease).work()
    clock.advance(lease - timedelta(milliseconds=1))
    app.work()
    assert app.job(job.id).status is JobStatus.RUNNING
    clock.advance(timedelta(milliseconds=1))
    app.work()
    assert (app.job(job.id).status, app.job(job.id).attempts) == (JobStatus.COMPLETED, 2)


def test_b5_a_lease_that_is_renewed_is_not_taken_over(open_app: OpenApp, clock: ManualClock) -> None:
    lease = timedelta(minutes=2)
    seen: list[JobStatus] = []

    def run(context: BackgroundContext, payload: Payload) -> None:
        for _ in range(3):
            clock.advance(lease * 0.9)
            app._parts.worker.leases.renew()
            other.work()
            seen.append(other.job(context.job_id).status)

    skill = worker_skill("long", run)
    app, other = open_app(skill, lease=lease), open_app(skill, lease=lease)
    consent(app, "long")
    job = app.schedule(user=USER, agent=AGENT, skill="long", at=clock.now() + SOON)
    clock.advance(SOON)
    app.work()
    assert seen == [JobStatus.RUNNING] * 3
    assert (app.job(job.id).status, app.job(job.id).attempts) == (JobStatus.COMPLETED, 1)


def test_c57_a_job_whose_worker_always_dies_is_started_three_times(open_app: OpenApp, clock: ManualClock) -> None:
    """A worker that dies leaves a claim behind and nothing else; each one counts."""

    class Killed(BaseException):
        pass

    starts: list[int] = []

    def die(context: BackgroundContext, payload: Payload) -> None:
        starts.append(context.attempt)
        raise Killed

    skill = worker_skill("deadly", die)
    app = open_app(skill)
    consent(app, "deadly")
    job = app.schedule(user=USER, agent=AGENT, skill="deadly", at=clock.now() + SOON)
    clock.advance(SOON)
    for _ in range(3):
        with pytest.raises(Killed):
            open_app(skill).work()
        assert app.job(job.id).status is JobStatus.RUNNING
        clock.advance(timedelta(minutes=3))
    assert app.work() == 0
    assert (app.job(job.id).status, app.job(job.id).error_code) == (JobStatus.FAILED, "worker_lost")
    assert starts == [1, 2, 3]


def test_b8_a_repeated_effect_inserts_nothing_and_repairs_the_counters(
    app: Prowess, url: str, clock: ManualClock
) -> None:
    """The message was stored by somebody who died before counting it, and the job is run again."""
    turn(app, "m1", "hello")
    consent(app)
    job = app.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    app.work(until=clock.now() + SOON)
    count = "SELECT message_count, last_reply_id, last_message_at FROM conversations"
    before = rows(url, count)
    assert before[0]["message_count"] == 3
    assert before[0]["last_reply_id"] == job.id
    execute(
        url,
        "UPDATE skill_background_jobs SET status = 'retrying', finished_at = NULL",
        "UPDATE conversations SET message_count = 1, last_reply_id = NULL, last_message_at = 0",
    )
    app.work()
    assert app.job(job.id).status is JobStatus.COMPLETED
    assert rows(url, count) == before
    assert len(app.messages(CHAT)) == 3


def test_two_workers_share_a_backlog_and_each_message_is_there_once(
    open_app: OpenApp, clock: ManualClock, url: str
) -> None:
    apps = [open_app(), open_app()]
    consent(apps[0])
    jobs = many_check_ins(apps[0], 300, clock.now() + SOON)
    clock.advance(SOON)
    at_once([app.work for app in apps])
    assert {apps[0].job(job.id).status for job in jobs} == {JobStatus.COMPLETED}
    assert jobs[0].chat is not None
    assert len(apps[0].messages(jobs[0].chat.id, limit=1_000)) == 300
    assert rows(url, "SELECT message_count FROM conversations") == [{"message_count": 300}]


def test_b10_a_batch_takes_from_every_tenant(app: Prowess, clock: ManualClock) -> None:
    """One tenant's backlog does not make another wait."""
    for tenant, number in (("big", 40), ("small", 2)):
        app.grant(user=USER, skill=SKILL, code=CODE, tenant=tenant)
        for _ in range(number):
            app.schedule_check_in(USER, AGENT, clock.now() + SOON, tenant=tenant)
    clock.advance(SOON)
    batch = [job_id for job_id, _ in app._parts.worker.due(10)]
    small = {job.id for job in app.jobs(tenant="small")}
    assert len(batch) == 10
    assert small < set(batch)


@pytest.mark.parametrize("skew", [-60, 60])
def test_a_clock_that_is_wrong_by_a_minute_neither_loses_nor_repeats(
    open_app: OpenApp, clock: ManualClock, skew: int
) -> None:
    """Two workers whose clocks differ by a minute on one database."""
    other = ManualClock(clock.now() + timedelta(seconds=skew))
    right, wrong = open_app(), open_app(clock=other)
    consent(right)
    job = right.schedule_check_in(USER, AGENT, clock.now() + SOON, "x")
    for _ in range(8):
        for moved in (clock, other):
            moved.advance(timedelta(seconds=30))
        right.work()
        wrong.work()
    assert right.job(job.id).status is JobStatus.COMPLETED
    assert job.chat is not None
    assert [message.id for message in right.messages(job.chat.id)] == [job.id]


def test_c87_a_restart_long_before_a_job_is_due_runs_nothing(open_app: OpenApp) -> None:
    clock = ManualClock(datetime(2026, 3, 2, 10, 50, tzinfo=UTC))
    app = open_app(clock=clock)
    consent(app)
    job = app.schedule_check_in(USER, AGENT, datetime(2026, 3, 2, 19, 30, tzinfo=UTC), "x")
    clock.advance(timedelta(minutes=7))
    again = open_app(clock=clock)
    assert again.work() == 0
    assert again.job(job.id).status is JobStatus.SCHEDULED
    clock.advance(timedelta(hours=8, minutes=33))
    assert again.work() == 1


def test_jobs_are_public(app: Prowess) -> None:
    for name in ("BackgroundSkill", "BackgroundContext", "BackgroundRequest", "background_skill"):
        assert name in prowess.__all__
