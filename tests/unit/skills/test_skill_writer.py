"""Writing skill folders: both forms, what other clients accept, what is refused, what stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import skills_ref  # type: ignore[import-untyped]
from pydantic import ValidationError

from prowess.errors import SkillFileError
from prowess.skills import skill_writer
from prowess.skills.manifest import ParameterSpec, SkillManifest, ToolSpec
from prowess.skills.skill_md import LoadedSkill, SkillFile, read_skill_folder
from prowess.skills.skill_writer import dump_yaml, metadata_document, render_skill, write_skill_folder

SCRIPT = SkillFile.of("scripts/run.py", b"print(1)\n", executable=True)


def manifest(**fields: Any) -> SkillManifest:
    return SkillManifest(**{"id": "demo", "version": "1.2.0", "description": "Shows it.", **fields})


def full() -> SkillManifest:
    return manifest(
        display_name="演示",
        license="MIT",
        allowed_tools=("Bash(git add *)", "Read"),
        metadata={"author": "ann", "note": "a --- b", "1.10": ""},
        kind="tool",
        scopes=["single_chat"],
        author="on",
        tools=[
            {
                "name": "run_it",
                "description": "Runs: it",
                "parameters": [{"name": "size", "type": "integer", "min": 0, "max": 8.0, "default": 2}],
            }
        ],
        permissions={"filesystem": {"read": ["/app/**"]}},
        requirements=[{"code": "memory:read", "risk": "L1"}],
        tags=["a", "1.10", "yes"],
        extra={"status": "active", "trigger_count": 3, "model": "big", "deep": {"list": [1, "1", None, True, [], {}]}},
    )


def content(skill: LoadedSkill) -> Any:
    files = {file.path: (file.sha256, file.executable) for file in skill.resources}
    return skill.manifest, skill.body, files, skill.declared_version


def refusal(skill: SkillManifest | LoadedSkill, *rest: Any) -> SkillFileError:
    with pytest.raises(SkillFileError) as caught:
        write_skill_folder(skill, *rest)
    assert caught.value.message() != f"error.{caught.value.code}"
    return caught.value


def test_s2_standard_form_has_the_six_fields_alone(tmp_path: Path) -> None:
    folder = write_skill_folder(full(), "# Do it\n", [SCRIPT], tmp_path)
    assert folder == tmp_path / "demo"
    assert (folder / "SKILL.md").read_text(encoding="utf-8") == (
        "---\nname: demo\ndescription: Shows it.\nlicense: MIT\nmetadata:\n  author: ann\n"
        '  note: "a -\\x2D- b"\n  "1.10": ""\nallowed-tools: Bash(git add *) Read\n---\n# Do it\n'
    )
    assert skills_ref.validate(folder) == []
    assert sorted(entry.name for entry in folder.iterdir()) == ["SKILL.md", "metadata.json", "prowess.yaml", "scripts"]
    skill = read_skill_folder(folder)
    assert content(skill) == (full(), "# Do it\n", {"scripts/run.py": (SCRIPT.sha256, True)}, "1.2.0")
    assert skill.diagnostics == ()


def test_s3_everything_else_is_in_prowess_yaml(tmp_path: Path) -> None:
    folder = write_skill_folder(full(), "B\n", [], tmp_path)
    assert (
        (folder / "prowess.yaml").read_text(encoding="utf-8")
        == """\
display_name: 演示
version: "1.2.0"
author: "on"
kind: tool
scopes:
  - single_chat
tools:
  - name: run_it
    description: "Runs: it"
    parameters:
      - name: size
        type: integer
        default: 2
        min: 0
        max: 8
permissions:
  filesystem:
    read:
      - "/app/**"
requirements:
  - code: "memory:read"
    risk: L1
tags:
  - a
  - "1.10"
  - "yes"
front_matter:
  status: active
  trigger_count: 3
  model: big
  deep:
    list:
      - 1
      - "1"
      - null
      - true
      - []
      - {}
