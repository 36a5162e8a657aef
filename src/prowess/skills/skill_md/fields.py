"""From keys of files to the fields of a manifest (S2, S3; ruling 12.1, 12.2, 12.31; C09, C11).

Standard fields come from SKILL.md. Rich fields come from ``prowess.yaml`` and, where that is silent, from the front
matter. A rich key that another program uses in another shape (``priority: 4``, ``permissions: {env: […]}``) is kept as
an unknown key, and gives no rights. A key that restricts is never passed over: what cannot be read is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prowess.kernel.names import is_skill_name, normalise_skill_name
from prowess.kernel.yaml_nodes import Entry, Mapping, Scalar, Sequence, is_null, text_of, value_of, verbatim
from prowess.skills.front_matter import STANDARD_FIELDS, Diagnostic
from prowess.skills.skill_md.sections import FOREIGN, is_ours, section_of
from prowess.skills.skill_md.spelling import (
    DENIALS,
    FIELDS,
    flatten,
    mend_version,
    metadata_text,
    near_miss,
    short,
    squeeze,
    suggest_name,
)
from prowess.skills.skill_md.tool_lists import is_tool_name_list, tools_of

MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
UNVERSIONED = "0.1.0"
"""The version of a manifest whose files name none; ``LoadedSkill.declared_version`` is then ``None``"""

KEPT_KEY = "front_matter"
"""The key of prowess.yaml under which unknown keys of the front matter are kept"""


_NEVER_KEPT = frozenset(STANDARD_FIELDS) - {"metadata"}
_UNSAFE_NAME = re.compile(r"\.\.|[/\\\x00]|^[A-Za-z]:")
_TEXT_FIELDS = ("display_name", "author", "created_at", "updated_at", "trigger_source", "category")
_SECTIONS = ("tools", "permissions", "requirements", "constraints", "dependencies", "triggers")
_KINDS = ("prompt", "workflow", "tool", "background")
_SCOPES = ("single_chat", "group_chat")
_PRIORITIES = ("low", "normal", "high")


class Source(NamedTuple):
    """A file and the mapping in it."""

    file: str
    mapping: Mapping


class Found(NamedTuple):
    """A key of a file: the file, how it is spelt there, its line and value."""

    file: str
    spelling: str
    entry: Entry


@dataclass(slots=True)
class Fields:
    """The outcome: ``data`` fits ``SkillManifest`` in shape, save for what its sections hold."""

    data: dict[str, Any] = field(default_factory=dict)
    declared_version: str | None = None
    origins: dict[str, Found] = field(default_factory=dict)
    sections: bool = False
    """whether there are sections whose inside is still to be judged by the manifest's model"""
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def place(self, *path: str | int) -> tuple[str, int] | None:
        """File and line of a field, or of what lies deepest on the way to it; ``None`` where no file has the field."""
        found = self.origins.get(str(path[0]))
        if found is None:
            return None
        line, node = found.entry.line, found.entry.node
        for step in path[1:]:
            if isinstance(node, Mapping) and str(step) in node.entries:
                line, node = node.entries[str(step)]
            elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
                node = node.items[step]
                line = node.line
            else:
                break
        return found.file, line


def read_fields(skill_md: Source, prowess: Source | None, folder_name: str) -> Fields:
    """Read all fields; faults are in the result's diagnostics."""
    return _Reader(skill_md, prowess, folder_name).run()


