"""The front matter of a SKILL.md: bytes in, keys with lines, body and diagnostics out (S2; C01–C06, C12).

Reading is lenient where nothing can be lost by it, and says what was mended. A delimiter is a line that is exactly
``---`` (trailing blanks allowed), so ``a --- b`` inside a value stays whole. YAML broken by an unquoted colon or
leading sign is mended by quoting that one value; a restriction (``allowed-tools``, ``permissions`` …) that such
mending or a misplaced line would hide is an error, so that no skill comes out with fewer restrictions than its file
states.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from prowess.errors import SkillFileError
from prowess.kernel.yaml_nodes import Mapping, Node, YamlFault, compose

MAX_SKILL_MD_BYTES = 1024 * 1024
"""Of SKILL.md and of prowess.yaml"""

STANDARD_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
RICH_FIELDS = (
    "display_name",
    "version",
    "author",
    "created_at",
    "updated_at",
    "kind",
    "scopes",
    "trigger_source",
    "triggers",
    "tools",
    "permissions",
    "requirements",
    "constraints",
    "dependencies",
    "tags",
    "category",
    "priority",
)

Severity = Literal["error", "warning", "info"]

_NOTES: dict[str, tuple[Severity, bool]] = {
    "bom_skipped": ("info", True),
    "line_ends": ("info", True),
    "leading_blank": ("info", True),
    "name_number": ("info", True),
    "allowed_tools_form": ("info", True),
    "metadata_flattened": ("info", True),
    "field_flattened": ("info", True),
    "key_spelling": ("info", True),
    "description_from_tools": ("info", True),
    "field_foreign": ("info", False),
    "field_overridden": ("info", False),
    "folder_ignored": ("info", False),
    "nested_skill": ("warning", False),
    "parameter_no_default": ("info", False),
    "yaml_mended": ("warning", True),
    "name_case": ("warning", True),
    "name_spaces": ("warning", True),
    "name_snake": ("info", True),
    "version_mended": ("warning", True),
    "tools_as_allowed": ("warning", True),
    "skill_md_case": ("warning", True),
    "allowed_tools_empty": ("warning", False),
    "name_folder": ("warning", False),
    "key_misspelt": ("warning", False),
    "metadata_version": ("warning", False),
    "file_misnamed": ("warning", False),
    "link_ignored": ("warning", False),
    "body_long": ("warning", False),
    "body_empty": ("warning", False),
    "permission_idle": ("warning", False),
    "parameter_default_unused": ("warning", False),
    "parameter_constraint_idle": ("warning", False),
    "parameter_pattern_slow": ("warning", False),
}
"""Severity of a code, and whether it says that something was mended. Codes that are not named here are errors."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something to say about a skill file: ``file``, 1-based ``line``, stable ``code``, fields for the sentence."""

    code: str
    file: str
    line: int = 1
    detail: MappingType[str, Any] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """``error``, ``warning`` or ``info``."""
        return _NOTES.get(self.code, ("error", False))[0]

    @property
    def mended(self) -> bool:
        """Whether the file was read other than it stands."""
        return _NOTES.get(self.code, ("error", False))[1]

    def error(self) -> SkillFileError:
        """The same as an exception; it holds the sentences."""
        return SkillFileError(self.code, file=self.file, line=self.line, **self.detail)


def diagnose(error: SkillFileError) -> Diagnostic:
    """The diagnostic that an exception stands for."""
    detail = {key: value for key, value in error.detail.items() if key not in ("file", "line")}
    return Diagnostic(error.code, str(error.detail.get("file", "")), int(error.detail.get("line", 1)), detail)


class FrontMatter(NamedTuple):
    """What a SKILL.md says. ``mapping`` is ``None`` where a diagnostic is an error."""

    mapping: Mapping | None
    body: str
    """everything after the closing delimiter, with ``\\n`` line ends"""
    body_line: int
    """1-based line of the file on which ``body`` starts"""
    diagnostics: tuple[Diagnostic, ...]


def read_limited(path: str, limit: int, file: str | None = None) -> bytes:
    """The bytes of a regular file of at most ``limit`` bytes, judged by its size before anything is read.

    A file that nobody may read (mode 000) is unreadable, whoever asks. Raises ``SkillFileError`` (``file_missing``,
    ``file_unreadable``, ``file_irregular``, ``file_too_large``) naming ``file``, by default ``path``.
    """
    label = path if file is None else file
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        raise SkillFileError("file_missing", file=label, line=1) from None
    except (OSError, ValueError) as error:
        raise SkillFileError("file_unreadable", file=label, line=1, problem=_reason(error)) from None
    try:
        state = os.fstat(handle)
        _check_readable(state, limit, label)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise SkillFileError("file_unreadable", file=label, line=1, problem=_reason(error)) from None
    finally:
        os.close(handle)
    if len(data) > limit:
        raise SkillFileError("file_too_large", file=label, line=1, size=len(data), limit=limit)
    return data