""".replace('"memory:read"', "memory:read")
    )


def test_s3_rich_form_is_one_file_and_reads_the_same(tmp_path: Path) -> None:
    folder = write_skill_folder(full(), "B\n", [SCRIPT], tmp_path, "rich")
    assert not (folder / "prowess.yaml").exists()
    lines = (folder / "SKILL.md").read_text(encoding="utf-8").splitlines()
    assert lines[:5] == ["---", "name: demo", "display_name: 演示", 'version: "1.2.0"', 'author: "on"']
    rich = read_skill_folder(folder)
    standard = read_skill_folder(write_skill_folder(rich, None, None, tmp_path / "again"))
    assert content(rich) == content(standard)
    assert rich.manifest == full()


def test_s2_a_plain_skill_stays_plain(tmp_path: Path) -> None:
    plain = manifest(metadata={"version": "1.2.0"})
    folder = write_skill_folder(plain, "B\n", (), tmp_path)
    assert sorted(entry.name for entry in folder.iterdir()) == ["SKILL.md", "metadata.json"]
    assert read_skill_folder(folder).manifest == plain


def test_s7_a_skill_without_version_stays_without(tmp_path: Path) -> None:
    source = tmp_path / "demo"
    source.mkdir()
    (source / "SKILL.md").write_text("---\nname: demo\ndescription: d\n---\nB\n")
    skill = read_skill_folder(source)
    for form in ("standard", "rich"):
        again = read_skill_folder(write_skill_folder(skill, None, None, tmp_path / form, form))
        assert (again.declared_version, again.manifest) == (None, skill.manifest)


def test_s7_a_mended_version_is_written_out(tmp_path: Path) -> None:
    source = tmp_path / "demo"
    source.mkdir()
    (source / "SKILL.md").write_text("---\nname: demo\ndescription: d\nmetadata: {version: 1.0}\n---\nB\n")
    folder = write_skill_folder(read_skill_folder(source), None, None, tmp_path / "out")
    assert (folder / "prowess.yaml").read_text() == 'version: "1.0.0"\n'
    again = read_skill_folder(folder)
    assert (again.declared_version, again.manifest.metadata, again.diagnostics) == ("1.0.0", {"version": "1.0"}, ())


def test_c03_edit_and_save_keeps_values_whole_and_unknown_keys(tmp_path: Path) -> None:
    source = tmp_path / "demo"
    source.mkdir()
    (source / "SKILL.md").write_text("---\nname: demo\ndescription: a --- b\nmodel: big\nratio: 1.10\n---\nB\n")
    skill = read_skill_folder(source)
    edited = skill.manifest.model_copy(update={"license": "MIT"})
    folder = write_skill_folder(edited, skill.body, skill.files, tmp_path)
    again = read_skill_folder(folder)
    assert again.manifest.description == "a --- b"
    assert again.manifest.extra == {"model": "big", "ratio": "1.10"}
    assert again.manifest.license == "MIT"
    assert skills_ref.validate(folder) == []


def test_c11_what_was_mended_is_written_in_the_usual_form(tmp_path: Path) -> None:
    source = tmp_path / "in" / "Tidy_Up"
    source.mkdir(parents=True)
    (source / "SKILL.md").write_bytes(
        b"\xef\xbb\xbf---\r\nname: Tidy_Up\r\ndescription: Use when: asked\r\nallowed-tools: [Read, Write]\r\n"
        b"metadata: {a: [1]}\r\n---\r\nBody\r\n"
    )
    folder = write_skill_folder(read_skill_folder(source), None, None, tmp_path / "out")
    assert (folder / "SKILL.md").read_bytes() == (
        b'---\nname: tidy-up\ndescription: "Use when: asked"\nmetadata:\n  a: "[1]"\n'
        b"allowed-tools: Read Write\n---\nBody\n"
    )
    assert read_skill_folder(folder).diagnostics == ()
    assert skills_ref.validate(folder) == []


def test_c09_names_are_refused_before_a_path_is_made() -> None:
    for name in ("../outside", "/etc", "C:x", "a\0b", "Upper", "a_b", "a--b", ""):
        with pytest.raises(ValidationError):
            manifest(id=name)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../x", "file_name"),
        ("/x", "file_name"),
        ("a//b", "file_name"),
        ("a/./b", "file_name"),
        (r"a\b", "file_name"),
        ("C:x", "file_name"),
        ("a\nb", "file_name"),
        ("", "file_name"),
        ("validation/x.json", "path_reserved"),
        ("metadata.json", "path_reserved"),
        ("a/.git/config", "path_reserved"),
    ],
)
def test_c09_files_are_written_inside_only(tmp_path: Path, path: str, code: str) -> None:
    assert refusal(manifest(), "B", [SkillFile.of(path, b"x")], tmp_path).code == code
    assert list(tmp_path.iterdir()) == []


def test_s1_limits_hold_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_writer, "MAX_FILE_BYTES", 4)
    assert refusal(manifest(), "B", [SCRIPT], tmp_path).code == "file_too_large"
    monkeypatch.setattr(skill_writer, "MAX_SKILL_BYTES", 4)
    assert refusal(manifest(), "B", [SCRIPT], tmp_path).code == "folder_too_large"
    monkeypatch.setattr(skill_writer, "MAX_FILES", 0)
    assert refusal(manifest(), "B", [SCRIPT], tmp_path).code == "folder_too_many_files"


def test_s1_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    assert refusal(manifest(), "B", [SCRIPT, SCRIPT], tmp_path).code == "file_name"


def test_s1_a_foreign_folder_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("keep")
    assert refusal(manifest(), "B", [], tmp_path).code == "folder_foreign"
    (tmp_path / "demo" / "SKILL.md").write_text("---\nname: other\ndescription: d\n---\nB\n")
    assert refusal(manifest(), "B", [], tmp_path).code == "folder_foreign"
    assert (tmp_path / "demo" / "mine.txt").read_text() == "keep"
    (tmp_path / "far").mkdir()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "demo").symlink_to(tmp_path / "far")
    assert refusal(manifest(), "B", [], tmp_path / "link").code == "folder_foreign"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["demo", "far", "link"]


def test_s1_the_same_skill_is_replaced_and_its_records_stay(tmp_path: Path) -> None:
    folder = write_skill_folder(manifest(), "Old\n", [SCRIPT], tmp_path)
    for name in ("validation/syntax_report.json", "quality/metrics.json", ".git/HEAD"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(name)
    write_skill_folder(manifest(version="1.3.0"), "New\n", [], tmp_path)
    skill = read_skill_folder(folder)
    assert (skill.manifest.version, skill.body, skill.resources) == ("1.3.0", "New\n", ())
    assert (folder / "quality" / "metrics.json").read_text() == "quality/metrics.json"
    assert (folder / "validation" / "syntax_report.json").exists()
    assert (folder / ".git" / "HEAD").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo"]


def test_s1_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    assert read_skill_folder(write_skill_folder(manifest(), "B\n", [], tmp_path)).body == "B\n"


def test_s1_a_failed_replacement_leaves_the_old_skill_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_skill_folder(manifest(), "Old\n", [SCRIPT], tmp_path)
    (folder / "quality").mkdir()
    rename = Path.rename

    def fail_at_the_end(self: Path, target: Path) -> Path:
        if target == folder and self.parent.name.startswith(".prowess-tmp-") and self.name == "demo":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_at_the_end)
    error = refusal(manifest(), "New\n", [], tmp_path)
    assert (error.code, error.detail["problem"]) == ("write_failed", "No space left on device")
    assert read_skill_folder(folder).body == "Old\n"
    assert (folder / "quality").is_dir()
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo"]


def test_s1_folders_being_written_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prowess.skills.skill_md import find_skill_folders

    seen: list[Any] = []
    check = skill_writer._check_written

    def look(*arguments: Any) -> None:
        seen.append(find_skill_folders(tmp_path))
        check(*arguments)

    monkeypatch.setattr(skill_writer, "_check_written", look)
    write_skill_folder(manifest(), "B\n", [], tmp_path)
    assert seen == [([], [])]


@pytest.mark.parametrize(
    ("fields", "body", "code"),
    [
        ({"author": "a\x07"}, "B", "text_control"),
        ({"metadata": {"k": "\ud800"}}, "B", "text_control"),
        ({"extra": {"k" * 201: 1}}, "B", "yaml_key"),
        ({"description": " padded "}, "B", "not_writable"),
        ({"allowed_tools": ("Bash git",)}, "B", "not_writable"),
        ({"extra": {"tags": ["a"]}}, "B", "not_writable"),
        ({}, "\ud800", "text_control"),
    ],
)
def test_s2_what_would_not_read_back_is_not_written(
    tmp_path: Path, fields: dict[str, Any], body: str, code: str
) -> None:
    assert refusal(manifest(**fields), body, [], tmp_path, "rich").code == code
    assert list(tmp_path.iterdir()) == []


def test_s2_unknown_keys_that_restrict_are_not_written(tmp_path: Path) -> None:
    error = refusal(manifest(extra={"allowed-tools": "Read"}), "B", [], tmp_path)
    assert error.code == "field_misplaced"


def test_s1_metadata_document_has_the_shape_of_the_seed(tmp_path: Path) -> None:
    folder = write_skill_folder(full(), "B\n", [SCRIPT], tmp_path)
    document = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert document == metadata_document(full(), ["scripts/run.py"])
    assert list(document) == [
        "skill_id", "name", "display_name", "description", "version", "author", "created_at", "updated_at", "status",
        "trigger_source", "trigger_count", "quality_score", "quality_metrics", "kind", "tools", "permissions",
        "constraints", "dependencies", "tags", "category", "priority", "skill_file_path", "script_file_path",
    ]  # fmt: skip
    assert (document["skill_id"], document["status"], document["trigger_count"]) == ("demo_v1.2.0", "active", 3)
    assert document["tools"][0]["parameters"] == [
        {"name": "size", "type": "integer", "default": 2, "min": 0.0, "max": 8.0}
    ]
    assert (document["skill_file_path"], document["script_file_path"]) == ("SKILL.md", "scripts/run.py")
    assert metadata_document(manifest())["status"] == "draft"


def test_s1_modes_are_kept(tmp_path: Path) -> None:
    folder = write_skill_folder(manifest(), "B\n", [SCRIPT, SkillFile.of("a.md", b"")], tmp_path)
    assert os.access(folder / "scripts" / "run.py", os.X_OK)
    assert not (folder / "a.md").stat().st_mode & 0o111


def test_s2_rendering_without_a_folder() -> None:
    text, beside = render_skill(manifest(tools=(ToolSpec(name="t", parameters=(ParameterSpec(type="string"),)),)), "B")
    assert text == "---\nname: demo\ndescription: Shows it.\n---\nB"
    assert beside == 'version: "1.2.0"\ntools:\n  - name: t\n    parameters:\n      - type: string\n'


def test_s2_scalars_are_quoted_where_they_could_be_mistaken() -> None:
    plain = ["a", "a b", "it's", "https://a.b/c?d=e", "memory:read", "表格，整理", "Bash(git add *)"]
    assert dump_yaml({"k": plain}) == "k:\n" + "".join(f"  - {text}\n" for text in plain)
    quoted = [
        "",
        " a",
        "a ",
        "a: b",
        "a:",
        "a #b",
        "- a",
        "1",
        "1e5",
        ".5",
        "yes",
        "NO",
        "null",
        "~",
        "a\nb",
        "[a]",
        "a\u2028b",
    ]
    lines = dump_yaml({"k": quoted}).splitlines()[1:]
    assert len(lines) == len(quoted)
    assert all(line.startswith('  - "') and line.endswith('"') for line in lines)
    assert "---" not in dump_yaml({"a---b": "-----", "c": ["------"]})
