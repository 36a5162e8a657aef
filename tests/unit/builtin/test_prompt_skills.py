"""The built-in prompt skills."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prowess.builtin import builtin_skills
from prowess.skills.manifest import ChatScope, SkillKind
from prowess.turns.definitions import PromptSkill, check_definition
from prowess.turns.runners.prompt import build_prompt_instruction
from prowess.turns.selectors import select


def test_every_built_in_passes_registration_and_has_an_id_of_its_own() -> None:
    skills = builtin_skills()
    assert {skill.manifest.id for skill in skills} == {
        "long-term-goal-planning", "memory-recall", "daily-planning", "meeting-minutes",
        "goal-check-in-reminder", "propose-automation", "daily-report",
    }  # fmt: skip
    for skill in skills:
        check_definition(skill)
        assert skill.manifest.display_name
        assert skill.manifest.tags


@pytest.mark.parametrize("language", ["en", "zh"])
def test_t9_a_prompt_skill_gives_its_manual_as_the_instruction(language: str) -> None:
    for skill in builtin_skills():
        if isinstance(skill, PromptSkill):
            instruction = build_prompt_instruction(skill, language)
            assert skill.body.strip() in instruction.text
            assert instruction.language == language
            assert any(line.strip() for line in instruction.say)


@pytest.mark.parametrize(
    ("text", "skill_id"),
    [
        ("帮我安排明天计划", "daily-planning"),
        ("帮我安排一下今天的日程", "daily-planning"),
        ("Plan my day for tomorrow", "daily-planning"),
        ("请整理成会议纪要：今天讨论了预算，李雷周五前给方案", "meeting-minutes"),
        ("Please write minutes from these meeting notes: we agreed to ship on Friday", "meeting-minutes"),
    ],
)
@pytest.mark.parametrize("scope", list(ChatScope))
def test_w10_short_plans_are_for_the_prompt_skill(text: str, skill_id: str, scope: ChatScope) -> None:
    selection = select(text, builtin_skills(), scope)
    assert selection is not None
    assert (selection.skill_id, selection.kind) == (skill_id, str(SkillKind.PROMPT))


def test_the_built_ins_import_no_workflow_engine() -> None:
    program = (
        "import sys; from prowess.builtin import builtin_skills; builtin_skills(); print('langgraph' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )
