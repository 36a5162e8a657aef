"""``/skill-id …`` and ``/skill skill-id …`` (T4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from prowess.errors import NotFound
from prowess.kernel.names import normalise_skill_name
from prowess.turns.definitions import SkillDefinition
from prowess.turns.request import Selection

_SPACE = r"[\s\u00a0\u3000]"  # a Chinese keyboard types a full-width space
_COMMAND = re.compile(rf"{_SPACE}*/(skill{_SPACE}+)?([a-z0-9][\w.:-]*)(?:{_SPACE}+|$)", re.IGNORECASE | re.ASCII)


class Command(NamedTuple):
    """A slash command as typed."""

    name: str
    """canonical: lower case, kebab"""
    argument: str
    skill_only: bool
    """typed as ``/skill name``: never a built-in command (C21)"""


def parse_command(text: str) -> Command | None:
    """The command that ``text`` begins with, or none. ``/etc/hosts`` and ``/ 2`` are none."""
    match = _COMMAND.match(text)
    if match is None:
        return None
    return Command(normalise_skill_name(match.group(2)), text[match.end() :].strip(), match.group(1) is not None)


def words_of(text: str) -> str:
    """What a person says in ``text`` beside the command it begins with: a name of a skill is no language."""
    command = parse_command(text)
    return text if command is None else command.argument


def select_explicit(command: Command, candidates: Sequence[SkillDefinition]) -> Selection:
    """The candidate that the command names.

    Raises ``NotFound('unknown_command')`` alike for a name that does not exist and one not bound here (T4, G8).
    """
    for candidate in candidates:
        manifest = candidate.manifest
        if manifest.id == command.name:
            return Selection(manifest.id, manifest.version, str(manifest.kind), "explicit", 1.0, "command")
    raise NotFound("unknown_command", command=command.name)
