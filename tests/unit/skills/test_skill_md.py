"""Reading skill folders: every form, what is mended, what is refused, digests and trees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from prowess.access.model import ApprovalMode, Risk
from prowess.errors import SkillFileError
from prowess.kernel.names import is_skill_name
from prowess.skills.manifest import ChatScope, SkillKind, names_everything
from prowess.skills.skill_md import (
    LoadedSkill,
    SkillFile,
    content_digest,
    find_skill_folders,
    inspect_skill_folder,
    read_skill_folder,
)
from prowess.skills.skill_md import folder as folder_module
from prowess.skills.skill_md.spelling import mend_version
from prowess.skills.skill_md.tool_lists import split_tools

RICH = """\
---
# The single-file form
name: tidy_table            # its id
display_name: 表格整理
version: 1.10.0
author: on
created_at: 2026-06-15T10:30:00+08:00
status: active
trigger_source: frequency
trigger_count: 8
quality_score: 0.92
ratio: 1.10

tools:
  - name: tidy_table
    description: 把表格按列对齐
    parameters:
      - name: input
        type: string
        required: true
        default: 1.10
      - name: width
        type: integer
        required: false
        default: 2
        min: 0
        max: 8
      - name: options
        type: object
        properties:
          default:
            type: boolean
            default: false
          sizes:
            type: array
            items:
              type: enum
              enum: [1, b, on]
            default: [1, on]
    returns:
      type: object
      properties:
        rows: {type: integer}
    errors:
      - code: PARSE_ERROR
        message: 404
        http_status: 400

permissions:
  filesystem:
    read: ["/app/data/**"]
    write: []
  network:
    allowed: true
    domains: ["api.example.com"]
  memory:
    read_layers: [L1, L2]
  env_vars:
    read: [HOME]

constraints:
  max_execution_time: 5000
  retry_policy:
    max_retries: 3
    backoff: exponential
    initial_delay: 1000
  schedule:
    type: cron
    expression: "0 9 * * *"
    timezone: Asia/Shanghai

dependencies:
  packages:
    - python: json
  min_agent_version: 2.0

tags: [table, 2026]
category: data
priority: high
---

# 正文
"""


def make(folder: Path, text: str | bytes, **files: str | bytes) -> Path:
    """A skill folder; ``__`` in a keyword stands for ``/`` and ``_dot_`` for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {"SKILL.md": text} | {
        name.replace("__", "/").replace("_dot_", "."): data for name, data in files.items()
    }
    for name, data in contents.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def head(lines: str, name: str = "demo") -> str:
    return f"---\nname: {name}\ndescription: Shows it.\n{lines}\n---\nBody\n"


def notes(skill: LoadedSkill) -> list[tuple[str, int]]:
    return [(note.code, note.line) for note in skill.diagnostics]


def refusal(folder: Path) -> SkillFileError:
    with pytest.raises(SkillFileError) as caught:
        read_skill_folder(folder)
    assert caught.value.message() != f"error.{caught.value.code}"
    assert caught.value.remedy() != f"remedy.{caught.value.code}"
    return caught.value


def test_s2_standard_front_matter(tmp_path: Path) -> None:
    text = (
        "---\nname: sum-up\ndescription: Sums up pages.\nlicense: MIT\ncompatibility: Needs git\n"
        "metadata:\n  author: ann\n  version: 1.2.0\nallowed-tools: Bash(git add *) Read\n---\n\nSum it up.\n"
    )
    skill = read_skill_folder(make(tmp_path / "sum-up", text, scripts__run_dot_py="print(1)\n", notes_dot_md="n"))
    manifest = skill.manifest
    assert (manifest.id, manifest.version, manifest.description) == ("sum-up", "1.2.0", "Sums up pages.")
    assert (manifest.license, manifest.compatibility) == ("MIT", "Needs git")
    assert manifest.metadata == {"author": "ann", "version": "1.2.0"}
    assert manifest.allowed_tools == ("Bash(git add *)", "Read")
    assert (manifest.kind, manifest.scopes) == (SkillKind.PROMPT, (ChatScope.SINGLE, ChatScope.GROUP))
    assert (skill.body, skill.body_line, skill.declared_version) == ("\nSum it up.\n", 11, "1.2.0")
    assert [file.path for file in skill.files] == ["SKILL.md", "notes.md", "scripts/run.py"]
    assert skill.scripts == ("scripts/run.py",)
    assert [file.path for file in skill.resources] == ["notes.md", "scripts/run.py"]
    assert skill.diagnostics == ()