def _check_readable(state: os.stat_result, limit: int, label: str) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise SkillFileError("file_irregular", file=label, line=1)
    if os.name == "posix" and not state.st_mode & 0o444:
        raise SkillFileError("file_unreadable", file=label, line=1, problem="mode 000")
    if state.st_size > limit:
        raise SkillFileError("file_too_large", file=label, line=1, size=state.st_size, limit=limit)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def read_front_matter(data: bytes, file: str) -> FrontMatter:
    """Split and read a SKILL.md. ``file`` is the name that diagnostics show. Raises nothing."""
    notes: list[Diagnostic] = []
    try:
        text = _decode(data, file, notes)
        head, body, line, body_line = _split(text, file, notes)
        mapping = read_mapping(head, file, line, notes, mend=True)
    except SkillFileError as error:
        return FrontMatter(None, "", 1, (*notes, diagnose(error)))
    return FrontMatter(mapping, body, body_line, tuple(notes))


def read_yaml_file(data: bytes, file: str) -> tuple[Mapping, tuple[Diagnostic, ...]]:
    """Read a YAML file of our own (prowess.yaml): nothing is guessed. Raises ``SkillFileError``."""
    notes: list[Diagnostic] = []
    text = _decode(data, file, notes)
    return read_mapping(text, file, 1, notes, mend=False), tuple(notes)


