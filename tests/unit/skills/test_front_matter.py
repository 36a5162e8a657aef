"""Front matter: what is read, what is mended, what is refused, and on which line."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from prowess.errors import SkillFileError
from prowess.kernel import yaml_nodes
from prowess.kernel.yaml_nodes import Mapping, value_of, verbatim
from prowess.messages import catalogue
from prowess.skills.front_matter import (
    MAX_SKILL_MD_BYTES,
    Diagnostic,
    FrontMatter,
    diagnose,
    read_front_matter,
    read_limited,
    read_yaml_file,
)


def read(head: str, body: str = "Do it.\n") -> FrontMatter:
    return read_front_matter(f"---\n{head}\n---\n{body}".encode(), "SKILL.md")


def values(front: FrontMatter) -> dict[str, Any]:
    assert front.mapping is not None, front.diagnostics
    return {key: verbatim(entry.node) for key, entry in front.mapping.entries.items()}


def codes(front: FrontMatter) -> list[tuple[str, int]]:
    return [(note.code, note.line) for note in front.diagnostics]


def test_c01_bom_loads_as_without() -> None:
    plain = read_front_matter(b"---\nname: a\n---\nBody\n", "SKILL.md")
    marked = read_front_matter(b"\xef\xbb\xbf---\nname: a\n---\nBody\n", "SKILL.md")
    assert marked[:3] == plain[:3]
    assert codes(marked) == [("bom_skipped", 1)]
    assert marked.diagnostics[0].mended
    assert marked.diagnostics[0].severity == "info"


def test_c02_unquoted_colon_is_mended_and_the_tool_restriction_stays() -> None:
    front = read("description: Use when: asked\nallowed-tools: Read Grep")
    assert values(front) == {"description": "Use when: asked", "allowed-tools": "Read Grep"}
    assert codes(front) == [("yaml_mended", 2)]
    assert front.diagnostics[0].detail == {"field": "description"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("argument-hint: [name] [age]", "[name] [age]"),
        ("description: {draft} of it", "{draft} of it"),
        ("globs: *.ts, *.js", "*.ts, *.js"),
        ("globs: *everything", "*everything"),
        ("note: !important read this", "!important read this"),
        ("name: @scope/tool", "@scope/tool"),
        ("note: `code` first", "`code` first"),
        ("note: %d of them", "%d of them"),
        ("note: - dash", "- dash"),
        ('note: "Quoted" and more', '"Quoted" and more'),
        ("note: 'it's late'", "it's late"),
        ('note: "never closed', "never closed"),
        (r'note: "C:\quick"', r"C:\quick"),
        ("note: one: two # remark", "one: two"),
    ],
)
def test_c02_values_that_need_quotes_are_read_as_text(line: str, text: str) -> None:
    front = read(f"{line}\nallowed-tools: Read")
    assert values(front) == {line.split(":")[0]: text, "allowed-tools": "Read"}
    assert codes(front) == [("yaml_mended", 2)]


def test_c02_continued_value_is_mended_as_a_whole() -> None:
    front = read("description: Use when: asked\n  and also: later\nname: a")
    assert values(front) == {"description": "Use when: asked and also: later", "name": "a"}
    assert front.mapping is not None
    assert front.mapping.entries["name"].line == 4


def test_c02_mending_keeps_the_keys_beside_it_in_a_list_item() -> None:
    front = read("tools:\n  - name: t\n    description: Use: now\n    parameters: []")
    assert values(front) == {"tools": [{"name": "t", "description": "Use: now", "parameters": []}]}
    assert codes(front) == [("yaml_mended", 4)]


def test_c02_tool_entries_that_break_the_yaml_keep_their_limits() -> None:
    listed = read("allowed-tools:\n  - Bash(git: *)\n  - Read")
    assert values(listed) == {"allowed-tools": ["Bash(git: *)", "Read"]}
    inline = read("allowed-tools: [Bash(git: *), Read]")
    assert values(inline) == {"allowed-tools": "[Bash(git: *), Read]"}


@pytest.mark.parametrize(
    ("head", "code", "line"),
    [
        ("description: Use it\n  allowed-tools: Read", "yaml_broken", 3),
        ('description: "Use it\nallowed-tools: Read"', "restriction_hidden", 3),
        ("description: >\n  Use it\n  allowed-tools: Read", "restriction_misplaced", 4),
        ("metadata:\n  allowed_tools: Read", "restriction_misplaced", 3),
        ("constraints: a: b\n  max_execution_time: 5", "yaml_broken", 2),
        ("permissions: [a: b", "yaml_broken", 3),
        ("base: &b {allowed-tools: Read}\n<<: *b", "yaml_merge", 3),
    ],
)
def test_c02_a_restriction_that_would_vanish_is_an_error(head: str, code: str, line: int) -> None:
    front = read(f"name: a\n{head}")
    assert front.mapping is None
    assert codes(front)[-1] == (code, line + 1)
    assert front.diagnostics[-1].severity == "error"


def test_c03_dashes_inside_a_value_do_not_end_the_front_matter() -> None:
    front = read("description: a --- b\nmodel: big", body="--- c\n---\nd\n")
    assert values(front) == {"description": "a --- b", "model": "big"}
    assert front.body == "--- c\n---\nd\n"
    assert front.body_line == 5


def test_c03_indented_dashes_belong_to_a_block() -> None:
    assert values(read("description: |\n  a\n  ---\n  b")) == {"description": "a\n---\nb\n"}


def test_c03_delimiters_may_end_in_blanks() -> None:
    front = read_front_matter(b"--- \t\nname: a\n---  \nBody\n", "SKILL.md")
    assert (values(front), front.body) == ({"name": "a"}, "Body\n")


def test_c04_folded_text_is_one_sentence() -> None:
    assert values(read("description: >\n  Reads a page\n  and sums it up."))["description"].strip() == (
        "Reads a page and sums it up."
    )


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"---\nname: a\n", "front_matter_unclosed", 1),
        (b"\n---\nname: a\n --- \n", "front_matter_unclosed", 2),
        (b"# Title\n", "front_matter_missing", 1),
        (b"", "front_matter_missing", 1),
        (b"----\nname: a\n---\n", "front_matter_missing", 1),
        (b"\xff\xfe-\x00", "not_utf8", 1),
        (b"\xfe\xff\x00-", "not_utf8", 1),
        (b"---\nname: \xff\n---\n", "not_utf8", 2),
        (b"---\nname: a\x00\n---\n", "yaml_control", 2),
        (b"---\nname: a\x07\n---\n", "yaml_control", 2),
        (b'---\nname: "\\u0007"\n---\n', "yaml_control", 2),
        (b"---\n- a\n---\n", "front_matter_shape", 2),
        (b"---\na: b\n--- c\n---\n", "yaml_documents", 3),
        (b"---\na: b\nc: !!python/name:os.system ''\n---\n", "yaml_tag", 3),
        (b"---\na: b\n? [x]\n: y\n---\n", "yaml_key", 3),
        (b"---\na: &a [*a]\n---\n", "yaml_alias", 2),
        (b"---\n\tname: a\n---\n", "yaml_broken", 2),
    ],
)
def test_c05_unreadable_text_is_a_diagnostic_with_its_line(data: bytes, code: str, line: int) -> None:
    front = read_front_matter(data, "SKILL.md")
    assert front.mapping is None
    assert codes(front)[-1] == (code, line)


def test_c05_mode_000_is_unreadable_for_root_too(tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_bytes(b"---\n")
    file.chmod(0)
    with pytest.raises(SkillFileError) as caught:
        read_limited(str(file), 100)
    assert caught.value.code == "file_unreadable"


def test_c05_refused_permission_is_a_diagnostic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SkillFileError) as caught:
        read_limited(str(tmp_path / "SKILL.md"), 100, "skill/SKILL.md")
    assert caught.value.code == "file_unreadable"
    assert dict(caught.value.detail) == {"file": "skill/SKILL.md", "line": 1, "problem": "Permission denied"}


def test_c05_pipes_and_folders_are_not_opened_for_reading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        with pytest.raises(SkillFileError) as caught:
            read_limited(str(place), 100)
        assert caught.value.code == "file_irregular"


def test_c05_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SkillFileError) as caught:
        read_limited(str(tmp_path / "none"), 100)
    assert caught.value.code == "file_missing"


def test_c06_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    tracemalloc.start()
    front = read("\n".join(lines))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert front.mapping is None
    assert codes(front) == [("yaml_too_many_aliases", 11)]
    assert peak < 2_000_000


def test_c06_few_aliases_to_much_are_counted_in_full() -> None:
    wide = "[" + ", ".join(["x"] * 10_000) + "]"
    front = read(f"a: &a {wide}\nb: [*a, *a, *a, *a, *a]")
    assert codes(front) == [("yaml_too_large", 3)]


def test_c06_aliases_within_the_cap_are_read() -> None:
    assert values(read("a: &a [1, 2]\nb: *a")) == {"a": [1, 2], "b": [1, 2]}


def test_c06_depth_is_bounded_with_aliases_too() -> None:
    deep = "".join(f"{' ' * n}k:\n" for n in range(60))
    assert codes(read(deep))[-1][0] == "yaml_too_deep"
    half = "a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 30 + "*a" + "]" * 30
    assert codes(read(half))[-1][0] == "yaml_too_deep"


def test_c06_a_file_of_50_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    with file.open("wb") as stream:
        stream.truncate(50 * 1024 * 1024)
    tracemalloc.start()
    with pytest.raises(SkillFileError) as caught:
        read_limited(str(file), MAX_SKILL_MD_BYTES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.code == "file_too_large"
    assert caught.value.detail["size"] == 52_428_800
    assert peak < 200_000


def test_c11_crlf_reads_as_lf_and_is_reported() -> None:
    front = read_front_matter(b"---\r\nname: a\r\n---\r\nOne\r\nTwo\r", "SKILL.md")
    assert (values(front), front.body) == ({"name": "a"}, "One\nTwo\n")
    assert codes(front) == [("line_ends", 1)]


def test_c12_duplicate_key_names_both_lines() -> None:
    front = read("name: a\ndescription: d\nname: b")
    assert codes(front) == [("key_twice", 4)]
    assert front.diagnostics[0].detail == {"field": "name", "first": 2, "second": 4}
    error = front.diagnostics[0].error()
    assert error.message() == "name stands twice, on lines 2 and 4"
    assert error.message("zh") == "name 出现了两次，分别在第 2 行和第 4 行"
    assert error.to_json()["error"]["detail"] == {
        "file": "SKILL.md",
        "line": 4,
        "field": "name",
        "first": 2,
        "second": 4,
    }


def test_c12_duplicate_nested_key_is_refused_too() -> None:
    assert codes(read("metadata:\n  a: 1\n  b: 2\n  a: 3")) == [("key_twice", 5)]


def test_s2_scalars_keep_their_source_text() -> None:
    front = read("a: 1.10\nb: on\nc: 2026-06-15T10:30:00+08:00\nd: 123\ne: 0x1F\nf: 1_000\ng: 12:30:00\nh: .inf")
    assert front.mapping is not None
    texts = [entry.node for entry in front.mapping.entries.values()]
    assert [getattr(node, "text", None) for node in texts] == [
        "1.10",
        "on",
        "2026-06-15T10:30:00+08:00",
        "123",
        "0x1F",
        "1_000",
        "12:30:00",
        ".inf",
    ]


def test_s2_core_schema_knows_json_values_only() -> None:
    _, front = "", read("a: [1, -2, 1.10, 1e3, true, False, null, ~, yes, off, 007, 2026-01-02, .nan, 1e999, '5']")
    assert front.mapping is not None
    node = front.mapping.entries["a"].node
    assert value_of(node) == [
        1, -2, 1.1, 1000.0, True, False, None, None, "yes", "off", "007", "2026-01-02", ".nan", "1e999", "5",
    ]  # fmt: skip
    assert verbatim(node)[2:4] == ["1.10", "1e3"]


def test_s2_line_separators_inside_a_value_are_no_line_ends() -> None:
    front = read("description: a\u2028b\x85c\nname: n")
    assert values(front) == {"description": "a\u2028b\x85c", "name": "n"}
    assert front.mapping is not None
    assert front.mapping.entries["name"].line == 3


def test_s2_blank_lines_before_the_front_matter_are_reported() -> None:
    front = read_front_matter(b"\n \n---\nname: a\n---\nB\n", "SKILL.md")
    assert values(front) == {"name": "a"}
    assert front.body_line == 6
    assert codes(front) == [("leading_blank", 1)]


def test_s2_every_key_knows_its_line() -> None:
    front = read("name: a\n# remark\nmetadata:\n  author: b\n  list:\n    - one\n    - two")
    assert front.mapping is not None
    metadata = front.mapping.entries["metadata"]
    assert isinstance(metadata.node, Mapping)
    assert (metadata.line, metadata.node.entries["list"].line) == (4, 6)
    assert [item.line for item in getattr(metadata.node.entries["list"].node, "items", [])] == [7, 8]


def test_s2_the_pure_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [
        "name: a\ndescription: >\n  b\n  c\nmetadata: {x: 1, y: [2]}",
        "description: Use when: x\nallowed-tools: Read",
        "a: &a [1]\nb: *a",
        'a: "b',
        "a: *b c",
    ]
    with_c = [read(head)[:3] for head in heads]
    monkeypatch.setattr(yaml_nodes, "_LOADER", yaml.SafeLoader)
    assert [read(head)[:3] for head in heads] == with_c


def test_s3_our_own_file_is_read_without_guessing() -> None:
    mapping, notes = read_yaml_file(b"kind: tool\n", "prowess.yaml")
    assert (list(mapping.entries), notes) == (["kind"], ())
    with pytest.raises(SkillFileError) as caught:
        read_yaml_file(b"author: a: b\n", "prowess.yaml")
    assert (caught.value.code, caught.value.detail["line"]) == ("yaml_broken", 1)


def test_diagnostics_and_errors_turn_into_each_other() -> None:
    note = Diagnostic("yaml_tag", "x/SKILL.md", 7, {"tag": "!x"})
    assert diagnose(note.error()) == note


def test_every_note_has_words_in_both_languages() -> None:
    from prowess.skills.front_matter import _NOTES

    for language in ("en", "zh"):
        missing = [
            code for code in _NOTES for kind in ("error", "remedy") if f"{kind}.{code}" not in catalogue(language)
        ]
        assert missing == []
