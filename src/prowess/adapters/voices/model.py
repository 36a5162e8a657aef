"""Voices of models, over the clients of pydantic-ai (T10).

Its ``Agent`` is not used: the loop between model and tools is here, so that tools are cut anew before every request
(T11), the limits are those of the turn (T12), and nothing of a conversation is traced. The library is loaded when a
voice is made, not when this module is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, cast

from prowess.adapters.voices.retries import CutShort, RetryBudget, failure_of
from prowess.adapters.voices.suspending import dump_state, load_state
from prowess.errors import VoiceError
from prowess.messages import render
from prowess.turns.ports import Line, Prompt, StopSignal, Suspended
from prowess.turns.request import PlanTool

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

OpenModel = Callable[[], "AbstractAsyncContextManager[Model]"]
"""Makes a client for one reply, and closes its connections afterwards."""

HISTORY_LENGTH = 40
"""messages"""

WIRE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""what the strictest protocol accepts as the name of a tool"""


class ModelVoice:
    """Speaks as a model does; holds no state between replies, so that any number of threads and tasks may share it.

    Both methods raise ``VoiceError``: ``voice_limit`` (with ``limit``: ``requests``, ``tokens`` or ``seconds``),
    ``voice_empty``, ``voice_rate_limited``, ``voice_unavailable``, ``voice_rejected`` (with ``status``), ``voice_cut``
    and ``voice_malformed``; or ``Suspended``. None of the errors holds what was said, or what the provider wrote.
    """

    instant = False

    def __init__(
        self,
        name: str,
        open_model: OpenModel,
        *,
        provider: str = "",
        retries: RetryBudget | None = None,
        history_length: int = HISTORY_LENGTH,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.history_length = history_length
        self._open_model = open_model
        self._provider = provider or name.partition(":")[0]
        self._retries = retries or RetryBudget()
        self._settings: ModelSettings = cast("ModelSettings", dict(settings or {}))

    def speak(self, prompt: Prompt) -> str:
        """The whole reply, asked for without streaming.

        Blocks, also for as long as a tool that was begun takes. Callable from any thread, with or without an event
        loop of its own.
        """
        pieces: list[str] = []
        try:
            _run(lambda: self._answer(prompt, pieces.append, streamed=False))
        except Suspended as suspended:
            raise Suspended(suspended.state, "".join(pieces)) from None
        return "".join(pieces)

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        """The reply in pieces, as they come.

        The model is read by a task of its own: a slow listener does not use up the time of the reply. Closing the
        iterator closes the connection and calls no further tool.
        """
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        task = asyncio.create_task(self._answer(prompt, pieces.put_nowait, streamed=True))
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _answer(self, prompt: Prompt, show: Callable[[str], None], *, streamed: bool) -> None:
        """Show the reply; return when all of it was shown."""
        timer = asyncio.timeout(prompt.limits.seconds)
        try:
            async with timer, self._open_model() as model:
                reply = _Reply(model, prompt, show, streamed, self._provider, self._retries, self._settings)
                with _cut_short(timer, prompt.stop):
                    await reply.run()
        except TimeoutError:
            if not timer.expired():
                raise
        if timer.expired():
            raise VoiceError("voice_limit", limit="seconds")


class _Reply:
    """The loop between one model and the tools of one turn."""

    def __init__(
        self,
        model: Model,
        prompt: Prompt,
        show: Callable[[str], None],
        streamed: bool,
        provider: str,
        retries: RetryBudget,
        settings: ModelSettings,
    ) -> None:
        self._model = model
        self._prompt = prompt
        self._show = show
        self._streamed = streamed
        self._provider = provider
        self._retries = retries
        self._settings = settings
        kept = None if prompt.resumed is None else load_state(prompt.resumed)
        self._messages = _opening(prompt) if kept is None else kept.messages
        self._names: dict[str, str] = {}
        """the tool of every name that was offered in this reply: one that is gone is refused by its own name"""
        self._tokens = 0 if kept is None else kept.tokens
        self._requests = prompt.limits.requests if kept is None else max(1, prompt.limits.requests - kept.requests)
        self._said = False
        """whether anything was shown, of any request"""
        self._saying = False
        """whether anything was shown of the request that is under way"""

    async def run(self) -> None:
        """Ask, answer the calls, and ask again, until the model has nothing more to call."""
        for left in reversed(range(self._requests)):
            tools = await self._tools() if left else ()
            names = wire_names(tool.name for tool in tools)
            self._names |= {wire: name for name, wire in names.items()}
            response = await self._ask(_parameters(tools, names))
            self._count(response)
            calls = response.tool_calls if left and self._prompt.toolbox is not None else []
            if calls:
                await self._call(response, self._prompt.limits.requests - left)
            elif (response.text or "").strip():
                return
            elif left:
                raise VoiceError("voice_empty", provider=self._provider)
        raise VoiceError("voice_limit", limit="requests")

    async def _tools(self) -> tuple[PlanTool, ...]:
        toolbox = self._prompt.toolbox
        return () if toolbox is None else await asyncio.to_thread(toolbox.tools)

    async def _ask(self, parameters: ModelRequestParameters) -> ModelResponse:
        """One request, repeated while its failure passes, the budget lasts and nothing of its answer was shown."""
        attempts = self._retries.begin()
        request = self._request_stream if self._streamed else self._request
        while True:
            self._saying = False
            try:
                with _untraced():
                    return await request(parameters)
            except Exception as error:
                failure = failure_of(error, self._provider)
            # Raised out here, so that no traceback shows what the provider wrote.
            if self._saying and failure.passing:
                raise VoiceError("voice_cut", provider=self._provider)
            if not failure.passing or not await attempts.again(failure.after):
                raise failure.error

    async def _request(self, parameters: ModelRequestParameters) -> ModelResponse:
        from pydantic_ai.direct import model_request

        response = await model_request(
            self._model,
            self._messages,
            model_settings=self._settings,
            model_request_parameters=parameters,
            instrument=False,
        )
        if response.text:
            self._say(response.text)
        return response

    async def _request_stream(self, parameters: ModelRequestParameters) -> ModelResponse:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.exceptions import ModelConnectionError, UnexpectedModelBehavior

        try:
            async with model_request_stream(
                self._model,
                self._messages,
                model_settings=self._settings,
                model_request_parameters=parameters,
                instrument=False,
            ) as stream:
                async for event in stream:
                    if piece := _piece(event):
                        self._say(piece)
                response = stream.get()
        except ModelConnectionError as error:
            if error.phase in {"pool", "connect", "write"}:
                raise
            raise CutShort from None
        except UnexpectedModelBehavior:
            raise CutShort from None
        if not _has_ended(self._model, response):
            raise CutShort
        return response

    def _say(self, piece: str) -> None:
        """Show a piece; what the model says before and after its calls are two paragraphs."""
        if self._said and not self._saying:
            self._show("\n\n")
        self._said = self._saying = True
        self._show(piece)

    def _count(self, response: ModelResponse) -> None:
        usage = response.usage
        self._tokens += usage.input_tokens + usage.output_tokens
        if self._prompt.spending is not None:
            self._prompt.spending.add(usage.input_tokens, usage.output_tokens)
        if self._tokens > self._prompt.limits.tokens:
            raise VoiceError("voice_limit", limit="tokens")

    async def _call(self, response: ModelResponse, requests: int) -> None:
        """Answer every call of a response exactly once, in order and one after the other.

        Raises ``Suspended`` where some wait for a yes, after the others ran.
        """
        from pydantic_ai.messages import ModelRequest, ToolReturnPart

        toolbox = self._prompt.toolbox
        assert toolbox is not None
        response = _with_distinct_ids(response)
        answers: dict[str, Mapping[str, Any]] = {}
        waiting: dict[str, str] = {}
        for call in response.tool_calls:
            name = self._names.get(call.tool_name, call.tool_name)
            answer = await asyncio.to_thread(toolbox.call, name, _arguments(call))
            answers[call.tool_call_id] = answer
            if answer.get("status") == "pending":
                waiting[call.tool_call_id] = str(answer["approval"])
        self._messages.append(response)
        if waiting:
            raise Suspended(dump_state(self._messages, answers, waiting, tokens=self._tokens, requests=requests))
        parts = [
            ToolReturnPart(call.tool_name, dict(answers[call.tool_call_id]), tool_call_id=call.tool_call_id)
            for call in response.tool_calls
        ]
        self._messages.append(ModelRequest(parts=parts))


# --- what is said to the model ---------------------------------------------------------------------------------------


def _opening(prompt: Prompt) -> list[ModelMessage]:
    """The system message, the history and the user's message."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    messages: list[ModelMessage] = [ModelRequest(parts=[SystemPromptPart(_system_message(prompt))])]
    for line in prompt.history:
        if line.role == "user":
            messages.append(ModelRequest(parts=[UserPromptPart(_attributed(line))]))
        else:
            messages.append(ModelResponse(parts=[TextPart(_attributed(line))]))
    messages.append(ModelRequest(parts=[UserPromptPart(prompt.text)]))
    return messages


def _attributed(line: Line) -> str:
    return f"{line.author}: {line.text}" if line.author else line.text


def _system_message(prompt: Prompt) -> str:
    """Who speaks, how, and what this turn is about; a blank line between blocks."""

    def words(key: str, **fields: str) -> str:
        return render(f"voice.system.{key}", prompt.language, fields)

    blocks = [words("agent", agent=prompt.agent_name), words("language"), words("data")]
    if prompt.persona:
        blocks.insert(1, words("persona", persona=prompt.persona))
    if any(line.author for line in prompt.history):
        blocks.append(words("group"))
    if prompt.skills:
        cards = [f"- {card.id}: {' '.join(card.description.split())}" for card in prompt.skills]
        blocks.append("\n".join([words("skills"), *cards]))
    if prompt.instruction is not None and prompt.instruction.text:
        blocks.append("\n".join([words("instruction"), prompt.instruction.text]))
    return "\n\n".join(blocks)


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Each name of a tool and the name it has in the protocol: ``[A-Za-z0-9_-]{1,64}``, no two alike.

    The same set of names gives the same result, in any order. A name the protocol accepts stays as it is; in others
    every other character becomes ``_``, and where that is too long or not unique a digest of the name follows.
    """
    wanted = {name: re.sub(r"[^A-Za-z0-9_-]", "_", name) for name in names}
    times = Counter(wanted.values())
    wires = {
        name: wire for name, wire in wanted.items() if WIRE_NAME.fullmatch(wire) and (wire == name or times[wire] == 1)
    }
    for name in sorted(wanted.keys() - wires.keys()):
        wires[name] = _digested(name, wanted[name], taken=set(wires.values()))
    return wires


def _digested(name: str, wire: str, taken: set[str]) -> str:
    digests = (hashlib.sha256(f"{salt}{name}".encode()).hexdigest()[:8] for salt in itertools.count())
    candidates = (f"{wire[:55]}_{digest}" for digest in digests)
    return next(candidate for candidate in candidates if candidate not in taken)


def _parameters(tools: Sequence[PlanTool], names: Mapping[str, str]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    # Not strict: a provider's dialect of JSON Schema is no skill's concern; arguments are checked where they arrive.
    definitions = {
        tool.name: ToolDefinition(
            name=names[tool.name],
            description=tool.description,
            parameters_json_schema=dict(tool.input_schema),
            strict=False,
        )
        for tool in tools
    }
    return ModelRequestParameters(function_tools=list(definitions.values()))


# --- what the model says ---------------------------------------------------------------------------------------------


def _piece(event: object) -> str:
    """The text of an event of a stream; empty where it has none to show."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    match event:
        case PartStartEvent(part=TextPart(content=piece)) | PartDeltaEvent(delta=TextPartDelta(content_delta=piece)):
            return piece
        case _:
            return ""


def _has_ended(model: Model, response: ModelResponse) -> bool:
    """Whether a stream came to the end that the provider marks.

    The library takes an OpenAI stream without a finish reason for a complete one; only the provider's own reason
    tells the two apart.
    """
    from pydantic_ai.models.openai import OpenAIChatModel

    if response.state != "complete" or response.finish_reason is None:
        return False
    if isinstance(model, OpenAIChatModel) and response.finish_reason == "stop":
        return "finish_reason" in (response.provider_details or {})
    return True


def _with_distinct_ids(response: ModelResponse) -> ModelResponse:
    """The same response; a call that repeats the id of an earlier one gets its own, so that each has its answer."""
    seen: set[str] = set()
    parts = list(response.parts)
    for index, call in enumerate(parts):
        if not _is_call(call):
            continue
        if call.tool_call_id in seen:
            parts[index] = call = replace(call, tool_call_id=f"{call.tool_call_id}-{index}")
        seen.add(call.tool_call_id)
    return replace(response, parts=parts)


def _is_call(part: object) -> TypeGuard[ToolCallPart]:
    from pydantic_ai.messages import ToolCallPart

    return isinstance(part, ToolCallPart)


def _arguments(call: ToolCallPart) -> Any:
    """Arguments as JSON values; what is no JSON stays the text it is, for the dispatcher to refuse."""
    if not isinstance(call.args, str):
        return {} if call.args is None else call.args
    if not call.args.strip():
        return {}
    try:
        return json.loads(call.args, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return call.args


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


# --- running and clients ---------------------------------------------------------------------------------------------


def _run(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run to the end on an event loop of its own; on another thread where this one has a loop already."""
    if not _has_running_loop():
        asyncio.run(make())
        return
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.run, lambda: asyncio.run(make())).result()


@contextmanager
def _cut_short(timer: asyncio.Timeout, stop: StopSignal | None) -> Iterator[None]:
    """Let the time of a reply run out at once when its turn is stopped; its connections are closed with it."""
    if stop is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def expire() -> None:
        with contextlib.suppress(RuntimeError):  # the reply has ended by itself
            timer.reschedule(loop.time())

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # and with it its loop
            loop.call_soon_threadsafe(expire)

    with stop.listening(tell):
        yield


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _untraced() -> Iterator[None]:
    """Tell instrumentation of HTTP and model clients to record nothing of what is done inside."""
    from opentelemetry import context

    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        yield
    finally:
        context.detach(token)
