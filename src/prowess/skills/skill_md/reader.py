"""One skill folder: inspected without raising, or read as a ``LoadedSkill`` (S1–S3, S7)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.errors import SkillFileError
from prowess.skills.front_matter import (
    MAX_SKILL_MD_BYTES,
    Diagnostic,
    FrontMatter,
    diagnose,
    read_front_matter,
    read_limited,
    read_yaml_file,
)
from prowess.skills.skill_md.fields import Fields, Source, read_fields
from prowess.skills.skill_md.folder import (
    MAX_FILE_BYTES,
    PROWESS_YAML,
    SKILL_MD,
    FolderScan,
    FoundFile,
    SkillFile,
    content_digest,
    shown,
)

if TYPE_CHECKING:
    from pydantic import ValidationError

    from prowess.skills.manifest import SkillManifest


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill as read from its folder."""

    path: Path
    manifest: SkillManifest
    body: str
    """the text below the front matter, with ``\\n`` line ends"""
    body_line: int
    """1-based line of SKILL.md on which the body starts"""
    files: tuple[SkillFile, ...]
    """all files that belong to the skill, SKILL.md and prowess.yaml among them, sorted by path"""
    digest: str
    """identity of the content; the rule is that of ``content_digest``"""
    declared_version: str | None
    """the version that the files name; ``None`` where they name none and the catalog has to assign one"""
    diagnostics: tuple[Diagnostic, ...]
    """warnings and notes; a folder with errors is not loaded"""

    @property
    def mended(self) -> tuple[Diagnostic, ...]:
        """What was read other than it stands in the files."""
        return tuple(note for note in self.diagnostics if note.mended)

    @property
    def scripts(self) -> tuple[str, ...]:
        """Paths below ``scripts/``. Scripts of foreign skills are carried along and not run."""
        return tuple(file.path for file in self.files if file.path.startswith("scripts/"))

    @property
    def resources(self) -> tuple[SkillFile, ...]:
        """The files beside the definition: all but SKILL.md and prowess.yaml."""
        return tuple(file for file in self.files if not is_definition(file.path))


def is_definition(path: str) -> bool:
    """Whether the file at ``path`` defines the skill: SKILL.md, in any case, or prowess.yaml."""
    return path == PROWESS_YAML or path.lower() == SKILL_MD.lower()


