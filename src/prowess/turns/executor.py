"""What a turn comes to: the order of T2 in one function, over facts that were read before.

Nothing here touches the database or a model. The outcome says what to write and what to tell the agent's voice; a tool
that was selected is run by the engine through ``turns.dispatch``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from prowess.chat.model import Agent
from prowess.errors import LimitExceeded, NotFound
from prowess.kernel.ids import IdSource
from prowess.kernel.text import language_of
from prowess.skills.catalog import Catalog, CatalogEntry
from prowess.turns import commands
from prowess.turns.definitions import Instruction, PromptSkill, SkillDefinition, ToolSkill, WorkflowSkill, serves_turns
from prowess.turns.request import Selection, TurnRequest
from prowess.turns.runners import workflow
from prowess.turns.runners.prompt import build_prompt_instruction
from prowess.turns.runs import RunStatus
from prowess.turns.safety import SafetyResponse
from prowess.turns.selectors import parse_command, select, words_of
from prowess.turns.sessions.model import Session, SessionStatus
from prowess.turns.words import instruct

MAX_PARKED = 5
"""Sessions that may be set aside in one chat (W9)."""


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """What was true when the turn was read."""

    agent: Agent
    catalog: Catalog[SkillDefinition]
    candidates: tuple[CatalogEntry[SkillDefinition], ...]
    """bound and enabled here (T6)"""
    session: Session | None
    """the agent's live session in the chat's one place (W3), not expired"""
    parked: tuple[Session, ...]
    """the agent's stack, latest first"""
    now: datetime
    place_held: bool = False
    """the one place is held by a session that this call may not lead or steer: another agent's in a group, or one whose
    skill does not exist for this call"""


