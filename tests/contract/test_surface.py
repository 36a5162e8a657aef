"""The capability surface on every road of a real runtime: what is not granted does not exist (G6–G11, T11, U1)."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from tests.support.kit import AGENT, CHAT, USER, OpenApp, ScriptedVoice, interview, manual, request, tool, turn

import prowess
from prowess import (
    CallContext,
    CapabilitySurface,
    Denied,
    InvalidInput,
    Mode,
    NotFound,
    SkillFilter,
    ToolGroup,
    TurnPlan,
)

LOAD, RESET = "load_skill_through_path", "reset_equipped_tools"
HIDDEN, ABSENT = "secret-plan", "absent-plan"
SKILLS = (
    manual(HIDDEN, keywords=["treasure", "island"]),
    manual("open-notes", keywords=["harbour", "boats"]),
    tool("lookup"),
    tool("ledger"),
    interview("survey"),
)
NARROW = CapabilitySurface(skills=["open-notes", "lookup"])


class Resolver:
    """Answers with what it was told to for each user, and remembers how often it was asked."""

    def __init__(self, surfaces: Mapping[str, Any] | None = None, default: Any = CapabilitySurface.ALLOW_ALL) -> None:
        self.surfaces = dict(surfaces or {})
        self.default = default
        self.asked: list[CallContext] = []

    def resolve(self, context: CallContext) -> Any:
        self.asked.append(context)
        found = self.surfaces.get(context.user, self.default)
        if isinstance(found, BaseException):
            raise found
        return found() if callable(found) and not isinstance(found, CapabilitySurface) else found


def offered(plan: TurnPlan) -> list[str]:
    return [item.name for item in plan.tools]


def blanked(value: Any, name: str) -> str:
    """A result as text, with the asked name blanked and what differs from call to call left out."""
    shown = json.loads(json.dumps(value, default=str))
    if isinstance(shown, dict):
        shown = {key: item for key, item in shown.items() if key not in ("id", "message_id")}
    return json.dumps(shown, ensure_ascii=False).replace(name, "□")


def error_of(action: Callable[[], Any], name: str) -> str:
    with pytest.raises(NotFound) as caught:
        action()
    return blanked(caught.value.to_json(), name)


# --- every road ------------------------------------------------------------------------------------------------------


def test_g8_c42_slash_list_view_search_answer_an_ungranted_skill_as_an_absent_one(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=NARROW))
    replies = {
        name: blanked(
            {
                "reply": (result := turn(app, f"m-{number}", f"/{name} now")).reply,
                "selection": result.selection,
                "run": result.run,
                "events": result.events[-2:],
            },
            name,
        )
        for number, name in enumerate([HIDDEN, ABSENT])
    }
    assert replies[HIDDEN] == replies[ABSENT]
    assert "command.unknown" in replies[HIDDEN]
    assert [entry.manifest.id for entry in app.candidates(user=USER, agent=AGENT)] == ["lookup", "open-notes"]
    assert error_of(lambda: app.skill_for(HIDDEN, user=USER), HIDDEN) == error_of(
        lambda: app.skill_for(ABSENT, user=USER), ABSENT
    )
    found = turn(app, "m9", "the treasure of the island")
    assert found.selection is None
    helped = turn(app, "m10", "/help").reply
    assert "open-notes" in helped
    assert HIDDEN not in helped


def test_g8_skill_prefix_and_snake_spelling_do_not_reach_it_either(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=NARROW))
    for number, words in enumerate([f"/skill {HIDDEN} x", "/secret_plan x", "/SECRET-PLAN x", f"/skill {HIDDEN}"]):
        assert turn(app, f"m{number}", words).selection is None


def test_g8_loading_executing_equipping_answer_alike(open_app: OpenApp) -> None:
    groups = [ToolGroup(name="books", tools=("tool.ledger",)), ToolGroup(name="inner", tools=("x",), manageable=False)]
    app = open_app(*SKILLS, groups=groups, resolver=Resolver(default=NARROW))
    plan = app.begin(request("m1", "hello"))
    pairs = [
        (lambda name: app.call(plan, LOAD, {"skill_id": name}), HIDDEN, ABSENT),
        (lambda name: app.call(plan, LOAD, {"skill_id": name, "path": "notes.md"}), HIDDEN, ABSENT),
        (lambda name: app.call(plan, RESET, {"groups": [name]}), "books", "absent"),
        (lambda name: app.call(plan, RESET, {"groups": [name]}), "inner", "absent"),
        (lambda name: app.call(plan, RESET, {"groups": [name]}), "ledger_skill_tools", "absent_skill_tools"),
        (lambda name: app.call(plan, name, {"text": "x"}), "tool.ledger", "tool.absent"),
    ]
    for call, there, not_there in pairs:
        hidden, absent = (call(name).to_json() for name in (there, not_there))
        assert (hidden["status"], hidden["output"]) == ("not_found", None)
        assert blanked(hidden, there) == blanked(absent, not_there)
    kinds = {event.type for event in app.audit(user=USER, decision="denied")}
    assert kinds == {"tool.refused"}  # of one kind, whichever it was (ruling 12.24)


def test_g8_consent_and_choices_do_not_tell_them_apart(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=NARROW))
    for action in (
        lambda name: app.grant(user=USER, skill=name, code="memory:read"),
        lambda name: app.bind_skill(name, user=USER, enabled=True),
        lambda name: app.always_allow(user=USER, agent=AGENT, tool=f"tool.{name}", arguments={}),
    ):
        assert error_of(lambda act=action: act(HIDDEN), HIDDEN) == error_of(lambda act=action: act(ABSENT), ABSENT)


def test_t11_the_schema_holds_what_is_granted_and_the_meta_tools(open_app: OpenApp) -> None:
    groups = [ToolGroup(name="books", tools=("tool.ledger",)), ToolGroup(name="finder", tools=("tool.lookup",))]
    app = open_app(*SKILLS, groups=groups)
    narrow = app.begin(request("m1", "hello"), surface=CapabilitySurface(groups=["finder"]))
    assert offered(narrow) == [LOAD, RESET]
    reset = next(item for item in narrow.tools if item.name == RESET)
    assert reset.input_schema["properties"]["groups"]["items"] == {"type": "string", "enum": ["finder"]}
    app.call(narrow, RESET, {"groups": ["finder"]})
    assert offered(narrow) == [LOAD, RESET, "tool.lookup"]
    none = app.begin(request("m2", "hello"), surface=CapabilitySurface.DENY_ALL)
    assert offered(none) == [LOAD, RESET]
    assert "enum" not in next(i for i in none.tools if i.name == RESET).input_schema["properties"]["groups"]["items"]


def test_g8_the_prompt_names_granted_skills_alone_and_none_without_any(open_app: OpenApp) -> None:
    voice = ScriptedVoice(history_length=2)
    app = open_app(*SKILLS, voice=voice)
    turn(app, "m1", "hello")
    app.turn(user=USER, agent=AGENT, conversation=CHAT, message_id="m2", text="hello", surface=NARROW)
    app.turn(
        user=USER, agent=AGENT, conversation=CHAT, message_id="m3", text="hello", surface=CapabilitySurface.DENY_ALL
    )
    seen = [[card.id for card in prompt.skills] for prompt in voice.prompts]
    assert HIDDEN in seen[0]
    assert seen[1:] == [["open-notes"], []]


def test_g7_a_tool_granted_by_name_is_callable_though_its_skill_is_hidden(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=CapabilitySurface(tools=["tool.lookup"])))
    plan = app.begin(request("m1", "hello"))
    assert offered(plan) == [LOAD, RESET, "tool.lookup"]
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "succeeded"
    assert app.call(plan, "tool.ledger", {"text": "x"}).status == "not_found"
    assert turn(app, "m2", "/lookup x").selection is None
    assert app.call(plan, LOAD, {"skill_id": "lookup"}).status == "not_found"


def test_g7_a_tool_in_a_granted_and_an_ungranted_group_is_reached_through_the_granted_one(open_app: OpenApp) -> None:
    groups = [
        ToolGroup(name="mine", tools=("tool.lookup",)),
        ToolGroup(name="theirs", tools=("tool.lookup", "tool.ledger")),
    ]
    app = open_app(*SKILLS, groups=groups, resolver=Resolver(default=CapabilitySurface(groups=["mine"])))
    plan = app.begin(request("m1", "hello"))
    assert app.call(plan, "tool.lookup", {"text": "x"}).decision.layer == "activation"  # type: ignore[union-attr]
    assert app.call(plan, RESET, {"groups": ["mine"]}).status == "succeeded"
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "succeeded"
    assert app.call(plan, "tool.ledger", {"text": "x"}).status == "not_found"


def test_g8_a_running_session_of_a_skill_that_is_no_longer_granted_waits(open_app: OpenApp) -> None:
    resolver = Resolver()
    app = open_app(*SKILLS, resolver=resolver)
    begun = turn(app, "m1", "/survey")
    assert begun.session is not None
    resolver.default = NARROW
    assert turn(app, "m2", "an answer").session is None
    assert turn(app, "m3", "/cancel-skill").session is None
    assert turn(app, "m4", "/survey").selection is None
    (kept,) = app.sessions(user=USER)
    assert (kept.id, kept.status, kept.revision) == (begun.session.id, "waiting_user", 1)
    resolver.default = CapabilitySurface.ALLOW_ALL
    resumed = turn(app, "m5", "an answer")
    assert resumed.session is not None
    assert (resumed.session.id, resumed.session.revision) == (begun.session.id, 2)


def test_g12_c10_a_repeated_message_is_a_new_call_with_its_own_surface(open_app: OpenApp) -> None:
    resolver = Resolver()
    app = open_app(*SKILLS, resolver=resolver)
    plan = app.begin(request("m1", "hello"))
    assert "tool.ledger" in offered(plan)
    resolver.default = NARROW
    again = app.begin(request("m1", "hello"))
    assert (again.replayed, "tool.ledger" in offered(again)) == (True, False)
    assert app.call(again, "tool.ledger", {"text": "x"}).status == "not_found"
    assert app.call(plan, "tool.ledger", {"text": "x"}).status == "succeeded"  # frozen for the call that it began in


# --- resolving -------------------------------------------------------------------------------------------------------


def test_g9_resolved_once_a_call_before_anything_and_never_stored(open_app: OpenApp, url: str) -> None:
    resolver = Resolver(default=CapabilitySurface(skills=["canary-of-a-surface", "lookup"]))
    app = open_app(*SKILLS, resolver=resolver)
    plan = app.begin(request("m1", "hello"))
    for _ in range(3):
        app.call(plan, "tool.lookup", {"text": "x"})
        assert "tool.lookup" in offered(plan)
    app.finish(plan, "done")
    (context,) = resolver.asked
    assert context == CallContext("default", USER, AGENT, "conversation", CHAT, "m1", "user")
    from tests.support.kit import places_of

    assert places_of(url, "canary-of-a-surface") == set()


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        pytest.param(RuntimeError("no"), "raised", id="raises"),
        pytest.param(SystemExit(1), "raised", id="exits"),
        pytest.param(None, "nothing", id="null"),
        pytest.param({"skills": None}, "wrong_type", id="mapping"),
        pytest.param(True, "wrong_type", id="bool"),
        pytest.param(CapabilitySurface, "wrong_type", id="class"),
    ],
)
def test_g9_c39_a_resolver_that_fails_aborts_the_call(open_app: OpenApp, answer: Any, cause: str) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=(lambda: answer) if callable(answer) else answer))
    for road in (
        lambda: turn(app, "m1", "/lookup x"),
        lambda: app.begin(request("m1", "hello")),
        lambda: app.candidates(user=USER, agent=AGENT),
        lambda: app.skill_for("lookup", user=USER),
        lambda: app.grant(user=USER, skill="lookup", code="memory:read"),
    ):
        with pytest.raises(Denied) as caught:
            road()
        assert (caught.value.code, caught.value.detail["cause"]) == ("surface_unresolved", cause)
    rows = [event for event in app.audit(user=USER) if event.type == "surface.unresolved"]
    assert [(row.decision, row.data["cause"]) for row in rows] == [("denied", cause)] * 5
    with pytest.raises(NotFound):
        app.messages(CHAT)  # nothing of the message was stored


def test_g9_c39_a_resolver_that_hangs_aborts_the_call(open_app: OpenApp, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    app = open_app(*SKILLS, resolver=Resolver(default=lambda: release.wait(60)))
    monkeypatch.setattr(app._parts.surfaces, "_seconds", 0.05)
    with pytest.raises(Denied) as caught:
        turn(app, "m1", "hello")
    release.set()
    assert caught.value.detail["cause"] == "timeout"


def test_g9_null_and_everything_are_choices_of_the_operator(open_app: OpenApp) -> None:
    chosen = open_app(*SKILLS, resolver=Resolver(default=None), allow_all=True)
    assert turn(chosen, "m1", f"/{HIDDEN}").selection is not None
    with pytest.raises(InvalidInput) as caught:
        open_app(*SKILLS, server=True)
    assert caught.value.code == "resolver_required"
    assert turn(open_app(*SKILLS, server=True, allow_all=True), "m2", f"/{HIDDEN}").selection is not None
    served = open_app(*SKILLS, server=True, resolver=Resolver())
    with pytest.raises(Denied) as denied:
        turn(served, "m3", "hello")
    assert denied.value.detail["cause"] == "unrestricted"
    embedded = open_app(*SKILLS, resolver=Resolver())
    assert turn(embedded, "m4", f"/{HIDDEN}").selection is not None


def test_g9_a_safety_response_waits_for_no_resolver(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=RuntimeError("no")))
    answered = turn(app, "m1", "我不想活了")
    assert "safety.responded" in answered.events
    plan = app.begin(request("m2", "我不想活了"))
    assert plan.tools == ()
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "not_found"
    assert app.call(plan, LOAD, {"skill_id": "open-notes"}).status == "not_found"


@pytest.mark.parametrize("wrong", [object(), "roles?", 1])
def test_g9_what_is_no_resolver_is_refused_at_start(open_app: OpenApp, wrong: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_app(resolver=wrong)
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("choice", ["surface", "filter", "mode", "parent"])
def test_g9_a_choice_of_the_wrong_type_is_refused(open_app: OpenApp, choice: str) -> None:
    app = open_app()
    with pytest.raises(InvalidInput) as caught:
        app.begin(request("m1", "hello"), **{choice: {"skills": []}})  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.detail["field"]) == ("wrong_type", choice)


def test_u1_a_surface_for_one_call_stands_in_for_the_resolver(open_app: OpenApp) -> None:
    resolver = Resolver(default=NARROW)
    app = open_app(*SKILLS, resolver=resolver)
    wide = app.turn(
        user=USER,
        agent=AGENT,
        conversation=CHAT,
        message_id="m1",
        text=f"/{HIDDEN}",
        surface=CapabilitySurface.ALLOW_ALL,
    )
    assert wide.selection is not None
    assert resolver.asked == []
    assert turn(app, "m2", f"/{HIDDEN}").selection is None


# --- system marks ----------------------------------------------------------------------------------------------------


def test_g10_a_system_skill_shows_its_manual_and_not_its_tools(
    open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_app(*SKILLS, resolver=Resolver(default=CapabilitySurface.DENY_ALL), system_skills=["ledger", HIDDEN])
    assert "skill ledger is marked as system" in caplog.text
    plan = app.begin(request("m1", "hello"))
    loaded = app.call(plan, LOAD, {"skill_id": HIDDEN})
    assert loaded.status == "succeeded"
    assert app.call(plan, LOAD, {"skill_id": "ledger"}).status == "succeeded"
    assert offered(plan) == [LOAD, RESET]
    assert app.call(plan, "tool.ledger", {"text": "x"}).status == "not_found"
    assert turn(app, "m2", f"/{HIDDEN}").selection is not None
    assert turn(app, "m3", "/open-notes").selection is None


def test_g10_a_system_tool_is_entitled_and_still_needs_activation(open_app: OpenApp) -> None:
    groups = [ToolGroup(name="books", tools=("tool.ledger",), system=True)]
    app = open_app(
        *SKILLS, groups=groups, resolver=Resolver(default=CapabilitySurface.DENY_ALL), system_tools=["tool.ledger"]
    )
    plan = app.begin(request("m1", "hello"))
    refused = app.call(plan, "tool.ledger", {"text": "x"})
    assert (refused.status, refused.decision and refused.decision.layer) == ("denied", "activation")
    assert app.call(plan, RESET, {"groups": ["books"]}).status == "succeeded"
    assert app.call(plan, "tool.ledger", {"text": "x"}).status == "succeeded"
    assert app.call(plan, "tool.lookup", {"text": "x"}).status == "not_found"


# --- filters ---------------------------------------------------------------------------------------------------------


def test_t11_the_agents_filter_cuts_what_it_was_designed_with(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    app.create_agent(AGENT)
    app.design_agent(AGENT, SkillFilter.of("only", ["open_notes", "lookup"]))
    assert [entry.manifest.id for entry in app.candidates(user=USER, agent=AGENT)] == ["lookup", "open-notes"]
    plan = app.begin(request("m1", "hello"))
    assert offered(plan) == [LOAD, RESET, "tool.lookup"]
    assert turn(app, "m2", f"/{HIDDEN}").selection is None
    wide = app.begin(request("m3", "hello"), surface=CapabilitySurface.ALLOW_ALL)
    assert app.call(wide, "tool.ledger", {"text": "x"}).status == "not_found"
    narrowed = app.begin(request("m4", "hello"), filter=SkillFilter.of("disable", ["lookup"]))
    assert offered(narrowed) == [LOAD, RESET]
    readmitted = app.begin(request("m5", "hello"), filter=SkillFilter.of("enable", ["ledger"]))
    assert offered(readmitted) == [LOAD, RESET, "tool.lookup"]
    replaced = app.begin(request("m6", "hello"), filter=SkillFilter.of("all"))
    assert "tool.ledger" in offered(replaced)
    never = app.begin(request("m7", "hello"), filter=SkillFilter.of("all"), surface=NARROW)
    assert offered(never) == [LOAD, RESET, "tool.lookup"]  # never beyond the surface


def test_g3_a_filter_that_cannot_be_read_lets_nothing_through(open_app: OpenApp, url: str) -> None:
    from tests.support.kit import execute

    app = open_app(*SKILLS)
    turn(app, "m1", "hello")
    execute(url, 'UPDATE agents SET skill_filter = \'{"kind": "onyl", "names": []}\'')
    assert app.candidates(user=USER, agent=AGENT) == []
    execute(url, "UPDATE agents SET skill_filter = 'not json'")
    assert turn(app, "m2", "/lookup x").selection is None


# --- delegation ------------------------------------------------------------------------------------------------------


def test_g9_c37_what_the_parent_may_not_no_child_may(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver=Resolver())
    parent = app.begin(request("m1", "hello"), surface=NARROW)
    for number in range(3):  # spawned, used again, messaged once more
        child = app.begin(request(f"k{number}", "help", agent="kid", conversation="kids"), parent=parent)
        assert offered(child) == [LOAD, RESET, "tool.lookup"]
        assert app.call(child, "tool.ledger", {"text": "x"}).status == "not_found"
        grandchild = app.begin(request(f"g{number}", "help", agent="grandkid", conversation="grand"), parent=child)
        assert app.call(grandchild, "tool.ledger", {"text": "x"}).status == "not_found"
        assert app.call(grandchild, "tool.lookup", {"text": "x"}).status == "succeeded"
    assert "tool.ledger" in offered(app.begin(request("k9", "hi", agent="kid", conversation="kids")))


def test_c38_denies_of_parent_and_child_hold_together(open_app: OpenApp, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\nrules:\n"
        "  - {id: parent, effect: deny, agents: [mira], tools: [tool.ledger],"
        " match: [{agent: mira, tool: tool.ledger}], not_match: [{agent: kid, tool: tool.ledger}]}\n"
        "  - {id: child, effect: deny, agents: [kid], tools: [tool.lookup], match: [{agent: kid, tool: tool.lookup}]}\n"
    )
    app = open_app(*SKILLS, policies=[policy])
    parent = app.begin(request("m1", "hello"))
    child = app.begin(request("k1", "help", agent="kid", conversation="kids"), parent=parent)
    results = {name: app.call(child, name, {"text": "x"}) for name in ("tool.ledger", "tool.lookup")}
    assert {name: (item.status, item.decision and item.decision.rule) for name, item in results.items()} == {
        "tool.ledger": ("denied", "parent"),
        "tool.lookup": ("denied", "child"),
    }
    alone = app.begin(request("k2", "help", agent="kid", conversation="kids"))
    assert app.call(alone, "tool.ledger", {"text": "x"}).status == "succeeded"
    assert app.call(alone, "tool.lookup", {"text": "x"}).status == "denied"


def test_g9_a_child_with_a_surface_of_its_own_has_the_intersection(open_app: OpenApp) -> None:
    app = open_app(*SKILLS)
    parent = app.begin(request("m1", "hello"), surface=CapabilitySurface(tools=["tool.lookup", "tool.ledger"]))
    child = app.begin(
        request("k1", "help", agent="kid", conversation="kids"),
        parent=parent,
        surface=CapabilitySurface(skills=["lookup"]),
    )
    assert offered(child) == [LOAD, RESET, "tool.lookup"]


def test_c37_the_stricter_mode_and_the_filters_of_the_call_go_down_too(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, tool("write", effect="write"))
    parent = app.begin(request("m1", "hello"), mode=Mode.EXPLORE, filter=SkillFilter.of("disable", ["ledger"]))
    child = app.begin(request("k1", "help", agent="kid", conversation="kids"), parent=parent, mode=Mode.BYPASS)
    written = app.call(child, "tool.write", {"text": "x"})
    assert (written.status, written.decision and written.decision.reason) == ("denied", "explore_mode")
    assert app.call(child, "tool.ledger", {"text": "x"}).status == "not_found"


@pytest.mark.parametrize(
    "own", [SkillFilter.of("all"), SkillFilter.of("enable", ["ledger"]), SkillFilter.of("only", ["ledger"])]
)
def test_c37_no_filter_of_a_child_lets_in_what_its_parent_shut_out(open_app: OpenApp, own: SkillFilter) -> None:
    app = open_app(*SKILLS)
    parent = app.begin(request("m1", "hello"), filter=SkillFilter.of("disable", ["ledger"]))
    child = app.begin(request("k1", "help", agent="kid", conversation="kids"), parent=parent, filter=own)
    grandchild = app.begin(request("g1", "help", agent="grandkid", conversation="g"), parent=child)
    for plan in (child, grandchild):
        assert "tool.ledger" not in offered(plan)
        assert app.call(plan, "tool.ledger", {"text": "x"}).status == "not_found"


def test_u2_nobody_delegates_for_somebody_else(open_app: OpenApp) -> None:
    app = open_app()
    parent = app.begin(request("m1", "hello"))
    for stranger in (
        request("k1", "x", user="u2", conversation="k"),
        request("k1", "x", tenant="t2", conversation="k"),
    ):
        with pytest.raises(InvalidInput) as caught:
            app.begin(stranger, parent=parent)
        assert caught.value.code == "parent_mismatch"


# --- contexts never mix ----------------------------------------------------------------------------------------------


def test_u2_c83_each_call_is_its_own_principals(open_app: OpenApp) -> None:
    from tests.support.kit import Recorder

    recorder = Recorder()
    app = open_app(tool("lookup", recorder, max_calls_per_turn=4), manual("for-anna"), manual("for-bob"))
    surfaces = {
        "anna": CapabilitySurface(skills=["for-anna"], tools=["tool.lookup"]),
        "bob": CapabilitySurface(skills=["for-bob"], tools=["tool.lookup"]),
    }
    plans = {
        user: app.begin(request("m1", "hello", user=user, conversation=f"c-{user}"), surface=surface)
        for user, surface in surfaces.items()
    }
    for user in ("anna", "bob", "anna", "anna", "bob"):
        other = "bob" if user == "anna" else "anna"
        assert app.call(plans[user], LOAD, {"skill_id": f"for-{user}"}).status == "succeeded"
        assert app.call(plans[user], LOAD, {"skill_id": f"for-{other}"}).status == "not_found"
        app.call(plans[user], "tool.lookup", {"text": user})
        assert recorder.contexts[-1].user == user
        with pytest.raises(AttributeError):
            recorder.contexts[-1].user = other  # type: ignore[misc]


def test_g11_names_that_would_join_alike_stay_apart(open_app: OpenApp) -> None:
    app = open_app(manual("a-b-c"), manual("a"), tool("b-c"))
    seen = app.begin(request("m1", "hello"), surface=CapabilitySurface(skills=[("a-b", "c"), "a@b-c"]))
    assert seen.view.candidates == ()


def test_u3_roles_give_what_they_name_and_nothing_else(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver="roles", server=True)
    assert app.candidates(user="ann", agent=AGENT) == []  # without a role nothing
    app.define_role("reader", skills=["open_notes"])
    app.define_role("finder", tools=["tool.lookup"])
    app.define_role("empty")
    app.define_role("admin", everything=True)
    for user, *roles in (("ann", "reader", "finder"), ("bob", "empty"), ("eve", "admin")):
        for role in roles:
            assert app.assign_role(role, user=user)
            assert not app.assign_role(role, user=user)
    plan = app.begin(request("m1", "hello", user="ann", conversation="a"))
    assert [entry.manifest.id for entry in plan.view.candidates] == ["open-notes"]
    assert offered(plan) == [LOAD, RESET, "tool.lookup"]
    assert app.candidates(user="bob", agent=AGENT) == []
    assert HIDDEN in {entry.manifest.id for entry in app.candidates(user="eve", agent=AGENT)}
    assert app.surface(user="ann") == CapabilitySurface(skills=["open-notes"], groups=(), tools=["tool.lookup"])
    app.unassign_role("finder", user="ann")
    assert offered(app.begin(request("m2", "hello", user="ann", conversation="a"))) == [LOAD, RESET]
    app.remove_role("reader")
    assert app.candidates(user="ann", agent=AGENT) == []
    assert app.role_members() == [("admin", "eve"), ("empty", "bob")]
    kinds = [event.type for event in reversed(app.audit()) if event.type.startswith("role.")]
    assert kinds.count("role.defined") == 4
    assert kinds[-2:] == ["role.unassigned", "role.removed"]
    with pytest.raises(NotFound):
        app.assign_role("reader", user="ann")


def test_u3_roles_of_another_tenant_give_nothing_here(open_app: OpenApp) -> None:
    app = open_app(*SKILLS, resolver="roles")
    app.define_role("admin", everything=True, tenant="t2")
    app.assign_role("admin", user=USER, tenant="t2")
    assert app.candidates(user=USER, agent=AGENT) == []
    assert app.candidates(user=USER, agent=AGENT, tenant="t2") != []
    assert app.roles() == []


def test_g9_who_does_not_use_the_layer_stores_nothing_of_it(open_app: OpenApp, url: str) -> None:
    from tests.support.kit import everything

    app = open_app(*SKILLS)
    plan = app.begin(request("m1", "hello"))
    app.call(plan, "tool.lookup", {"text": "x"})
    app.finish(plan, "done")
    turn(app, "m2", "/survey")
    stored = everything(url)
    layer = ("roles", "role_members", "equipped_groups", "standing_approvals", "staged_calls", "secrets")
    assert {name: stored[name] for name in layer} == {name: [] for name in layer}


def test_g8_absent_and_ungranted_cost_the_same_statements(tmp_path: Path) -> None:
    """Alike in time too, as far as can be: the same work is done for both, statement by statement."""
    seen: list[str] = []

    def trace(connection: sqlite3.Connection, *_: Any) -> None:
        connection.set_trace_callback(lambda sql: seen.append(sql.split("(")[0][:60]))

    with prowess.open(f"sqlite:///{tmp_path}/traced.db", skills=SKILLS, resolver=Resolver(default=NARROW)) as app:
        plan = app.begin(request("m1", "hello"))
        event.listen(app._parts.database.engine, "checkout", trace)
        work: list[list[str]] = []
        for tool_name, arguments in (
            ("tool.ledger", {"text": "x"}),
            ("tool.absent", {"text": "x"}),
            (LOAD, {"skill_id": HIDDEN}),
            (LOAD, {"skill_id": ABSENT}),
        ):
            seen.clear()
            app.call(plan, tool_name, arguments)
            work.append(list(seen))
    assert work[0] == work[1] != []
    assert work[2] == work[3] != []
