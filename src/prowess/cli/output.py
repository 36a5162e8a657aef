"""How every command speaks: JSON to standard output alone, everything else readable, one shape for errors."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer

from prowess.errors import ProwessError
from prowess.messages import LANGUAGES, render

if TYPE_CHECKING:
    from prowess.runtime.app import Prowess
    from prowess.turns.request import TurnResult

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
DEBUG_VARIABLE = "PROWESS_DEBUG"
LANGUAGE_VARIABLES = ("PROWESS_LANG", "LC_ALL", "LANG")
"""The first of them that is set and not empty speaks."""

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
_debug = False


def set_language(language: str | None) -> None:
    """Take ``--lang``; null leaves it to the environment."""
    global _language
    _language = language


def set_debug(wanted: bool) -> None:
    """Take ``--debug``; false leaves it to ``PROWESS_DEBUG``."""
    global _debug
    _debug = wanted


def debugging() -> bool:
    """Whether an unexpected error shows its traceback."""
    return _debug or os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")


def known_language(value: str | None) -> str | None:
    """``value``, where it is a language that can be spoken. Raises a usage error."""
    if value is not None and value not in LANGUAGES:
        raise typer.BadParameter(" / ".join(LANGUAGES))
    return value


Lang = Annotated[str | None, typer.Option("--lang", callback=known_language, help="Language of sentences: en or zh.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an unexpected error came from.")]
NoDb = Annotated[str | None, typer.Option("--db", help="Taken and ignored: this command uses no database.")]

_COMMON: Mapping[str, tuple[Any, Any]] = {"db": (NoDb, None), "lang": (Lang, None), "debug": (Debug, False)}
"""Options that every command takes: added to those whose function does not name them."""


def language() -> str:
    """``en`` or ``zh``: ``--lang``, else ``PROWESS_LANG``, else the locale."""
    wanted = _language or next((os.environ[name] for name in LANGUAGE_VARIABLES if os.environ.get(name)), "")
    return "zh" if wanted.lower().startswith("zh") else LANGUAGES[0]


def say(key: str, **fields: Any) -> str:
    """A sentence of the command line, ``cli.<key>``."""
    return render(f"cli.{key}", language(), fields)


# Control characters but tab and line break, and the marks that reorder what is read: text from skills, memories and
# file names must not move the cursor, colour the screen or hide what it says.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: object) -> str:
    """``text`` with whatever a terminal would obey written out as Python escapes."""
    return _UNSEEN.sub(lambda found: ascii(found.group())[1:-1], str(text).replace("\r\n", "\n"))


def show(text: object = "") -> None:
    """One line for people, on standard output."""
    print(visible(text))


def note(text: object) -> None:
    """One line for people beside the result, on standard error."""
    print(visible(text), file=sys.stderr)


def dim(text: str) -> str:
    """``text`` in grey on a terminal."""
    return f"\x1b[2m{text}\x1b[0m" if sys.stdout.isatty() else text


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
        table.add_row(*(Text("" if cell is None else visible(cell)) for cell in row))
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
    """The error object on standard output with ``--json``, else what, where and what to do on standard error."""
    if as_json:
        print_json(error.to_json(language()))
        return
    message = error.message(language())
    file = error.detail.get("file")
    if file is not None and str(file) not in message:
        line = error.detail.get("line")
        message = f"{file}: {message}" if line is None else f"{file}:{line}: {message}"
    note(say("error", message=message))
    note(f"  {error.remedy(language())}")


def command(function: Callable[P, T]) -> Callable[P, T]:
    """Give a command the common options, and the common ends.

    They are 0 done, 1 with an error object, and quiet on Ctrl-C and on a closed pipe.
    """
    signature = inspect.signature(function, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _COMMON.items()
        if name not in signature.parameters
    ]

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        common = {item.name: kwargs.pop(item.name, item.default) for item in added}
        if common["lang"] is not None:
            set_language(str(common["lang"]))
        if common["debug"]:
            set_debug(True)
        try:
            result = function(*args, **kwargs)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            _end(error, as_json=bool(kwargs.get("as_json")))

    guarded.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *added]
    )
    return guarded


def _end(error: BaseException, *, as_json: bool) -> NoReturn:
    match error:
        case KeyboardInterrupt():
            raise typer.Exit(INTERRUPTED) from None
        case BrokenPipeError():
            abandon_output()
            raise typer.Exit(FAILED) from None
        case ProwessError():
            _fail(error, as_json=as_json)
        case OSError():
            _trace()
            detail = {} if error.filename is None else {"file": os.fsdecode(error.filename)}
            cause = error.strerror or type(error).__name__
            _fail(ProwessError("system_refused", cause=cause, **detail), as_json=as_json)
        case _:
            _trace()
            _fail(ProwessError("internal", cause=type(error).__name__), as_json=as_json)


def _trace() -> None:
    if debugging():
        traceback.print_exc()


def _fail(error: ProwessError, *, as_json: bool) -> NoReturn:
    try:
        report_error(error, as_json=as_json)
        sys.stdout.flush()
    except OSError:
        # Standard output is closed or full: the other stream is all that is left.
        abandon_output()
        with suppress(OSError):
            report_error(error, as_json=False)
    raise typer.Exit(FAILED) from None


def abandon_output() -> None:
    """Standard output takes no more; what is left in it must not raise again when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def opened(db: str | None, *, now: str | None = None, speaking: bool = False) -> Iterator[Prowess]:
    """The runtime over the chosen database, with the resolver, policies and mode of the environment.

    ``now`` stops its clock there (ISO 8601); ``speaking``: with the model of the environment, which takes long to load.
    """
    import prowess
    from prowess.kernel.clock import parse_instant
    from prowess.runtime.settings import database_url, environment_options, environment_voice

    clock = None if now is None else prowess.ManualClock(parse_instant(now, "now"))
    options = environment_options()
    voice = environment_voice() if speaking else None
    with prowess.open(database_url(db), clock=clock, voice=voice, **options) as app:
        yield app