def test_s3_rich_single_file_form(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "tidy_table", RICH))
    manifest = skill.manifest
    assert (manifest.id, manifest.display_name, manifest.version) == ("tidy-table", "表格整理", "1.10.0")
    assert (manifest.author, manifest.created_at) == ("on", "2026-06-15T10:30:00+08:00")
    assert manifest.description == "把表格按列对齐"
    tool = manifest.tools[0]
    assert tool.name == "tidy_table"
    text, width, options = tool.parameters
    assert (text.default, text.required) == ("1.10", True)
    assert (width.default, width.min, width.max) == (2, 0, 8)
    assert options.properties is not None
    assert options.properties["default"].default is False
    assert options.properties["sizes"].default == [1, "on"]
    sizes = options.properties["sizes"].items
    assert sizes is not None
    assert sizes.enum == (1, "b", "on")
    assert (tool.errors[0].message, tool.errors[0].http_status) == ("404", 400)
    assert manifest.permissions.filesystem.read == ("/app/data/**",)
    assert manifest.permissions.network.domains == ("api.example.com",)
    assert manifest.permissions.memory.read_layers == ("L1", "L2")
    assert manifest.permissions.env_vars.read == ("HOME",)
    assert manifest.constraints.retry_policy is not None
    assert manifest.constraints.retry_policy.backoff == "exponential"
    assert manifest.constraints.schedule is not None
    assert manifest.constraints.schedule.timezone == "Asia/Shanghai"
    assert manifest.dependencies.packages == ({"python": "json"},)
    assert manifest.dependencies.min_agent_version == "2.0"
    assert (manifest.tags, manifest.category, manifest.priority) == (("table", "2026"), "data", "high")
    assert manifest.extra == {"status": "active", "trigger_count": 8, "quality_score": 0.92, "ratio": "1.10"}
    assert notes(skill) == [("name_snake", 3), ("description_from_tools", 3)]


def test_s3_prowess_yaml_wins_for_rich_fields(tmp_path: Path) -> None:
    beside = """\
kind: tool
version: 2.0.0
scope: single_chat
author: ben
triggers: {keywords: [table, tidy], min_keywords: 1}
requirements:
  - {code: "memory:read", risk: L1}
  - {code: "mail:send", risk: L3, approval: per_operation}
front_matter: {model: big}
"""
    skill = read_skill_folder(make(tmp_path / "demo", head("author: ann\ncolour: red"), prowess_dot_yaml=beside))
    manifest = skill.manifest
    assert (manifest.kind, manifest.version, manifest.author) == (SkillKind.TOOL, "2.0.0", "ben")
    assert manifest.scopes == (ChatScope.SINGLE,)
    assert manifest.triggers.keywords == ("table", "tidy")
    assert [(item.code, item.risk, item.approval) for item in manifest.requirements] == [
        ("memory:read", Risk.L1, ApprovalMode.PERSISTENT),
        ("mail:send", Risk.L3, ApprovalMode.PER_OPERATION),
    ]
    assert manifest.extra == {"colour": "red", "model": "big"}
    assert notes(skill) == [("field_overridden", 4)]


