"""Skill folders, written strictly (S1–S3, rulings 12.1, 12.2 and 12.31; C03, C09, C11).

Two forms, each read back to the same manifest, body and files:

- ``standard``: a SKILL.md with the six fields of the Agent Skills standard and nothing else, which any client accepts,
  and a ``prowess.yaml`` with the rest, unknown keys under ``front_matter``;
- ``rich``: one SKILL.md whose front matter holds everything.

What was written is read back before it is put in place; a folder that would not read as it was meant is never left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from prowess.errors import SkillFileError
from prowess.kernel.yaml_nodes import CONTROL, MAX_KEY_LENGTH
from prowess.skills.front_matter import RICH_FIELDS
from prowess.skills.manifest import SkillManifest
from prowess.skills.skill_md.fields import KEPT_KEY, UNVERSIONED
from prowess.skills.skill_md.folder import (
    FOREIGN_NAMES,
    GENERATED_FILES,
    GENERATED_FOLDERS,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_SKILL_BYTES,
    METADATA_JSON,
    PROWESS_YAML,
    SKILL_MD,
    TEMPORARY_PREFIX,
    SkillFile,
)
from prowess.skills.skill_md.reader import LoadedSkill, inspect_skill_folder, is_definition, read_skill_folder

Form = Literal["standard", "rich"]


def write_skill_folder(
    skill: LoadedSkill | SkillManifest,
    body: str | None,
    files: Iterable[SkillFile] | None,
    destination: str | os.PathLike[str],
    form: Form = "standard",
) -> Path:
    """Write a skill as ``destination/<id>`` and return that folder.

    ``body`` and ``files`` may be ``None`` for a ``LoadedSkill``: its own are meant. Definition files among ``files``
    are passed over, since they are written anew. A folder of the same skill is replaced as a whole; its
    ``validation/``, ``quality/``, ``.git`` and the like stay. It is written beside and renamed: a reader sees the old
    folder or the new one.

    Raises ``SkillFileError``: ``folder_foreign`` (something else stands there), ``file_name`` and ``path_reserved``
    (a file that may not be written), ``folder_too_many_files``, ``folder_too_large``, ``file_too_large``,
    ``text_control``, ``yaml_key``, ``not_writable`` (it would not read back as it is), ``write_failed``.
    """
    manifest = skill.manifest if isinstance(skill, LoadedSkill) else skill
    unversioned = isinstance(skill, LoadedSkill) and skill.declared_version is None
    if isinstance(skill, LoadedSkill):
        body = skill.body if body is None else body
        files = skill.files if files is None else files
    text = (body or "").replace("\r\n", "\n").replace("\r", "\n")
    resources = tuple(file for file in files or () if not is_definition(file.path))
    target = Path(destination) / manifest.id
    contents = _definition_files(manifest, text, form, str(target), unversioned=unversioned)
    _check_resources(resources, str(target))
    _check_target(target, manifest.id)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=target.parent))
        try:
            fresh = temporary / manifest.id
            _write_all(fresh, contents, resources)
            _check_written(fresh, manifest, text, resources)
            _put_in_place(fresh, target, temporary)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise SkillFileError("write_failed", file=str(target), line=1, problem=error.strerror or str(error)) from None
    return target


def render_skill(
    manifest: SkillManifest, body: str, form: Form = "standard", *, unversioned: bool = False
) -> tuple[str, str | None]:
    """The text of SKILL.md, and that of prowess.yaml where one is needed. Raises as ``write_skill_folder``.

    ``unversioned`` leaves the version out, for a skill whose files name none.
    """
    standard = _standard_fields(manifest)
    rich = _rich_fields(manifest)
    if unversioned and manifest.version == UNVERSIONED:
        del rich["version"]
    _check_text({**standard, **rich, "extra": manifest.extra})
    if form == "rich":
        merged = standard | rich
        if clash := sorted(merged.keys() & manifest.extra.keys()):
            raise SkillFileError("not_writable", file=SKILL_MD, line=1, field=clash[0])
        return f"---\n{dump_yaml(_seed_order(merged) | manifest.extra)}---\n{body}", None
    if manifest.metadata.get("version") == manifest.version:
        rich.pop("version", None)
    if manifest.extra:
        rich[KEPT_KEY] = manifest.extra
    return f"---\n{dump_yaml(standard)}---\n{body}", dump_yaml(rich) if rich else None


def metadata_document(manifest: SkillManifest, scripts: Iterable[str] = ()) -> dict[str, Any]:
    """``metadata.json``, in the shape of section 2.2.2 of the lifecycle seed.

    Status, counts and scores live in the database; the document shows those that the files ask for, else a draft.
    Paths are relative to the skill's folder.
    """
    data = manifest.model_dump(mode="json")
    asked = manifest.extra
    scripts = sorted(scripts)
    return {
        "skill_id": f"{manifest.id}_v{manifest.version}",
        "name": manifest.id,
        **{key: data[key] for key in ("display_name", "description", "version", "author", "created_at", "updated_at")},
        "status": asked.get("status", "draft"),
        "trigger_source": manifest.trigger_source,
        "trigger_count": asked.get("trigger_count", 0),
        "quality_score": asked.get("quality_score"),
        "quality_metrics": asked.get("quality_metrics"),
        "kind": data["kind"],
        "tools": manifest.model_dump(mode="json", exclude_defaults=True).get("tools", []),
        **{key: data[key] for key in ("permissions", "constraints", "dependencies", "tags", "category", "priority")},
        "skill_file_path": SKILL_MD,
        "script_file_path": scripts[0] if scripts else None,
    }


# fields


def _standard_fields(manifest: SkillManifest) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": manifest.id, "description": manifest.description}
    if manifest.license is not None:
        fields["license"] = manifest.license
    if manifest.compatibility is not None:
        fields["compatibility"] = manifest.compatibility
    if manifest.metadata:
        fields["metadata"] = dict(manifest.metadata)
    if manifest.allowed_tools is not None:
        fields["allowed-tools"] = " ".join(manifest.allowed_tools)
    return fields


def _rich_fields(manifest: SkillManifest) -> dict[str, Any]:
    data = manifest.model_dump(mode="json", exclude_defaults=True)
    data["version"] = manifest.version
    if "tools" in data:
        data["tools"] = [_plain_limits(tool) for tool in data["tools"]]
    return {name: data[name] for name in RICH_FIELDS if name in data}


def _plain_limits(value: Any) -> Any:
    """Limits as people write them: ``max: 8``, not ``max: 8.0``."""
    if isinstance(value, list):
        return [_plain_limits(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: int(item)
        if key in ("min", "max") and isinstance(item, float) and item.is_integer()
        else item
        if key in ("default", "enum")
        else _plain_limits(item)
        for key, item in value.items()
    }


def _seed_order(fields: dict[str, Any]) -> dict[str, Any]:
    """``name``, ``display_name``, ``version`` first, as the seed writes them."""
    first = ("name", "display_name", "version", "author", "created_at", "updated_at")
    return {key: fields[key] for key in first if key in fields} | fields


def _check_text(value: Any) -> None:
    """Refuse what a reader would refuse: control characters, lone surrogates, keys of over 200 characters."""
    if isinstance(value, str):
        if found := CONTROL.search(value):
            raise SkillFileError("text_control", file=SKILL_MD, line=1, character=ascii(found.group()).strip("'"))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or len(key) > MAX_KEY_LENGTH:
                raise SkillFileError("yaml_key", file=SKILL_MD, line=1, limit=MAX_KEY_LENGTH)
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_text(item)


# YAML

_PLAIN = re.compile(
    r"[^\W\d_](?:[\w ./()+,;!?'\"&*=%@<>|~^$-]|:(?=[^\s:])"
    "|[\N{FULLWIDTH COMMA}\N{IDEOGRAPHIC FULL STOP}\N{FULLWIDTH COLON}\N{FULLWIDTH SEMICOLON}\N{IDEOGRAPHIC COMMA}"
    "\N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH RIGHT PARENTHESIS}])*"
)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Block-style YAML of JSON values that every reader reads alike: quoted where a plain scalar could be mistaken.

    ``---`` never occurs in it, so that clients which look for the delimiter anywhere are not misled.
    """
    return "".join(f"{line}\n" for line in _block(value))


