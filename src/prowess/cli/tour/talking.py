"""Conversation, consent, and a restart in between."""

from __future__ import annotations

from prowess.cli.output import say
from prowess.cli.tour.story import AGENT, CODE, QUESTION, SKILL, USER, Tour, denials, expect

RESTARTED = "Help me plan my fitness goals for the next six months."


def plan_goal(tour: Tour) -> str:
    """A three-turn plan, one question at a time."""
    with tour.open():
        first = tour.say("plan", "帮我规划未来三个月的英语学习目标。")
        expect("skill", first.selection and first.selection.skill_id, "long-term-goal-planning")
        expect("step", first.session and first.session.step, "collect_constraints")
        second = tour.say("plan", "工作日每天最多一小时，周末可以多一些。")
        expect("step", second.session and second.session.step, "collect_success_criteria")
        third = tour.say("plan", "三个月后可以完成一次二十分钟的英文分享。")
        expect("status", third.session and third.session.status, "completed")
        runs = tour.app.runs(user=USER)
        expect("runs", [run.status for run in reversed(runs)], ["waiting_user", "waiting_user", "completed"])
        revision = third.session.revision if third.session else 0
        return say("tour.plan-goal", session=third.session and third.session.id, revision=revision, runs=len(runs))


def resume_after_restart(tour: Tour) -> str:
    """The session survives the process; a message sent twice is served once."""
    with tour.open():
        begun = tour.say("restart", RESTARTED, message_id="r1")
    tour.did(say("tour.reopened"))
    with tour.open():
        again = tour.app.turn(user=USER, agent=AGENT, conversation="restart", message_id="r1", text=RESTARTED)
        expect("replayed", (again.replayed, again.reply), (True, begun.reply))
        answered = tour.say("restart", "Three evenings a week, no gym.")
        expect("session", answered.session and answered.session.id, begun.session and begun.session.id)
        expect("revision", answered.session and answered.session.revision, 2)
        return say("tour.resume-after-restart", session=answered.session and answered.session.id)


def recall_denied(tour: Tour) -> str:
    """Without consent nothing is read."""
    with tour.open():
        memory = tour.app.add_memory(USER, AGENT, "我喜欢手冲咖啡，不加糖", importance=0.8)
        tour.did(say("tour.remembered", user=USER, text=memory.text))
        result = tour.say("memory", QUESTION)
        expect("layer", result.decision and result.decision.layer, "consent")
        expect("run", result.run and result.run.status, "denied")
        expect("recalled", "手冲" in result.reply, False)
        missing = list(result.decision.missing) if result.decision else []
        expect("missing", missing, [CODE])
        expect("denials", denials(tour), 1)
        return say("tour.recall-denied", missing=missing, rows=1)


def recall_granted(tour: Tour) -> str:
    """With consent the memory of this user and agent is used."""
    with tour.open():
        grant = tour.app.grant(user=USER, skill=SKILL, code=CODE)
        tour.did(say("tour.grants", user=USER, skill=SKILL, code=CODE))
        result = tour.say("memory", QUESTION)
        expect("effect", result.decision and result.decision.effect, "allow")
        expect("recalled", "手冲咖啡" in result.reply, True)
        decided = next(event for event in tour.app.audit(decision="allowed") if event.type == "tool.decided")
        expect("grant", decided.data["grants"], [grant.id])
        return say("tour.recall-granted", grant=grant.id)


def recall_revoked(tour: Tour) -> str:
    """Taken back, it stops the next operation."""
    with tour.open():
        before = denials(tour)
        tour.app.revoke(user=USER, skill=SKILL, code=CODE)
        tour.did(say("tour.revokes", user=USER, skill=SKILL, code=CODE))
        result = tour.say("memory", QUESTION)
        expect("effect", result.decision and result.decision.effect, "deny")
        expect("recalled", "手冲" in result.reply, False)
        expect("denials", denials(tour), before + 1)
        return say("tour.recall-revoked", rows=before + 1)
