"""What a skill's code uses against what its manifest declares (V3), and the level against the cap of its source (V6).

A skill that declares permissions, or is a tool or works in the background, is held to them: a use that is not declared
refuses it, with the line that uses it. The standard of Agent Skills knows no permissions; for such a folder the uses are
listed, so that whoever adds it sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import TYPE_CHECKING

from prowess.validation.levels import cap_for, permission_level, shell_by
from prowess.validation.security.rules import Finding
from prowess.validation.security.uses import SECTIONS, Use
from prowess.validation.security.words import UNKNOWN

if TYPE_CHECKING:
    from prowess.skills.manifest import ResourcePermissions, SkillManifest
    from prowess.skills.skill_md import Draft

MAX_LISTED = 40

_FREE_COMMANDS = frozenset(
    """echo printf cd pwd test [ [[ true false : exit return set unset export local readonly shift declare typeset read trap wait
    source . let getopts hash type umask break continue dirname basename eval exec command builtin alias shopt mapfile readarray""".split()
)
_FREE_VARIABLES = frozenset("PATH HOME LANG LC_ALL TZ TMPDIR PWD USER SHELL TERM PYTHONPATH".split())
_OWN_PLACES = ("/tmp", "/out", "/work", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")


def audit(draft: Draft, manifest: SkillManifest | None, uses: list[Use], trust: str | None = None) -> Iterator[Finding]:
    """The findings of the audit; ``uses`` are those of files that run, not of examples in documents."""
    if manifest is not None:
        yield from _levels(draft, manifest, trust)
    held = manifest is not None and (
        (draft.fields is not None and "permissions" in draft.fields.origins)
        or str(manifest.kind) in ("tool", "background")
    )
    seen: set[tuple[str, str]] = set()
    for use in uses:
        if use.kind not in SECTIONS or (use.kind, use.target) in seen or _is_free(use):
            continue
        seen.add((use.kind, use.target))
        section = SECTIONS[use.kind]
        if held:
            assert manifest is not None
            if use.kind == "command" and UNKNOWN in use.target:
                yield Finding("sec_undecided_command", use.file, use.line, "…")
            elif not declared(use, manifest.permissions):
                yield Finding("sec_undeclared", use.file, use.line, use.target, detail={"section": section})
        elif len(seen) <= MAX_LISTED:
            yield Finding("sec_use", use.file, use.line, use.target, detail={"section": section})


def _levels(draft: Draft, manifest: SkillManifest, trust: str | None) -> Iterator[Finding]:
    source = manifest.trigger_source
    level, why = permission_level(manifest)
    cap = cap_for(source, trust)
    if why is not None and level > cap:
        place = draft.fields.place(*why.path) if draft.fields is not None else None
        file, line = place or (draft.file, 1)
        detail = {"level": level, "cap": cap, "source": source or trust or "manual"}
        yield Finding("sec_level_over_cap", file, line, why.value, detail=detail)
    shell = manifest.permissions.shell
    if (shell.allowed or shell.commands) and not shell_by(source):
        place = draft.fields.place("permissions", "shell") if draft.fields is not None else None
        file, line = place or (draft.file, 1)
        yield Finding("sec_shell_by_source", file, line, ", ".join(shell.commands) or "*", detail={"source": source})


def declared(use: Use, asked: ResourcePermissions) -> bool:
    """Whether the permissions cover a use; a use whose target only the run knows is covered by any of its kind."""
    if use.kind == "network":
        return (
            bool(asked.network.domains)
            if use.target == "*"
            else use.target in {item.lower() for item in asked.network.domains}
        )
    if use.kind == "command":
        names = {item.strip().partition(" ")[0].rpartition("/")[2].lower() for item in asked.shell.commands}
        return bool(names) if use.target == "*" else use.target in names
    if use.kind.startswith("env_"):
        names = set(getattr(asked.env_vars, use.kind.removeprefix("env_")))
        return bool(names) if use.target == "*" else use.target in names
    if use.kind.startswith("memory_"):
        return use.target in getattr(asked.memory, use.kind.removeprefix("memory_") + "_layers")
    patterns = getattr(asked.filesystem, use.kind.removeprefix("fs_"))
    if "*" in use.target:
        return bool(patterns)
    return any(_covers(pattern, use.target) for pattern in patterns)


def _covers(pattern: str, path: str) -> bool:
    path = normpath(path)
    pattern = pattern.strip()
    return (
        fnmatchcase(path, pattern)
        or fnmatchcase(path + "/", pattern.removesuffix("**"))
        or fnmatchcase(path, normpath(pattern))
    )


def _is_free(use: Use) -> bool:
    """What needs no permission: built-in commands, harmless variables, the skill's own folder and its work places."""
    if use.kind == "command":
        return use.target in _FREE_COMMANDS
    if use.kind.startswith("env_"):
        return use.target in _FREE_VARIABLES
    if use.kind.startswith("fs_"):
        target = use.target
        if UNKNOWN in target or target in ("", "-"):
            return use.kind != "fs_delete"
        plain = normpath(target)
        if plain.startswith(_OWN_PLACES):
            return True
        return target != "*" and not plain.startswith(("/", "~", "..", "*"))
    return False
