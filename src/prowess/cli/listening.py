"""While somebody sits at the prompt: jobs run, and what the agent says of its own accord is shown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prowess.chat.model import Message
    from prowess.runtime.app import Prowess

LOOK_SECONDS = 1.0
_LATEST = 20
"""messages looked at; more at once are read with the next look"""

Show = Callable[["Message"], None]


class Listener:
    """Runs jobs in a thread, and looks for new messages of the agent in another; for the time of a ``with`` block.

    ``show`` is called from that thread, and only between ``prompting(True)`` and ``prompting(False)``.
    """

    def __init__(self, app: Prowess, *, tenant: str, user: str, show: Show) -> None:
        self._app = app
        self._tenant = tenant
        self._user = user
        self._show = show
        self._conversation = ""
        self._seen: set[str] = set()
        self._own: set[str | None] = set()
        self._answered: set[str | None] = set()
        """messages whose first reply was there: the chat itself has shown it"""
        self._lock = threading.Lock()
        self._prompting = False
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, name="prowess chat", daemon=True) for work in (self._work, self._look)
        ]

    def __enter__(self) -> Listener:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(LOOK_SECONDS * 3)

    def prompting(self, waiting: bool, conversation: str) -> None:
        """Whether the person is at the prompt, and where. What was there before the first time is not shown."""
        with self._lock:
            self._prompting = waiting
            if conversation != self._conversation:
                self._conversation = conversation
                self._unheard()
        if waiting:
            self.look()

    def said(self, message_id: str) -> None:
        """The person has sent this message; the chat shows the reply to it."""
        with self._lock:
            self._own.add(message_id)

    def look(self) -> None:
        """Show what the agent has said since."""
        with self._lock:
            for message in self._unheard() if self._prompting else ():
                self._show(message)

    def _unheard(self) -> list[Message]:
        """New messages of the agent, but for the first reply to what was said in this chat."""
        found: list[Message] = []
        for message in self._messages():
            if message.id in self._seen:
                continue
            self._seen.add(message.id)
            if message.author_kind != "agent":
                continue
            if message.reply_to in self._own and message.reply_to not in self._answered:
                self._answered.add(message.reply_to)
            else:
                found.append(message)
        return found

    def _messages(self) -> list[Message]:
        try:
            return self._app.messages(self._conversation, user=self._user, limit=_LATEST, tenant=self._tenant)
        except ProwessError:  # nothing was said here yet
            return []

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.look()

    def _work(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        stop = asyncio.Event()
        serving = asyncio.create_task(self._app.serve_jobs(stop))
        await asyncio.to_thread(self._over.wait)
        stop.set()
        await serving