@dataclass(frozen=True, slots=True)
class SessionChange:
    """A session to write; ``expected_revision`` null: a new one (W6)."""

    session: Session
    expected_revision: int | None
    event: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the turn comes to."""

    kind: str
    """``safety``, ``workflow``, ``tool``, ``prompt``, ``control``, ``plain``"""
    instruction: Instruction | None = None
    selection: Selection | None = None
    changes: tuple[SessionChange, ...] = ()
    session: Session | None = None
    """the session that this turn belongs to, in its new form"""
    tool: ToolSkill | None = None
    tool_text: str = ""
    run_status: RunStatus = RunStatus.COMPLETED
    error_code: str | None = None
    unknown_command: str | None = None
    safety: SafetyResponse | None = None
    """set where the safety response answers; its reply is final"""


class Executor:
    """Turns facts into an outcome."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def execute(self, request: TurnRequest, facts: TurnFacts) -> Outcome:
        """Active session, then new workflow, tool skill, prompt skill, plain reply: the first that applies (T2).

        A slash command is never taken for an answer: it steers the session, or addresses the skill that it names.
        Raises ``LimitExceeded('session_stack_full')``.
        """
        language = language_of(words_of(request.text), facts.agent.language)
        command = parse_command(request.text)
        control = commands.control_of_command(command)
        if control is None and command is None and (facts.session is not None or facts.parked):
            control = commands.control_of_sentence(request.text)
        if control is not None:
            return self._steer(control, facts, request, language)
        if facts.session is not None and command is None:
            return self._continue(facts.session, request, facts, language)
        candidates = [entry.definition for entry in facts.candidates]
        try:
            selection = select(request.text, candidates, request.scope)
        except NotFound as error:
            name = str(error.detail["command"])
            return Outcome("control", instruct("unknown_command", language, command=name), unknown_command=name)
        if selection is None:
            return Outcome("plain")
        text = command.argument if command is not None else request.text
        return self._serve(selection, text, request, facts, language)

    def _serve(self, selection: Selection, text: str, request: TurnRequest, facts: TurnFacts, language: str) -> Outcome:
        entry = facts.catalog.get(selection.skill_id, selection.version)
        if entry is None:
            raise NotFound("unknown_command", command=selection.skill_id)
        definition = entry.definition
        if isinstance(definition, PromptSkill):
            return Outcome("prompt", build_prompt_instruction(definition, language), selection)
        if isinstance(definition, ToolSkill):
            return Outcome("tool", None, selection, tool=definition, tool_text=text)
        assert isinstance(definition, WorkflowSkill)  # nothing else is selected
        return self._start(definition, selection, text, request, facts, language)

    def _start(
        self,
        skill: WorkflowSkill,
        selection: Selection,
        text: str,
        request: TurnRequest,
        facts: TurnFacts,
        language: str,
    ) -> Outcome:
        if facts.place_held:
            return Outcome("plain")  # the message went to several agents, and another one leads the workflow
        parked = () if facts.session is None else (self._park(facts.session, facts),)
        session_id = self._ids.new("session")
        try:
            begun = workflow.start(skill, request, text, session_id=session_id, language=language, now=facts.now)
        except workflow.WorkflowError as error:
            instruction = instruct("workflow_failed", language)
            return Outcome("workflow", instruction, selection, run_status=RunStatus.FAILED, error_code=error.code)
        created = SessionChange(begun.session, None, "session.created")
        return Outcome(
            "workflow",
            begun.instruction,
            selection,
            changes=(*parked, created),
            session=begun.session,
            run_status=_run_status(begun.session),
        )

    def _continue(self, session: Session, request: TurnRequest, facts: TurnFacts, language: str) -> Outcome:
        selection = _session_selection(session)
        entry = facts.catalog.get(*session.skill)
        skill = entry.definition if entry is not None and isinstance(entry.definition, WorkflowSkill) else None
        try:
            advanced = workflow.advance(skill, session, request, language=language, now=facts.now)
        except workflow.WorkflowError as error:
            failed = _ended(session, SessionStatus.FAILED, request, facts.now)
            return Outcome(
                "workflow",
                instruct("workflow_failed", language),
                selection,
                changes=(SessionChange(failed, session.revision, "session.failed"),),
                session=failed,
                run_status=RunStatus.FAILED,
                error_code=error.code,
            )
        change = SessionChange(advanced.session, session.revision, "session.advanced")
        return Outcome(
            "workflow",
            advanced.instruction,
            selection,
            changes=(change,),
            session=advanced.session,
            run_status=_run_status(advanced.session),
        )

    def _steer(self, control: commands.Control, facts: TurnFacts, request: TurnRequest, language: str) -> Outcome:
        if control == "cancel":
            return self._cancel(facts, request, language)
        if control == "pause":
            return self._pause(facts, language)
        if control == "help":
            return _help(facts, request, language)
        return self._resume(facts, request, language)

    @staticmethod
    def _cancel(facts: TurnFacts, request: TurnRequest, language: str) -> Outcome:
        session = facts.session
        if session is None:
            return Outcome("control", instruct("nothing_to_cancel", language))
        cancelled = _ended(session, SessionStatus.CANCELLED, request, facts.now)
        return Outcome(
            "workflow",
            instruct("cancelled_with_parked" if facts.parked else "cancelled", language),
            _session_selection(session),
            changes=(SessionChange(cancelled, session.revision, "session.cancelled"),),
            session=cancelled,
            run_status=RunStatus.CANCELLED,
        )

    def _pause(self, facts: TurnFacts, language: str) -> Outcome:
        if facts.session is None:
            return Outcome("control", instruct("nothing_to_pause", language))
        change = self._park(facts.session, facts)
        return Outcome("control", instruct("paused", language), changes=(change,), session=change.session)

    @staticmethod
    def _resume(facts: TurnFacts, request: TurnRequest, language: str) -> Outcome:
        if facts.session is not None or facts.place_held or not facts.parked:
            return Outcome("control", instruct("nothing_to_resume", language))
        parked = facts.parked[0]
        resumed = replace(
            parked,
            parked_at=None,
            revision=parked.revision + 1,
            last_message_id=request.message_id,
            updated_at=facts.now,
        )
        instruction = instruct("resumed", language, question=resumed.pending_question or "")
        change = SessionChange(resumed, parked.revision, "session.resumed")
        return Outcome("control", instruction, changes=(change,), session=resumed)

    @staticmethod
    def _park(session: Session, facts: TurnFacts) -> SessionChange:
        if len(facts.parked) >= MAX_PARKED:
            raise LimitExceeded("session_stack_full", limit=MAX_PARKED)
        parked = replace(session, parked_at=facts.now, revision=session.revision + 1, updated_at=facts.now)
        return SessionChange(parked, session.revision, "session.parked")


def _help(facts: TurnFacts, request: TurnRequest, language: str) -> Outcome:
    """What can be asked for here: only what is visible to this user."""
    skills = [
        f"/{entry.manifest.id} – {entry.manifest.display_name or entry.manifest.description}"
        for entry in facts.candidates
        if serves_turns(entry.definition) and request.scope in entry.manifest.scopes
    ]
    listing = "\n".join([*skills, *(f"/{name}" for name in commands.command_names())])
    return Outcome("control", instruct("help", language, listing=listing))


def _session_selection(session: Session) -> Selection:
    return Selection(session.skill.id, session.skill.version, "workflow", "session", 1.0, "active session")


def _run_status(session: Session) -> RunStatus:
    return RunStatus.COMPLETED if session.status is SessionStatus.COMPLETED else RunStatus.WAITING_USER


def _ended(session: Session, status: SessionStatus, request: TurnRequest, now: datetime) -> Session:
    return replace(
        session,
        status=status,
        pending_question=None,
        revision=session.revision + 1,
        last_message_id=request.message_id,
        updated_at=now,
        cancelled_at=now if status is SessionStatus.CANCELLED else None,
    )