@pytest.mark.parametrize(
    ("beside", "code", "line"),
    [
        ("name: other\n", "field_misplaced", 1),
        ("allowed-tools: Read\n", "field_misplaced", 1),
        ("tags: [a]\nfront_matter:\n  tools: [Read]\n", "field_misplaced", 3),
        ("front_matter: x\n", "field_type", 1),
        ("priority: 5\n", "field_type", 1),
        ("kind: agent\n", "field_type", 1),
        ("tools: [Read]\n", "field_type", 1),
        ("constraints:\n  rate_limit: 0\n", "field_range", 2),
        ("constraints:\n  rate_limits: 5\n", "field_unknown", 2),
        ("constraints:\n  max_memory_usage: much\n", "field_type", 2),
        ("tools:\n  - description: d\n", "field_missing", 2),
        ("tools:\n  - name: t\n    parameters:\n      - {name: a, type: number}\n", "field_choice", 4),
        ("tools:\n  - name: a b\n", "field_pattern", 2),
        ("permissions:\n  filesystem:\n    read: [/a]\n    write: ['/**']\n", "permission_wildcard", 4),
        ("requirements:\n  - {code: memory, risk: L1}\n", "requirement_code", 2),
        ("requirements:\n  - {code: 'mail:send', risk: L3}\n", "requirement_approval", 2),
        ("requirements:\n  - {code: 'a:b', risk: L1}\n  - {code: 'a:b', risk: L2}\n", "requirement_twice", 1),
        ("kind: tool\nkind: tool\n", "key_twice", 2),
        ("kind: a: b\n", "yaml_broken", 1),
    ],
)
def test_s3_our_own_file_is_strict(tmp_path: Path, beside: str, code: str, line: int) -> None:
    error = refusal(make(tmp_path / "demo", head(""), prowess_dot_yaml=beside))
    assert (error.code, error.detail["line"]) == (code, line)
    assert error.detail["file"] == str(tmp_path / "demo" / "prowess.yaml")


def test_s3_shapes_of_other_programs_are_kept_and_give_no_rights(tmp_path: Path) -> None:
    text = head(
        "priority: 4\nauthor: {name: ann}\ntriggers: [now]\ndependencies: [curl]\nkind: Skill\n"
        "permissions:\n  env: [TOKEN]\n  network: ['http://localhost']\nscope: project\nmetadata: [1]\n"
        "requirements: [git]"
    )
    skill = read_skill_folder(make(tmp_path / "demo", text))
    assert skill.manifest.extra == {
        "priority": 4,
        "author": {"name": "ann"},
        "triggers": ["now"],
        "dependencies": ["curl"],
        "kind": "Skill",
        "permissions": {"env": ["TOKEN"], "network": ["http://localhost"]},
        "scope": "project",
        "metadata": [1],
        "requirements": ["git"],
    }
    assert skill.manifest.permissions.env_vars.read == ()
    assert {note.code for note in skill.diagnostics} == {"field_foreign"}


def test_s5_patterns_that_name_everything() -> None:
    everything = ["/**", "/*", "/", "*", "**", ".", "./**", "~", "~/**", "/app/../**", "//**", "C:\\*", "/**/*", "/?*"]
    assert [pattern for pattern in everything if not names_everything(pattern)] == []
    assert [pattern for pattern in ("/app/**", "data/*", "*.md", "~/notes/**", "/a") if names_everything(pattern)] == []


def test_c03_unknown_keys_are_kept(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "demo", head("model: big\nhooks:\n  after: [a, {b: 1}]\nempty:")))
    assert skill.manifest.extra == {"model": "big", "hooks": {"after": ["a", {"b": 1}]}, "empty": None}


def test_c04_folded_description(tmp_path: Path) -> None:
    text = "---\nname: demo\ndescription: >\n  Reads a page\n  and sums it up.\n---\nB\n"
    assert read_skill_folder(make(tmp_path / "demo", text)).manifest.description == "Reads a page and sums it up."


