"""The trip of one message: begin, call, finish, and all three with a voice between (T1, T2, T9).

``begin`` reads, lets the executor decide, commits; ``finish`` stores the reply. No transaction is open while the voice
speaks or a tool runs. Whoever loses a race reads again: the same message has become a replay, anything else a conflict.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from prowess.access.capabilities import META_TOOLS, NOT_FOUND
from prowess.access.model import Mode
from prowess.access.policies import NO_POLICIES, PolicySet
from prowess.access.resolver import SurfaceSource
from prowess.access.surface import CapabilitySurface, GroupId
from prowess.errors import Conflict, ProwessError, StorageError, VoiceError
from prowess.events.log import EventLog
from prowess.kernel.canonical import text_digest
from prowess.kernel.text import check_text, language_of
from prowess.turns.budgets import HeldReply
from prowess.turns.calls import call_of
from prowess.turns.commit import LostRace, Said, TurnWriter, new_record
from prowess.turns.definitions import ToolSkill, ToolTurn
from prowess.turns.dispatch import Dispatcher
from prowess.turns.entitlement import Entitlement
from prowess.turns.equipment import find_equipped
from prowess.turns.executor import Executor, Outcome
from prowess.turns.facts import FactReader, TurnReading
from prowess.turns.fencing import Fence
from prowess.turns.limits import TurnLimits
from prowess.turns.locks import BUSY
from prowess.turns.meta import MetaTools
from prowess.turns.options import NO_OPTIONS, CallOptions
from prowess.turns.outcome import ToolOutcome
from prowess.turns.plan import TurnPlan
from prowess.turns.ports import Prompt, Suspended, Voice
from prowess.turns.prompting import build_prompt, redacted_instruction
from prowess.turns.request import TurnRequest, TurnResult
from prowess.turns.results import as_voice_error, note_call, set_run, tool_turn, turn_result
from prowess.turns.runs import RunStatus
from prowess.turns.safety import SafetyPolicy, SafetyResponse
from prowess.turns.scripting import Within
from prowess.turns.selectors import parse_command, words_of
from prowess.turns.speaking import closing, watching
from prowess.turns.stopped import is_stopped
from prowess.turns.stopping import Stops, is_stop, turn_key
from prowess.turns.store import TurnRecord
from prowess.turns.suspending import suspension, waiting_reply
from prowess.turns.toolbox import PlanToolBox
from prowess.turns.view import Rights, unseen_verdict
from prowess.turns.words import instruct, stopped_words

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
        meta: MetaTools,
        safety: SafetyPolicy,
        voice: Voice,
        stops: Stops,
        surfaces: SurfaceSource | None = None,
        policies: PolicySet = NO_POLICIES,
        mode: Mode = Mode.DEFAULT,
        limits: TurnLimits | None = None,
    ) -> None:
        self._log = log
        self._reader = reader
        self._writer = writer
        self._executor = executor
        self._dispatcher = dispatcher
        self._meta = meta
        self._safety = safety
        self.voice = voice
        self._entitlement = Entitlement(surfaces or SurfaceSource(None), policies, mode, writer)
        self._stops = stops
        self._limits = limits or TurnLimits()

    def begin(self, request: TurnRequest, options: CallOptions = NO_OPTIONS) -> TurnPlan:
        """Decide what serves the message and commit that decision.

        Raises ``InvalidInput`` for what cannot be a turn, ``NotFound`` for an agent or chat that is not the user's,
        ``Conflict`` (``message_id_reused``, ``session_changed``), ``LimitExceeded('session_stack_full')``,
        ``Denied('surface_unresolved')`` where what the user may use could not be learned.
        """
        return self._start(request, options, speak=False)

    def call(self, plan: TurnPlan, tool: str, arguments: Any, within: Within | None = None) -> ToolOutcome:
        """One tool call of the turn, for a voice or for somebody else's loop. Refusals come back as outcomes.

        ``within``: a script that runs in this turn makes it.
        """
        outcome = self._refusal(plan, tool) or self._route(plan, tool, arguments, within)
        redactor = self._log.redactor(plan.request.tenant)
        if redactor:  # what was asked is said again in a refusal, and may be a secret
            message = None if outcome.message is None else redactor.redact(outcome.message)
            outcome = replace(outcome, tool=redactor.redact(outcome.tool), message=message)
        note_call(plan, outcome)
        return outcome

    def _route(self, plan: TurnPlan, tool: str, arguments: Any, within: Within | None) -> ToolOutcome:
        if within is None and tool in META_TOOLS and plan.record.kind != "safety":
            asked = (plan.request, plan.view, tool, arguments, plan.language)
            return self._dispatcher.refuse_meta(*asked) or self._meta.call(*asked)
        found = plan.tools_by_name.get(tool)
        verdict = NOT_FOUND if found is None else unseen_verdict(plan.view, tool)
        if found is None or not verdict.allowed:
            layer = None if verdict.layer is None else str(verdict.layer)
            return self._dispatcher.refuse(plan.request, tool, "not_found", plan.language, layer=layer)
        return self._dispatch(plan, found, lambda: arguments, within)

    def _refusal(self, plan: TurnPlan, tool: str) -> ToolOutcome | None:
        """A refusal where the turn was stopped (U10), or has used up its calls or its time (T12)."""
        if plan.stop.stopped or (tool in META_TOOLS and self.is_stopped(plan.request)):
            return self._dispatcher.refuse(plan.request, tool, "stopped", plan.language)
        with plan.lock:
            plan.calls_made += 1
            made = plan.calls_made
        limit = None
        if made > self._limits.tool_calls:
            limit = "tool_calls"
        elif (self._log.clock.now() - plan.started_at).total_seconds() > self._limits.seconds:
            limit = "seconds"
        if limit is None:
            return None
        if limit not in plan.limited:
            plan.limited.add(limit)
            self._writer.limited(plan, limit)
        return self._dispatcher.refuse(plan.request, tool, "over_limit", plan.language, limit=limit)

    def is_stopped(self, request: TurnRequest) -> bool:
        """Whether the turn was stopped, in whichever process (U10)."""
        with self._log.database.read() as connection:
            return is_stopped(connection, turn_key(request))

    def finish(self, plan: TurnPlan, reply: str, *, state: str | None = None) -> TurnResult:
        """Store the reply and close the turn; the first reply stored for a message is the one it keeps.

        Where calls of it wait for a yes, the turn is suspended with it; ``state``: what a voice handed out. Raises
        ``InvalidInput`` where the reply is empty, too long or holds control characters, ``StorageError`` where it could
        not be stored.
        """
        if plan.record.reply_id is not None:
            return turn_result(plan, plan.reply or "")
        if plan.record.kind == "safety" and plan.reply is not None:
            reply = plan.reply  # final, whatever another loop would say
        check_text(reply, "reply", limit=MAX_REPLY_TEXT)
        try:
            waiting = suspension(plan, state) if plan.pending else None
            plan.record = self._writer.finish(plan, Said(reply, self.voice.name), waiting)
        except (LostRace, IntegrityError, Conflict) as error:
            # Somebody repeated the message and spoke first: theirs is the reply, though it was begun here. Or the
            # turn was stopped: then that is what it says.
            if isinstance(error, Conflict):
                if not is_stop(error):
                    raise
                self._writer.stop_late(plan)
            reading = self._reader.read(plan.request, plan.view.rights)
            if isinstance(error, IntegrityError) and reading.earlier_reply is None:
                # Nobody did: the store has refused it, and what was not stored was not said (U7).
                raise StorageError("database_unavailable", cause=type(error.orig).__name__) from error
            plan.record = reading.earlier or plan.record
            reply = reading.earlier_reply or reply
        plan.reply = reply
        return turn_result(plan, reply)

    def fail(self, plan: TurnPlan, error: Exception) -> None:
        """Record that no reply came. The message can be sent again: its instruction is kept, nothing advances twice."""
        if isinstance(error, Conflict) and error.code == "lease_lost":
            return  # another worker has the turn now: nothing of it is this one's to record
        if isinstance(error, VoiceError) and error.code == "voice_limit":
            self._writer.limited(plan, str(error.detail.get("limit")))
        self._writer.fail(plan, error.code if isinstance(error, ProwessError) else "voice_failed")

    def turn(self, request: TurnRequest, options: CallOptions = NO_OPTIONS) -> TurnResult:
        """Begin, speak, finish. Raises what ``begin`` raises, and ``VoiceError`` where the model cannot answer."""
        plan = self._start(request, options, speak=True)
        if plan.reply is not None:
            return self.finish(plan, plan.reply)
        try:
            reply = self._say(plan, self._prompt(plan))
        except Suspended as suspended:
            return self.finish(plan, waiting_reply(plan, suspended.said), state=suspended.state)
        except Exception as error:
            if plan.stop.stopped:
                return self.finish(plan, stopped_words(plan.language))
            failure = as_voice_error(error)
            self.fail(plan, failure)
            raise failure from error
        return self.finish(plan, reply)

    async def stream(self, request: TurnRequest, options: CallOptions = NO_OPTIONS) -> AsyncIterator[str | TurnResult]:
        """The reply in pieces, then the result. Each phase of the core is one thread hop (rule 2 of the house)."""
        plan = await asyncio.to_thread(self.begin, request, options)
        pieces: list[str] = []
        state: str | None = None
        if plan.reply is not None:
            pieces.append(plan.reply)
            yield plan.reply
        else:
            prompt = await asyncio.to_thread(self._prompt, plan)
            try:
                # Closed here when nobody listens any more, so that nothing of it runs on.
                with await asyncio.to_thread(self._hold, plan, prompt) as held, watching(plan, self.voice):
                    async with closing(self.voice.stream(held.prompt)) as said:
                        async for piece in said:
                            plan.stop.check()
                            pieces.append(piece)
                            yield piece
                check_text("".join(pieces), "reply", limit=MAX_REPLY_TEXT)
            except Suspended as suspended:
                rest = waiting_reply(plan, "".join(pieces)).removeprefix("".join(pieces))
                state = suspended.state
                pieces.append(rest)
                yield rest
            except Exception as error:
                if not plan.stop.stopped:
                    failure = as_voice_error(error)
                    await asyncio.to_thread(self.fail, plan, failure)
                    raise failure from error
                said_before, pieces = bool(pieces), [stopped_words(plan.language)]
                yield f"\n\n{pieces[0]}" if said_before else pieces[0]
            except BaseException:
                # Nobody listens any more. Here nothing may be awaited, so this one commit is not a hop to a thread.
                self._writer.fail(plan, "reply_abandoned")
                raise
        yield await asyncio.to_thread(self.finish, plan, "".join(pieces), state=state)

    def rights(self, request: TurnRequest, options: CallOptions = NO_OPTIONS) -> Rights:
        """What this call may use, resolved once (G9). A delegate has its parent's rights and its own (B17).

        Raises ``Denied('surface_unresolved')``, ``InvalidInput`` (``wrong_type``, ``parent_mismatch``).
        """
        return self._entitlement.rights(request, options)

    def _start(self, request: TurnRequest, options: CallOptions, *, speak: bool) -> TurnPlan:
        """``begin``; with ``speak``, a reply that nobody has to wait for is stored in the same commit."""
        request.check()
        response = self._safety.assess(request.text)
        # A safety response waits for nobody's permission and uses nothing.
        rights = _NO_RIGHTS if response is not None else self.rights(request, options)
        reading = self._reader.read(request, rights)
        for _ in range(MAX_ATTEMPTS):
            if reading.earlier is not None:
                return self._repeat(request, reading, reading.earlier, response, options.fence)
            try:
                return self._begin(request, reading, response, speak=speak, fence=options.fence)
            except (LostRace, IntegrityError) as error:
                reading = self._read_again(request, reading, error)
        raise Conflict("session_changed")

    def _read_again(self, request: TurnRequest, lost: TurnReading, error: Exception) -> TurnReading:
        """After a lost race: whose session moved on, or whose id is taken, is told so; for all else there is a retry.

        That is this very message, which was faster, or what several turns make at once: agent, chat, membership, and
        in a group the message that several agents answer.
        """
        reading = self._reader.read(request, lost.view.rights)
        if reading.earlier is not None:
            return reading
        if isinstance(error, LostRace) or reading.facts.session != lost.facts.session:
            raise Conflict("session_changed")
        if request.group is None and self._reader.message_exists(request):
            raise Conflict("message_id_reused", field="message_id")
        return reading

    def _begin(
        self,
        request: TurnRequest,
        reading: TurnReading,
        response: SafetyResponse | None,
        *,
        speak: bool,
        fence: Fence | None,
    ) -> TurnPlan:
        if response is not None:
            outcome = Outcome("safety", safety=response)
        else:
            outcome = self._executor.execute(request, reading.facts)
        plan = self._plan(request, reading, new_record(request, outcome), fence=fence)
        plan.reply = None if response is None else response.reply
        if speak and plan.reply is None and outcome.tool is None and self.voice.instant:
            plan.reply = self._speak_at_once(plan)
        ready = speak and plan.reply is not None and not plan.pending
        said = Said(plan.reply or "", self.voice.name) if ready else None
        plan.record = self._writer.begin(request, reading, outcome, said, fence)
        if outcome.tool is not None:
            self._use_tool(plan, outcome.tool, outcome.tool_text)
        return plan

    def _say(self, plan: TurnPlan, prompt: Prompt) -> str:
        """The whole reply. Raises what a voice raises, and ``InvalidInput`` where it cannot be stored."""
        with self._hold(plan, prompt) as held, watching(plan, self.voice):
            return check_text(self.voice.speak(held.prompt), "reply", limit=MAX_REPLY_TEXT)

    def _hold(self, plan: TurnPlan, prompt: Prompt) -> HeldReply:
        return self._dispatcher.budgets.hold(plan, self.voice, prompt)

    def _speak_at_once(self, plan: TurnPlan) -> str | None:
        try:
            return check_text(self.voice.speak(self._prompt(plan)), "reply", limit=MAX_REPLY_TEXT)
        except Exception:
            return None  # the turn is committed first then, and the voice asked again where its failure is recorded

    def _repeat(
        self,
        request: TurnRequest,
        reading: TurnReading,
        earlier: TurnRecord,
        response: SafetyResponse | None,
        fence: Fence | None,
    ) -> TurnPlan:
        """The same message again: the stored reply, or the stored instruction where no reply was stored (W5)."""
        if earlier.user != request.user or earlier.text_digest != text_digest(request.said):
            raise Conflict("message_id_reused", field="message_id")
        reply = reading.earlier_reply
        if reply is None and response is not None:
            reply = response.reply
        plan = self._plan(request, reading, earlier, reply=reply, replayed=True, fence=fence)
        if earlier.kind == "tool" and reply is None and earlier.selection is not None:
            entry = reading.facts.catalog.get(earlier.selection.skill_id, earlier.selection.version)
            if entry is not None and isinstance(entry.definition, ToolSkill):
                command = parse_command(request.text)
                self._use_tool(plan, entry.definition, request.text if command is None else command.argument)
            else:
                plan.instruction = instruct("tool_failed", plan.language, name=earlier.selection.skill_id)
                set_run(plan, RunStatus.FAILED, "tool_missing")
        return plan

    def _plan(
        self,
        request: TurnRequest,
        reading: TurnReading,
        record: TurnRecord,
        *,
        reply: str | None = None,
        replayed: bool = False,
        fence: Fence | None = None,
    ) -> TurnPlan:
        return TurnPlan(
            request=request,
            agent=reading.facts.agent,
            record=record,
            instruction=redacted_instruction(record.instruction, self._log.redactor(request.tenant)),
            reply=reply,
            replayed=replayed,
            language=language_of(words_of(request.text), reading.facts.agent.language),
            started_at=reading.facts.now,
            view=reading.view,
            equipped=lambda: self._equipped(request),
            fence=fence,
            stop=self._stops.of(request),
        )

    def _use_tool(self, plan: TurnPlan, tool: ToolSkill, text: str) -> None:
        """Run the tool that the message selected and make its result the turn's instruction (X2)."""
        outcome = self._dispatch(plan, tool, lambda: tool.build_input(ToolTurn(text, plan.language)))
        note_call(plan, outcome)
        status, error, plan.instruction = tool_turn(plan, tool, outcome)
        set_run(plan, status, error)
        if plan.pending:
            plan.reply = waiting_reply(plan)  # in these words: no voice is to say that it was done

    def _dispatch(
        self,
        plan: TurnPlan,
        tool: ToolSkill,
        arguments: Callable[[], Mapping[str, Any]],
        within: Within | None = None,
    ) -> ToolOutcome:
        with plan.lock:
            taken = plan.ordinals.setdefault(tool.tool_id, set())
            ordinal = next(number for number in itertools.count() if number not in taken)
            if ordinal < tool.max_calls_per_turn:
                taken.add(ordinal)
        if ordinal >= tool.max_calls_per_turn:
            return self._dispatcher.refuse(plan.request, tool.tool_id, "over_limit", plan.language)
        call = call_of(plan, tool, ordinal, self.call, within=within)
        outcome = self._dispatcher.call(call, arguments)
        unused = outcome.status in ("denied", "invalid_input") or outcome.error_code == BUSY
        if unused or outcome.approval in plan.pending:
            with plan.lock:
                taken.discard(ordinal)  # nothing ran, or it waits already: put right, it can be called
        return outcome

    def _equipped(self, request: TurnRequest) -> frozenset[GroupId] | None:
        with self._log.database.read() as connection:
            return find_equipped(connection, request)

    def _prompt(self, plan: TurnPlan) -> Prompt:
        toolbox = PlanToolBox(plan, self.call) if plan.record.kind != "safety" else None
        return build_prompt(self._log, plan, self.voice, toolbox, self._limits)


_NO_RIGHTS = Rights((CapabilitySurface.DENY_ALL,))
