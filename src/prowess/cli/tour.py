"""The tour: the whole story on a throw-away database, each step proven by what was stored, without a network."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.cli.output import dim, language, print_json, say, show, visible
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prowess.events.model import Event
    from prowess.runtime.app import Prowess
    from prowess.turns.outcome import ToolOutcome
    from prowess.turns.request import TurnResult

USER, AGENT = "lin", "mira"
QUESTION = "你还记得我喜欢什么吗"
RESTARTED = "Help me plan my fitness goals for the next six months."
SKILL, CODE = "memory-recall", "memory:read"
ADMIN = "ada"
SEEN, ABSENT = "daily-planning", "no-such-skill"
TOOL, ABSENT_TOOL = "agent-memory.search", "no-such.tool"
LOAD = "load_skill_through_path"


class Unexpected(Exception):
    """A step did not show what it must."""


@dataclass
class Tour:
    """The state of the story: one database file, opened anew where a step says so."""

    url: str
    narrate: Callable[[str, str], None]
    app: Prowess = field(init=False)
    turns: int = 0

    def did(self, what: str) -> None:
        """Something that happened beside the conversation, such as a grant."""
        self.narrate("", what)

    @contextmanager
    def open(self, *, roles: bool = False) -> Iterator[None]:
        """Run a step with the database open, as a process of its own would; with ``roles``, they say what exists."""
        import prowess

        with prowess.open(self.url, resolver="roles" if roles else None) as self.app:
            yield

    def say(self, conversation: str, text: str, *, message_id: str | None = None, user: str = USER) -> TurnResult:
        """One message of a user."""
        self.turns += 1
        result = self.app.turn(
            user=user, agent=AGENT, conversation=conversation, message_id=message_id or f"m{self.turns}", text=text
        )
        self.narrate(user, text)
        self.narrate(AGENT, result.reply)
        return result


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raises ``Unexpected`` where they differ."""
    if got != wanted:
        raise Unexpected(say("tour.unexpected", what=what, wanted=repr(wanted), got=repr(got)))


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
        expect("denials", _denials(tour), 1)
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
        before = _denials(tour)
        tour.app.revoke(user=USER, skill=SKILL, code=CODE)
        tour.did(say("tour.revokes", user=USER, skill=SKILL, code=CODE))
        result = tour.say("memory", QUESTION)
        expect("effect", result.decision and result.decision.effect, "deny")
        expect("recalled", "手冲" in result.reply, False)
        expect("denials", _denials(tour), before + 1)
        return say("tour.recall-revoked", rows=before + 1)


def hidden_skill(tour: Tour) -> str:
    """On no road does a skill that was not granted differ from one that does not exist (G8)."""
    with tour.open(roles=True):
        tour.app.define_role("reader", skills=[SEEN])
        tour.app.assign_role("reader", user=USER)
        tour.app.define_role("administrator", everything=True)
        tour.app.assign_role("administrator", user=ADMIN)
        tour.did(say("tour.hidden.roles", seen=SEEN, user=USER, admin=ADMIN))
        tour.did(say("tour.hidden.aim", hidden=SKILL, absent=ABSENT, user=USER))
        before = len(_refusals(tour))
        _ask_for_a_hidden_skill(tour)
        _talk_of_a_hidden_skill(tour)
        _call_a_hidden_skill(tour)
        refusals = _refusals(tour)
        # Two tools and two manuals were asked for, the hidden one and the absent one of each.
        expect("denied rows", len(refusals) - before, 4)
        layers = {event.target: event.data.get("layer") for event in refusals}
        expect("layers", (layers[TOOL], layers[ABSENT_TOOL]), ("entitlement", "filter"))
        _see_what_is_not_hidden(tour)
        return say("tour.hidden-skill", hidden=SKILL, absent=ABSENT, rows=len(refusals) - before)


def _ask_for_a_hidden_skill(tour: Tour) -> None:
    """Roads 1 and 2: the list, and asking for it by name."""
    listed = _listed(tour, USER)
    expect("list", listed, [SEEN])
    tour.did(say("tour.hidden.list", user=USER, listed=listed))
    hidden, absent = _refused_show(tour, SKILL), _refused_show(tour, ABSENT)
    expect("show", blank(hidden, SKILL), blank(absent, ABSENT))
    tour.did(say("tour.hidden.show", hidden=SKILL, absent=ABSENT, message=hidden["error"]["message"]))


def _talk_of_a_hidden_skill(tour: Tour) -> None:
    """Roads 3 and 4: a slash command, and words that would choose it."""
    _unheard(tour, "hello")  # makes the conversation, which is an event of its own
    hidden = tour.say("hidden", f"/{SKILL}")
    absent = tour.say("hidden", f"/{ABSENT}")
    expect("slash command", _answer(hidden, SKILL), _answer(absent, ABSENT))
    tour.did(say("tour.hidden.words", hidden=SKILL))
    chosen = tour.say("hidden", QUESTION)
    expect("words", _answer(chosen, SKILL), _answer(_unheard(tour, "你今天好吗"), SKILL))


def _unheard(tour: Tour, text: str) -> TurnResult:
    """A message that no skill serves, to compare with."""
    return tour.app.turn(user=USER, agent=AGENT, conversation="hidden", message_id=f"unheard {text}", text=text)


