"""The trip of one message: begin, call, finish, and all three with a voice between (T1, T2, T9).

``begin`` reads, lets the executor decide, commits; ``finish`` stores the reply. No transaction is open while the voice
speaks or a tool runs. Whoever loses a race reads again: the same message has become a replay, anything else a conflict.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from prowess.chat.store import list_messages
from prowess.errors import Conflict, InvalidInput, ProwessError, VoiceError
from prowess.events.log import EventLog
from prowess.kernel.canonical import text_digest
from prowess.kernel.text import check_text, language_of
from prowess.turns.commit import LostRace, Said, TurnWriter, new_record
from prowess.turns.definitions import Instruction, ToolSkill, ToolTurn
from prowess.turns.dispatch import Call, Dispatcher, ToolOutcome
from prowess.turns.executor import Executor, Outcome
from prowess.turns.facts import FactReader, TurnReading
from prowess.turns.plan import TurnPlan, tools_here
from prowess.turns.ports import Line, Prompt, Voice
from prowess.turns.request import DecisionView, RunView, ToolCallView, TurnRequest, TurnResult
from prowess.turns.runners.tool import failure_instruction
from prowess.turns.runs import RunStatus
from prowess.turns.safety import SafetyPolicy, SafetyResponse
from prowess.turns.selectors import parse_command
from prowess.turns.store import TurnRecord
from prowess.turns.words import denial_instruction, instruct

logger = logging.getLogger(__name__)

MAX_REPLY_TEXT = 200_000
MAX_ATTEMPTS = 8
"""A turn loses at most one race for each thing that it would make."""


class TurnEngine:
    """Runs turns. One instance serves every thread."""

    def __init__(
        self,
        *,
        log: EventLog,
        reader: FactReader,
        writer: TurnWriter,
        executor: Executor,
        dispatcher: Dispatcher,
        safety: SafetyPolicy,
        voice: Voice,
    ) -> None:
        self._log = log
        self._reader = reader
        self._writer = writer
        self._executor = executor
        self._dispatcher = dispatcher
        self._safety = safety
        self.voice = voice

    def begin(self, request: TurnRequest) -> TurnPlan:
        """Decide what serves the message and commit that decision.

        Raises ``InvalidInput`` for what cannot be a turn, ``NotFound`` for an agent or chat that is not the user's,
        ``Conflict`` (``message_id_reused``, ``session_changed``), ``LimitExceeded('session_stack_full')``.
        """
        return self._start(request, speak=False)

    def call(self, plan: TurnPlan, tool: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        """One tool call of the turn, for a voice or for somebody else's loop. Refusals come back as outcomes."""
        found = plan.callable_tools.get(tool)
        if found is None:
            outcome = self._dispatcher.refuse(plan.request, tool, "not_found")
        else:
            outcome = self._dispatch(plan, found, lambda: arguments)
        _note_call(plan, outcome)
        return outcome

    def finish(self, plan: TurnPlan, reply: str) -> TurnResult:
        """Store the reply and close the turn; the first reply stored for a message is the one it keeps.

        Raises ``InvalidInput`` where the reply is empty, too long or holds control characters.
        """
        if plan.record.reply_id is not None:
            return _result(plan, plan.reply or "")
        if plan.record.kind == "safety" and plan.reply is not None:
            reply = plan.reply  # final, whatever another loop would say
        check_text(reply, "reply", limit=MAX_REPLY_TEXT)
        try:
            plan.record = self._writer.finish(plan, Said(reply, self.voice.name))
        except (LostRace, IntegrityError):
            reading = self._reader.read(plan.request)
            plan.replayed = True
            plan.record = reading.earlier or plan.record
            reply = reading.earlier_reply or reply
        plan.reply = reply
        return _result(plan, reply)

    def fail(self, plan: TurnPlan, error: Exception) -> None:
        """Record that no reply came. The message can be sent again: its instruction is kept, nothing advances twice."""
        self._writer.fail(plan, error.code if isinstance(error, ProwessError) else "voice_failed")

    def turn(self, request: TurnRequest) -> TurnResult:
        """Begin, speak, finish. Raises what ``begin`` raises, and ``VoiceError`` where the model cannot answer."""
        plan = self._start(request, speak=True)
        if plan.reply is not None:
            return self.finish(plan, plan.reply)
        try:
            reply = check_text(self.voice.speak(self._prompt(plan)), "reply", limit=MAX_REPLY_TEXT)
        except Exception as error:
            failure = _as_voice_error(error)
            self.fail(plan, failure)
            raise failure from error
        return self.finish(plan, reply)

    async def stream(self, request: TurnRequest) -> AsyncIterator[str | TurnResult]:
        """The reply in pieces, then the result. Each phase of the core is one thread hop (rule 2 of the house)."""
        plan = await asyncio.to_thread(self.begin, request)
        pieces: list[str] = []
        if plan.reply is not None:
            pieces.append(plan.reply)
            yield plan.reply
        else:
            prompt = await asyncio.to_thread(self._prompt, plan)
            try:
                async for piece in self.voice.stream(prompt):
                    pieces.append(piece)
                    yield piece
                check_text("".join(pieces), "reply", limit=MAX_REPLY_TEXT)
            except Exception as error:
                failure = _as_voice_error(error)
                await asyncio.to_thread(self.fail, plan, failure)
                raise failure from error
            except BaseException:
                # Nobody listens any more. Here nothing may be awaited, so this one commit is not a hop to a thread.
                self._writer.fail(plan, "reply_abandoned")
                raise
        yield await asyncio.to_thread(self.finish, plan, "".join(pieces))

    def _start(self, request: TurnRequest, *, speak: bool) -> TurnPlan:
        """``begin``; with ``speak``, a reply that nobody has to wait for is stored in the same commit."""
        request.check()
        response = self._safety.assess(request.text)
        reading = self._reader.read(request)
        for _ in range(MAX_ATTEMPTS):
            if reading.earlier is not None:
                return self._repeat(request, reading, reading.earlier, response)
            try:
                return self._begin(request, reading, response, speak=speak)
            except (LostRace, IntegrityError) as error:
                reading = self._read_again(request, reading, error)
        raise Conflict("session_changed")

    def _read_again(self, request: TurnRequest, lost: TurnReading, error: Exception) -> TurnReading:
        """After a lost race: whose session moved on, or whose id is taken, is told so; for all else there is a retry.

        That is this very message, which was faster, or what several turns make at once: agent, chat, membership, and
        in a group the message that several agents answer.
        """
        reading = self._reader.read(request)
        if reading.earlier is not None:
            return reading
        if isinstance(error, LostRace) or reading.facts.session != lost.facts.session:
            raise Conflict("session_changed")
        if request.group is None and self._reader.message_exists(request):
            raise Conflict("message_id_reused", field="message_id")
        return reading

    def _begin(
        self, request: TurnRequest, reading: TurnReading, response: SafetyResponse | None, *, speak: bool
    ) -> TurnPlan:
        if response is not None:
            outcome = Outcome("safety", safety=response)
        else:
            outcome = self._executor.execute(request, reading.facts)
        plan = self._plan(request, reading, new_record(request, outcome))
        plan.reply = None if response is None else response.reply
        if speak and plan.reply is None and outcome.tool is None and self.voice.instant:
            plan.reply = self._speak_at_once(plan)
        said = Said(plan.reply, self.voice.name) if speak and plan.reply is not None else None
        plan.record = self._writer.begin(request, reading, outcome, said)
        if outcome.tool is not None:
            self._use_tool(plan, outcome.tool, outcome.tool_text)
        return plan

    def _speak_at_once(self, plan: TurnPlan) -> str | None:
        try:
            return check_text(self.voice.speak(self._prompt(plan)), "reply", limit=MAX_REPLY_TEXT)
        except Exception:
            return None  # the turn is committed first then, and the voice asked again where its failure is recorded

    def _repeat(
        self, request: TurnRequest, reading: TurnReading, earlier: TurnRecord, response: SafetyResponse | None
    ) -> TurnPlan:
        """The same message again: the stored reply, or the stored instruction where no reply was stored (W5)."""
        if earlier.user != request.user or earlier.text_digest != text_digest(request.text):
            raise Conflict("message_id_reused", field="message_id")
        reply = reading.earlier_reply
        if reply is None and response is not None:
            reply = response.reply
        plan = self._plan(request, reading, earlier, reply=reply, replayed=True)
        if earlier.kind == "tool" and reply is None and earlier.selection is not None:
            entry = reading.facts.catalog.get(earlier.selection.skill_id, earlier.selection.version)
            if entry is not None and isinstance(entry.definition, ToolSkill):
                command = parse_command(request.text)
                self._use_tool(plan, entry.definition, request.text if command is None else command.argument)
            else:
                plan.instruction = instruct("tool_failed", plan.language, name=earlier.selection.skill_id)
                _set_run(plan, RunStatus.FAILED, "tool_missing")
        return plan

    def _plan(
        self,
        request: TurnRequest,
        reading: TurnReading,
        record: TurnRecord,
        *,
        reply: str | None = None,
        replayed: bool = False,
    ) -> TurnPlan:
        return TurnPlan(
            request=request,
            agent=reading.facts.agent,
            record=record,
            instruction=record.instruction,
            reply=reply,
            replayed=replayed,
            language=language_of(request.text, reading.facts.agent.language),
            started_at=reading.facts.now,
            callable_tools={} if record.kind == "safety" else tools_here(reading.facts.candidates, request),
        )

    def _use_tool(self, plan: TurnPlan, tool: ToolSkill, text: str) -> None:
        """Run the tool that the message selected and make its result the turn's instruction (X2)."""
        outcome = self._dispatch(plan, tool, lambda: tool.build_input(ToolTurn(text, plan.language)))
        _note_call(plan, outcome)
        status, error, plan.instruction = _tool_turn(plan, tool, outcome)
        _set_run(plan, status, error)

    def _dispatch(self, plan: TurnPlan, tool: ToolSkill, arguments: Callable[[], Mapping[str, Any]]) -> ToolOutcome:
        with plan.lock:
            ordinal = plan.calls[tool.tool_id]
            plan.calls[tool.tool_id] += 1
        if ordinal >= tool.max_calls_per_turn:
            return self._dispatcher.refuse(plan.request, tool.tool_id, "over_limit")
        run_id = None if plan.record.run is None else plan.record.run.id
        return self._dispatcher.call(Call(plan.request, tool, ordinal, plan.language, run_id), arguments)

    def _prompt(self, plan: TurnPlan) -> Prompt:
        history: tuple[Line, ...] = ()
        wanted = self.voice.history_length
        if wanted:
            with self._log.database.read() as connection:
                said = list_messages(connection, plan.request.tenant, plan.request.chat, limit=wanted + 1)
            lines = [Line(item.author_kind, item.text) for item in said if item.id != plan.message_id]
            history = tuple(lines[-wanted:])
        return Prompt(
            agent_name=plan.agent.name,
            persona=plan.agent.persona,
            language=plan.language,
            text=plan.request.text,
            instruction=plan.instruction,
            history=history,
        )


