"""How every command speaks: JSON to standard output alone, everything else readable, one shape for errors."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from prowess.errors import ProwessError
from prowess.messages import LANGUAGES, render

if TYPE_CHECKING:
    from prowess.runtime.app import Prowess
    from prowess.turns.request import TurnResult

DONE, FAILED, USAGE = 0, 1, 2

Db = Annotated[
    str | None, typer.Option("--db", help="Database address; default PROWESS_DB, else a file in your data folder.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The organisation.")]
User = Annotated[str, typer.Option("--user", help="Who asks.")]
Agent = Annotated[str, typer.Option("--agent", help="Which agent.")]

P = ParamSpec("P")
T = TypeVar("T")

_language: str | None = None


def set_language(language: str | None) -> None:
    """Take ``--lang``; null leaves it to the environment."""
    global _language
    _language = language


def language() -> str:
    """``en`` or ``zh``: ``--lang``, else ``PROWESS_LANG``, else the locale."""
    wanted = _language or os.environ.get("PROWESS_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return "zh" if wanted.lower().startswith("zh") else LANGUAGES[0]


def say(key: str, **fields: Any) -> str:
    """A sentence of the command line, ``cli.<key>``."""
    return render(f"cli.{key}", language(), fields)


def print_json(value: Any) -> None:
    """One JSON document on a line of its own."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """A table for people; ``empty`` is said where there is no row. Columns are keys under ``cli.column``."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(say(f"column.{column}"), overflow="fold")
    count = 0
    for row in rows:
        # Text, never markup: what users wrote must not style or hide anything.
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
        count += 1
    # A terminal folds at its width; a pipe or file has none, and rows stay whole.
    console = Console() if sys.stdout.isatty() else Console(width=400)
    if count:
        console.print(table)
    else:
        console.print(empty, style="dim")


def turn_footer(result: TurnResult) -> str:
    """One thin line on what served the turn, such as ``used memory-recall · allowed``."""
    if result.selection is None:
        return ""
    parts = [say("used", skill=result.selection.skill_id)]
    if result.decision is not None:
        parts.append(say(f"effect.{result.decision.effect}"))
    if result.session is not None and result.session.status == "waiting_user":
        parts.append(say("waiting"))
    return " · ".join(parts)


def report_error(error: ProwessError, *, as_json: bool) -> None:
    """The error object on standard output with ``--json``, else two lines on standard error."""
    if as_json:
        print_json(error.to_json(language()))
        return
    print(f"{say('error')}: {error.message(language())}", file=sys.stderr)
    print(f"  {error.remedy(language())}", file=sys.stderr)


def command(function: Callable[P, T]) -> Callable[P, T]:
    """Give a command the common ends: 0 done, 1 with an error object, quiet on Ctrl-C and a closed pipe."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        as_json = bool(kwargs.get("as_json"))
        try:
            return function(*args, **kwargs)
        except ProwessError as error:
            report_error(error, as_json=as_json)
            raise typer.Exit(FAILED) from None
        except BrokenPipeError:
            # The reader has gone; nothing more can be said, and the interpreter must not try at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if os.environ.get("PROWESS_DEBUG"):
                traceback.print_exc()
            report_error(ProwessError("internal", cause=type(error).__name__), as_json=as_json)
            raise typer.Exit(FAILED) from None

    return guarded


@contextmanager
def opened(db: str | None, *, now: str | None = None) -> Iterator[Prowess]:
    """The runtime over the chosen database; ``now`` stops its clock there (ISO 8601)."""
    import prowess
    from prowess.kernel.clock import parse_instant
    from prowess.runtime.settings import database_url

    clock = None if now is None else prowess.ManualClock(parse_instant(now, "now"))
    with prowess.open(database_url(db), clock=clock) as app:
        yield app
