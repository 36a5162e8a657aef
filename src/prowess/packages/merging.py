"""A local edit and an upstream change of the same skill, merged file by file or the conflict shown (U11).

Three versions: the base that both come from, mine, theirs. What only one side changed is taken; what both changed alike
is taken once; text that both changed is merged by lines; the rest is a conflict and is left to a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

MAX_MERGED_LINES = 20_000
MINE, BASE, THEIRS, END = "<<<<<<< mine", "||||||| base", "=======", ">>>>>>> theirs"

How = Literal["same", "mine", "theirs", "merged", "conflict", "removed"]


class FileContent(NamedTuple):
    """Bytes, and whether they may be executed."""

    content: bytes
    executable: bool = False


Files = Mapping[str, FileContent]


@dataclass(frozen=True, slots=True)
class MergedFile:
    """What became of one file. ``file`` null: it is gone. ``problem``: why a conflict cannot be merged."""

    path: str
    how: How
    file: FileContent | None
    problem: Literal["text", "binary", "removed_here", "removed_there", "added_twice"] | None = None
    line: int | None = None
    """of the first conflict mark"""

    def to_json(self) -> dict[str, object]:
        """The shape of ``prowess skills merge``."""
        return {"path": self.path, "how": self.how, "problem": self.problem, "line": self.line}


def merge_files(base: Files, mine: Files, theirs: Files) -> list[MergedFile]:
    """Every path of the three, by path."""
    return [
        _merge_file(path, base.get(path), mine.get(path), theirs.get(path)) for path in sorted({*base, *mine, *theirs})
    ]


def _merge_file(
    path: str, base: FileContent | None, mine: FileContent | None, theirs: FileContent | None
) -> MergedFile:
    if mine == theirs:
        return MergedFile(path, "same" if mine is not None else "removed", mine)
    if mine == base:
        return MergedFile(path, "theirs" if theirs is not None else "removed", theirs)
    if theirs == base:
        return MergedFile(path, "mine" if mine is not None else "removed", mine)
    if mine is None:
        return MergedFile(path, "conflict", theirs, "removed_here")
    if theirs is None:
        return MergedFile(path, "conflict", mine, "removed_there")
    executable = theirs.executable if base is None or mine.executable == base.executable else mine.executable
    texts = [_text(side) for side in (base or FileContent(b""), mine, theirs)]
    if any(text is None for text in texts):
        return MergedFile(path, "conflict", mine, "binary")
    lines, line = merge_lines(*(_lines(text or "") for text in texts))
    merged = FileContent("".join(lines).encode(), executable)
    if line is None:
        return MergedFile(path, "merged", merged)
    return MergedFile(path, "conflict", merged, "text" if base is not None else "added_twice", line)


def merge_lines(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], int | None]:
    """The merged lines, and the 1-based line of the first conflict mark; ``None`` where there is no conflict."""
    merged: list[str] = []
    first: int | None = None
    at = in_mine = in_theirs = 0
    for start, end, mine_at, theirs_at in [
        *_common(base, mine, theirs),
        (len(base), len(base), len(mine), len(theirs)),
    ]:
        old, one, other = base[at:start], mine[in_mine:mine_at], theirs[in_theirs:theirs_at]
        if one == other or other == old:
            merged += one
        elif one == old:
            merged += other
        else:
            first = first or len(merged) + 1
            merged += [*_marked(MINE, one), *_marked(BASE, old), *_marked(THEIRS, other), f"{END}\n"]
        merged += base[start:end]
        at, in_mine, in_theirs = end, mine_at + end - start, theirs_at + end - start
    return merged, first


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [f"{mark}\n", *(line if line.endswith("\n") else f"{line}\n" for line in lines)]


def _common(base: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Stretches that all three share: start and end in the base, start in mine, start in theirs."""
    one = _blocks(base, mine)
    other = _blocks(base, theirs)
    found: list[tuple[int, int, int, int]] = []
    i = j = 0
    while i < len(one) and j < len(other):
        (start_a, in_mine, size_a), (start_b, in_theirs, size_b) = one[i], other[j]
        start, end = max(start_a, start_b), min(start_a + size_a, start_b + size_b)
        if start < end:
            found.append((start, end, in_mine + start - start_a, in_theirs + start - start_b))
        if start_a + size_a < start_b + size_b:
            i += 1
        else:
            j += 1
    return found


def _blocks(base: Sequence[str], other: Sequence[str]) -> list[tuple[int, int, int]]:
    from difflib import SequenceMatcher

    if max(len(base), len(other)) > MAX_MERGED_LINES:
        return []  # all of it is one stretch that differs: the search takes quadratic time
    return [
        (a, b, size) for a, b, size in SequenceMatcher(None, base, other, autojunk=False).get_matching_blocks() if size
    ]


def _lines(text: str) -> list[str]:
    """Lines with their ends, of which there is one kind: the line feed."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _text(file: FileContent) -> str | None:
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
