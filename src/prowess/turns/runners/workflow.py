"""Workflow skills: start or continue a session (W1–W6). Nothing is written here; the engine commits the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from prowess.kernel.canonical import compact_json
from prowess.skills.names import SkillRef
from prowess.turns.definitions import Instruction, WorkflowAdvance, WorkflowSkill, WorkflowTurn
from prowess.turns.request import TurnRequest
from prowess.turns.sessions.model import Session, SessionStatus

MAX_STATE_LENGTH = 256_000
"""characters of a state as JSON"""

FailureCode = Literal[
    "workflow_version_missing", "workflow_state_invalid", "workflow_failed", "workflow_state_too_large"
]


@dataclass(frozen=True, slots=True)
class Advanced:
    """A session in its new form and the instruction for this turn."""

    session: Session
    instruction: Instruction


class WorkflowError(Exception):
    """The workflow cannot go on; the session fails and is never upgraded or guessed (W4)."""

    def __init__(self, code: FailureCode) -> None:
        self.code = code
        super().__init__(code)


def start(
    skill: WorkflowSkill, request: TurnRequest, text: str, *, session_id: str, language: str, now: datetime
) -> Advanced:
    """A new session after its first message. Raises ``WorkflowError``."""
    session = Session(
        id=session_id,
        tenant=request.tenant,
        user=request.user,
        chat=request.chat,
        agent=request.agent,
        skill=SkillRef(skill.manifest.id, skill.manifest.version),
        state=None,
        state_version=skill.state_version,
        step=skill.initial_step,
        status=SessionStatus.ACTIVE,
        pending_question=None,
        revision=0,
        last_message_id=request.message_id,
        created_at=now,
        updated_at=now,
        expires_at=now + skill.session_ttl,
    )
    try:
        state = skill.parse_state(skill.create_initial_state())
    except Exception as error:
        raise WorkflowError("workflow_failed") from error
    return _run(skill, session, state, request, text, language=language, now=now, first=True)


def advance(
    skill: WorkflowSkill | None, session: Session, request: TurnRequest, *, language: str, now: datetime
) -> Advanced:
    """The session after one more answer; ``skill`` is the pinned version, null where it is gone.

    Raises ``WorkflowError``.
    """
    if skill is None:
        raise WorkflowError("workflow_version_missing")
    try:
        state = skill.parse_state(_migrated(skill, session))
    except Exception as error:
        raise WorkflowError("workflow_state_invalid") from error
    return _run(skill, session, state, request, request.text, language=language, now=now, first=False)


def _migrated(skill: WorkflowSkill, session: Session) -> Any:
    if session.state_version == skill.state_version:
        return session.state
    if skill.migrate_state is None:
        raise ValueError("no migration")
    return skill.migrate_state(session.state, session.state_version)


def _run(
    skill: WorkflowSkill,
    session: Session,
    state: Any,
    request: TurnRequest,
    text: str,
    *,
    language: str,
    now: datetime,
    first: bool,
) -> Advanced:
    try:
        result = _checked(skill.run_turn(WorkflowTurn(state, session.step, text, language, first, now)))
        size = len(compact_json(result.state))
    except Exception as error:
        raise WorkflowError("workflow_failed") from error
    if size > MAX_STATE_LENGTH:
        raise WorkflowError("workflow_state_too_large")
    completed = result.status == "completed"
    advanced = replace(
        session,
        state=result.state,
        state_version=skill.state_version,
        step=result.step,
        status=SessionStatus.COMPLETED if completed else SessionStatus.WAITING_USER,
        pending_question=None if completed else result.pending_question,
        revision=session.revision + 1,
        last_message_id=request.message_id,
        updated_at=now,
        expires_at=now + skill.session_ttl,
        completed_at=now if completed else None,
    )
    return Advanced(advanced, result.instruction)


def _checked(result: Any) -> WorkflowAdvance:
    """What a definition returned, refused where it could not be stored or said. Raises ``TypeError``."""
    if not isinstance(result, WorkflowAdvance):
        raise TypeError("run_turn returned no WorkflowAdvance")
    shapes = {"step": str, "pending_question": str | None, "instruction": Instruction}
    wrong = [name for name, shape in shapes.items() if not isinstance(getattr(result, name), shape)]
    if wrong or result.status not in ("waiting_user", "completed"):
        raise TypeError("run_turn returned an unusable WorkflowAdvance")
    return result
