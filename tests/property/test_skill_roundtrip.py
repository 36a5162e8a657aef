"""Whatever a skill holds, writing and reading gives it back, in both forms; other clients accept the standard one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import skills_ref  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prowess.errors import SkillFileError
from prowess.kernel.yaml_nodes import compose, verbatim
from prowess.skills.front_matter import read_front_matter
from prowess.skills.manifest import SkillManifest
from prowess.skills.skill_md import LoadedSkill, SkillFile, content_digest, inspect_skill_folder, read_skill_folder
from prowess.skills.skill_md.tool_lists import split_tools
from prowess.skills.skill_writer import dump_yaml, write_skill_folder

ODD = [
    "---",
    "a --- b",
    ": ",
    " #",
    "1.10",
    "on",
    "null",
    "{a: b}",
    "[x]",
    "- x",
    "'",
    '"',
    "\\",
    "\n",
    "\u2028",
    "\x85",
    "表格",
]
text = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=30),
    st.lists(st.sampled_from(ODD), max_size=4).map("".join),
)
filled = text.map(str.strip).filter(bool)
keys = text.filter(bool).map(lambda key: "x-" + key)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), text)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=8
)
names = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,6}){0,3}", fullmatch=True)
tools = st.sampled_from(["Read", "Bash(git add *)", "mcp__a__b", "Bash(npm run x:*)", "Edit(/a/**)"])

leaf = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "float", "boolean", "file"])},
    optional={
        "required": st.booleans(),
        "description": text,
        "min": st.floats(-1e6, 1e6),
        "max": st.integers(-5, 5),
        "min_length": st.integers(0, 9),
        "pattern": text,
    },
)
with_default = st.one_of(
    leaf,
    st.builds(lambda part, default: {**part, "type": "string", "default": default}, leaf, text),
    st.builds(lambda part, default: {**part, "type": "integer", "default": default}, leaf, st.integers()),
    st.builds(lambda choices: {"type": "enum", "enum": choices}, st.lists(scalars.filter(lambda v: v is not None))),
    st.builds(lambda items: {"type": "array", "items": {"type": "string"}, "default": items}, st.lists(text)),
)
parameter = st.recursive(
    with_default,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda parts: {"type": "object", "properties": parts}, st.dictionaries(text, inner, max_size=3)),
    ),
    max_leaves=4,
)
tool = st.fixed_dictionaries(
    {"name": st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,9}", fullmatch=True)},
    optional={
        "description": text,
        "parameters": st.lists(st.builds(lambda part, name: {**part, "name": name}, parameter, text), max_size=3),
        "returns": st.fixed_dictionaries({"type": st.sampled_from(["string", "object", "null"])}),
        "errors": st.lists(st.fixed_dictionaries({"code": filled}, optional={"message": text}), max_size=2),
    },
)
path_pattern = text.map(lambda part: "/data/" + part)
manifests = st.fixed_dictionaries(
    {
        "id": names,
        "version": st.from_regex(r"(0|[1-9][0-9]{0,3})\.[1-9]\.(0|[1-9])(-rc\.[1-9])?", fullmatch=True),
        "description": filled,
    },
    optional={
        "kind": st.sampled_from(["prompt", "workflow", "tool", "background"]),
        "scopes": st.sampled_from([["single_chat"], ["group_chat"], ["single_chat", "group_chat"]]),
        "display_name": text,
        "author": text,
        "created_at": text,
        "trigger_source": text,
        "license": filled,
        "compatibility": filled,
        "allowed_tools": st.lists(tools, unique=True, max_size=3),
        "metadata": st.dictionaries(text, text, max_size=3),
        "triggers": st.fixed_dictionaries(
            {"keywords": st.lists(text, max_size=3)}, optional={"min_keywords": st.just(3)}
        ),
        "tools": st.lists(tool, max_size=2),
        "requirements": st.just([{"code": "memory:read", "risk": "L1"}, {"code": "mail:send", "risk": "L3",
                                 "approval": "per_operation"}]),
        "permissions": st.fixed_dictionaries(
            {},
            optional={
                "filesystem": st.fixed_dictionaries({"read": st.lists(path_pattern, max_size=2)}),
                "network": st.fixed_dictionaries({"allowed": st.booleans(), "domains": st.lists(text, max_size=2)}),
                "memory": st.just({"read_layers": ["L1", "L2"]}),
            },
        ),
        "constraints": st.fixed_dictionaries({"rate_limit": st.integers(1, 10**9)}),
        "dependencies": st.fixed_dictionaries(
            {"packages": st.lists(st.dictionaries(text, text, min_size=1, max_size=2))}
        ),
        "tags": st.lists(filled, unique=True, max_size=3),
        "category": text,
        "priority": st.sampled_from(["low", "normal", "high"]),
        "extra": st.dictionaries(keys, json_values, max_size=4),
    },
).map(SkillManifest.model_validate)  # fmt: skip
bodies = st.one_of(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")), st.just("---\n"))
files = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}\.md", fullmatch=True), st.binary(max_size=50), max_size=3
).filter(lambda parts: not any(path.split("/")[0] in ("validation", "quality", "skill.md") for path in parts))


def content(skill: LoadedSkill) -> Any:
    return skill.manifest, skill.body, {file.path: file.sha256 for file in skill.resources}, skill.declared_version


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(manifests, bodies, files)
def test_c03_reading_what_was_written_gives_it_back(
    manifest: SkillManifest, body: str, parts: dict[str, bytes]
) -> None:
    resources = [SkillFile.of(path, data) for path, data in parts.items()]
    with tempfile.TemporaryDirectory() as place:
        folder = write_skill_folder(manifest, body, resources, Path(place, "standard"))
        standard = read_skill_folder(folder)
        assert standard.manifest == manifest
        assert standard.body == body
        assert {note.code for note in standard.diagnostics} <= {"allowed_tools_empty"}
        assert {file.path: file.read() for file in standard.resources} == parts
        assert skills_ref.validate(folder) == []
        rich = read_skill_folder(write_skill_folder(standard, None, None, Path(place, "rich"), "rich"))
        assert content(rich) == content(standard)
        again = read_skill_folder(write_skill_folder(rich, None, None, Path(place, "again")))
        assert content(again) == content(standard)
        assert again.digest == standard.digest == content_digest(standard.files)


@given(st.dictionaries(text, json_values, max_size=4))
def test_c03_yaml_of_any_json_reads_back(value: dict[str, Any]) -> None:
    written = dump_yaml(value)
    node = compose(written)
    assert ({} if node is None else verbatim(node)) == value
    assert "---" not in written


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda part: f"---\n{part}\n---\n".encode(errors="replace")))
def test_c05_no_bytes_make_reading_fail(data: bytes) -> None:
    front = read_front_matter(data, "SKILL.md")
    errors = [note for note in front.diagnostics if note.severity == "error"]
    assert (front.mapping is None) == bool(errors)
    assert all(1 <= note.line <= data.count(b"\n") + data.count(b"\r") + 2 for note in front.diagnostics)


LINES = [
    "name: demo", "description: d", "description: a: b", "allowed-tools: Read", "  allowed-tools: Read", "- x", "---",
    "metadata:", "  a: b", "  c: d: e", 'x: "', "y: [", "z: |", "tools: [Read]", "permissions: {a: b", "# c", "\ta: b",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(LINES), max_size=8), st.booleans())
def test_c02_a_restriction_in_the_file_is_in_the_skill_or_the_skill_is_refused(lines: list[str], first: bool) -> None:
    head = [*(["name: demo", "description: d"] if first else []), *lines]
    with tempfile.TemporaryDirectory() as place:
        Path(place, "SKILL.md").write_text("\n".join(["---", *head, "---", "Body", ""]), encoding="utf-8")
        draft = inspect_skill_folder(place)
        inside = head[: head.index("---")] if "---" in head else head
        restricted = any(line.strip().startswith(("allowed-tools", "tools: [")) for line in inside)
        if not draft.errors and restricted:
            manifest = draft.manifest()
            assert manifest is not None
            assert manifest.allowed_tools is not None
        assert draft.errors or draft.manifest() is not None


@given(st.lists(tools | st.from_regex(r"[A-Za-z]{1,5}(\([a-z *:,]{0,8}\))?", fullmatch=True)))
def test_c11_lists_of_tools_survive_joining(entries: list[str]) -> None:
    assert split_tools(" ".join(entries)) == tuple(entries)
    assert split_tools(", ".join(entries)) == tuple(entries)


@given(st.text("ab()[]{},: \"'*", max_size=20))
def test_c11_lists_of_tools_never_widen(written: str) -> None:
    try:
        entries = split_tools(written)
    except ValueError:
        return
    assert split_tools(" ".join(entries)) == entries
    assert not any(entry.startswith("(") for entry in entries)


@given(st.text(min_size=1, max_size=20))
def test_c09_no_name_leads_out_of_the_folder(name: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        quoted = dump_yaml({"name": name}) if not any(0xD800 <= ord(c) <= 0xDFFF for c in name) else "name: x\n"
        Path(place, "SKILL.md").write_text(f"---\n{quoted}description: d\n---\nB\n", encoding="utf-8")
        try:
            skill = read_skill_folder(place)
        except SkillFileError:
            return
        assert Path(place, skill.manifest.id).parent == Path(place)