def _decode(data: bytes, file: str, notes: list[Diagnostic]) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SkillFileError("not_utf8", file=file, line=1, problem="UTF-16")
    if data.startswith(codecs.BOM_UTF8):
        notes.append(Diagnostic("bom_skipped", file))
        data = data[3:]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillFileError("not_utf8", file=file, line=line, problem=f"0x{data[error.start]:02X}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SkillFileError("yaml_control", file=file, line=line, character="\\x00")
    if "\r" in text:
        notes.append(Diagnostic("line_ends", file, text.count("\n", 0, text.index("\r")) + 1))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


_DELIMITER = re.compile(r"^---[ \t]*$", re.MULTILINE)
_BLANK_START = re.compile(r"(?:[ \t]*\n)+")


def _split(text: str, file: str, notes: list[Diagnostic]) -> tuple[str, str, int, int]:
    """Front matter, body, and the 1-based lines on which they start."""
    start = 0
    if blank := _BLANK_START.match(text):
        start = blank.end()
    opening = _DELIMITER.match(text, start)
    if opening is None:
        raise SkillFileError("front_matter_missing", file=file, line=1)
    line = text.count("\n", 0, start) + 2
    if start:
        notes.append(Diagnostic("leading_blank", file))
    closing = _DELIMITER.search(text, opening.end() + 1)
    if closing is None:
        raise SkillFileError("front_matter_unclosed", file=file, line=line - 1)
    head = text[opening.end() + 1 : closing.start()]
    body_line = line + head.count("\n") + 1
    return head, text[closing.end() + 1 :], line, body_line


_ENTRY = re.compile(r"(?P<indent>[ ]*)(?P<lead>(?P<dash>-[ ]+)?[A-Za-z_][\w.-]*[ \t]*:[ \t]+)(?P<value>\S.*)")
_ITEM = re.compile(r"(?P<indent>[ ]*)(?P<lead>-[ ]+)(?P<value>\S.*)")
_HELD = r"allowed[-_ ]?tools|tools|permissions|requirements|constraints|scopes?"
_HELD_AT_TOP = re.compile(rf"^[\"']?({_HELD})[\"']?[ \t]*:", re.MULTILINE | re.IGNORECASE)
_ALLOWED_AT_TOP = re.compile(r"^[\"']?allowed[-_ ]?tools[\"']?[ \t]*:", re.MULTILINE | re.IGNORECASE)
_ALLOWED_INSIDE = re.compile(r"^[ \t]+[\"']?allowed[-_]?tools[\"']?[ \t]*:", re.MULTILINE | re.IGNORECASE)
_KNOWN = re.compile(
    r"[ \t]*[\"']?(?:scope|" + "|".join(name.replace("-", "[-_]?") for name in (*STANDARD_FIELDS, *RICH_FIELDS)) + r")"
    r"[\"']?[ \t]*:",
    re.IGNORECASE,
)
_SECTION = re.compile(r"(?:tools|permissions|requirements|constraints|scopes?|dependencies|triggers)", re.IGNORECASE)
"""Never mended: as text, what they restrict would be lost"""
_MAX_MENDS = 20


def read_mapping(text: str, file: str, first_line: int, notes: list[Diagnostic], *, mend: bool) -> Mapping:
    """The mapping in ``text``; what was mended is added to ``notes``.

    Raises ``SkillFileError`` with the codes of ``yaml_nodes.compose``, and ``front_matter_shape``,
    ``restriction_hidden``, ``restriction_misplaced``.
    """
    source = text
    mended: dict[int, Diagnostic] = {}
    node: Node | None = None
    settled = False
    while not settled:
        try:
            node = compose(source, first_line)
            settled = True
        except YamlFault as fault:
            repaired = _mend(source, fault, first_line, set(mended)) if mend and len(mended) < _MAX_MENDS else None
            if repaired is None:
                raise SkillFileError(fault.code, file=file, line=fault.line, **fault.detail) from None
            source, line, name = repaired
            mended[line] = Diagnostic("yaml_mended", file, line, {"field": name})
    if node is None:
        node = Mapping({}, first_line)
    if not isinstance(node, Mapping):
        raise SkillFileError("front_matter_shape", file=file, line=node.line)
    if mend:
        _check_nothing_hidden(text, node, file, first_line)
    notes.extend(mended.values())
    return node


def _check_nothing_hidden(text: str, mapping: Mapping, file: str, first_line: int) -> None:
    for found in _HELD_AT_TOP.finditer(text):
        if found[1] not in mapping.entries:
            line = first_line + text.count("\n", 0, found.start())
            raise SkillFileError("restriction_hidden", file=file, line=line, field=found[1])
    inside = _ALLOWED_INSIDE.search(text)
    if inside and _ALLOWED_AT_TOP.search(text) is None:
        line = first_line + text.count("\n", 0, inside.start())
        raise SkillFileError("restriction_misplaced", file=file, line=line, field="allowed-tools")


def _mend(text: str, fault: YamlFault, first_line: int, done: set[int]) -> tuple[str, int, str] | None:
    """Quote the one value that broke the YAML: the new text, the line and the name of the field; or ``None``."""
    lines = text.split("\n")
    bad_escape = "escape" in str(fault.detail.get("problem"))
    for suspect in fault.suspects:
        index = suspect - first_line
        if not 0 <= index < len(lines):
            continue
        head, last = _value_around(lines, index)
        match = _ENTRY.fullmatch(lines[head]) or _ITEM.fullmatch(lines[head])
        name = "" if match is None else match["lead"].strip("- \t:")
        if match is None or first_line + head in done or _SECTION.fullmatch(name):
            continue
        quoted = _quote(match["value"], lines[head + 1 : last + 1], bad_escape)
        if quoted is None:
            continue
        lines[head] = match["indent"] + match["lead"] + quoted
        lines[head + 1 : last + 1] = [""] * (last - head)
        return "\n".join(lines), first_line + head, name or "-"
    return None


def _value_around(lines: list[str], index: int) -> tuple[int, int]:
    """First and last line of the one-line or continued value that line ``index`` belongs to."""
    head = index
    column = _column(lines[index])
    for above in range(index - 1, -1, -1):
        if lines[above].strip() and _column(lines[above]) < column:
            match = _ENTRY.fullmatch(lines[above])
            if match and match["value"][0] not in "|>#":
                head = above
            break
    column = _column(lines[head])
    last = head
    while last + 1 < len(lines) and (not lines[last + 1].strip() or _indent(lines[last + 1]) > column):
        last += 1
    return head, last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _column(line: str) -> int:
    """Where a key starts, a dash before it counted; else where the line starts."""
    match = _ENTRY.fullmatch(line)
    return _indent(line) if match is None else len(match["indent"]) + len(match["dash"] or "")


_COMMENT = re.compile(r"[ \t]#.*")
_INNER_COLON = re.compile(r":(?:[ \t]|$)")


def _quote(value: str, continued: list[str], bad_escape: bool) -> str | None:
    """``value`` and its continuation lines as one double-quoted scalar; ``None`` where that is no cure."""
    if value[0] in "|>#" or any(_KNOWN.match(line) for line in continued):
        return None
    raw = " ".join(part for part in (line.strip() for line in (value, *continued)) if part)
    if raw[0] in "\"'":
        raw = _unquoted(raw, bad_escape)
    elif raw[0] not in "[{&*!%@`-?,]}" and not _INNER_COLON.search(raw):
        return None
    raw = _COMMENT.sub("", raw)
    return json.dumps(raw, ensure_ascii=False) if raw else None


def _unquoted(raw: str, bad_escape: bool) -> str:
    """The text of a value whose quotes do not close where they should; empty where they do."""
    mark = raw[0]
    if raw.count(mark) == 1:
        return raw[1:]
    if raw[-1] != mark:
        return raw
    inner = raw[1:-1]
    return inner if mark in inner or bad_escape else ""
