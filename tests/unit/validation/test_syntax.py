"""Level 1: the report's shape, each kind of finding with file, line and remedy, trees, and what is loaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prowess.validation.report import Issue, LevelResult, Report
from prowess.validation.syntax import Tally, check_skill, check_tree


def make(folder: Path, lines: str = "", *, body: str = "Do it.\n", beside: str | None = None) -> Path:
    folder.mkdir(parents=True)
    text = f"---\nname: {folder.name}\ndescription: Shows it.\n{lines}---\n{body}"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    if beside is not None:
        (folder / "prowess.yaml").write_text(beside, encoding="utf-8")
    return folder


def found(report: Report) -> list[tuple[str, str, int]]:
    return [(issue.severity, issue.code, issue.line) for issue in report.issues]


def check_lines(*paths: Path, language: str = "en") -> tuple[Tally, list[dict[str, Any]]]:
    lines: list[str] = []
    tally = check_tree([str(path) for path in paths], lines.append, language)
    return tally, [json.loads(line) for line in lines]


def test_v1_a_sound_skill_passes(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo")
    report = check_skill(folder).to_json()
    duration = report["levels"]["syntax"].pop("duration_ms")
    assert duration >= 0
    assert report == {
        "path": str(folder),
        "id": "demo",
        "ok": True,
        "verdict": "pass",
        "levels": {"syntax": {"passed": True, "verdict": "pass", "checks": 8, "errors": 0, "warnings": 0}},
        "issues": [],
    }


def test_v1_an_error_rejects_and_says_where_and_what_to_do(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", "version: latest\n")
    report = check_skill(folder).to_json()
    assert (report["ok"], report["verdict"], report["id"]) == (False, "reject", "demo")
    assert report["levels"]["syntax"]["errors"] == 1
    assert report["issues"] == [
        {
            "level": "syntax",
            "severity": "error",
            "code": "version_invalid",
            "file": str(folder / "SKILL.md"),
            "line": 4,
            "message": "latest is not a semantic version",
            "remedy": "Write a version such as 1.2.0.",
        }
    ]


def test_v1_warnings_stand_apart_and_do_not_reject(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", "version: 1.0\n", body="Step.\n" * 501)
    (folder / "examples").mkdir()
    (folder / "examples" / "SKILL.md").write_text("---\nname: x\n---\n")
    folder = folder.rename(tmp_path / "other")
    report = check_skill(folder)
    assert (report.ok, report.verdict) == (True, "pass")
    assert found(report) == [
        ("warning", "name_folder", 2),
        ("warning", "version_mended", 4),
        ("warning", "body_long", 506),
        ("warning", "nested_skill", 1),
    ]


def test_v1_500_lines_are_not_long_and_no_text_is_a_warning(tmp_path: Path) -> None:
    assert found(check_skill(make(tmp_path / "full", body="Step.\n" * 500 + "\n\n"))) == []
    assert found(check_skill(make(tmp_path / "none", body=" \n"))) == [("warning", "body_empty", 5)]


def test_v1_mended_yaml_is_a_warning(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", "note: a: b\nallowed-tools: [Read]\n")
    assert found(check_skill(folder)) == [("warning", "yaml_mended", 4), ("info", "allowed_tools_form", 5)]


@pytest.mark.parametrize(
    ("beside", "findings"),
    [
        ("tools:\n  - {name: t}\n  - {name: t}\n", [("error", "tool_twice", 3)]),
        (
            "tools:\n  - name: t\n    parameters:\n      - {name: a, type: string, required: true}\n"
            "      - {name: a, type: string, required: true}\n      - {name: 1 b, type: string, required: true}\n"
            "      - {type: string, required: true}\n",
            [("error", "parameter_twice", 5), ("error", "parameter_name", 6), ("error", "parameter_name", 7)],
        ),
        (
            "tools:\n  - name: t\n    parameters:\n      - name: a\n        type: integer\n        min: 3\n"
            "        max: 1\n        default: 2\n",
            [("error", "parameter_range", 6), ("error", "parameter_default_misfit", 8)],
        ),
        (
            "tools:\n  - name: t\n    parameters:\n      - name: a\n        type: object\n        required: true\n"
            "        properties:\n          inner:\n            type: array\n            items:\n"
            '              type: string\n              pattern: "("\n',
            [("error", "parameter_pattern", 12)],
        ),
        (
            "tools:\n  - name: t\n    parameters:\n      - {name: a, type: strng}\n      - {name: b, type: enum}\n",
            [("error", "field_choice", 4)],
        ),
        (
            "tools:\n  - name: t\n    parameters:\n      - {name: a, type: string}\n"
            "      - {name: b, type: string, required: true, default: x}\n",
            [("warning", "parameter_default_unused", 5), ("info", "parameter_no_default", 4)],
        ),
        (
            "permissions:\n  filesystem:\n    read: [/app/**]\n    delete:\n      - /*\n",
            [("error", "permission_wildcard", 4)],
        ),
        (
            "permissions:\n  network:\n    allowed: true\n    domains:\n      - api.example.com\n      - '*'\n"
            "      - '*.example.com'\n      - https://a.b/c\n      - localhost\n      - '::1'\n",
            [
                ("error", "permission_wildcard", 6),
                ("error", "permission_wildcard", 7),
                ("error", "permission_host", 8),
            ],
        ),
        ("permissions:\n  shell:\n    allowed: true\n", [("warning", "permission_idle", 2)]),
        ("permissions:\n  shell:\n    commands: [git]\n", [("warning", "permission_idle", 2)]),
        ("permissions:\n  env_vars:\n    read: [HOME, 'A*']\n", [("error", "permission_wildcard", 3)]),
        ("permissions:\n  shell: {allowed: true, commands: ['*']}\n", [("error", "permission_wildcard", 2)]),
    ],
)
def test_v1_tools_parameters_and_permissions(tmp_path: Path, beside: str, findings: list[tuple[str, str, int]]) -> None:
    folder = make(tmp_path / "demo", beside=beside)
    report = check_skill(folder)
    assert found(report) == findings
    assert {issue.file for issue in report.issues} == {str(folder / "prowess.yaml")}
    assert report.ok == all(severity != "error" for severity, _, _ in findings)


def test_s5_wildcards_in_the_front_matter_are_refused_too(tmp_path: Path) -> None:
    folder = make(tmp_path / "demo", "permissions:\n  filesystem:\n    write: ['/**']\n")
    report = check_skill(folder)
    assert found(report) == [("error", "permission_wildcard", 6)]
    assert report.issues[0].message() == "/** names everything"
    assert report.issues[0].message("zh") == "/** 等于放开全部"


def test_v1_every_finding_has_words_in_both_languages(tmp_path: Path) -> None:
    broken = (
        "tools:\n  - name: a b\n    colour: red\nconstraints: {rate_limit: 0}\nrequirements: [{code: x, risk: L9}]\n"
    )
    report = check_skill(make(tmp_path / "demo", "metadata: {a: [1]}\nversion: 1\nauthor: a: b\n", beside=broken))
    assert len(report.issues) > 6
    for issue in report.issues:
        for language in ("en", "zh"):
            for sentence in (issue.message(language), issue.remedy(language)):
                assert not sentence.startswith(("error.", "remedy."))
                assert not re.search(r"\{[a-z_]+\}", sentence)
        assert issue.line >= 1
        assert Path(issue.file).is_file()


def test_c05_broken_skills_do_not_hide_their_siblings(tmp_path: Path) -> None:
    make(tmp_path / "tree" / "good")
    for name, data in (("bom", b"\xff\xfe"), ("open", b"---\nname: a\n"), ("bare", b"text")):
        (tmp_path / "tree" / name).mkdir()
        (tmp_path / "tree" / name / "SKILL.md").write_bytes(data)
    tally, reports = check_lines(tmp_path / "tree")
    assert tally == Tally(checked=4, rejected=3)
    assert [(Path(report["path"]).name, report["ok"], report["id"]) for report in reports] == [
        ("bare", False, None),
        ("bom", False, None),
        ("good", True, "good"),
        ("open", False, None),
    ]
    assert [report["issues"][0]["code"] for report in reports if report["issues"]] == [
        "front_matter_missing",
        "not_utf8",
        "front_matter_unclosed",
    ]


def test_c07_a_tree_reports_one_object_a_skill(tmp_path: Path) -> None:
    make(tmp_path / "outer")
    make(tmp_path / "outer" / "node_modules" / "p")
    make(tmp_path / "outer" / "examples" / "q")
    tally, reports = check_lines(tmp_path)
    assert (tally, [report["id"] for report in reports]) == (Tally(1, 0), ["outer"])


def test_v1_paths_may_be_skills_files_or_trees(tmp_path: Path) -> None:
    skill = make(tmp_path / "tree" / "demo")
    _, reports = check_lines(skill, skill / "SKILL.md", tmp_path / "tree")
    assert [report["path"] for report in reports] == [str(skill)] * 3


def test_v1_paths_without_skills_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    tally, reports = check_lines(tmp_path / "none", tmp_path / "empty", language="zh")
    assert tally == Tally(2, 2)
    assert [(report["path"], report["id"], report["issues"][0]["message"]) for report in reports] == [
        (str(tmp_path / "none"), None, "找不到这个文件夹"),
        (str(tmp_path / "empty"), None, "这里没有找到 SKILL.md"),
    ]


def test_v1_a_tree_with_a_link_outside_says_so_and_passes(tmp_path: Path) -> None:
    far = make(tmp_path / "far")
    make(tmp_path / "tree" / "near")
    (tmp_path / "tree" / "far").symlink_to(far)
    tally, reports = check_lines(tmp_path / "tree")
    assert tally == Tally(2, 0)
    assert [(report["ok"], report["id"]) for report in reports] == [(True, None), (True, "near")]


def test_v1_plain_skills_are_checked_without_heavy_modules(tmp_path: Path) -> None:
    make(tmp_path / "demo", "metadata: {a: [1]}\nallowed-tools: Read\nversion: 1.0.0\ntags: [a]\n")
    code = (
        "import sys; from prowess.validation.syntax import check_tree; tally = check_tree(sys.argv[1:], print); "
        "heavy = {'pydantic', 'sqlalchemy', 'typer', 'asyncio'} & set(sys.modules); print(tally.checked, sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "1 []"


def test_v4_levels_merge_and_the_worst_verdict_counts() -> None:
    syntax = Report("p", "demo", {"syntax": LevelResult("pass", 8, 1.0)}, ())
    doubt = Issue("security", "warning", "body_empty", "p/SKILL.md", 3)
    security = Report("p", None, {"security": LevelResult("review", 2, 1.0)}, (doubt,))
    merged = syntax.merged(security)
    assert (merged.id, merged.ok, merged.verdict, merged.issues) == ("demo", True, "review", (doubt,))
    assert list(merged.to_json()["levels"]) == ["syntax", "security"]
    assert merged.to_json()["levels"]["syntax"]["warnings"] == 0
    assert merged.to_json()["levels"]["security"]["warnings"] == 1
