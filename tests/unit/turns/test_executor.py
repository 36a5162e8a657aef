"""What a turn comes to, from facts alone: no database (T2, W4–W9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.kit import AGENT, CHAT, USER, interview, manual, request, tool

from prowess.chat.model import Agent, ChatRef
from prowess.errors import LimitExceeded
from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds
from prowess.skills.catalog import Catalog, CatalogEntry
from prowess.skills.names import SkillRef
from prowess.turns.definitions import Instruction, SkillDefinition, WorkflowAdvance, WorkflowTurn
from prowess.turns.executor import MAX_PARKED, Executor, Outcome, TurnFacts
from prowess.turns.request import Selection
from prowess.turns.runs import RunStatus
from prowess.turns.sessions.model import Session, SessionStatus

WORDS = ("quartz", "zebra")
INTERVIEW = interview(keywords=WORDS)
LOOKUP = tool("lookup", keywords=WORDS)
NOTES = manual("notes", keywords=WORDS)


@pytest.fixture
def now(clock: ManualClock) -> datetime:
    return clock.now()


def facts(now: datetime, *definitions: SkillDefinition, **changed: Any) -> TurnFacts:
    entries = tuple(CatalogEntry(item, "built-in", item.manifest.id) for item in definitions)
    agent = Agent("default", AGENT, "Mira", "", "en", None, now)
    known = TurnFacts(agent, Catalog(entries), entries, session=None, parked=(), now=now)
    return replace(known, **changed)


def session(now: datetime, **changed: Any) -> Session:
    live = Session(
        id="s1",
        tenant="default",
        user=USER,
        chat=ChatRef("conversation", CHAT),
        agent=AGENT,
        skill=SkillRef("interview", "1.0.0"),
        state={"answers": ["one"]},
        state_version=1,
        step="ask_2",
        status=SessionStatus.WAITING_USER,
        pending_question="interview question 2?",
        revision=2,
        last_message_id="m2",
        created_at=now - timedelta(days=1),
        updated_at=now - timedelta(days=1),
        expires_at=now + timedelta(days=13),
    )
    return replace(live, **changed)


def execute(text: str, known: TurnFacts) -> Outcome:
    return Executor(SequentialIds()).execute(request("m9", text), known)


# --- order (T2) ------------------------------------------------------------------------------------------------------


def test_t2_an_active_session_goes_before_everything_that_matches(now: datetime) -> None:
    known = facts(now, INTERVIEW, LOOKUP, NOTES, session=session(now))
    outcome = execute("quartz and zebra", known)
    assert outcome.selection == Selection("interview", "1.0.0", "workflow", "session", 1.0, "active session")
    assert outcome.session is not None
    assert outcome.session.state == {"answers": ["one", "quartz and zebra"]}
    assert outcome.session.revision == 3


@pytest.mark.parametrize(
    ("definitions", "kind"),
    [
        ((NOTES, LOOKUP, INTERVIEW), "workflow"),
        ((NOTES, LOOKUP), "tool"),
        ((NOTES,), "prompt"),
        ((), "plain"),
    ],
    ids=["workflow", "tool", "prompt", "plain"],
)
def test_t2_new_workflow_then_tool_then_prompt_then_plain(
    now: datetime, definitions: tuple[SkillDefinition, ...], kind: str
) -> None:
    outcome = execute("quartz and zebra", facts(now, *definitions))
    assert outcome.kind == kind
    assert (outcome.selection is None) is (kind == "plain")
    assert (outcome.tool is not None) is (kind == "tool")
    assert (outcome.session is not None) is (kind == "workflow")


def test_t9_a_prompt_skill_becomes_an_instruction(now: datetime) -> None:
    outcome = execute("/notes about quartz", facts(now, NOTES))
    assert outcome.instruction is not None
    assert "Do as notes says." in outcome.instruction.text
    assert outcome.run_status is RunStatus.COMPLETED


def test_x2_a_tool_is_left_to_the_engine_with_the_text_behind_the_command(now: datetime) -> None:
    outcome = execute("/lookup where is it?", facts(now, LOOKUP))
    assert (outcome.kind, outcome.tool, outcome.tool_text, outcome.instruction) == (
        "tool",
        LOOKUP,
        "where is it?",
        None,
    )
    assert execute("quartz, zebra?", facts(now, LOOKUP)).tool_text == "quartz, zebra?"


# --- starting --------------------------------------------------------------------------------------------------------


def test_w1_a_workflow_begins_with_its_initial_state(now: datetime) -> None:
    outcome = execute("/interview hello", facts(now, INTERVIEW))
    (change,) = outcome.changes
    assert change.expected_revision is None
    assert change.event == "session.created"
    assert change.session == outcome.session
    assert outcome.session == Session(
        id="session-1",
        tenant="default",
        user=USER,
        chat=ChatRef("conversation", CHAT),
        agent=AGENT,
        skill=SkillRef("interview", "1.0.0"),
        state={"answers": []},
        state_version=1,
        step="ask_1",
        status=SessionStatus.WAITING_USER,
        pending_question="interview question 1?",
        revision=1,
        last_message_id="m9",
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(days=14),
    )
    assert outcome.run_status is RunStatus.WAITING_USER


def test_w1_a_workflow_may_be_done_at_once(now: datetime) -> None:
    outcome = execute("/interview", facts(now, interview(questions=0)))
    assert outcome.session is not None
    assert outcome.session.status is SessionStatus.COMPLETED
    assert outcome.session.completed_at == now
    assert outcome.session.pending_question is None
    assert outcome.run_status is RunStatus.COMPLETED


def test_w9_an_explicit_workflow_parks_the_one_that_runs(now: datetime) -> None:
    other = interview("other")
    running = session(now)
    outcome = execute("/other", facts(now, INTERVIEW, other, session=running))
    parked, created = outcome.changes
    assert (parked.event, parked.expected_revision) == ("session.parked", 2)
    assert parked.session == replace(running, parked_at=now, updated_at=now, revision=3)
    assert (created.event, created.session.skill.id) == ("session.created", "other")


def test_w9_the_stack_is_bounded(now: datetime) -> None:
    stack = tuple(session(now, id=f"p{number}", parked_at=now) for number in range(MAX_PARKED))
    known = facts(now, INTERVIEW, interview("other"), session=session(now), parked=stack)
    for text in ("/other", "/pause-skill", "pause the plan"):
        with pytest.raises(LimitExceeded) as refused:
            execute(text, known)
        assert refused.value.code == "session_stack_full"
        assert refused.value.detail == {"limit": 5}
    assert execute("/other", replace(known, parked=stack[1:])).kind == "workflow"


def raising(turn: WorkflowTurn) -> WorkflowAdvance:
    raise RuntimeError("internal wording that nobody should see")


@pytest.mark.parametrize("running", [False, True])
def test_w4_a_workflow_that_cannot_begin_leaves_nothing_behind(now: datetime, running: bool) -> None:
    broken = interview("broken", run_turn=raising)
    known = facts(now, INTERVIEW, broken, session=session(now) if running else None)
    outcome = execute("/broken", known)
    assert (outcome.changes, outcome.session) == ((), None)
    assert (outcome.run_status, outcome.error_code) == (RunStatus.FAILED, "workflow_failed")
    assert outcome.instruction is not None
    assert "internal wording" not in str(outcome)
    assert "broken" not in outcome.instruction.text


# --- continuing (W4) -------------------------------------------------------------------------------------------------


def failing(known: TurnFacts, code: str) -> Outcome:
    outcome = execute("an answer", known)
    (change,) = outcome.changes
    assert known.session is not None
    assert change.session == outcome.session
    assert change.event == "session.failed"
    assert change.expected_revision == known.session.revision
    assert change.session.status is SessionStatus.FAILED
    assert change.session.pending_question is None
    assert change.session.state == known.session.state
    assert (outcome.run_status, outcome.error_code) == (RunStatus.FAILED, code)
    assert outcome.selection is not None
    assert outcome.selection.trigger == "session"
    return outcome


def test_w4_a_missing_version_fails_and_is_never_upgraded(now: datetime) -> None:
    known = facts(now, interview(version="1.0.1"), session=session(now))
    assert failing(known, "workflow_version_missing").selection is not None
    assert failing(facts(now, session=session(now)), "workflow_version_missing")


def test_w4_a_version_of_another_kind_is_a_missing_one(now: datetime) -> None:
    failing(facts(now, manual("interview"), session=session(now)), "workflow_version_missing")


@pytest.mark.parametrize("state", [None, [], {}, {"answers": "one"}, "text", {"answers": None}], ids=repr)
def test_w4_an_invalid_state_fails(now: datetime, state: Any) -> None:
    failing(facts(now, INTERVIEW, session=session(now, state=state)), "workflow_state_invalid")


def test_w4_another_state_version_without_a_migration_fails(now: datetime) -> None:
    failing(facts(now, interview(state_version=2), session=session(now)), "workflow_state_invalid")


def test_w9_a_state_is_migrated_from_one_version_to_the_next(now: datetime) -> None:
    seen: list[tuple[Any, int]] = []

    def migrate(state: Any, version: int) -> Any:
        seen.append((state, version))
        return {"answers": state["old_answers"]}

    known = facts(
        now,
        interview(state_version=3, migrate_state=migrate),
        session=session(now, state={"old_answers": ["one"]}, state_version=1),
    )
    outcome = execute("two", known)
    assert seen == [({"old_answers": ["one"]}, 1)]
    assert outcome.session is not None
    assert outcome.session.state == {"answers": ["one", "two"]}
    assert outcome.session.state_version == 3


def test_w9_a_migration_that_raises_fails_the_session(now: datetime) -> None:
    def migrate(state: Any, version: int) -> Any:
        raise KeyError("old_answers")

    known = facts(now, interview(state_version=2, migrate_state=migrate), session=session(now))
    failing(known, "workflow_state_invalid")


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (raising, "workflow_failed"),
        (lambda turn: None, "workflow_failed"),
        (lambda turn: advance_of(turn, state={"answers": [object()]}), "workflow_failed"),
        (lambda turn: advance_of(turn, state={"answers": [float("nan")]}), "workflow_failed"),
        (lambda turn: advance_of(turn, status="finished"), "workflow_failed"),
        (lambda turn: advance_of(turn, step=7), "workflow_failed"),
        (lambda turn: advance_of(turn, pending_question=["?"]), "workflow_failed"),
        (lambda turn: advance_of(turn, instruction="say hello"), "workflow_failed"),
        (lambda turn: advance_of(turn, state={"answers": ["x" * 256_001]}), "workflow_state_too_large"),
    ],
    ids=["raises", "none", "object", "nan", "status", "step", "question", "instruction", "large"],
)
def test_w4_a_workflow_that_returns_nonsense_fails(now: datetime, made: Any, code: str) -> None:
    failing(facts(now, interview(run_turn=made), session=session(now)), code)


def advance_of(turn: WorkflowTurn, **changed: Any) -> WorkflowAdvance:
    good = WorkflowAdvance(turn.state, "ask_2", "waiting_user", "?", Instruction("x", ("x",), "en"))
    return replace(good, **changed)


def test_w7_every_answer_renews_the_lifetime(now: datetime) -> None:
    known = facts(now, interview(ttl=timedelta(hours=3)), session=session(now, expires_at=now + timedelta(seconds=1)))
    outcome = execute("two", known)
    assert outcome.session is not None
    assert outcome.session.expires_at == now + timedelta(hours=3)
    assert outcome.session.updated_at == now
    assert outcome.session.last_message_id == "m9"


# --- steering (W8, W9) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["/cancel-skill", "/cancel-workflow", "取消当前规划", "停止这次目标规划", "cancel the plan"]
)
def test_w8_cancelling_ends_the_session_with_one_cancelled_run(now: datetime, text: str) -> None:
    outcome = execute(text, facts(now, INTERVIEW, session=session(now)))
    (change,) = outcome.changes
    assert change.session.status is SessionStatus.CANCELLED
    assert change.session.cancelled_at == now
    assert change.session.pending_question is None
    assert change.event == "session.cancelled"
    assert outcome.run_status is RunStatus.CANCELLED
    assert outcome.instruction is not None
    assert "interview" not in "".join([outcome.instruction.text, *outcome.instruction.say])


def test_w8_without_a_session_a_sentence_is_only_a_sentence(now: datetime) -> None:
    assert execute("cancel the plan", facts(now, INTERVIEW)).kind == "plain"
    outcome = execute("/cancel-skill", facts(now, INTERVIEW))
    assert (outcome.kind, outcome.changes, outcome.selection) == ("control", (), None)


def test_w9_pause_and_resume_keep_state_and_question(now: datetime) -> None:
    running = session(now)
    paused = execute("/pause-skill", facts(now, INTERVIEW, session=running))
    assert paused.selection is None
    assert paused.session == replace(running, parked_at=now, updated_at=now, revision=3)
    assert paused.session is not None

    resumed = execute("resume the plan", facts(now, INTERVIEW, parked=(paused.session,)))
    assert resumed.session == replace(running, revision=4, last_message_id="m9", updated_at=now)
    assert resumed.instruction is not None
    assert "interview question 2?" in resumed.instruction.text


def test_w9_the_latest_parked_comes_back_first(now: datetime) -> None:
    first, second = session(now, id="p1", parked_at=now), session(now, id="p2", parked_at=now)
    outcome = execute("/resume-skill", facts(now, INTERVIEW, parked=(second, first)))
    assert outcome.session is not None
    assert outcome.session.id == "p2"


def test_w9_nothing_is_resumed_while_one_runs(now: datetime) -> None:
    known = facts(now, INTERVIEW, session=session(now), parked=(session(now, id="p1", parked_at=now),))
    outcome = execute("/resume-skill", known)
    assert (outcome.kind, outcome.changes) == ("control", ())
    assert execute("/resume-skill", facts(now)).changes == ()
    assert execute("/pause-skill", facts(now)).changes == ()


# --- commands are never answers --------------------------------------------------------------------------------------


def test_t4_a_slash_command_is_never_taken_for_an_answer(now: datetime) -> None:
    known = facts(now, INTERVIEW, NOTES, session=session(now))
    for text, kind in (("/notes", "prompt"), ("/help", "control"), ("/nonsense", "control")):
        outcome = execute(text, known)
        assert (outcome.kind, outcome.changes, outcome.session) == (kind, (), None)
    assert execute("/nonsense", known).unknown_command == "nonsense"
    assert execute("/etc/hosts is the file", known).kind == "workflow"


def test_t4_an_unknown_command_is_named_as_it_was_typed_and_nothing_else(now: datetime) -> None:
    outcomes = [execute("/notes", facts(now)), execute("/nosuch", facts(now))]
    texts = [str(outcome).replace("nosuch", "notes") for outcome in outcomes]
    assert texts[0] == texts[1]


def test_g8_help_lists_only_what_is_visible_here(now: datetime) -> None:
    known = facts(now, INTERVIEW, NOTES)
    single = execute("/help", known)
    grouped = Executor(SequentialIds()).execute(request("m9", "/help", group="g1"), known)
    assert single.instruction is not None
    assert grouped.instruction is not None
    assert "/interview – " in single.instruction.say[0]
    assert "/interview – " not in grouped.instruction.say[0]
    assert "/notes – " in grouped.instruction.say[0]
    hidden = execute("/help", replace(known, candidates=()))
    assert hidden.instruction is not None
    assert "/notes" not in hidden.instruction.say[0]


def test_w4_a_disabled_binding_does_not_touch_the_running_session(now: datetime) -> None:
    known = replace(facts(now, INTERVIEW, session=session(now)), candidates=())
    outcome = execute("two", known)
    assert outcome.session is not None
    assert outcome.session.state == {"answers": ["one", "two"]}
