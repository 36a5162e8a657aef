"""The ``prowess`` command. Only typer is imported here; each command imports what it needs when it runs."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from prowess.cli import (
    approvals,
    asking,
    automations,
    jobs,
    memory,
    notifications,
    packages,
    permissions,
    records,
    risks,
    roles,
    secrets,
    skills,
    system,
    tasks,
    turns,
    working,
)
from prowess.cli.output import INTERRUPTED, Debug, Lang, abandon_output, set_debug, set_language

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
working.register(app)
tasks.register(app)
packages.register(skills.app)
app.add_typer(skills.app, name="skills")
app.add_typer(packages.keys, name="keys")
asking.register(permissions.app)
risks.register(permissions.app)
app.add_typer(permissions.app, name="permissions")
app.add_typer(approvals.app, name="approvals")
app.add_typer(roles.app, name="roles")
app.add_typer(secrets.app, name="secrets")
app.add_typer(memory.app, name="memory")
app.add_typer(jobs.app, name="jobs")
app.add_typer(automations.app, name="automations")
app.add_typer(tasks.app, name="tasks")
app.add_typer(notifications.app, name="notifications")
for name, group in records.groups.items():
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        import prowess

        print(prowess.__version__)
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")]


@app.callback()
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
        app(prog_name="prowess")
    except BrokenPipeError:
        abandon_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
