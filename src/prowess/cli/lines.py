"""JSON lines in, one JSON document a line out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import typer

from prowess.cli.output import FAILED, language, print_json
from prowess.errors import InvalidInput, ProwessError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

MAX_LINE = 1_000_000
"""characters of one line"""


class Answer(NamedTuple):
    """What one line came to; ``ok`` false ends the command with 1, as a refused line does."""

    document: Any
    ok: bool = True


def answer_lines(source: str, answer: Callable[[dict[str, Any], int], Answer]) -> None:
    """Print the answer to each line, or its error object with the line's number; a bad line does not stop the others.

    Exits with 1 where one was refused or not ``ok``. Raises ``InvalidInput('not_readable')``.
    """
    failed = False
    with open_lines(source) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                found = answer(parse_line(line, number), number)
            except ProwessError as error:
                failed = True
                error.detail = {**error.detail, "line": number}
                print_json(error.to_json(language()))
            else:
                failed = failed or not found.ok
                print_json(found.document)
    if failed:
        raise typer.Exit(FAILED)


def open_lines(source: str) -> AbstractContextManager[IO[str]]:
    """A text file to read, or standard input for ``-``. Raises ``InvalidInput('not_readable')``."""
    if source == "-":
        return nullcontext(sys.stdin)
    try:
        return Path(source).open(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise InvalidInput("not_readable", file=source, cause=error.strerror or type(error).__name__) from None


def parse_line(line: str, number: int) -> dict[str, Any]:
    """A JSON object from one line. Raises ``InvalidInput('bad_json_line')``."""
    if len(line) > MAX_LINE:
        raise InvalidInput("text_too_long", field="line", limit=MAX_LINE, length=len(line), line=number)
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidInput("bad_json_line", line=number) from None
    if not isinstance(entry, dict):
        raise InvalidInput("bad_json_line", line=number)
    return entry