def _block(value: Any) -> list[str]:
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, item in value.items():
            head = f"{_text(key)}:"
            lines += [f"{head} {_inline(item)}"] if _is_inline(item) else [head, *_indented(_block(item))]
        return lines
    for item in value:
        if _is_inline(item):
            lines.append(f"- {_inline(item)}")
        else:
            first, *rest = _block(item)
            lines += [f"- {first}", *_indented(rest)]
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _is_inline(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple) or not value


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and not text.endswith((" ", ":")) and "---" not in text
    if plain and text.lower() not in _WORDS:
        return text
    quoted = _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(text, ensure_ascii=False))
    return quoted.replace("--", r"-\x2D") if "---" in quoted else quoted


# files


def _definition_files(
    manifest: SkillManifest, body: str, form: Form, target: str, *, unversioned: bool
) -> dict[str, bytes]:
    skill_md, beside = render_skill(manifest, body, form, unversioned=unversioned)
    try:
        contents = {SKILL_MD: skill_md.encode()}
    except UnicodeEncodeError:
        raise SkillFileError("text_control", file=target, line=1, character="a lone surrogate") from None
    if beside is not None:
        contents[PROWESS_YAML] = beside.encode()
    return contents


_UNSAFE_PATH = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\]|^[A-Za-z]:")