def _call_a_hidden_skill(tour: Tour) -> None:
    """Roads 5 to 7: what a model is offered, a call of what it is not offered, and loading the manual."""
    from prowess import TurnRequest

    text = "你好" if language() == "zh" else "hello"
    plan = tour.app.begin(TurnRequest("default", USER, AGENT, text, "planned", conversation="hidden"))
    offered = [tool.name for tool in plan.tools]
    expect("tools", (TOOL in offered, LOAD in offered), (False, True))
    tour.did(say("tour.hidden.plan", tools=offered))
    called = tour.app.call(plan, TOOL, {"query": "tea"})
    expect("call", _outcome(called, TOOL), _outcome(tour.app.call(plan, ABSENT_TOOL, {"query": "tea"}), ABSENT_TOOL))
    tour.did(say("tour.hidden.call", tool=TOOL, message=called.message))
    loaded = tour.app.call(plan, LOAD, {"skill_id": SKILL})
    expect("load", _outcome(loaded, SKILL), _outcome(tour.app.call(plan, LOAD, {"skill_id": ABSENT}), ABSENT))
    tour.did(say("tour.hidden.load", hidden=SKILL, message=loaded.message))
    tour.app.finish(plan, "Hello.")


def _see_what_is_not_hidden(tour: Tour) -> None:
    """The same roads for who has a role that gives everything."""
    from prowess import TurnRequest

    expect("list", SKILL in _listed(tour, ADMIN), True)
    expect("show", tour.app.skill_for(SKILL, user=ADMIN, agent=AGENT).manifest.id, SKILL)
    plan = tour.app.begin(TurnRequest("default", ADMIN, AGENT, "hello", "planned", conversation="admin"))
    expect("tools", TOOL in {tool.name for tool in plan.tools}, True)
    tour.app.finish(plan, "Hello.")
    tour.did(say("tour.hidden.admin", admin=ADMIN))
    result = tour.say("admin", f"/{SKILL}", user=ADMIN)
    expect("layer", result.decision and result.decision.layer, "consent")


def _listed(tour: Tour, user: str) -> list[str]:
    from prowess.cli.skills import skills_for

    return [entry.manifest.id for entry, _ in skills_for(tour.app, user=user, agent=AGENT, tenant="default")]


def _refused_show(tour: Tour, skill: str) -> dict[str, Any]:
    try:
        tour.app.skill_for(skill, user=USER, agent=AGENT)
    except ProwessError as error:
        return error.to_json(language())
    raise Unexpected(say("tour.unexpected", what=skill, wanted="skill_not_found", got="shown"))


def _answer(result: TurnResult, name: str) -> str:
    from prowess.runtime.app import result_to_json

    return blank(result_to_json(result) | {"message_id": ""}, name)


def _outcome(outcome: ToolOutcome, name: str) -> str:
    from dataclasses import asdict

    return blank(asdict(outcome) | {"id": ""}, name)


def blank(answer: Any, name: str) -> str:
    """An answer as text, without the name that was asked for: what is left must be the same."""
    return json.dumps(answer, ensure_ascii=False, default=str, sort_keys=True).replace(name, "…")


def _refusals(tour: Tour) -> list[Event]:
    return [event for event in tour.app.audit(user=USER, decision="denied") if event.type == "tool.refused"]


STEPS: tuple[tuple[str, Callable[[Tour], str]], ...] = (
    ("plan-goal", plan_goal),
    ("resume-after-restart", resume_after_restart),
    ("recall-denied", recall_denied),
    ("recall-granted", recall_granted),
    ("recall-revoked", recall_revoked),
    ("hidden-skill", hidden_skill),
)


def run_tour(*, as_json: bool) -> bool:
    """Run every step, also after one failed; true where all showed what they must."""
    started = time.perf_counter()
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="prowess-tour-") as folder:
        tour = Tour(f"sqlite:///{Path(folder) / 'tour.db'}", _silent if as_json else _narrate)
        for name, step in STEPS:
            if not as_json:
                _heading(name)
            shown = _run_step(tour, name, step)
            steps.append(shown)
            if not as_json:
                _evidence(shown)
    ok = all(step["ok"] for step in steps)
    duration_ms = round((time.perf_counter() - started) * 1000)
    if as_json:
        print_json({"ok": ok, "steps": steps, "duration_ms": duration_ms})
    else:
        done = sum(step["ok"] for step in steps)
        show("\n" + say("tour.end", done=done, total=len(steps), seconds=f"{duration_ms / 1000:.1f}"))
    return ok


def _run_step(tour: Tour, name: str, step: Callable[[Tour], str]) -> dict[str, Any]:
    try:
        return {"name": name, "ok": True, "shows": step(tour)}
    except Unexpected as difference:
        return {"name": name, "ok": False, "shows": str(difference)}
    except ProwessError as error:
        return {"name": name, "ok": False, "shows": f"{error.code}: {error.message(language())}"}
    except Exception as error:
        return {"name": name, "ok": False, "shows": f"{type(error).__name__}: {error}"}


def _denials(tour: Tour) -> int:
    return sum(event.type == "tool.decided" for event in tour.app.audit(user=USER, decision="denied"))


def _silent(_who: str, _text: str) -> None:
    return None


def _narrate(who: str, text: str) -> None:
    if not who:
        print(dim(f"      ·  {visible(text)}"))
        return
    first, *rest = visible(text).splitlines() or [""]
    print(f"  {who:>5}  {first}")
    for line in rest:
        print(f"         {line}")


def _heading(name: str) -> None:
    show(f"\n── {name}{say('colon')}{say(f'tour.title.{name}')}")


def _evidence(step: dict[str, Any]) -> None:
    show(f"  {'✓' if step['ok'] else '✗'} {step['shows']}")