def test_c05_three_broken_skills_leave_their_sibling_alone(tmp_path: Path) -> None:
    make(tmp_path / "a", "---\nname: a\n")
    make(tmp_path / "b", b"\xff\xfe")
    make(tmp_path / "c", head("", "c"))
    (tmp_path / "c" / "SKILL.md").chmod(0)
    make(tmp_path / "d", head("", "d"))
    folders, problems = find_skill_folders(tmp_path)
    assert ([Path(folder).name for folder in folders], problems) == (["a", "b", "c", "d"], [])
    found = [[note.code for note in inspect_skill_folder(folder).errors] for folder in folders]
    assert found == [["front_matter_unclosed"], ["not_utf8"], ["file_unreadable"], []]
    assert read_skill_folder(folders[3]).manifest.id == "d"


def test_c05_folders_without_a_readable_definition(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").symlink_to("gone.md")
    assert refusal(tmp_path / "none").code == "path_missing"
    assert refusal(tmp_path / "empty").code == "skill_md_missing"
    assert refusal(tmp_path / "pipe").code == "file_irregular"
    assert refusal(tmp_path / "broken").code == "file_unreadable"


def test_c06_oversize_definition_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""))
    with (folder / "SKILL.md").open("r+b") as stream:
        stream.truncate(50 * 1024 * 1024)
    error = refusal(folder)
    assert (error.code, error.detail["size"]) == ("file_too_large", 52_428_800)


def test_c07_nested_skill_files_make_one_skill(tmp_path: Path) -> None:
    make(
        tmp_path / "outer",
        head("", "outer"),
        node_modules__p__SKILL_dot_md=head("", "p"),
        examples__q__SKILL_dot_md=head("", "q"),
    )
    for skipped in (".git", "node_modules", ".venv", "__pycache__"):
        make(tmp_path / skipped / "x", head("", "x"))
    assert find_skill_folders(tmp_path) == ([str(tmp_path / "outer")], [])
    skill = read_skill_folder(tmp_path / "outer")
    assert [file.path for file in skill.files] == ["SKILL.md", "examples/q/SKILL.md"]
    assert [(note.code, Path(note.file).name) for note in skill.diagnostics] == [
        ("folder_ignored", "node_modules"),
        ("nested_skill", "SKILL.md"),
    ]


def test_c07_links_do_not_lead_out_of_a_tree(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside" / "far", head("", "far"))
    root = tmp_path / "root"
    make(root / "near", head("", "near"))
    (root / "far").symlink_to(outside)
    (root / "again").symlink_to(root / "near")
    (root / "loop").symlink_to(root)
    folders, problems = find_skill_folders(root)
    assert folders == [str(root / "near")]
    assert [(note.code, note.file) for note in problems] == [("link_ignored", str(root / "far"))]


def test_c07_trees_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a" / "b" / "c", head("", "c"))
    make(tmp_path / "d", head("", "d"))
    monkeypatch.setattr(folder_module, "MAX_FOLDER_DEPTH", 2)
    folders, problems = find_skill_folders(tmp_path)
    assert folders == [str(tmp_path / "d")]
    assert [(note.code, note.severity) for note in problems] == [("tree_too_large", "error")]


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/passwd", "a/b", r"..\outside", r"C:\skill", "C:skill", "a..b", '"a\\0b"'],
)
def test_c09_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    error = refusal(make(tmp_path / "demo", head("", name)))
    assert error.code in ("name_unsafe", "yaml_control")
    assert error.detail["line"] == 2


@pytest.mark.parametrize("name", ["-a", "a-", "a--b", "a - b", "Ünder", "a" * 65, "a.b"])
def test_c09_names_outside_the_standard_are_refused(tmp_path: Path, name: str) -> None:
    error = refusal(make(tmp_path / "demo", head("", name)))
    assert error.code == "name_invalid"
    assert is_skill_name(error.detail["suggestion"])


def test_s2_a_name_with_spaces_is_mended_and_reported(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "code-guide", head("", "Code  Guide")))
    assert skill.manifest.id == "code-guide"
    assert "name_spaces" in [note.code for note in skill.mended]


