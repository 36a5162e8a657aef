"""Which paths may be watched, and what a change of files is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prowess.errors import InvalidInput
from prowess.kernel.canonical import compact_json, digest
from prowess.kernel.text import escape_controls

MAX_LISTED = 100
ChangeKind = Literal["added", "modified", "deleted"]


class Change(NamedTuple):
    """One file that changed."""

    path: Path
    kind: ChangeKind


class Roots:
    """The folders that the operator lets be watched. Links are followed before anything is compared."""

    def __init__(self, roots: Iterable[str | Path] = ()) -> None:
        """Raises ``InvalidInput('watch_root_unusable')`` for what is no folder, or the whole machine."""
        self._roots: list[Path] = []
        for root in roots:
            real = Path(os.path.realpath(root))
            if not real.is_dir() or real == Path(real.anchor):
                raise InvalidInput("watch_root_unusable", field="watch_roots", path=str(root))
            self._roots.append(real)

    def __bool__(self) -> bool:
        """Whether anything may be watched."""
        return bool(self._roots)

    def resolve(self, path: str) -> tuple[Path, Path]:
        """(the root, the real path below it). A relative path is below the first root that has it.

        Raises ``InvalidInput``: ``watch_root_missing`` where no root was given, ``watch_path_outside``.
        """
        if not self._roots:
            raise InvalidInput("watch_root_missing", field="spec.path")
        if "\0" in path:
            raise InvalidInput("watch_path_outside", field="spec.path")
        for root in self._roots:
            real = Path(os.path.realpath(root / path))
            if real.is_relative_to(root) and real.exists():
                return root, real
        raise InvalidInput("watch_path_outside", field="spec.path")


def batch_slot(changes: Sequence[Change]) -> str:
    """What a set of changes is called: path, kind, time and size of each, so that one set fires once (B12)."""
    marks: list[list[Any]] = []
    for change in sorted(changes):
        try:
            found = change.path.stat()
            marks.append([str(change.path), change.kind, str(found.st_mtime_ns), found.st_size])
        except OSError:  # gone again
            marks.append([str(change.path), change.kind, None, None])
    return f"files {digest(marks)}"


def describe(root: Path, changes: Sequence[Change]) -> str:
    """The changes for the turn, at most a hundred, by paths relative to the root."""
    shown = [
        {"path": _printable(change.path.relative_to(root)), "change": change.kind}
        for change in sorted(changes)[:MAX_LISTED]
    ]
    return compact_json({"changes": shown, "total": len(changes)})


def _printable(path: Path) -> str:
    """A name of a file may be bytes that are no text."""
    return escape_controls(str(path))