class _Reader:
    def __init__(self, skill_md: Source, prowess: Source | None, folder_name: str) -> None:
        self._skill_md = skill_md
        self._prowess = prowess
        self._folder_name = folder_name
        self._out = Fields()
        self._extra: dict[str, Any] = {}
        self._front: dict[str, Found] = {}
        self._beside: dict[str, Found] = {}

    def run(self) -> Fields:
        self._front = self._sort_keys(self._skill_md)
        if self._prowess is not None:
            self._beside = self._sort_keys(self._prowess)
            self._refuse_standard_fields_beside()
        for step in (
            self._name,
            self._rich_texts,
            self._choices,
            self._tags,
            self._sections,
            self._description,
            self._license_and_compatibility,
            self._metadata,
            self._allowed_tools,
            self._version,
        ):
            step()
        if self._extra:
            self._out.data["extra"] = self._extra
        return self._out

    # keys

    def _sort_keys(self, source: Source) -> dict[str, Found]:
        """Known keys by field; unknown ones go to ``extra``."""
        known: dict[str, Found] = {}
        for key, entry in source.mapping.entries.items():
            name = FIELDS.get(squeeze(key))
            if name is None:
                self._unknown(source, key, entry)
                continue
            if name in known:
                lines = {"first": known[name].entry.line, "second": entry.line}
                self._note("key_twice", source.file, entry.line, field=name, **lines)
                continue
            if key.replace("_", "-") not in (name.replace("_", "-"), "scope"):
                self._note("key_spelling", source.file, entry.line, key=key, field=name)
            known[name] = Found(source.file, key, entry)
        return known

    def _unknown(self, source: Source, key: str, entry: Entry) -> None:
        squeezed = squeeze(key)
        if squeezed in DENIALS:
            self._note("denied_tools", source.file, entry.line, key=key)
            return
        if source is self._prowess and key == KEPT_KEY:
            self._kept(source, entry)
            return
        if near := near_miss(squeezed):
            code = "restriction_misspelt" if near == "allowed-tools" else "key_misspelt"
            self._note(code, source.file, entry.line, key=key, field=near)
        self._extra[key] = verbatim(entry.node)

    def _kept(self, source: Source, entry: Entry) -> None:
        if not isinstance(entry.node, Mapping):
            self._note("field_type", source.file, entry.line, field=KEPT_KEY, expected="object")
            return
        for key, inner in entry.node.entries.items():
            squeezed = squeeze(key)
            restricts = squeezed == "tools" and is_tool_name_list(inner.node)
            if restricts or squeezed in DENIALS or FIELDS.get(squeezed) in _NEVER_KEPT:
                self._note("field_misplaced", source.file, inner.line, field=key)
            else:
                self._extra[key] = verbatim(inner.node)

    def _refuse_standard_fields_beside(self) -> None:
        for name in STANDARD_FIELDS:
            found = self._beside.pop(name, None)
            if found is None:
                continue
            mine = self._front.get(name)
            if mine is None or verbatim(mine.entry.node) != verbatim(found.entry.node):
                self._note("field_misplaced", found.file, found.entry.line, field=name)

    def _take(self, name: str) -> Found | None:
        """The key that counts for a rich field; null counts as absent."""
        front, beside = self._front.get(name), self._beside.get(name)
        if front is not None and is_null(front.entry.node):
            front = None
        if beside is not None and is_null(beside.entry.node):
            beside = None
        found = beside or front
        if beside is not None and front is not None and verbatim(beside.entry.node) != verbatim(front.entry.node):
            self._note("field_overridden", front.file, front.entry.line, field=name, other=beside.file)
        if found is not None:
            self._out.origins[name] = found
        return found

    def _foreign(self, name: str, found: Found, expected: str) -> None:
        """A rich key in another shape: kept from a SKILL.md, refused in our own file."""
        if found.file != self._skill_md.file:
            self._note("field_type", found.file, found.entry.line, field=name, expected=expected)
            return
        del self._out.origins[name]
        self._extra[found.spelling] = verbatim(found.entry.node)
        self._note("field_foreign", found.file, found.entry.line, field=name, expected=expected)

    def _note(self, code: str, file: str, line: int, **detail: Any) -> None:
        self._out.diagnostics.append(Diagnostic(code, file, line, detail))

    # standard fields

    def _name(self) -> None:
        found = self._front.get("name")
        file = self._skill_md.file
        if found is None or is_null(found.entry.node):
            self._note("name_missing", file, found.entry.line if found else self._skill_md.mapping.line)
            return
        self._out.origins["id"] = found
        node, line = found.entry.node, found.entry.line
        if not isinstance(node, Scalar):
            self._note("field_type", file, line, field="name", expected="string")
            return
        raw = node.text.strip()
        if _UNSAFE_NAME.search(raw):
            self._note("name_unsafe", file, line, name=short(raw))
            return
        name = normalise_skill_name(raw)
        if " " in name and is_skill_name(hyphenated := re.sub(" +", "-", name)):
            self._note("name_spaces", file, line, name=raw, id=hyphenated)
            name = hyphenated
        if not is_skill_name(name):
            self._note("name_invalid", file, line, name=short(raw), suggestion=suggest_name(raw))
            return
        if node.plain and not isinstance(value_of(node), str):
            self._note("name_number", file, line, name=raw)
        if raw != raw.lower():
            self._note("name_case", file, line, name=raw, id=name)
        if "_" in raw:
            self._note("name_snake", file, line, name=raw, id=name)
        if self._folder_name != name and normalise_skill_name(self._folder_name) != name:
            self._note("name_folder", file, line, name=name, folder=short(self._folder_name))
        self._out.data["id"] = name

    def _description(self) -> None:
        found = self._front.get("description")
        file = self._skill_md.file
        line = found.entry.line if found else self._skill_md.mapping.line
        if found is not None and not isinstance(found.entry.node, Scalar):
            self._note("field_type", file, line, field="description", expected="string")
            return
        text = (text_of(found.entry.node) or "").strip() if found is not None else ""
        if not text:
            text = self._description_from_tools()
            if not text:
                self._note("description_missing", file, line)
                return
            self._note("description_from_tools", file, line)
        elif len(text) > MAX_DESCRIPTION:
            self._note("description_long", file, line, length=len(text), limit=MAX_DESCRIPTION)
            return
        if found is not None:
            self._out.origins["description"] = found
        self._out.data["description"] = text

    def _description_from_tools(self) -> str:
        """The seed's form describes its tools only; one sentence a tool then describes the skill."""
        tools = self._out.data.get("tools", [])
        texts = [tool.get("description") for tool in tools if isinstance(tool, dict)]
        parts = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        separator = "\N{FULLWIDTH SEMICOLON}" if any(ord(letter) > 0x2E7F for letter in "".join(parts)) else "; "
        return separator.join(parts)[:MAX_DESCRIPTION].strip()

    def _license_and_compatibility(self) -> None:
        for name in ("license", "compatibility"):
            text = self._flat_text(name, self._front.get(name))
            if text is None:
                continue
            if name == "compatibility" and len(text) > MAX_COMPATIBILITY:
                file, line = self._out.place(name) or (self._skill_md.file, 1)
                self._note("compatibility_long", file, line, length=len(text), limit=MAX_COMPATIBILITY)
                continue
            self._out.data[name] = text

    def _flat_text(self, name: str, found: Found | None) -> str | None:
        """Text; lists become ``a, b`` and mappings JSON, which is reported. ``None`` where absent or empty."""
        if found is None or is_null(found.entry.node):
            return None
        self._out.origins[name] = found
        node = found.entry.node
        text = text_of(node)
        if text is None:
            self._note("field_flattened", found.file, found.entry.line, field=name)
            text = flatten(node)
        return text.strip() or None

    def _metadata(self) -> None:
        found = self._front.get("metadata")
        if found is None or is_null(found.entry.node):
            return
        self._out.origins["metadata"] = found
        node = found.entry.node
        if not isinstance(node, Mapping):
            self._foreign("metadata", found, "object")
            return
        nested = [key for key, entry in node.entries.items() if not isinstance(entry.node, Scalar)]
        if nested:
            line = node.entries[nested[0]].line
            self._note("metadata_flattened", found.file, line, keys=", ".join(nested))
        values = {key: metadata_text(entry.node) for key, entry in node.entries.items()}
        if values:
            self._out.data["metadata"] = values

    def _allowed_tools(self) -> None:
        found = self._front.get("allowed-tools")
        named = self._front.get("tools")
        names_restrict = named is not None and is_tool_name_list(named.entry.node)
        lists = {}
        for key, source in (("allowed-tools", found), ("tools", named if names_restrict else None)):
            if source is None:
                continue
            try:
                lists[key] = tools_of(source.entry.node)
            except ValueError as error:
                self._note("allowed_tools_shape", source.file, source.entry.line, field=key, problem=str(error))
                return
        if not lists:
            return
        if len(lists) == 2 and set(lists["allowed-tools"][0]) != set(lists["tools"][0]) and named is not None:
            self._note("allowed_tools_differ", named.file, named.entry.line, field="tools", other="allowed-tools")
            return
        self._restrict(lists, found, named)

    def _restrict(
        self, lists: dict[str, tuple[tuple[str, ...], bool]], found: Found | None, named: Found | None
    ) -> None:
        source = found or named
        assert source is not None
        tools, other_form = lists.get("allowed-tools") or lists["tools"]
        file, line = source.file, source.entry.line
        if "tools" in lists and named is not None:
            self._note("tools_as_allowed", named.file, named.entry.line)
        elif not tools:
            self._note("allowed_tools_empty", file, line)
        elif other_form:
            self._note("allowed_tools_form", file, line)
        self._out.origins["allowed_tools"] = source
        self._out.data["allowed_tools"] = tuple(dict.fromkeys(tools))

    # rich fields

    def _rich_texts(self) -> None:
        for name in _TEXT_FIELDS:
            found = self._take(name)
            if found is None:
                continue
            text = text_of(found.entry.node)
            if text is None:
                self._foreign(name, found, "string")
            else:
                self._out.data[name] = text

    def _choices(self) -> None:
        for name, choices in (("kind", _KINDS), ("priority", _PRIORITIES)):
            found = self._take(name)
            if found is None:
                continue
            text = text_of(found.entry.node)
            if text in choices:
                self._out.data[name] = text
            else:
                self._foreign(name, found, " | ".join(choices))
        self._scopes()

    def _scopes(self) -> None:
        found = self._take("scopes")
        if found is None:
            return
        node = found.entry.node
        items = node.items if isinstance(node, Sequence) else [node]
        values = [text_of(item) for item in items]
        if values and all(value in _SCOPES for value in values):
            self._out.data["scopes"] = tuple(scope for scope in _SCOPES if scope in values)
        elif any(value in _SCOPES for value in values):
            self._note("field_type", found.file, found.entry.line, field="scopes", expected=" | ".join(_SCOPES))
        else:
            self._foreign("scopes", found, " | ".join(_SCOPES))

    def _tags(self) -> None:
        found = self._take("tags")
        if found is None:
            return
        node = found.entry.node
        if isinstance(node, Scalar):
            tags = [part.strip() for part in node.text.split(",")]
        elif isinstance(node, Sequence) and all(text_of(item) is not None for item in node.items):
            tags = [text_of(item) or "" for item in node.items]
        else:
            self._foreign("tags", found, "array of strings")
            return
        self._out.data["tags"] = tuple(dict.fromkeys(tag for tag in tags if tag))

    def _sections(self) -> None:
        for name in _SECTIONS:
            found = self._take(name)
            if found is None:
                continue
            if found.file == self._skill_md.file and not is_ours(name, found.entry.node):
                if name == "tools" and is_tool_name_list(found.entry.node):
                    del self._out.origins[name]
                else:
                    self._foreign(name, found, FOREIGN[name])
                continue
            self._out.data[name] = section_of(found.entry.node)
            self._out.sections = True

    def _version(self) -> None:
        found = self._take("version")
        if found is not None:
            text = text_of(found.entry.node)
            version = None if text is None else mend_version(text)
            if version is None:
                shown = short(text if text is not None else flatten(found.entry.node))
                self._note("version_invalid", found.file, found.entry.line, version=shown)
                return
            if version != text:
                self._note("version_mended", found.file, found.entry.line, version=text, mended=version)
            self._out.declared_version = version
        else:
            self._version_from_metadata()
        self._out.data["version"] = self._out.declared_version or UNVERSIONED

    def _version_from_metadata(self) -> None:
        text = self._out.data.get("metadata", {}).get("version")
        if not text:
            return
        place = self._out.place("metadata", "version") or (self._skill_md.file, 1)
        version = mend_version(text)
        if version is None:
            self._note("metadata_version", *place, version=short(text))
        elif version != text:
            self._note("version_mended", *place, version=text, mended=version)
        self._out.declared_version = version
