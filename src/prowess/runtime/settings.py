"""Where things are, read once at the edge: flags, then environment, then defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypedDict, cast

from platformdirs import user_data_path

from prowess.access.guards import Guard
from prowess.access.model import Mode
from prowess.access.resolver import CapabilityResolver
from prowess.automation.jobs.leases import Observer
from prowess.automation.jobs.model import LEASE
from prowess.errors import InvalidInput
from prowess.kernel.clock import Clock
from prowess.kernel.ids import IdSource
from prowess.sandbox.ports import Sandbox
from prowess.secrets.keys import KeyRing
from prowess.turns.budgets import Prices
from prowess.turns.definitions import SkillDefinition, ToolGroup
from prowess.turns.limits import TurnLimits
from prowess.turns.ports import Voice
from prowess.turns.safety import SafetyPolicy

DATABASE_VARIABLE = "PROWESS_DB"
DEFAULT_TENANT = "default"


def data_directory() -> Path:
    """The per-user data folder, such as ``~/.local/share/prowess``."""
    return user_data_path("prowess", appauthor=False)


def database_url(given: str | None = None) -> str:
    """``given``, else ``PROWESS_DB``, else an SQLite file in the data folder, which is made if missing."""
    url = given or os.environ.get(DATABASE_VARIABLE)
    if url:
        return url
    folder = data_directory()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{folder / 'prowess.db'}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``prowess.open`` may be told; see there."""

    clock: Clock | None = None
    ids: IdSource | None = None
    voice: Voice | None = None
    skills: Iterable[SkillDefinition] = ()
    groups: Iterable[ToolGroup] = ()
    safety: SafetyPolicy | None = None
    create_missing: bool = True
    resolver: CapabilityResolver | Literal["roles"] | None = None
    server: bool = False
    allow_all: bool = False
    policies: Iterable[str | Path] = ()
    guards: Iterable[Guard] = ()
    mode: Mode | str = Mode.DEFAULT
    limits: TurnLimits | None = None
    prices: Prices = field(default_factory=dict)
    system_skills: Iterable[str] = ()
    system_tools: Iterable[str] = ()
    secret_keys: KeyRing | str | Path | None = None
    drafts: bool = False
    seals: str | Path | None = None
    watch_roots: Iterable[str | Path] = ()
    engine: Literal["embedded", "pgqueuer"] = "embedded"
    lease: timedelta = LEASE
    observe: Observer | None = None
    outgoing_hosts: Iterable[str] = ()
    approval_lifetime: timedelta | None = None
    sandbox: Sandbox | str = "auto"
    script_roots: Iterable[str | Path] = ()
    script_environment: Mapping[str, str] = field(default_factory=dict)


RESOLVER_VARIABLE = "PROWESS_RESOLVER"
POLICIES_VARIABLE = "PROWESS_POLICIES"
MODE_VARIABLE = "PROWESS_MODE"
ENGINE_VARIABLE = "PROWESS_ENGINE"
ENGINES = ("embedded", "pgqueuer")
OUTGOING_HOSTS_VARIABLE = "PROWESS_OUTGOING_HOSTS"
WATCH_VARIABLE = "PROWESS_WATCH"
SANDBOX_VARIABLE = "PROWESS_SANDBOX"
SANDBOXES = ("auto", "bubblewrap", "landlock", "refuse")
SCRIPT_ROOTS_VARIABLE = "PROWESS_SCRIPT_ROOTS"
MODEL_VARIABLE = "PROWESS_MODEL"
MODEL_URL_VARIABLE = "PROWESS_MODEL_URL"
MODEL_KEY_VARIABLE = "PROWESS_MODEL_KEY"


class EnvironmentOptions(TypedDict, total=False):
    """What the environment may say of ``prowess.open``."""

    resolver: Literal["roles"]
    policies: tuple[str, ...]
    mode: Mode
    engine: Literal["embedded", "pgqueuer"]
    outgoing_hosts: tuple[str, ...]
    watch_roots: tuple[str, ...]
    sandbox: str
    script_roots: tuple[str, ...]


def environment_options(environment: Mapping[str, str] | None = None) -> EnvironmentOptions:
    """What of the variables of this module, such as ``PROWESS_RESOLVER``, is set and not empty.

    Raises ``InvalidInput('bad_setting')``: a word that is not understood must not leave everything open.
    """
    variables = os.environ if environment is None else environment
    found: EnvironmentOptions = {}
    if resolver := variables.get(RESOLVER_VARIABLE):
        if resolver != "roles":
            raise InvalidInput("bad_setting", variable=RESOLVER_VARIABLE, known=["roles"])
        found["resolver"] = "roles"
    if policies := tuple(filter(None, variables.get(POLICIES_VARIABLE, "").split(os.pathsep))):
        found["policies"] = policies
    if roots := tuple(filter(None, variables.get(WATCH_VARIABLE, "").split(os.pathsep))):
        found["watch_roots"] = roots
    if folders := tuple(filter(None, variables.get(SCRIPT_ROOTS_VARIABLE, "").split(os.pathsep))):
        found["script_roots"] = folders
    if sandbox := variables.get(SANDBOX_VARIABLE):
        if sandbox not in SANDBOXES:
            raise InvalidInput("bad_setting", variable=SANDBOX_VARIABLE, known=list(SANDBOXES))
        found["sandbox"] = sandbox
    if mode := variables.get(MODE_VARIABLE):
        if mode not in tuple(Mode):
            raise InvalidInput("bad_setting", variable=MODE_VARIABLE, known=[str(known) for known in Mode])
        found["mode"] = Mode(mode)
    if engine := variables.get(ENGINE_VARIABLE):
        if engine not in ENGINES:
            raise InvalidInput("bad_setting", variable=ENGINE_VARIABLE, known=list(ENGINES))
        found["engine"] = cast(Literal["embedded", "pgqueuer"], engine)
    if hosts := tuple(filter(None, variables.get(OUTGOING_HOSTS_VARIABLE, "").replace(",", " ").split())):
        found["outgoing_hosts"] = hosts
    return found


def environment_voice(environment: Mapping[str, str] | None = None) -> Voice | None:
    """The voice of ``PROWESS_MODEL``, at ``PROWESS_MODEL_URL`` and with ``PROWESS_MODEL_KEY``; null where it is unset.

    Raises as ``model_voice``, and ``InvalidInput('setting_missing')`` for an address without a model.
    """
    from prowess.runtime.models import model_voice

    variables = os.environ if environment is None else environment
    model, url = variables.get(MODEL_VARIABLE), variables.get(MODEL_URL_VARIABLE) or None
    if not model:
        if url is not None:
            raise InvalidInput("setting_missing", variable=MODEL_VARIABLE, other=MODEL_URL_VARIABLE)
        return None
    return model_voice(model, base_url=url, api_key=variables.get(MODEL_KEY_VARIABLE) or None)