def _tool_turn(plan: TurnPlan, tool: ToolSkill, outcome: ToolOutcome) -> tuple[RunStatus, str | None, Instruction]:
    """Run status, error code and instruction of a turn that a tool served."""
    language, name = plan.language, tool.manifest.display_name or tool.manifest.id
    if outcome.status == "succeeded" and outcome.output is not None:
        try:
            return RunStatus.COMPLETED, None, tool.build_system_instruction(outcome.output, language)
        except Exception as error:
            # The exception's own text may quote the output, so only its type is logged (R3).
            logger.warning("instruction of tool %s raised %s", tool.tool_id, type(error).__name__)
            return RunStatus.FAILED, "instruction_failed", failure_instruction(tool, "tool_error", language)
    if outcome.status == "denied" and outcome.decision is not None:
        instruction = denial_instruction(outcome.decision, tool.manifest.id, name, plan.agent.name, language)
        return RunStatus.DENIED, outcome.decision.reason, instruction
    if outcome.status == "recorded" and outcome.error_code is None:
        return RunStatus.COMPLETED, None, instruct("already_done", language, name=name)
    code = outcome.error_code or "tool_error"
    return RunStatus.FAILED, code, failure_instruction(tool, code, language)


def _set_run(plan: TurnPlan, status: RunStatus, error_code: str | None) -> None:
    run = plan.record.run
    plan.record = replace(plan.record, run=None if run is None else RunView(run.id, str(status)), run_error=error_code)