class Draft:
    """What can be said about a skill folder: fields, body, files seen, and diagnostics, errors among them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.file = shown(str(Path(folder, SKILL_MD)))
        self.front: FrontMatter | None = None
        self.fields: Fields | None = None
        self.found: list[FoundFile] = []
        self.contents: dict[str, bytes] = {}
        self.diagnostics: list[Diagnostic] = []

    @property
    def errors(self) -> list[Diagnostic]:
        """The diagnostics that refuse the skill, in the order they were found."""
        return [note for note in self.diagnostics if note.severity == "error"]

    @property
    def id(self) -> str | None:
        """The canonical id, where the name could be read."""
        return None if self.fields is None else self.fields.data.get("id")

    def manifest(self) -> SkillManifest | None:
        """The manifest, or ``None`` with the reasons added to ``diagnostics``."""
        if self.fields is None or self.errors:
            return None
        from pydantic import ValidationError

        from prowess.skills.manifest import SkillManifest

        try:
            return SkillManifest.model_validate(self.fields.data)
        except ValidationError as error:
            self.diagnostics.extend(_model_faults(error, self.fields, self.file))
            return None


def inspect_skill_folder(path: str | os.PathLike[str]) -> Draft:
    """Read what can be read of a skill folder (or of the SKILL.md in it). Raises nothing; hashes nothing."""
    place = Path(path)
    if place.name.lower() == SKILL_MD.lower() and not is_folder(place):
        place = place.parent
    draft = Draft(str(place))
    if not is_folder(place):
        draft.diagnostics.append(Diagnostic("path_missing", shown(draft.folder)))
        return draft
    scan = FolderScan(draft.folder).run()
    draft.found = scan.files
    draft.diagnostics.extend(scan.diagnostics)
    try:
        _read_definition(draft, scan)
    except SkillFileError as error:
        draft.diagnostics.append(diagnose(error))
    return draft


def is_folder(place: Path) -> bool:
    """Whether there is a folder; a path that no system could have is none."""
    try:
        return place.is_dir()
    except (OSError, ValueError):
        return False


def _read_definition(draft: Draft, scan: FolderScan) -> None:
    found = _find_skill_md(draft, scan)
    if found is None:
        return
    data = read_limited(found.location, MAX_SKILL_MD_BYTES, draft.file)
    draft.contents[found.path] = data
    draft.front = read_front_matter(data, draft.file)
    draft.diagnostics.extend(draft.front.diagnostics)
    beside = _read_beside(draft, scan)
    if draft.front.mapping is None:
        return
    place = Path(draft.folder)
    name = place.name if place.name not in ("", "..") else place.resolve().name
    draft.fields = read_fields(Source(draft.file, draft.front.mapping), beside, name)
    draft.diagnostics.extend(draft.fields.diagnostics)


def _find_skill_md(draft: Draft, scan: FolderScan) -> FoundFile | None:
    found = scan.find(SKILL_MD)
    if found is not None:
        return found
    found = next((file for file in scan.files if file.path.lower() == SKILL_MD.lower()), None)
    if found is not None:
        draft.file = shown(found.location)
        draft.diagnostics.append(Diagnostic("skill_md_case", draft.file, 1, {"name": found.path}))
    elif not os.path.lexists(Path(draft.folder, SKILL_MD)):
        draft.diagnostics.append(Diagnostic("skill_md_missing", draft.file))
    elif not draft.errors:
        draft.diagnostics.append(Diagnostic("file_unreadable", draft.file, 1, {"problem": "a broken link"}))
    return found


def _read_beside(draft: Draft, scan: FolderScan) -> Source | None:
    found = scan.find(PROWESS_YAML)
    for file in scan.files:
        if file.path != PROWESS_YAML and file.path.lower() in ("prowess.yaml", "prowess.yml"):
            draft.diagnostics.append(Diagnostic("file_misnamed", shown(file.location), 1, {"name": PROWESS_YAML}))
    if found is None:
        place = Path(draft.folder, PROWESS_YAML)
        if os.path.lexists(place) and not draft.errors:
            raise SkillFileError("file_irregular", file=shown(str(place)), line=1)
        return None
    label = shown(found.location)
    data = read_limited(found.location, MAX_SKILL_MD_BYTES, label)
    draft.contents[found.path] = data
    mapping, notes = read_yaml_file(data, label)
    draft.diagnostics.extend(notes)
    return Source(label, mapping)


def read_skill_folder(path: str | os.PathLike[str]) -> LoadedSkill:
    """Read a skill folder leniently; what was mended is in ``mended``.

    Raises ``SkillFileError`` for the first error, its ``detail`` holding ``file``, ``line`` and, where there are more,
    ``faults``: how many. ``inspect_skill_folder`` lists them all.
    """
    draft = inspect_skill_folder(path)
    manifest = draft.manifest()
    if draft.errors or manifest is None or draft.fields is None or draft.front is None:
        first, count = draft.errors[0], len(draft.errors)
        detail = dict(first.detail) | ({"faults": count} if count > 1 else {})
        raise SkillFileError(first.code, file=first.file, line=first.line, **detail)
    files = tuple(_hashed(found, draft.contents) for found in draft.found)
    return LoadedSkill(
        path=Path(draft.folder),
        manifest=manifest,
        body=draft.front.body,
        body_line=draft.front.body_line,
        files=files,
        digest=content_digest(files),
        declared_version=draft.fields.declared_version,
        diagnostics=tuple(draft.diagnostics),
    )


def _hashed(found: FoundFile, contents: dict[str, bytes]) -> SkillFile:
    content = contents.get(found.path)
    if content is not None:
        return SkillFile.of(found.path, content, executable=found.executable)
    data = read_limited(found.location, MAX_FILE_BYTES, shown(found.location))
    source = Path(found.location).absolute()
    return SkillFile(found.path, found.executable, len(data), hashlib.sha256(data).hexdigest(), source)


_TYPE_WORDS = {
    "model": "object",
    "dict": "object",
    "tuple": "array",
    "list": "array",
    "int": "integer",
    "int_from": "integer",
    "float": "number",
    "bool": "boolean",
}


def _model_faults(error: ValidationError, fields: Fields, file: str) -> list[Diagnostic]:
    """The model's complaints with file, line and our own words."""
    faults = []
    for item in error.errors(include_url=False):
        path = list(item["loc"]) or ["requirements"]
        where, line = fields.place(*path) or (file, 1)
        code, detail = _model_fault(item["type"], path, item.get("ctx", {}), item["input"], item["msg"])
        faults.append(Diagnostic(code, where, line, {"field": ".".join(str(step) for step in path), **detail}))
    return faults


def _model_fault(
    kind: str, path: list[str | int], context: Mapping[str, Any], value: Any, message: str
) -> tuple[str, dict[str, Any]]:
    if kind == "value_error":
        return _broken_rule(path, value, str(context.get("error", message)))
    if kind == "missing":
        return "field_missing", {}
    if kind == "extra_forbidden":
        return "field_unknown", {}
    if kind in ("literal_error", "enum"):
        return "field_choice", {"expected": str(context.get("expected")), "got": str(value)[:60]}
    if kind in ("greater_than_equal", "less_than_equal"):
        relation, limit = ("≥", context.get("ge")) if kind.startswith("greater") else ("≤", context.get("le"))
        return "field_range", {"relation": relation, "limit": limit, "got": str(value)[:60]}
    if kind == "string_pattern_mismatch":
        return "field_pattern", {"pattern": context.get("pattern"), "got": str(value)[:60]}
    if kind.endswith(("_type", "_parsing", "_from_float")) or kind == "finite_number":
        word = kind.rsplit("_", 1)[0]
        return "field_type", {"expected": "number" if kind == "finite_number" else _TYPE_WORDS.get(word, word)}
    return "field_value", {"problem": message}


def _broken_rule(path: list[str | int], value: Any, message: str) -> tuple[str, dict[str, Any]]:
    """The rules that the model checks beyond shape (S5, G1)."""
    from prowess.access.model import CODE_PATTERN
    from prowess.skills.manifest import names_everything

    if path[:2] == ["permissions", "filesystem"] and isinstance(value, list):
        return "permission_wildcard", {"pattern": next(path for path in value if names_everything(path))}
    if path == ["requirements"]:
        return "requirement_twice", {}
    if path[0] == "requirements" and isinstance(value, dict):
        code, risk = str(value.get("code")), str(value.get("risk"))
        if not CODE_PATTERN.fullmatch(code):
            return "requirement_code", {"permission": code[:60]}
        expected = "per_operation" if risk in ("L3", "L4") else "persistent | per_operation"
        return "requirement_approval", {"permission": code, "risk": risk, "expected": expected}
    return "field_value", {"problem": message}
