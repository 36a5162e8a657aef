"""Skill folders, read leniently (S1–S3, S7): find them, read one, know what was mended.

``find_skill_folders`` walks a tree; ``read_skill_folder`` returns a ``LoadedSkill`` or raises; ``inspect_skill_folder``
returns whatever can be said about a folder and never raises. Writing is in ``prowess.skills.skill_writer``.
"""

from __future__ import annotations

from prowess.skills.skill_md.folder import SkillFile, content_digest, find_skill_folders
from prowess.skills.skill_md.reader import Draft, LoadedSkill, inspect_skill_folder, read_skill_folder

__all__ = [
    "Draft",
    "LoadedSkill",
    "SkillFile",
    "content_digest",
    "find_skill_folders",
    "inspect_skill_folder",
    "read_skill_folder",
]
