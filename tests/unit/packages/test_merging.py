"""Three versions put together, line by line (U11)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prowess.packages.merging import FileContent, merge_files, merge_lines

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=8)


def file(text: str | bytes, executable: bool = False) -> FileContent:
    return FileContent(text if isinstance(text, bytes) else text.encode(), executable)


@given(LINES, LINES)
def test_u11_where_one_side_changed_nothing_the_other_is_the_result(base: list[str], other: list[str]) -> None:
    assert merge_lines(base, base, other) == (other, None)
    assert merge_lines(base, other, base) == (other, None)
    assert merge_lines(base, other, other) == (other, None)


@given(LINES, LINES, LINES)
def test_u11_no_line_of_either_side_is_lost_without_a_mark(base: list[str], mine: list[str], theirs: list[str]) -> None:
    merged, line = merge_lines(base, mine, theirs)
    for side in (mine, theirs):
        for text in {*side} - {*base}:
            assert text in merged
    assert (line is None) == ("<<<<<<< mine\n" not in merged)
    mirrored, other_line = merge_lines(base, theirs, mine)
    assert (line is None) == (other_line is None)
    if line is None:
        assert merged == mirrored
    else:
        assert merged[line - 1] == "<<<<<<< mine\n"


def test_u11_edits_apart_are_merged_and_edits_of_one_line_are_shown() -> None:
    base = ["1\n", "2\n", "3\n", "4\n", "5\n"]
    assert merge_lines(base, ["1!\n", *base[1:]], [*base[:4], "5!\n"]) == (["1!\n", "2\n", "3\n", "4\n", "5!\n"], None)
    merged, line = merge_lines(base, ["1\n", "x\n", *base[2:]], ["1\n", "y\n", *base[2:]])
    assert line == 2
    assert "".join(merged[1:8]) == "<<<<<<< mine\nx\n||||||| base\n2\n=======\ny\n>>>>>>> theirs\n"


def test_u11_each_file_is_merged_removed_or_left_to_a_person() -> None:
    base = {name: file(f"1\n2\n3\n{name}\n") for name in ("same", "mine", "theirs", "gone", "gone-here", "gone-there")}
    base |= {"binary": file(b"\0"), "both": file("1\n2\n3\n4\n5\n")}
    mine = {**base, "mine": file("m\n"), "binary": file(b"\0m"), "both": file("1\n2\n3\n4\n5m\n"), "added": file("m\n")}
    mine["gone-there"] = file("edited\n")
    theirs = {
        **base,
        "theirs": file("t\n"),
        "binary": file(b"\0t"),
        "both": file("1t\n2\n3\n4\n5\n"),
        "added": file("t\n"),
    }
    theirs["gone-here"] = file("edited\n")
    theirs["run"] = file("x", True)
    for side, name in ((mine, "gone"), (theirs, "gone"), (mine, "gone-here"), (theirs, "gone-there")):
        del side[name]
    found = {one.path: one for one in merge_files(base, mine, theirs)}
    assert {path: (one.how, one.problem) for path, one in found.items()} == {
        "added": ("conflict", "added_twice"), "binary": ("conflict", "binary"), "both": ("merged", None),
        "gone": ("removed", None), "gone-here": ("conflict", "removed_here"), "gone-there": ("conflict", "removed_there"),
        "mine": ("mine", None), "run": ("theirs", None), "same": ("same", None), "theirs": ("theirs", None),
    }  # fmt: skip
    assert found["both"].file == file("1t\n2\n3\n4\n5m\n")
    assert found["gone-there"].file == file("edited\n")
    assert found["run"].file == file("x", True)
    assert found["gone"].file is None
