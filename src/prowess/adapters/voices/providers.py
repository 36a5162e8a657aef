"""Clients of model providers: any that pydantic-ai knows, and any endpoint of OpenAI's chat completions (T10)."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from prowess.adapters.voices.model import HISTORY_LENGTH, ModelVoice, OpenModel
from prowess.adapters.voices.retries import RetryBudget
from prowess.errors import InvalidInput

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model

OPENAI = "openai"
COMPATIBLE = "openai-compatible"
"""named in errors where the endpoint is not OpenAI's own"""


def model_voice(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    retries: RetryBudget | None = None,
    history_length: int = HISTORY_LENGTH,
    settings: Mapping[str, Any] | None = None,
) -> ModelVoice:
    """The voice of a model.

    Args:
        model: ``openai:NAME``; with ``base_url`` also a plain ``NAME``, sent as it is; or another ``provider:NAME``
            that pydantic-ai knows
        base_url: an endpoint that speaks OpenAI's chat completions; None for the provider's own
        api_key: None for the one in the provider's environment variable. An endpoint of ``base_url`` is sent none but
            this one.
        retries: the default budget where None
        history_length: how many earlier messages the model is shown
        settings: pydantic-ai's ``ModelSettings``, such as ``temperature``

    Raises:
        InvalidInput: ``voice_provider`` where the provider is unknown or its package is missing, ``voice_key_missing``,
            ``voice_base_url`` where that is no HTTP address.
    """
    provider, _, name = model.partition(":")
    api_key = (api_key or "").strip() or None
    if base_url is not None:
        provider = COMPATIBLE
        open_model = _compatible(model.removeprefix(f"{OPENAI}:"), base_url, api_key)
    elif provider == OPENAI and name:
        open_model = _openai(name, api_key)
    else:
        open_model, own = _inferred(model, api_key)
        settings = {**own, **(settings or {})}
    return ModelVoice(
        model, open_model, provider=provider, retries=retries, history_length=history_length, settings=settings
    )


def _openai(name: str, api_key: str | None) -> OpenModel:
    """Clients of OpenAI's chat completions."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    key = api_key or os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        raise InvalidInput("voice_key_missing", provider=OPENAI, variable="OPENAI_API_KEY")

    @asynccontextmanager
    async def open_model() -> AsyncIterator[Model]:
        async with _client(None, key) as client:
            yield OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))

    return open_model


def _compatible(name: str, base_url: str, api_key: str | None) -> OpenModel:
    """Clients of another endpoint for chat completions."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if not re.match(r"https?://[^/]", base_url):
        raise InvalidInput("voice_base_url", field="base_url")

    @asynccontextmanager
    async def open_model() -> AsyncIterator[Model]:
        async with _client(base_url, api_key or "none") as client:
            client.organization = client.project = None  # from the environment, and OpenAI's own business
            provider = OpenAICompatibleProvider(COMPATIBLE, openai_client=client)
            yield OpenAIChatModel(name, provider=provider)

    return open_model


def _client(base_url: str | None, api_key: str) -> AsyncOpenAI:
    """A client that retries nothing itself; closing it closes its connections."""
    import httpx2
    from openai import AsyncOpenAI

    http = httpx2.AsyncClient(verify=_tls(), timeout=httpx2.Timeout(600, connect=5), follow_redirects=True)
    return AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, http_client=http)


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes longer than all else in making a client."""
    import httpx2

    return httpx2.create_ssl_context()


def _inferred(model: str, api_key: str | None) -> tuple[OpenModel, dict[str, Any]]:
    """Clients of any other provider that the library knows, and the settings that keep them from retrying themselves.

    Making one says what is missing before the first turn does.
    """
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import Provider, infer_provider, infer_provider_class

    provider, _, name = model.partition(":")
    if not provider or not name:
        raise _unusable(provider if name else "")

    def new_provider(name: str) -> Provider[Any]:
        if api_key is None:
            return infer_provider(name)
        # Every provider that takes a key calls it so; one that does not refuses it.
        return infer_provider_class(name)(api_key=api_key)  # type: ignore[call-arg]

    @asynccontextmanager
    async def open_model() -> AsyncIterator[Model]:
        async with infer_model(model, new_provider) as opened:
            yield opened

    try:
        made = infer_model(model, new_provider)
    except Exception as error:
        problem = _unusable(provider, error)
    else:
        return open_model, {} if "max_retries" in made.unsupported_settings else {"max_retries": 0}
    raise problem


def _unusable(provider: str, error: Exception | None = None) -> InvalidInput:
    """Why there is no client for a provider: no key, or nothing that knows it."""
    variable = re.search(r"`([A-Z][A-Z0-9_]*_KEY)`", str(error))
    if variable is not None and not isinstance(error, ImportError):
        return InvalidInput("voice_key_missing", provider=provider, variable=variable[1])
    return InvalidInput("voice_provider", provider=provider, install=f"pydantic-ai-slim[{provider or 'PROVIDER'}]")