def test_c11_windows_lines_tool_lists_numbers_and_nested_metadata(tmp_path: Path) -> None:
    text = (
        "---\r\nname: 123\r\ndescription: d\r\nallowed-tools:\r\n  - Bash(git add *)\r\n  - Read, Write\r\n"
        "metadata:\r\n  author: ann\r\n  size: 1.10\r\n  none:\r\n  links: {a: [1, yes]}\r\n---\r\nBody\r\n"
    )
    skill = read_skill_folder(make(tmp_path / "123", text))
    assert skill.manifest.id == "123"
    assert skill.manifest.allowed_tools == ("Bash(git add *)", "Read", "Write")
    assert skill.manifest.metadata == {"author": "ann", "size": "1.10", "none": "", "links": '{"a":[1,"yes"]}'}
    assert skill.body == "Body\n"
    assert notes(skill) == [("line_ends", 1), ("name_number", 2), ("metadata_flattened", 11), ("allowed_tools_form", 4)]
    assert skill.mended == skill.diagnostics


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Write", ("Read", "Write")),
        ("Read, Write", ("Read", "Write")),
        ("Bash(git add *), Read", ("Bash(git add *)", "Read")),
        ("Bash (git *) Read", ("Bash(git *)", "Read")),
        ("[Bash(git: *), 'Read']", ("Bash(git: *)", "Read")),
        ("Bash(f(x) [y] z)", ("Bash(f(x) [y] z)",)),
        ("", ()),
    ],
)
def test_c11_lists_of_tools(written: str, tools: tuple[str, ...]) -> None:
    assert split_tools(written) == tools


@pytest.mark.parametrize("written", ["Bash(git", "Bash)", "(git *)", "Read, (git *)"])
def test_c02_a_tool_list_that_cannot_be_read_is_an_error(tmp_path: Path, written: str) -> None:
    error = refusal(make(tmp_path / "demo", head(f"allowed-tools: {written}")))
    assert (error.code, error.detail["line"]) == ("allowed_tools_shape", 4)


@pytest.mark.parametrize(
    ("lines", "tools", "note"),
    [
        ("allowed_tools: Read", ("Read",), None),
        ("allowedTools: Read", ("Read",), "key_spelling"),
        ("tools: [Read, Shell]", ("Read", "Shell"), "tools_as_allowed"),
        ("tools: [Read]\nallowed-tools: Read", ("Read",), "tools_as_allowed"),
        ("allowed-tools:", (), "allowed_tools_empty"),
        ("allowed-tools: []", (), "allowed_tools_empty"),
        ("allowed-tools:\n  - Bash(npm run: x)", ("Bash(npm run: x)",), "allowed_tools_form"),
    ],
)
def test_c02_restrictions_survive_however_they_are_spelt(
    tmp_path: Path, lines: str, tools: tuple[str, ...], note: str | None
) -> None:
    skill = read_skill_folder(make(tmp_path / "demo", head(lines)))
    assert skill.manifest.allowed_tools == tools
    assert [found.code for found in skill.diagnostics] == ([note] if note else [])


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ("allowed-tool: Read", "restriction_misspelt"),
        ("alowed-tools: Read", "restriction_misspelt"),
        ("disallowed-tools: Bash", "denied_tools"),
        ("allowed-tools: Read\nallowed_tools: Bash", "key_twice"),
        ("allowed-tools: Read\ntools: [Read, Bash]", "allowed_tools_differ"),
        ("allowed-tools: {a: b}", "allowed_tools_shape"),
        ("constraints: {max_execution_time: soon}", "field_type"),
        ("scope: [single_chat, everywhere]", "field_type"),
    ],
)
def test_c02_restrictions_that_cannot_be_honoured_are_errors(tmp_path: Path, lines: str, code: str) -> None:
    assert refusal(make(tmp_path / "demo", head(lines))).code == code


def test_s3_without_restriction_the_field_is_null(tmp_path: Path) -> None:
    assert read_skill_folder(make(tmp_path / "demo", head(""))).manifest.allowed_tools is None


