"""Level 1: is the skill well formed (V1, S2–S5)? YAML, fields, types, names, versions, parameters, permissions.

No database, no model, no network; heavy modules are loaded only for skills that declare tools or permissions, so that
a commit hook over hundreds of skills costs little more than reading their YAML.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.skills.front_matter import Diagnostic
from prowess.skills.skill_md import Draft, find_skill_folders, inspect_skill_folder
from prowess.skills.skill_md.reader import is_folder
from prowess.validation.report import Issue, Report, level_report

if TYPE_CHECKING:
    from prowess.skills.manifest import ParameterSpec, ResourcePermissions, SkillManifest, ToolSpec

MAX_BODY_LINES = 500

_CHECKS = ("folder", "yaml", "fields", "types", "names", "version", "parameters", "permissions")


def check_skill(path: str | os.PathLike[str]) -> Report:
    """Check one skill folder (or the SKILL.md in it). Raises nothing: whatever is wrong is an issue."""
    started = time.perf_counter()
    draft = inspect_skill_folder(path)
    issues = [Issue.of(note) for note in _notes(draft)]
    elapsed = (time.perf_counter() - started) * 1000
    report = level_report(draft.folder, draft.id, "syntax", issues, len(_CHECKS), elapsed)
    tools = draft.fields is not None and bool(draft.fields.data.get("tools"))
    return replace(report, tools=tools) if tools else report


@dataclass(frozen=True, slots=True)
class Tally:
    """How many folders were reported on, and how many of them were rejected."""

    checked: int
    rejected: int


def check_tree(
    paths: Iterable[str],
    write: Callable[[str], None],
    language: str = "en",
    check: Callable[[str], Report] = check_skill,
) -> Tally:
    """Check skill folders and trees of them; ``write`` gets one JSON object, a line without its end, for each skill.

    ``check``: what is done with one folder. A path that is missing, holds no skill, or cannot be looked into gets an
    object of its own, with ``id`` null.
    """
    checked = rejected = 0
    for report in _reports(paths, check):
        write(json.dumps(report.to_json(language), ensure_ascii=False))
        checked += 1
        rejected += not report.ok
    return Tally(checked, rejected)


def _reports(paths: Iterable[str], check: Callable[[str], Report]) -> Iterator[Report]:
    for path in paths:
        if not is_folder(Path(path)) or _holds_skill_md(path):
            yield check(path)
            continue
        folders, notes = find_skill_folders(path)
        if not folders and not notes:
            notes = [Diagnostic("no_skills", path)]
        for note in notes:
            yield level_report(note.file, None, "syntax", [Issue.of(note)], 1, 0.0)
        for folder in folders:
            yield check(folder)


def _holds_skill_md(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entry.name.lower() == "skill.md" and not entry.is_dir() for entry in entries)
    except (OSError, ValueError):
        return False


def _notes(draft: Draft) -> list[Diagnostic]:
    notes: list[Diagnostic] = []
    if draft.front is not None and draft.front.mapping is not None:
        notes.extend(_body_notes(draft))
    if draft.fields is not None and draft.fields.sections:
        manifest = draft.manifest()
        if manifest is not None:
            notes.extend(_Rules(manifest, draft).notes())
    return draft.diagnostics + notes


def _body_notes(draft: Draft) -> Iterator[Diagnostic]:
    assert draft.front is not None
    body = draft.front.body.strip("\n")
    if not body.strip():
        yield Diagnostic("body_empty", draft.file, draft.front.body_line)
    elif (lines := body.count("\n") + 1) > MAX_BODY_LINES:
        line = draft.front.body_line + MAX_BODY_LINES
        yield Diagnostic("body_long", draft.file, line, {"lines": lines, "limit": MAX_BODY_LINES})


_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[?[0-9A-Fa-f:]+:[0-9A-Fa-f:.]*\]?",
    re.ASCII,
)


class _Rules:
    """What holds between the parts of a manifest that is well shaped."""

    def __init__(self, manifest: SkillManifest, draft: Draft) -> None:
        self._manifest = manifest
        self._draft = draft

    def notes(self) -> Iterator[Diagnostic]:
        """All findings."""
        yield from self._tools()
        yield from self._permissions(self._manifest.permissions)

    def _note(self, code: str, path: tuple[str | int, ...], **detail: Any) -> Diagnostic:
        fields = self._draft.fields
        file, line = (fields.place(*path) if fields is not None else None) or (self._draft.file, 1)
        return Diagnostic(code, file, line, detail)

    def _tools(self) -> Iterator[Diagnostic]:
        seen: dict[str, int] = {}
        for index, tool in enumerate(self._manifest.tools):
            if tool.name in seen:
                yield self._note("tool_twice", ("tools", index, "name"), tool=tool.name)
            seen[tool.name] = index
            yield from self._parameters(tool, ("tools", index, "parameters"))

    def _parameters(self, tool: ToolSpec, path: tuple[str | int, ...]) -> Iterator[Diagnostic]:
        seen: set[str] = set()
        for index, spec in enumerate(tool.parameters):
            here = (*path, index)
            if not _PARAMETER_NAME.fullmatch(spec.name):
                yield self._note("parameter_name", (*here, "name"), tool=tool.name, parameter=spec.name[:60])
            elif spec.name in seen:
                yield self._note("parameter_twice", (*here, "name"), tool=tool.name, parameter=spec.name)
            seen.add(spec.name)
            yield from self._one_parameter(tool, spec, here)

    def _one_parameter(self, tool: ToolSpec, spec: ParameterSpec, here: tuple[str | int, ...]) -> Iterator[Diagnostic]:
        from prowess.skills.parameters import spec_faults

        for fault in spec_faults(spec):
            inner = ".".join(part for part in fault.path[:-1] if part not in ("properties", "items"))
            name = f"{spec.name}.{inner}" if inner else spec.name
            yield self._note(fault.code, (*here, *fault.path), tool=tool.name, parameter=name, **fault.detail)
        if not spec.required and spec.default is None and spec.type != "enum":
            yield self._note("parameter_no_default", here, tool=tool.name, parameter=spec.name)

    def _permissions(self, asked: ResourcePermissions) -> Iterator[Diagnostic]:
        for section, names, switch in (("network", "domains", asked.network), ("shell", "commands", asked.shell)):
            values: tuple[str, ...] = getattr(switch, names)
            path = ("permissions", section)
            if bool(values) != switch.allowed:
                yield self._note("permission_idle", path, section=section, names=names)
            for index, value in enumerate(values):
                yield from self._named(value, (*path, names, index), host=section == "network")
        for access, variables in (("read", asked.env_vars.read), ("write", asked.env_vars.write)):
            for index, value in enumerate(variables):
                yield from self._named(value, ("permissions", "env_vars", access, index), host=False)

    def _named(self, value: str, path: tuple[str | int, ...], *, host: bool) -> Iterator[Diagnostic]:
        """A whitelist names things: no wildcards, and hosts without scheme, port or path (S5, L10)."""
        if "*" in value or not value.strip():
            yield self._note("permission_wildcard", path, pattern=value)
        elif host and not _HOST.fullmatch(value):
            yield self._note("permission_host", path, host=value[:80])
