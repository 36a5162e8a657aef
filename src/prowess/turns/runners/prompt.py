"""Prompt skills: the manual becomes this turn's instruction; no session (T8)."""

from __future__ import annotations

from prowess.messages import render
from prowess.turns.definitions import Instruction, PromptSkill

_EXCERPT_LINES = 12


def build_prompt_instruction(skill: PromptSkill, language: str) -> Instruction:
    """The instruction of one turn under a prompt skill."""
    manifest = skill.manifest
    name = manifest.display_name or manifest.id
    text = render("instruct.prompt_skill", language, {"name": name, "id": manifest.id}) + "\n\n" + skill.body.strip()
    say = skill.say.get(language) or skill.say.get("en") or _excerpt(skill, name, language)
    return Instruction(text, say, language)


def _excerpt(skill: PromptSkill, name: str, language: str) -> tuple[str, ...]:
    lines = [line.rstrip() for line in skill.body.splitlines() if line.strip()]
    shown = "\n".join(lines[:_EXCERPT_LINES])
    return (render("say.prompt_skill", language, {"name": name, "description": skill.manifest.description}), shown)
