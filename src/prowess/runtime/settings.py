"""Where things are, read once at the edge: flags, then environment, then defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path

from prowess.access.guards import Guard
from prowess.access.model import Mode
from prowess.access.resolver import CapabilityResolver
from prowess.kernel.clock import Clock
from prowess.kernel.ids import IdSource
from prowess.secrets.keys import KeyRing
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
    system_skills: Iterable[str] = ()
    system_tools: Iterable[str] = ()
    secret_keys: KeyRing | str | Path | None = None
    drafts: bool = False