def test_s2_missing_and_long_descriptions_are_errors(tmp_path: Path) -> None:
    assert refusal(make(tmp_path / "demo", "---\nname: demo\ndescription:\n---\nB\n")).code == "description_missing"
    long = refusal(make(tmp_path / "demo", f"---\nname: demo\ndescription: {'d' * 1025}\n---\nB\n"))
    assert (long.code, long.detail["length"], long.detail["line"]) == ("description_long", 1025, 3)
    text = f"---\nname: demo\ndescription: {'很' * 1024}\n---\nB\n"
    assert len(read_skill_folder(make(tmp_path / "demo", text)).manifest.description) == 1024


def test_s2_all_errors_are_counted(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", "---\ncompatibility: " + "c" * 501 + "\nversion: latest\n---\nB\n")
    assert [note.code for note in inspect_skill_folder(folder).errors] == [
        "name_missing",
        "description_missing",
        "compatibility_long",
        "version_invalid",
    ]
    assert refusal(folder).detail["faults"] == 4


def test_s2_capitals_and_underscores_are_lowered_and_reported(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "Tidy_Up", head("", "Tidy_Up")))
    assert skill.manifest.id == "tidy-up"
    assert notes(skill) == [("name_case", 2), ("name_snake", 2)]


def test_s2_another_folder_name_is_a_warning(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "other", head("")))
    assert [(note.code, note.severity, note.detail) for note in skill.diagnostics] == [
        ("name_folder", "warning", {"name": "demo", "folder": "other"})
    ]


def test_s2_lower_case_file_name_is_read_and_reported(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""))
    (folder / "SKILL.md").rename(folder / "skill.md")
    skill = read_skill_folder(folder)
    assert notes(skill) == [("skill_md_case", 1)]
    assert skill.resources == ()


@pytest.mark.parametrize(
    ("lines", "version", "declared", "note"),
    [
        ("", "0.1.0", None, None),
        ("version: 1.2.3-rc.1", "1.2.3-rc.1", "1.2.3-rc.1", None),
        ("version: 1.0", "1.0.0", "1.0.0", "version_mended"),
        ("version: 2", "2.0.0", "2.0.0", "version_mended"),
        ("metadata: {version: v3.1}", "3.1.0", "3.1.0", "version_mended"),
        ("metadata: {version: latest}", "0.1.0", None, "metadata_version"),
        ("version: 1.0.0\nmetadata: {version: 2.0.0}", "1.0.0", "1.0.0", None),
    ],
)
def test_s7_versions(tmp_path: Path, lines: str, version: str, declared: str | None, note: str | None) -> None:
    skill = read_skill_folder(make(tmp_path / "demo", head(lines)))
    assert (skill.manifest.version, skill.declared_version) == (version, declared)
    assert [found.code for found in skill.diagnostics] == ([note] if note else [])


def test_s7_what_is_no_version_stays_none() -> None:
    assert [mend_version(text) for text in ("", "latest", "1.2.3.4", "1.x", "1.0.0-", "-1")] == [None] * 6
    assert mend_version("2024.01") == "2024.1.0"


def test_s2_license_and_compatibility_as_lists(tmp_path: Path) -> None:
    skill = read_skill_folder(make(tmp_path / "demo", head("license: [MIT, BSD]\ncompatibility: {os: linux}")))
    assert (skill.manifest.license, skill.manifest.compatibility) == ("MIT, BSD", '{"os":"linux"}')
    assert notes(skill) == [("field_flattened", 4), ("field_flattened", 5)]


def test_s1_links_inside_a_skill(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("s")
    folder = make(tmp_path / "demo", head(""), real_dot_md="text")
    (folder / "alias.md").symlink_to("real.md")
    assert [file.path for file in read_skill_folder(folder).files] == ["SKILL.md", "alias.md", "real.md"]
    (folder / "leak.txt").symlink_to(secret)
    error = refusal(folder)
    assert (error.code, error.detail["file"]) == ("link_outside", str(folder / "leak.txt"))


def test_s1_a_definition_that_links_outside_is_refused(tmp_path: Path) -> None:
    far = tmp_path / "far.md"
    far.write_text(head(""))
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "SKILL.md").symlink_to(far)
    assert refusal(tmp_path / "demo").code == "link_outside"


