"""The ``prowess`` command. Only typer is imported here; each command imports what it needs when it runs."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from prowess.cli import memory, permissions, records, skills, system, turns
from prowess.cli.output import set_language

app = typer.Typer(
    name="prowess",
    help="A governed skill runtime for AI agents: which skill serves a turn, whether it may, and what happened.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
turns.register(app)
system.register(app)
app.add_typer(skills.app, name="skills")
app.add_typer(permissions.app, name="permissions")
app.add_typer(memory.app, name="memory")
for name, group in records.groups.items():
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        import prowess

        print(prowess.__version__)
        raise typer.Exit


@app.callback()
def main(
    lang: Annotated[str | None, typer.Option("--lang", help="Language of sentences: en or zh.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options that go before the command."""
    if lang not in (None, "en", "zh"):
        raise typer.BadParameter("en or zh", param_hint="--lang")
    set_language(lang)


def run() -> None:
    """The console script: 0 done, 1 refused or failed, 2 wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    app()


if __name__ == "__main__":
    run()
