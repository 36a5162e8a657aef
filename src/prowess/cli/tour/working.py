"""Work that outlives the request: reminders, an approval, an automation, and the seal over all of it."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from prowess.cli.output import say
from prowess.cli.tour.story import AGENT, USER, Tour, Unexpected, expect
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from pathlib import Path

    from prowess.automation.jobs.model import Job
    from prowess.kernel.clock import ManualClock
    from prowess.turns.definitions import ToolSkill

REMINDER, PROACTIVE = "goal-check-in-reminder", "proactive_message:write"
FOCUS = "二十分钟的英文分享"
SOON = timedelta(minutes=2)
_FORGERY = "UPDATE events SET decision = 'allowed' WHERE seq = (SELECT min(seq) FROM events WHERE decision = 'denied')"
SENDER, SENDS = "send-note", "mail:send"
REPORT = "daily-report"


def reminder_delivered(tour: Tour) -> str:
    """Scheduled with consent, it speaks at its time, once."""
    clock = _clock()
    with tour.open(clock=clock):
        tour.app.grant(user=USER, skill=REMINDER, code=PROACTIVE)
        tour.did(say("tour.grants", user=USER, skill=REMINDER, code=PROACTIVE))
        job = _schedule(tour, clock)
        _pass(tour, clock)
        done = tour.app.job(job.id)
        expect("status", str(done.status), "completed")
        message = _messages(tour, done)[-1]
        expect("message", (message.id, message.author_kind, message.author), (job.id, "agent", AGENT))
        expect("focus", FOCUS in message.text, True)
        tour.narrate(AGENT, message.text)
        tour.app.work()
        expect("messages", sum(item.id == job.id for item in _messages(tour, done)), 1)
        return say("tour.reminder-delivered", job=job.id, seconds=_late(tour, job))


def reminder_cancelled(tour: Tour) -> str:
    """Cancelled before it starts, nothing happens."""
    clock = _clock()
    with tour.open(clock=clock):
        job = _schedule(tour, clock)
        before = len(_messages(tour, job))
        tour.app.cancel_job(job.id, user=USER)
        tour.did(say("tour.cancels", user=USER, job=job.id))
        _pass(tour, clock)
        expect("status", str(tour.app.job(job.id).status), "cancelled")
        expect("messages", len(_messages(tour, job)), before)
        return say("tour.reminder-cancelled", job=job.id)


def reminder_revoked(tour: Tour) -> str:
    """Consent taken back after it was scheduled: it does not run."""
    clock = _clock()
    with tour.open(clock=clock):
        job = _schedule(tour, clock)
        before = len(_messages(tour, job))
        tour.app.revoke(user=USER, skill=REMINDER, code=PROACTIVE)
        tour.did(say("tour.revokes", user=USER, skill=REMINDER, code=PROACTIVE))
        _pass(tour, clock)
        failed = tour.app.job(job.id)
        expect("job", (str(failed.status), failed.error_code), ("failed", "consent_missing"))
        expect("messages", len(_messages(tour, job)), before)
        denied = [event for event in tour.app.audit(user=USER, decision="denied") if event.target == job.id]
        expect("audit rows", [event.type for event in denied], ["job.decided"])
        return say("tour.reminder-revoked", job=job.id)


def approval_once(tour: Tour) -> str:
    """A call of high impact waits for a yes, runs exactly as approved, and never again."""
    outbox = tour.folder / "outbox"
    outbox.touch()
    with tour.open(skills=[_sender(outbox)]):
        tour.app.grant(user=USER, skill=SENDER, code=SENDS)
        asked = tour.say("notes", f"/{SENDER} {say('tour.note')}")
        expect("pending", len(asked.pending_approvals), 1)
        expect("sent", outbox.read_text(), "")
    approval = asked.pending_approvals[0]
    tour.did(say("tour.reopened"))
    with tour.open(skills=[_sender(outbox)]):
        tour.app.approve(approval, by=USER)
        tour.did(say("tour.approves", user=USER, approval=approval))
        other = tour.app.resume_call(approval, {"text": say("tour.other_note")})
        expect("edited call", other.decision and other.decision.reason, "arguments_differ")
        tour.did(say("tour.edited", text=say("tour.other_note"), message=other.message))
        tour.app.work()
        expect("sent", outbox.read_text().splitlines(), [say("tour.note")])
        tour.narrate(AGENT, tour.app.messages("notes")[-1].text)
        expect("repeated", tour.app.resume_call(approval).status, "recorded")
        expect("approved again", _refusal(tour, approval), "approval_answered")
        tour.app.work()
        expect("sent", outbox.read_text().splitlines(), [say("tour.note")])
        return say("tour.approval-once", approval=approval)


def automation_session(tour: Tour) -> str:
    """What a trigger starts is a turn like any other: same gate, same log, a transcript to read."""
    clock = _clock()
    with tour.open(clock=clock):
        for code in ("activity:read", "memory:read"):
            tour.app.grant(user=USER, skill=REPORT, code=code)
        trigger = tour.app.add_automation(
            user=USER,
            name=say("tour.automation"),
            agent=AGENT,
            kind="cron",
            spec={"cron": "0 18 * * *", "tz": "Asia/Shanghai"},
            skill=REPORT,
            prompt=say("tour.prompt"),
        )
        tour.did(say("tour.automates", user=USER, name=trigger.name, next=_shown(trigger.next_fire_at)))
        tour.app.work(until=clock.now() + timedelta(days=1))
        (fire,) = tour.app.automation_history(trigger.id, user=USER)
        job = tour.app.job(fire.job_id or "")
        expect("job", (str(job.status), job.error_code), ("completed", None))
        transcript = _messages(tour, job)
        expect("transcript", [item.author_kind for item in transcript], ["trigger", "agent"])
        tour.narrate(trigger.name, transcript[0].text)
        tour.narrate(AGENT, transcript[1].text)
        run = tour.app.runs(user=USER, skill=REPORT)[0]
        expect("run", (run.status, run.message_id), ("completed", job.id))
        (started,) = (event for event in _events(tour, "turn.started") if event.message_id == job.id)
        expect("origin", started.data["origin"], f"trigger:{trigger.id}")
        (completed,) = _events(tour, "automation.completed")
        expect("outcome", completed.data["outcome"], "ok")
        return say("tour.automation-session", slot=fire.slot, job=job.id)


def audit_verified(tour: Tour) -> str:
    """The log is sealed; one changed row in a copy of it is found."""
    with tour.open():
        tour.app.seal_log()
        found = tour.app.verify_log()
        expect("verified", found.ok, True)
    copy = tour.folder / "changed.db"
    original = tour.folder / "tour.db"
    with tour.open():
        # Through SQLite itself: part of what was written may still stand in its write-ahead log.
        source, target = sqlite3.connect(original), sqlite3.connect(copy)
        with source, target:
            source.backup(target)
            target.execute(_FORGERY)
        source.close()
        target.close()
    shutil.copyfile(f"{original}.seals", f"{copy}.seals")
    changed = Tour(f"sqlite:///{copy}", tour.folder, tour.narrate)
    with changed.open():
        forged = changed.app.verify_log()
    expect("changed copy", forged.ok, False)
    tour.did(say("tour.forged", faults=len(forged.faults)))
    return say("tour.audit-verified", events=found.events, seals=found.seals)


def _clock() -> ManualClock:
    """A clock that begins now and stands until it is moved."""
    from prowess import ManualClock, SystemClock

    return ManualClock(SystemClock().now())


def _schedule(tour: Tour, clock: ManualClock) -> Job:
    job = tour.app.schedule_check_in(USER, AGENT, clock.now() + SOON, FOCUS)
    tour.did(say("tour.schedules", user=USER, job=job.id, focus=FOCUS))
    return job


def _pass(tour: Tour, clock: ManualClock) -> None:
    tour.did(say("tour.clock", minutes=SOON // timedelta(minutes=1)))
    tour.app.work(until=clock.now() + SOON)


def _messages(tour: Tour, job: Job) -> list[Any]:
    return [] if job.chat is None else list(tour.app.messages(job.chat.id))


def _late(tour: Tour, job: Job) -> str:
    (event,) = (event for event in _events(tour, "job.finished") if event.target == job.id)
    return f"{max((event.at - job.planned_at).total_seconds(), 0):.1f}"


def _events(tour: Tour, kind: str) -> list[Any]:
    return [event for event in tour.app.events(limit=10_000) if event.type == kind]


def _refusal(tour: Tour, approval: str) -> str:
    try:
        tour.app.approve(approval, by=USER)
    except ProwessError as error:
        return error.code
    raise Unexpected(say("tour.unexpected", what=approval, wanted="approval_answered", got="approved"))


def _shown(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat(timespec="minutes")


def _sender(outbox: Path) -> ToolSkill:
    """A tool of high impact (L3) whose effect can be looked at: a line in a file."""
    from pydantic import BaseModel

    from prowess import Instruction, ToolContext, tool_skill

    class Note(BaseModel):
        text: str

    class Sent(BaseModel):
        text: str

    def send(_context: ToolContext, note: Note) -> Sent:
        with outbox.open("a", encoding="utf-8") as file:
            file.write(f"{note.text}\n")
        return Sent(text=note.text)

    return tool_skill(
        SENDER,
        description="Sends a note.",
        tool_id="notes.send",
        input_schema=Note,
        output_schema=Sent,
        build_input=lambda turn: {"text": turn.text},
        execute=send,
        build_system_instruction=lambda sent, spoken: Instruction(
            f"Say that the note was sent: {sent.text}", (say("tour.sent", text=sent.text),), spoken
        ),
        permissions=[(SENDS, "L3")],
        effect="write",
    )