def test_s1_folder_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "demo", head(""), a_dot_md="1234567890", b__c_dot_md="1")
    monkeypatch.setattr(folder_module, "MAX_FILE_BYTES", 9)
    assert refusal(folder).code == "file_too_large"
    monkeypatch.undo()
    monkeypatch.setattr(folder_module, "MAX_FILES", 2)
    assert refusal(folder).code == "folder_too_many_files"
    monkeypatch.undo()
    monkeypatch.setattr(folder_module, "MAX_SKILL_BYTES", 20)
    assert refusal(folder).code == "folder_too_large"
    monkeypatch.undo()
    monkeypatch.setattr(folder_module, "MAX_FOLDER_DEPTH", 0)
    assert refusal(folder).code == "folder_too_deep"


def test_s1_limits_are_those_of_the_specification() -> None:
    limits = (folder_module.MAX_FILES, folder_module.MAX_FILE_BYTES, folder_module.MAX_SKILL_BYTES)
    assert limits == (2_000, 5 * 1024 * 1024, 50 * 1024 * 1024)


def test_s1_file_names_that_no_other_system_could_keep_are_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""))
    (folder / "a\\b.md").write_text("x")
    assert refusal(folder).code == "file_name"


def test_s1_generated_folders_are_not_part_of_the_skill(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""), references__validation__a_dot_md="x")
    before = read_skill_folder(folder)
    make(folder, head(""), validation__run_dot_py="x", quality__metrics_dot_json="{}", metadata_dot_json="{}")
    after = read_skill_folder(folder)
    assert after.files == before.files
    assert after.digest == before.digest
    assert "references/validation/a.md" in [file.path for file in after.files]


def digest_of(folder: Path) -> str:
    return read_skill_folder(folder).digest


def test_c13_the_digest_rule_as_stated() -> None:
    files = [SkillFile.of("b.md", b"2"), SkillFile.of("SKILL.md", b"1")]
    sha = {
        "SKILL.md": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
        "b.md": "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35",
    }
    from prowess.kernel.canonical import digest

    assert content_digest(files) == digest([["SKILL.md", sha["SKILL.md"]], ["b.md", sha["b.md"]]])


def test_c13_modes_do_not_count_and_trailing_space_does(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""), scripts__a_dot_sh="echo\n")
    first = digest_of(folder)
    (folder / "scripts" / "a.sh").chmod(0o755)
    (folder / "empty").mkdir()
    os.utime(folder / "SKILL.md", (1, 1))
    assert digest_of(folder) == first
    assert read_skill_folder(folder).files[1].executable
    (folder / "scripts" / "a.sh").write_bytes(b"echo \n")
    spaced = digest_of(folder)
    assert spaced != first
    (folder / "scripts" / "a.sh").write_bytes(b"echo\r\n")
    assert digest_of(folder) not in (first, spaced)


def test_c13_a_renamed_file_is_another_digest(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""), a_dot_md="x")
    first = digest_of(folder)
    (folder / "a.md").rename(folder / "b.md")
    assert digest_of(folder) != first


def test_s7_a_file_changed_after_reading_is_not_handed_out(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", head(""), a_dot_md="x")
    skill = read_skill_folder(folder)
    file = skill.files[1]
    assert (file.path, file.read()) == ("a.md", b"x")
    (folder / "a.md").write_text("y")
    with pytest.raises(SkillFileError) as caught:
        file.read()
    assert caught.value.code == "file_changed"
    assert skill.files[0].read().startswith(b"---\nname: demo\n")


def test_s2_a_path_to_the_file_or_to_here_reads_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "demo", head(""))
    assert read_skill_folder(folder / "SKILL.md").path == folder
    monkeypatch.chdir(folder)
    here: Any = read_skill_folder(".")
    assert (here.manifest.id, here.diagnostics) == ("demo", ())
