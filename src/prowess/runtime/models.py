"""Voices of real models, for those who open a runtime (T10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prowess.turns.ports import Voice


def model_voice(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    history_length: int = 40,
    settings: Mapping[str, Any] | None = None,
) -> Voice:
    """The voice of a model, for ``prowess.open(voice=…)``.

    ``model`` is ``provider:name`` as pydantic-ai knows it, such as ``openai:gpt-5-mini`` or ``anthropic:…``; with
    ``base_url`` any name that an endpoint of OpenAI's chat-completions protocol knows. ``api_key`` null: that of the
    provider's environment variable; an endpoint of ``base_url`` is sent no other. ``history_length``: how many earlier
    messages the model is shown. ``settings``: such as ``temperature``.

    Raises ``InvalidInput``: ``voice_provider`` (unknown, or its package is missing), ``voice_key_missing``,
    ``voice_base_url``.
    """
    from prowess.adapters.voices import providers as adapter  # with the model library, which takes long to load

    return adapter.model_voice(
        model, base_url=base_url, api_key=api_key, history_length=history_length, settings=settings
    )
