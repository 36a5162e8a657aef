"""The interactive chat: streamed replies, a spinner until the first piece, slash commands completed.

Where standard input is no terminal it reads lines, one turn each, and prints the replies: a script can talk to it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prowess.cli.output import print_table, report_error, say, turn_footer
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

    from prowess.runtime.app import Prowess
    from prowess.turns.request import TurnResult

OWN_COMMANDS = ("exit", "memory", "new", "skills")
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Chat:
    """One conversation on the terminal."""

    def __init__(self, app: Prowess, *, tenant: str, user: str, agent: str, conversation: str) -> None:
        self._app = app
        self._tenant = tenant
        self._who = {"user": user, "agent": agent}
        self._conversation = conversation

    def commands(self) -> dict[str, str]:
        """Every slash command that can be typed here, and what it is."""
        from prowess.turns.commands import command_names

        listed = {entry.manifest.id: entry.manifest.display_name or "" for entry in self._candidates()}
        listed |= {name: say(f"chat.{name}") for name in OWN_COMMANDS}
        return dict(sorted((dict.fromkeys(command_names(), "") | listed).items()))

    def handle(self, text: str) -> bool:
        """Answer one line; false where it ends the chat."""
        if text in ("/exit", "/quit"):
            return False
        if text == "/skills":
            rows = [
                (f"/{entry.manifest.id}", entry.manifest.kind, entry.manifest.display_name)
                for entry in self._candidates()
            ]
            print_table(("command", "kind", "name"), rows, empty=say("no_skills"))
        elif text == "/memory":
            memories = self._app.memories(user=self._who["user"], agent=self._who["agent"], tenant=self._tenant)
            rows = [(memory.id, memory.layer, memory.text) for memory in memories]
            print_table(("id", "layer", "text"), rows, empty=say("no_memories"))
        elif text == "/new":
            self._conversation = f"chat-{uuid.uuid4().hex[:8]}"
            print(say("chat.started", conversation=self._conversation))
        else:
            self._answer(text)
        return True

    def _answer(self, text: str) -> None:
        try:
            result = asyncio.run(self._stream(text))
        except ProwessError as error:
            report_error(error, as_json=False)
            return
        if footer := turn_footer(result):
            print(_dim(f"  {footer}"))

    async def _stream(self, text: str) -> TurnResult:
        pieces = self._app.stream(
            **self._who,
            conversation=self._conversation,
            message_id=f"chat-{uuid.uuid4().hex}",
            text=text,
            tenant=self._tenant,
        )
        spinner = asyncio.create_task(_spin()) if sys.stdout.isatty() else None
        result: Any = None
        try:
            async for piece in pieces:
                await _stop(spinner)
                spinner = None
                if isinstance(piece, str):
                    print(piece, end="", flush=True)
                else:
                    result = piece
        finally:
            await _stop(spinner)
        print()
        return result  # type: ignore[no-any-return]

    def _candidates(self) -> list[Any]:
        from prowess.skills.manifest import ChatScope

        found = self._app.candidates(**self._who, tenant=self._tenant)
        return [entry for entry in found if ChatScope.SINGLE in entry.manifest.scopes]


def talk(app: Prowess, *, tenant: str, user: str, agent: str, conversation: str) -> None:
    """Run the chat until /exit, Ctrl-D, or the end of the input."""
    chat = Chat(app, tenant=tenant, user=user, agent=agent, conversation=conversation)
    lines = _prompted(chat, user) if sys.stdin.isatty() and sys.stdout.isatty() else _plain()
    for line in lines:
        text = line.strip()
        if text and not chat.handle(text):
            return


def _plain() -> Iterator[str]:
    for line in sys.stdin:
        print(f"> {line.rstrip()}")
        yield line


def _prompted(chat: Chat, user: str) -> Iterator[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory

    print(_dim(say("chat.hello")))
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(), completer=_completer(chat), complete_while_typing=True
    )
    while True:
        try:
            yield session.prompt(f"{user}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


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


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if sys.stdout.isatty() else text
