"""Which skill serves a message: deterministic, in the order of T2 (T3 to T5).

Same text, candidates and scope give the same selection. An explicit command is final: its argument never enters
routing, and a name that is no candidate is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

from prowess.kernel.text import fold
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition, serves_turns
from prowess.turns.request import Selection
from prowess.turns.selectors.explicit import Command, parse_command, select_explicit, words_of
from prowess.turns.selectors.rule import select_by_rule

__all__ = ["Command", "parse_command", "select", "select_by_rule", "select_explicit", "words_of"]


def select(text: str, candidates: Sequence[SkillDefinition], scope: ChatScope) -> Selection | None:
    """The selection for ``text`` among ``candidates``, or none.

    Raises ``NotFound('unknown_command')`` where an explicit command names no candidate that serves ``scope``.
    """
    served = [candidate for candidate in candidates if serves_turns(candidate) and scope in candidate.manifest.scopes]
    command = parse_command(text)
    if command is not None:
        return select_explicit(command, served)
    return select_by_rule(fold(text), served)
