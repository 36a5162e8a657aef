"""Skills, voices and views of the database that many tests share."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy import text

from prowess import (
    Instruction,
    Prompt,
    PromptSkill,
    ToolContext,
    ToolSkill,
    TurnRequest,
    TurnResult,
    WorkflowAdvance,
    WorkflowSkill,
    WorkflowTurn,
    prompt_skill,
    tool_skill,
    workflow_skill,
)
from prowess.automation.jobs.model import Job, NewJob, Task
from prowess.chat.model import ChatRef
from prowess.db.engine import Database
from prowess.db.metadata import metadata
from prowess.kernel.text import fold

if TYPE_CHECKING:
    from prowess import Prowess

OpenApp = Callable[..., "Prowess"]
"""(skills…, options of ``prowess.open``…) → an open runtime"""

USER, AGENT, CHAT = "u1", "mira", "c1"
LIMIT = 60.0
"""seconds that anything may take before a test gives up waiting; never waited for where all is well"""


# --- turns -----------------------------------------------------------------------------------------------------------


def request(message_id: str, words: str, **changed: Any) -> TurnRequest:
    """A turn of the usual user with the usual agent."""
    if "group" not in changed:
        changed.setdefault("conversation", CHAT)
    return TurnRequest(
        changed.pop("tenant", "default"),
        changed.pop("user", USER),
        changed.pop("agent", AGENT),
        words,
        message_id,
        **changed,
    )


def turn(app: Prowess, message_id: str, words: str, **changed: Any) -> TurnResult:
    """One turn of the usual user with the usual agent."""
    asked = request(message_id, words, **changed)
    return app.turn(
        tenant=asked.tenant,
        user=asked.user,
        agent=asked.agent,
        conversation=asked.conversation,
        group=asked.group,
        message_id=asked.message_id,
        text=asked.text,
    )


class ScriptedVoice:
    """Says what it was told to say, word for word, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *, instant: bool = False, history_length: int = 0) -> None:
        self.instant = instant
        self.history_length = history_length
        self.prompts: list[Prompt] = []
        self.error: BaseException | None = None
        self.reply: str | None = None

    def speak(self, prompt: Prompt) -> str:
        self.prompts.append(prompt)
        if self.error is not None:
            raise self.error
        if self.reply is not None:
            return self.reply
        return "plain" if prompt.instruction is None else "\n".join(prompt.instruction.say)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        for word in self.speak(prompt).split(" "):
            yield word + " "


# --- prompt skills ---------------------------------------------------------------------------------------------------


def manual(id: str, **fields: Any) -> PromptSkill:
    """A prompt skill whose body is its name."""
    fields.setdefault("description", f"All about {id}.")
    fields.setdefault("body", f"# {id}\n\nDo as {id} says.")
    return prompt_skill(id, **fields)


# --- workflow skills -------------------------------------------------------------------------------------------------


def interview(
    id: str = "interview",
    *,
    questions: int = 3,
    version: str = "1.0.0",
    ttl: timedelta = timedelta(days=14),
    state_version: int = 1,
    migrate_state: Callable[[Any, int], Any] | None = None,
    run_turn: Callable[[WorkflowTurn], WorkflowAdvance] | None = None,
    **fields: Any,
) -> WorkflowSkill:
    """A workflow that keeps every answer and completes after ``questions`` of them; its first message is none."""

    def ask(turn: WorkflowTurn) -> WorkflowAdvance:
        answers = turn.state["answers"] if turn.first else [*turn.state["answers"], turn.text]
        state = turn.state | {"answers": answers}
        if len(answers) == questions:
            say = Instruction(f"{id} is done after {len(answers)} answers.", (f"{id} done",), turn.language)
            return WorkflowAdvance(state, "done", "completed", None, say)
        question = f"{id} question {len(answers) + 1}?"
        say = Instruction(f"Ask exactly this: {question}", (question,), turn.language)
        return WorkflowAdvance(state, f"ask_{len(answers) + 1}", "waiting_user", question, say)

    def parse(state: Any) -> Any:
        if not isinstance(state, dict) or not isinstance(state.get("answers"), list):
            raise ValueError("no interview")
        return state

    return workflow_skill(
        id,
        description=f"Asks {questions} questions.",
        initial_step="ask_1",
        create_initial_state=lambda: {"answers": []},
        parse_state=parse,
        run_turn=run_turn or ask,
        session_ttl=ttl,
        version=version,
        state_version=state_version,
        migrate_state=migrate_state,
        **fields,
    )


# --- tool skills -----------------------------------------------------------------------------------------------------


class Question(BaseModel):
    """What the tools of these tests take."""

    model_config = ConfigDict(extra="forbid")

    text: str
    number: float = 0


class Answer(BaseModel):
    """What they return."""

    text: str


