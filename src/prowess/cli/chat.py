"""The interactive chat: streamed replies, a spinner until the first piece, slash commands completed.

Where standard input is no terminal it reads lines, one turn each, and prints the replies, with ``--json`` a document
each: a script can talk to it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from prowess.cli.output import dim, note, print_json, print_table, report_error, say, show, turn_footer, visible
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

    from prowess.access.model import Mode
    from prowess.cli.listening import Listener
    from prowess.runtime.app import Prowess
    from prowess.turns.request import TurnResult

OWN_COMMANDS = ("exit", "help", "memory", "new", "skills")
"""Answered here, without a turn; a skill of such a name is reached by ``/skill name``."""

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Chat:
    """One conversation on the terminal, or through a pipe."""

    def __init__(
        self,
        app: Prowess,
        *,
        tenant: str,
        user: str,
        agent: str,
        conversation: str,
        as_json: bool = False,
        interactive: bool = False,
        mode: Mode | None = None,
    ) -> None:
        self._app = app
        self._tenant = tenant
        self._who = {"user": user, "agent": agent}
        self.conversation = conversation
        """where it goes on; ``/new`` changes it"""
        self._as_json = as_json
        self._interactive = interactive
        self._mode = mode
        self.on_said: Callable[[str], None] = _nobody
        """told the id of every message before it is sent"""
        self.failed = False
        """whether any line got an error for an answer"""

    def commands(self) -> dict[str, str]:
        """Every slash command that can be typed here, and what it does."""
        from prowess.turns.commands import command_names

        steering = (name for name in command_names() if name not in OWN_COMMANDS)
        listed = {entry.manifest.id: entry.manifest.display_name or "" for entry in self._candidates()}
        listed |= {name: say(f"chat.command.{name}") for name in (*steering, *OWN_COMMANDS)}
        return dict(sorted(listed.items()))

    def handle(self, text: str) -> bool:
        """Answer one line; false where it ends the chat."""
        match text:
            case "/exit" | "/quit":
                return False
            case "/help":
                self._list("commands", ("command", "meaning"), [(f"/{k}", v) for k, v in self.commands().items()], "")
            case "/skills":
                rows = [
                    (f"/{entry.manifest.id}", str(entry.manifest.kind), entry.manifest.display_name)
                    for entry in self._candidates()
                ]
                self._list("skills", ("command", "kind", "name"), rows, say("no_skills"))
            case "/memory":
                user, agent = self._who["user"], self._who["agent"]
                memories = self._app.memories(user=user, agent=agent, tenant=self._tenant)
                found = [(memory.id, str(memory.layer), memory.text) for memory in memories]
                self._list("memories", ("id", "layer", "text"), found, say("no_memories"))
            case "/new":
                self._begin_anew()
            case _:
                self._answer(text)
        return True

    def _list(self, key: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
        if self._as_json:
            print_json({key: [dict(zip(columns, row, strict=True)) for row in rows]})
        else:
            print_table(columns, rows, empty=empty)

    def _begin_anew(self) -> None:
        self.conversation = f"chat-{uuid.uuid4().hex[:8]}"
        if self._as_json:
            print_json({"conversation": self.conversation})
        else:
            show(say("chat.started", conversation=self.conversation))

    def _answer(self, text: str) -> None:
        try:
            result = asyncio.run(self._stream(text))
        except ProwessError as error:
            self.failed = True
            report_error(error, as_json=self._as_json)
        except KeyboardInterrupt:
            if not self._interactive:
                raise
            show(f"\n{say('chat.stopped')}")
        else:
            self._close_reply(result)

    def _close_reply(self, result: TurnResult) -> None:
        if self._as_json:
            from prowess.runtime.app import result_to_json

            print_json(result_to_json(result))
        elif footer := turn_footer(result):
            if self._interactive:
                print(dim(visible(f"  {footer}")))
            else:
                note(f"  {footer}")

    async def _stream(self, text: str) -> TurnResult:
        message_id = f"chat-{uuid.uuid4().hex}"
        self.on_said(message_id)
        pieces = self._app.stream(
            user=self._who["user"],
            agent=self._who["agent"],
            conversation=self.conversation,
            message_id=message_id,
            text=text,
            tenant=self._tenant,
            mode=self._mode,
        )
        spinner = asyncio.create_task(_spin()) if self._interactive else None
        result: Any = None
        try:
            async for piece in pieces:
                await _stop(spinner)
                spinner = None
                if not isinstance(piece, str):
                    result = piece
                elif not self._as_json:
                    print(visible(piece), end="", flush=True)
        finally:
            await _stop(spinner)
        if not self._as_json:
            print(flush=True)
        return result  # type: ignore[no-any-return]

    def _candidates(self) -> list[Any]:
        """What a command can address here; background work is scheduled, not talked to."""
        from prowess.skills.manifest import ChatScope, SkillKind

        found = self._app.candidates(**self._who, tenant=self._tenant)
        addressed = (entry for entry in found if entry.manifest.kind is not SkillKind.BACKGROUND)
        return [entry for entry in addressed if ChatScope.SINGLE in entry.manifest.scopes]


def talk(
    app: Prowess,
    *,
    tenant: str,
    user: str,
    agent: str,
    conversation: str,
    as_json: bool = False,
    mode: Mode | None = None,
) -> bool:
    """Run the chat until /exit, Ctrl-D, or the end of the input; false where a script's line could not be served."""
    interactive = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    chat = Chat(
        app,
        tenant=tenant,
        user=user,
        agent=agent,
        conversation=conversation,
        as_json=as_json,
        interactive=interactive,
        mode=mode,
    )
    if not interactive:
        return _read(chat)
    from prowess.cli.listening import Listener

    with Listener(app, tenant=tenant, user=user, show=lambda message: show(f"{message.author}: {message.text}")) as ear:
        chat.on_said = ear.said
        for line in _prompted(chat, user, ear):
            if line.strip() and not chat.handle(line.strip()):
                break
    return True


def _read(chat: Chat) -> bool:
    for line in sys.stdin:
        if line.strip() and not chat.handle(line.strip()):
            break
    return not chat.failed


def _prompted(chat: Chat, user: str, ear: Listener) -> Iterator[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.patch_stdout import patch_stdout

    print(dim(say("chat.hello")))
    # In memory: what was said is kept in the database, under its rules, and in no file beside it.
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(), completer=_completer(chat), complete_while_typing=True
    )
    while True:
        try:
            ear.prompting(True, chat.conversation)
            with patch_stdout():  # what is said meanwhile stands above the line that is being typed
                line = session.prompt(f"{user}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        finally:
            ear.prompting(False, chat.conversation)
        yield line


def _completer(chat: Chat) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Slash(Completer):
        """Completes the command at the start of the line."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            before = document.text_before_cursor
            if not before.startswith("/") or " " in before:
                return
            for name, meaning in chat.commands().items():
                if name.startswith(before[1:]):
                    yield Completion(f"/{name}", start_position=-len(before), display_meta=meaning)

    return Slash()


def _nobody(_message_id: str) -> None:
    return None


async def _spin() -> None:
    try:
        for frame in itertools.cycle(_FRAMES):
            print(f"\r{frame}", end="", flush=True)
            await asyncio.sleep(0.08)
    finally:
        print("\r \r", end="", flush=True)


async def _stop(spinner: asyncio.Task[None] | None) -> None:
    if spinner is None:
        return
    spinner.cancel()
    await asyncio.gather(spinner, return_exceptions=True)