def _note_call(plan: TurnPlan, outcome: ToolOutcome) -> None:
    with plan.lock:
        record = plan.record
        decision = outcome.decision
        view = decision and DecisionView(
            decision.effect, decision.layer and str(decision.layer), decision.missing, decision.reason
        )
        plan.record = replace(
            record,
            tool_calls=(*record.tool_calls, ToolCallView(outcome.id, outcome.tool, outcome.status)),
            decision=view or record.decision,
            events=(*record.events, *outcome.events),
        )


def _as_voice_error(error: Exception) -> ProwessError:
    """What the caller is told: a reply that cannot be stored is the voice's fault, not the input's."""
    if isinstance(error, ProwessError) and not isinstance(error, InvalidInput):
        return error
    cause = error.code if isinstance(error, ProwessError) else type(error).__name__
    return VoiceError("voice_failed", cause=cause)


def _result(plan: TurnPlan, reply: str) -> TurnResult:
    record = plan.record
    return TurnResult(
        message_id=plan.message_id,
        reply=reply,
        selection=record.selection,
        session=record.session,
        run=record.run,
        decision=record.decision,
        instruction=None if plan.instruction is None else plan.instruction.text,
        tool_calls=record.tool_calls,
        pending_approvals=(),
        replayed=plan.replayed,
        events=record.events,
    )
