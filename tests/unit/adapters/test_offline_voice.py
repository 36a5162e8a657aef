"""The offline voice."""

from __future__ import annotations

import asyncio

import pytest

from prowess.adapters.voices.offline import OfflineVoice
from prowess.messages import render
from prowess.turns.definitions import Instruction
from prowess.turns.ports import Prompt, Voice


def prompt(language: str, *say: str) -> Prompt:
    instruction = Instruction("for the model", say, language) if say else None
    return Prompt("Mira", "", language, "hello", instruction)


def test_it_is_a_voice() -> None:
    voice: Voice = OfflineVoice()
    assert (voice.name, voice.instant, voice.history_length) == ("offline", True, 0)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_t10_it_says_the_readable_lines_and_that_no_model_is_configured(language: str) -> None:
    reply = OfflineVoice().speak(prompt(language, "One.\nTwo.", "Three?"))
    assert reply.splitlines() == ["One.", "Two.", "Three?", render("voice.offline", language)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_t10_without_a_skill_it_claims_nothing(language: str) -> None:
    reply = OfflineVoice().speak(prompt(language))
    assert reply.splitlines()[-1] == render("voice.offline", language)
    assert "Mira" in reply


def test_the_stream_adds_up_to_the_reply() -> None:
    async def collect() -> list[str]:
        return [piece async for piece in OfflineVoice().stream(prompt("en", "One.", "Two."))]

    pieces = asyncio.run(collect())
    assert len(pieces) == 3
    assert "".join(pieces) == OfflineVoice().speak(prompt("en", "One.", "Two."))


def test_it_is_deterministic() -> None:
    voice = OfflineVoice()
    assert len({voice.speak(prompt("zh", "好。")) for _ in range(20)}) == 1
