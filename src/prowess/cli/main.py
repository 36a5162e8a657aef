"""The ``prowess`` command. A module is imported when one of its commands runs, and what it needs by the command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated

import typer

from prowess.cli.output import INTERRUPTED, Debug, Lang, abandon_output, set_debug, set_language

PLACES: Mapping[str, Sequence[str]] = {
    "turns": ("turn", "select", "chat", "tour"),
    "system": ("migrate", "doctor", "eval", "bench"),
    "working": ("worker", "up"),
    "skills": ("skills",),
    "packages": ("keys",),
    "permissions": ("permissions",),
    "approvals": ("approvals",),
    "quotas": ("quotas",),
    "roles": ("roles",),
    "secrets": ("secrets",),
    "mounts": ("mounts",),
    "memory": ("memory",),
    "jobs": ("jobs",),
    "automations": ("automations",),
    "tasks": ("stop", "tasks"),
    "sandbox": ("sandbox",),
    "notifications": ("notifications",),
    "records": ("sessions", "runs", "audit", "agents"),
}
"""Modules of ``prowess.cli`` and what each ``register``s, in the order of the help (tested)."""


def build(command: str | None = None) -> typer.Typer:
    """The whole command; or, sooner done, only the module that ``command`` is in, where there is one."""
    app = typer.Typer(
        name="prowess",
        help="A governed skill runtime for AI agents: which skill serves a turn, whether it may, and what happened.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(main)
    place = next((module for module, names in PLACES.items() if command in names), None)
    for module in PLACES if place is None else (place,):
        import_module(f"prowess.cli.{module}").register(app)
    return app


def __getattr__(name: str) -> typer.Typer:
    if name != "app":
        raise AttributeError(name)
    return build()


def _show_version(wanted: bool) -> None:
    if wanted:
        import prowess

        print(prowess.__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


def main(lang: Lang = None, debug: Debug = False, version: Version = False) -> None:
    """Options that every command takes too, and the version."""
    set_language(lang)
    set_debug(debug)


def run() -> None:
    """The console script: 0 done, 1 refused or failed, 2 wrong usage."""
    # Bytes that are no UTF-8 come in as lone surrogates, which the text checks refuse by name and place, and go out
    # as \udcff, which is also how JSON writes them.
    streams = ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace"))
    for stream, errors in streams:
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(encoding="utf-8", errors=errors)  # type: ignore[union-attr]
    try:
        build(next(iter(sys.argv[1:]), None))(prog_name="prowess")
    except BrokenPipeError:
        abandon_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
