"""Permission levels 0 to 4 of what a manifest asks for, and the caps of where a skill comes from (V3, V6, L10).

The table is V6's (ruling 12.6), not the shorter code of the seed. A manifest names hosts but no methods, so a host is
all methods: level 2. Commands that run anything (a shell, an interpreter) are everything local: level 3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from prowess.skills.trust import Trust

if TYPE_CHECKING:
    from prowess.skills.manifest import SkillManifest

SOURCE_CAPS = {"frequency": 2, "self_heal": 2, "user_correction": 1, "manual": 4}
"""By ``trigger_source``: how a skill came to be (seed 003, 2.4.2)"""
TRUST_CAPS: Mapping[str, int] = {
    Trust.BUILT_IN: 4,
    Trust.VERIFIED: 3,
    Trust.COMMUNITY: 2,
    Trust.GENERATED: 2,
}
"""By trust: shipped with Prowess; signed and reviewed; installed from elsewhere; learnt by Prowess"""
UNKNOWN_CAP = 1
"""Of a source or a trust that nobody named"""
WRITTEN_BY_PERSON = frozenset({None, "manual"})

_LAYER_READ = {"L1": 0, "L2": 1, "L3": 1, "L4": 3, "L5": 4}
_LAYER_WRITE = {"L1": 1, "L2": 2, "L3": 3, "L4": 4, "L5": 4}
_RISKS = {"L0": 0, "L1": 1, "L2": 2, "L3": 3, "L4": 3}
_MANAGES = re.compile(
    r"(?:skills?|settings?|config(?:uration)?|agents?|system|roles?|permissions?|policy)"
    r":(?:write|create|manage|change|delete|update|install|admin|grant|set)\w*"
)
_BROAD_PATH = re.compile(
    r"/(?:etc|usr|var|home|root|boot|opt|bin|sbin|lib\w*|srv|proc|sys|dev)?(?:/\*{1,2})?/?"
    r"|~/?\.?|~/\*{1,2}|/home/[^/]+(?:/\*{1,2})?",
    re.IGNORECASE,
)
_ANYTHING = frozenset(
    """sh bash zsh dash ksh fish python python3 node ruby perl php pwsh powershell deno bun env xargs
    find ssh make docker podman kubectl awk gawk vim nano screen tmux nohup eval npx uvx""".split()
)
_SYSTEM = frozenset(
    "sudo su doas systemctl service mount umount useradd usermod passwd visudo crontab launchctl reg sc chroot".split()
)


class Reason(NamedTuple):
    """What raises the level: the path of the field in the manifest, and the value."""

    path: tuple[str | int, ...]
    value: str


def permission_level(manifest: SkillManifest) -> tuple[int, Reason | None]:
    """The level of what a manifest asks for, and what raises it to there; ``None`` at level 0. Source: V6."""
    best, why = 0, None
    for level, path, value in _asked(manifest):
        if level > best:
            best, why = level, Reason(path, value)
    return best, why


def cap_for(source: str | None, trust: str | None = None) -> int:
    """The highest level for a skill of this ``trigger_source`` and this trust, the lower of the two.

    No source is a person's own folder. A source or a trust that is not in the tables gets ``UNKNOWN_CAP``.
    """
    by_source = 4 if source is None else SOURCE_CAPS.get(source, UNKNOWN_CAP)
    by_trust = 4 if trust is None else TRUST_CAPS.get(trust, UNKNOWN_CAP)
    return min(by_source, by_trust)


def shell_by(source: str | None) -> bool:
    """Whether a skill of this source may ask for a shell: one that a person wrote (L10)."""
    return source in WRITTEN_BY_PERSON


def _asked(manifest: SkillManifest) -> list[tuple[int, tuple[str | int, ...], str]]:
    asked = manifest.permissions
    found: list[tuple[int, tuple[str | int, ...], str]] = []
    for verb, usual in (("read", 1), ("write", 2), ("delete", 2)):
        for index, pattern in enumerate(getattr(asked.filesystem, verb)):
            level = 3 if _BROAD_PATH.fullmatch(pattern.strip()) else usual
            found.append((level, ("permissions", "filesystem", verb, index), pattern))
    if asked.network.allowed or asked.network.domains:
        found.append((2, ("permissions", "network"), ", ".join(asked.network.domains[:3]) or "*"))
    if asked.shell.allowed or asked.shell.commands:
        found.append(
            (2 if asked.shell.commands else 3, ("permissions", "shell"), ", ".join(asked.shell.commands[:3]) or "*")
        )
        for index, command in enumerate(asked.shell.commands):
            name = command.strip().partition(" ")[0].rpartition("/")[2].lower()
            level = 4 if name in _SYSTEM else 3 if name in _ANYTHING else 2
            found.append((level, ("permissions", "shell", "commands", index), command))
    for layer in asked.memory.read_layers:
        found.append((_LAYER_READ[layer], ("permissions", "memory", "read_layers"), layer))
    for layer in asked.memory.write_layers:
        found.append((_LAYER_WRITE[layer], ("permissions", "memory", "write_layers"), layer))
    for verb, usual in (("read", 1), ("write", 2)):
        for index, name in enumerate(getattr(asked.env_vars, verb)):
            found.append((usual, ("permissions", "env_vars", verb, index), name))
    for index, requirement in enumerate(manifest.requirements):
        level = 4 if _MANAGES.fullmatch(requirement.code) else _RISKS[str(requirement.risk)]
        found.append((level, ("requirements", index), requirement.code))
    return found