class Recorder:
    """A tool handler that remembers its calls."""

    def __init__(self, answer: Callable[[ToolContext, Question], Any] | None = None) -> None:
        self.calls: list[str] = []
        self.contexts: list[ToolContext] = []
        self._answer = answer

    def __call__(self, context: ToolContext, question: Question) -> Any:
        self.calls.append(question.text)
        self.contexts.append(context)
        if self._answer is not None:
            return self._answer(context, question)
        return Answer(text=f"answer {len(self.calls)} to {question.text}")


def tool(id: str, execute: Callable[[ToolContext, Question], Any] | None = None, **fields: Any) -> ToolSkill:
    """A tool skill ``<id>`` with the tool ``tool.<id>``; ``/id text`` asks it for ``text``."""
    defaults: dict[str, Any] = {
        "description": f"Answers by {id}.",
        "tool_id": f"tool.{id}",
        "input_schema": Question,
        "output_schema": Answer,
        "build_input": lambda turn: {"text": turn.text},
        "build_system_instruction": lambda output, language: Instruction(
            f"Say: {output.text}", (output.text,), language
        ),
    }
    return tool_skill(id, execute=execute or _answer, **{**defaults, **fields})


def _answer(_context: ToolContext, question: Question) -> Answer:
    return Answer(text=f"answer to {question.text}")


MEMORY_LAYERS: Mapping[str, Any] = {"memory": {"read_layers": ["L2", "L3"]}}


def recaller(id: str = "recaller", **fields: Any) -> ToolSkill:
    """A tool skill that reads the user's memories with ``memory:read``."""

    def recall(context: ToolContext, question: Question) -> Answer:
        assert context.memories is not None
        hits = context.memories.recall(question.text, 6)
        return Answer(text="; ".join(hit.memory.text for hit in hits) or "nothing")

    fields.setdefault("permissions", [("memory:read", "L1")])
    fields.setdefault("resources", MEMORY_LAYERS)
    return tool(id, recall, **fields)


# --- jobs ------------------------------------------------------------------------------------------------------------


def many_check_ins(app: Prowess, count: int, at: datetime) -> list[Job]:
    """As many reminders of the usual user; all but the first are added in one transaction."""
    first = app.schedule_check_in(USER, AGENT, at, "x")
    parts = app._parts
    new = NewJob(
        tenant=first.tenant,
        user=first.user,
        agent=first.agent,
        chat=first.chat,
        task=first.task,
        skill=first.skill,
        grant_id=first.grant_id,
        payload=first.payload,
        due=at,
    )
    with parts.log.transaction(first.tenant) as transaction:
        added = [parts.ledger.add(transaction, new) for _ in range(count - 1)]
    return [first, *(job for job in added if job is not None)]


def add_jobs(app: Prowess, skill: str, count: int, *, note: str = "x", conversation: str = CHAT) -> list[Job]:
    """Jobs of a background skill that are due at once, added in one transaction by the server itself."""
    parts, chat = app._parts, ChatRef("conversation", conversation)
    payload = {"agent_id": AGENT, "agent_name": "Mira", "conversation_id": conversation, "note": note}
    with parts.log.transaction("default") as transaction:
        parts.chat.take_seat(transaction, "default", chat, USER, AGENT)
        new = NewJob(
            tenant="default",
            user=USER,
            agent=AGENT,
            chat=chat,
            task=Task.SKILL,
            skill=(skill, "1.0.0"),
            payload=payload,
            due=transaction.now,
        )
        added = [parts.ledger.add(transaction, new) for _ in range(count)]
    return [job for job in added if job is not None]


# --- what is in the database -----------------------------------------------------------------------------------------


def rows(url: str, query: str, **values: Any) -> list[dict[str, Any]]:
    """The rows of a query, over a connection of its own."""
    database = Database(url)
    try:
        with database.read() as connection:
            return [dict(row) for row in connection.execute(text(query), values).mappings()]
    finally:
        database.close()


def execute(url: str, *statements: str) -> None:
    """Changes behind Prowess's back."""
    database = Database(url)
    try:
        with database.write() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
    finally:
        database.close()


def everything(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, and of the audit view."""
    database = Database(url)
    try:
        with database.read() as connection:
            return {
                name: [dict(row) for row in connection.execute(text(f"SELECT * FROM {name}")).mappings()]
                for name in [*sorted(metadata.tables), "skill_audit_events"]
            }
    finally:
        database.close()


def places_of(url: str, canary: str) -> set[str]:
    """``table.column`` wherever ``canary`` stands, whole or in another case or width."""
    wanted = fold(canary)
    return {
        f"{table}.{column}"
        for table, found in everything(url).items()
        for row in found
        for column, value in row.items()
        if wanted in fold(_readable(value))
    }


def _readable(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else str(value)


# --- threads ---------------------------------------------------------------------------------------------------------


def at_once(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Start every job at the same moment, each in a thread of its own; results, or the exceptions raised, in order."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> Any:
        barrier.wait(LIMIT)
        try:
            return job()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [future.result(LIMIT) for future in [pool.submit(run, job) for job in jobs]]
