"""``prowess sandbox``: run a file as a skill's script would run, and test what this machine can do."""

from __future__ import annotations

from typing import Annotated

import typer

from prowess.cli.output import FAILED, Json, command, language, print_json, print_table, say, show

app = typer.Typer(help="Where scripts of skills run.", no_args_is_help=True)


@app.command("run")
@command
def run_file(
    file: Annotated[str, typer.Argument(help="A Python file.")],
    as_json: Json = False,
    permissions: Annotated[
        str | None, typer.Option("--permissions", help="YAML: the permissions section of a skill; default: nothing.")
    ] = None,
    given: Annotated[str, typer.Option("--input", help="JSON object: the arguments of the script.")] = "{}",
    entry: Annotated[str, typer.Option("--entry", help="The function to call.")] = "main",
) -> None:
    """Run a Python file in the sandbox."""
    from prowess.runtime.sandboxing import parse_input, result_to_json
    from prowess.runtime.sandboxing import run_file as run

    result = run(file, permissions, parse_input(given), entry=entry)
    document = result_to_json(result, language())
    if as_json:
        print_json(document)
    else:
        for text in (result.stdout, result.stderr):
            if text:
                show(text.rstrip("\n"))
        for key in ("status", "output", "isolation", "duration_ms", "peak_mb"):
            show(say("sandbox_line", name=key, value=document[key]))
        if "error" in document:
            show(document["error"]["message"])
            show(document["error"]["remedy"])
    if not result.ok:
        raise typer.Exit(FAILED)


@app.command("test")
@command
def examine(as_json: Json = False) -> None:
    """Try what the sandbox has to stop, and say what it stopped."""
    from prowess.runtime.sandboxing import examine_machine

    found = examine_machine()
    if as_json:
        print_json(found)
    else:
        rows = [(name, say("yes") if held else say("no")) for name, held in found["canaries"].items()]
        print_table(("check", "held_back"), rows, empty=say("sandbox_untested"))
        show(say("sandbox_isolation", isolation=found["isolation"], fault=found["fault"]))
    if found["isolation"] == "none":
        raise typer.Exit(FAILED)
