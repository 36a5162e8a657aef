"""What a user was not given does not exist for them, on any road (G8)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prowess.cli.output import language, say
from prowess.cli.tour.story import AGENT, QUESTION, SKILL, USER, Tour, Unexpected, expect
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prowess.events.model import Event
    from prowess.turns.outcome import ToolOutcome
    from prowess.turns.request import TurnResult

ADMIN = "ada"
SEEN, ABSENT = "daily-planning", "no-such-skill"
TOOL, ABSENT_TOOL = "agent-memory.search", "no-such.tool"
LOAD = "load_skill_through_path"


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
