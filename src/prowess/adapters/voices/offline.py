"""The voice that speaks while no model is configured: deterministic, and it says what it is (T10)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from prowess.messages import render
from prowess.turns.ports import Prompt


class OfflineVoice:
    """Says the readable lines of the instruction; without one, that it has nothing to say by itself."""

    name = "offline"
    instant = True
    history_length = 0

    def speak(self, prompt: Prompt) -> str:
        """The whole reply: the instruction's own lines, then one line on what speaks here."""
        return "\n".join(self._lines(prompt))

    async def stream(self, prompt: Prompt) -> AsyncIterator[str]:
        """The same, a line at a time."""
        lines = self._lines(prompt)
        for index, line in enumerate(lines):
            yield line if index == len(lines) - 1 else f"{line}\n"

    @staticmethod
    def _lines(prompt: Prompt) -> list[str]:
        language = prompt.language
        if prompt.instruction is None:
            lines = [render("voice.nothing_to_say", language, {"agent": prompt.agent_name})]
        else:
            lines = [line for part in prompt.instruction.say for line in part.splitlines()]
            language = prompt.instruction.language
        return [*lines, render("voice.offline", language)]
