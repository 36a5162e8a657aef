"""Instructions that the turn itself gives: refusals, honest failures, confirmations; worded in ``messages``."""

from __future__ import annotations

from collections.abc import Mapping

from prowess.access.model import Decision
from prowess.messages import render
from prowess.turns.definitions import Instruction


def instruct(key: str, language: str, **fields: str) -> Instruction:
    """An instruction from ``instruct.<key>`` for a model and ``say.<key>`` for a voice without one."""
    text = render(f"instruct.{key}", language, fields)
    return Instruction(text, (render(f"say.{key}", language, fields),), language)


def permission_words(code: str, language: str) -> str:
    """What a permission code means in plain words: ``read your memories`` for ``memory:read``."""
    words = render(f"permission.{code}", language)
    return code if words.startswith("permission.") else words


def denial_instruction(decision: Decision, skill_id: str, skill_name: str, agent: str, language: str) -> Instruction:
    """Say plainly what was not permitted and how to permit it."""
    if decision.reason != "consent_missing":
        return instruct("denied_otherwise", language, name=skill_name)
    joiner = "、" if language == "zh" else ", "
    words = joiner.join(permission_words(code, language) for code in decision.missing)
    return instruct(
        "consent_missing", language, agent=agent, permission=words, skill=skill_id, code=decision.missing[0]
    )


def denial_message(decision: Decision, language: str) -> str:
    """The same for a model that called a tool: what was not permitted, and that nothing was done."""
    joiner = "、" if language == "zh" else ", "
    words = joiner.join(permission_words(code, language) for code in decision.missing)
    return render(f"denied.{decision.reason}", language, {"permission": words})


def waiting_instruction(pending: Mapping[str, str], language: str) -> Instruction:
    """What is said while calls wait for a yes: which, and that nothing was done. ``pending``: names by approval id."""
    say = tuple(render("say.approval_waiting", language, {"name": name, "id": key}) for key, name in pending.items())
    joiner = "、" if language == "zh" else ", "
    text = render("instruct.approval_waiting", language, {"name": joiner.join(dict.fromkeys(pending.values()))})
    return Instruction(text, say, language)


def stopped_words(language: str) -> str:
    """The whole reply of a turn that was stopped."""
    return render("say.stopped", language)