def _check_resources(files: tuple[SkillFile, ...], target: str) -> None:
    if len(files) > MAX_FILES:
        raise SkillFileError("folder_too_many_files", file=target, line=1, limit=MAX_FILES)
    if sum(file.size for file in files) > MAX_SKILL_BYTES:
        raise SkillFileError("folder_too_large", file=target, line=1, limit=MAX_SKILL_BYTES)
    seen: set[str] = set()
    for file in files:
        parts = file.path.split("/")
        if _UNSAFE_PATH.search(file.path) or {"", ".", ".."}.intersection(parts) or file.path in seen:
            raise SkillFileError("file_name", file=target, line=1, name=ascii(file.path).strip("'"))
        if parts[0] in GENERATED_FOLDERS or file.path in GENERATED_FILES or FOREIGN_NAMES.intersection(parts):
            raise SkillFileError("path_reserved", file=target, line=1, name=file.path)
        if file.size > MAX_FILE_BYTES:
            raise SkillFileError("file_too_large", file=file.path, line=1, size=file.size, limit=MAX_FILE_BYTES)
        seen.add(file.path)


def _check_target(target: Path, skill_id: str) -> None:
    """Only nothing, an empty folder, or a folder of the same skill may stand where one is written."""
    if not os.path.lexists(target):
        return
    own = target.is_dir() and not target.is_symlink()
    if own and (not any(target.iterdir()) or inspect_skill_folder(target).id == skill_id):
        return
    raise SkillFileError("folder_foreign", file=str(target), line=1)


def _write_all(folder: Path, contents: Mapping[str, bytes], resources: tuple[SkillFile, ...]) -> None:
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for file in resources:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read())
        if file.executable:
            place.chmod(place.stat().st_mode | 0o111)


def _check_written(folder: Path, manifest: SkillManifest, body: str, resources: tuple[SkillFile, ...]) -> None:
    written = read_skill_folder(folder)
    wanted = {file.path: (file.sha256, file.executable) for file in resources}
    got = {file.path: (file.sha256, file.executable) for file in written.resources}
    ours, theirs = manifest.model_dump(mode="json"), written.manifest.model_dump(mode="json")
    if ours != theirs:
        field = next(name for name in ours if ours[name] != theirs[name])
        raise SkillFileError("not_writable", file=folder.name, line=1, field=field)
    if written.body != body or wanted != got:
        raise SkillFileError("not_writable", file=folder.name, line=1, field="body" if wanted == got else "files")
    scripts = [file.path for file in resources if file.path.startswith("scripts/")]
    document = json.dumps(metadata_document(manifest, scripts), ensure_ascii=False, indent=2)
    (folder / METADATA_JSON).write_text(document + "\n", encoding="utf-8")


def _put_in_place(fresh: Path, target: Path, temporary: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    former = temporary / "former"
    kept = [name for name in (*GENERATED_FOLDERS, *FOREIGN_NAMES) if os.path.lexists(target / name)]
    target.rename(former)
    try:
        for name in kept:
            (former / name).rename(fresh / name)
        fresh.rename(target)
    except OSError:
        for name in kept:
            if os.path.lexists(fresh / name):
                (fresh / name).rename(former / name)
        former.rename(target)
        raise
