"""The state of the story, and how a step proves what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.cli.output import say

if TYPE_CHECKING:
    from prowess.kernel.clock import Clock
    from prowess.runtime.app import Prowess
    from prowess.turns.definitions import SkillDefinition
    from prowess.turns.request import TurnResult

USER, AGENT = "lin", "mira"
QUESTION = "你还记得我喜欢什么吗"
SKILL, CODE = "memory-recall", "memory:read"


class Unexpected(Exception):
    """A step did not show what it must."""


@dataclass
class Tour:
    """The state of the story: one database file, opened anew where a step says so."""

    url: str
    folder: Path
    narrate: Callable[[str, str], None]
    app: Prowess = field(init=False)
    turns: int = 0

    def did(self, what: str) -> None:
        """Something that happened beside the conversation, such as a grant."""
        self.narrate("", what)

    @contextmanager
    def open(
        self, *, roles: bool = False, clock: Clock | None = None, skills: Iterable[SkillDefinition] = ()
    ) -> Iterator[None]:
        """Run a step with the database open, as a process of its own would; with ``roles``, they say what exists."""
        import prowess

        with prowess.open(self.url, resolver="roles" if roles else None, clock=clock, skills=skills) as self.app:
            yield

    def say(self, conversation: str, text: str, *, message_id: str | None = None, user: str = USER) -> TurnResult:
        """One message of a user."""
        self.turns += 1
        result = self.app.turn(
            user=user, agent=AGENT, conversation=conversation, message_id=message_id or f"m{self.turns}", text=text
        )
        self.narrate(user, text)
        self.narrate(AGENT, result.reply)
        return result


def expect(what: str, got: Any, wanted: Any) -> None:
    """Raises ``Unexpected`` where they differ."""
    if got != wanted:
        raise Unexpected(say("tour.unexpected", what=what, wanted=repr(wanted), got=repr(got)))


def denials(tour: Tour) -> int:
    """Denied audit rows of the user, of decisions on tools."""
    return sum(event.type == "tool.decided" for event in tour.app.audit(user=USER, decision="denied"))
