"""The levels of checking a skill, put together: which are asked for, in what order (V1, V2, V4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prowess.validation.report import Report
from prowess.validation.syntax import check_skill

if TYPE_CHECKING:
    from prowess.sandbox.ports import Sandbox

LEVELS = ("syntax", "behavior", "all")
"""what can be asked for"""


def check_folder(path: str, level: str, sandbox: Callable[[], Sandbox]) -> Report:
    """Check one skill folder on one level, or on all of them. Raises nothing.

    A skill that is not well formed is not tried. ``sandbox`` is asked only for a skill with a script to prove.
    """
    syntax = check_skill(path)
    if level == "syntax" or not syntax.ok:
        return syntax
    behaviour = _behaviour(syntax, path, sandbox)
    return behaviour if level == "behavior" else syntax.merged(behaviour)


def _behaviour(syntax: Report, path: str, sandbox: Callable[[], Sandbox]) -> Report:
    """Level 2. What has no tools has nothing to prove, and is not read again."""
    from prowess.validation.report import LevelResult

    nothing = Report(syntax.path, syntax.id, {"behavior": LevelResult("pass", 0, 0.0)}, ())
    if not syntax.tools:
        return nothing
    from prowess.errors import SkillFileError
    from prowess.skills.skill_md import read_skill_folder
    from prowess.validation.behaviour.checking import check_behaviour

    try:
        return check_behaviour(read_skill_folder(path), sandbox, syntax.path)
    except SkillFileError:  # it changed since
        return check_skill(path)
