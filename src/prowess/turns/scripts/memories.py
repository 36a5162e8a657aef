"""Memory layers as a script sees them (M1, M2): L1 lasts for the run, L2 and L3 are the user's with this agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prowess.errors import InvalidInput
from prowess.events.log import Transaction
from prowess.events.model import Actor
from prowess.kernel.text import check_text
from prowess.memory.model import MemoryLayer
from prowess.memory.service import MAX_MEMORY_TEXT, MemoryService
from prowess.turns.questions import Call

MAX_FOUND = 20
USUAL = 6
MAX_WORKING = 100
"""texts in the working memory of a run"""

_STORED = (MemoryLayer.L2, MemoryLayer.L3)


class ScriptMemories:
    """The memories of one run."""

    def __init__(self, memory: MemoryService, call: Call) -> None:
        self._memory = memory
        self._call = call
        self._working: list[str] = []

    def check_read(self, arguments: Mapping[str, Any]) -> None:
        """Raises ``InvalidInput`` (``wrong_type``, ``bad_limit``, ``text_too_long``) for what is no query."""
        query, limit = arguments.get("query", ""), arguments.get("limit", USUAL)
        if not isinstance(query, str):
            raise InvalidInput("wrong_type", field="query", expected="text", got=type(query).__name__)
        if type(limit) is not int or not 1 <= limit <= MAX_FOUND:
            raise InvalidInput("bad_limit", field="limit", limit=MAX_FOUND)
        if query:
            check_text(query, "query", limit=MAX_MEMORY_TEXT)

    def read(self, layer: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """``[{"text", "layer", "importance"}]``, best first; without a query the most important. Raises as above."""
        query, limit = str(arguments.get("query", "")), int(arguments.get("limit", USUAL))
        if layer == MemoryLayer.L1:
            found = [text for text in self._working if query.casefold() in text.casefold()]
            return [{"text": text, "layer": layer, "importance": 0.5} for text in found[-limit:][::-1]]
        _check_stored(layer)
        request = self._call.request
        reader = self._memory.reader(request.tenant, request.user, request.agent, frozenset({layer}))
        hits = reader.recall(query, limit) if query.strip() else reader.most_important(limit)
        memories = (hit.memory for hit in hits)
        return [{"text": item.text, "layer": str(item.layer), "importance": item.importance} for item in memories]

    def note(self, arguments: Mapping[str, Any]) -> None:
        """Keep ``text`` in L1, for the rest of the run. Raises as ``check_text``."""
        text = check_text(arguments.get("text"), "text", limit=MAX_MEMORY_TEXT)
        self._working = [*self._working, text][-MAX_WORKING:]

    def store(self, layer: str, arguments: Mapping[str, Any], admit: Callable[[Transaction], None]) -> None:
        """Remember ``text`` with ``importance`` (0 to 1, usually 0.5), as from this skill.

        ``admit`` is asked in the transaction that stores it. Raises as ``MemoryService.add``.
        """
        text, importance = arguments.get("text"), arguments.get("importance", 0.5)
        request = self._call.request
        _check_stored(layer)
        self._memory.add(
            actor=Actor("agent", request.agent),
            tenant=request.tenant,
            user=request.user,
            agent=request.agent,
            text=text,  # type: ignore[arg-type] # whatever it is, it is judged there
            importance=importance,
            layer=layer,
            skill=self._call.skill,
            admit=admit,
        )


def _check_stored(layer: str) -> None:
    if layer not in _STORED:
        raise InvalidInput("bad_layer", field="layer", layer=layer[:40])
