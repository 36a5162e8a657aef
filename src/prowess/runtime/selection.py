"""Selection without a database: all built-in skills, enabled (``prowess select``)."""

from __future__ import annotations

from functools import cache

from prowess.builtin import builtin_skills
from prowess.errors import InvalidInput, NotFound
from prowess.kernel.text import check_text
from prowess.skills.manifest import ChatScope
from prowess.turns.definitions import SkillDefinition
from prowess.turns.request import Selection
from prowess.turns.selectors import select


@cache
def _candidates() -> tuple[SkillDefinition, ...]:
    return builtin_skills()


def select_built_in(text: object, scope: object = "single_chat") -> Selection | None:
    """What would serve ``text``; null also for a command that names nothing.

    Raises ``InvalidInput`` (``wrong_type``, ``text_empty``, ``text_too_long``, ``control_character``, ``bad_scope``).
    """
    checked = check_text(text, "text")
    if scope not in tuple(ChatScope):
        raise InvalidInput("bad_scope", field="scope", known=[str(known) for known in ChatScope])
    try:
        return select(checked, _candidates(), ChatScope(str(scope)))
    except NotFound:
        return None
