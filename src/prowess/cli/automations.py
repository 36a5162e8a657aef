"""``prowess automations``: when a schedule fires."""

from __future__ import annotations

from typing import Annotated

import typer

from prowess.cli.lines import Answer, answer_lines
from prowess.cli.output import Json, command, print_json, print_table, say

app = typer.Typer(help="Schedules: when they fire.", no_args_is_help=True)


@app.command("next")
@command
def next_command(
    cron: Annotated[str | None, typer.Argument(help="Five fields, or @hourly, @daily, @weekly, @monthly.")] = None,
    tz: Annotated[str, typer.Option("--tz", help="IANA zone, such as Europe/Berlin.")] = "UTC",
    after: Annotated[str | None, typer.Option("--after", help="Instant with offset (ISO 8601); default: now.")] = None,
    count: Annotated[int, typer.Option("--count", help="How many.")] = 5,
    source: Annotated[
        str | None, typer.Option("--input", help="JSON lines of {cron, tz, after, count}; - reads standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the next fires of one expression, or of a file of them."""
    from prowess.runtime.schedules import next_fires

    if (cron is None) == (source is None):
        raise typer.BadParameter(say("automations.one_of"))
    if source is not None:
        answer_lines(source, lambda entry, _number: Answer({"fires": next_fires(entry)}))
        return
    fires = next_fires({"cron": cron, "tz": tz, "after": after, "count": count})
    if as_json:
        print_json({"fires": fires})
        return
    rows = [(fire["local"], fire["utc"], say(f"fire.{fire['note']}") if fire["note"] else "") for fire in fires]
    print_table(("local", "utc", "note"), rows, empty="")
