"""``turn``, ``select``, ``chat`` and ``tour``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.lines import Answer, answer_lines
from prowess.cli.output import (
    FAILED,
    Agent,
    Db,
    Json,
    Tenant,
    User,
    command,
    note,
    opened,
    print_json,
    show,
    turn_footer,
)

if TYPE_CHECKING:
    pass

Mode = Annotated[str | None, typer.Option("--mode", help="default, bypass, dont_ask or explore.")]


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    for function in (turn, select, chat, tour):
        app.command()(function)


@command
def turn(
    text: Annotated[str, typer.Option("--text", help="What the user says; - reads standard input.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    conversation: Annotated[str | None, typer.Option("--conversation", help="Default: main.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="A group chat instead of a conversation.")] = None,
    message_id: Annotated[str | None, typer.Option("--message-id", help="Default: a fresh one.")] = None,
    now: Annotated[str | None, typer.Option("--now", help="Pretend that it is this instant (ISO 8601).")] = None,
    surface: Annotated[
        str | None, typer.Option("--surface", help="What may be used, as JSON, for this turn: skills, groups, tools.")
    ] = None,
    mode: Mode = None,
) -> None:
    """Run one turn and show the reply."""
    import uuid

    from prowess.cli.reading import read_mode, read_surface
    from prowess.runtime.app import result_to_json

    # What a shell adds at the end of a line is no part of what is said.
    said = sys.stdin.read().removesuffix("\n") if text == "-" else text
    if conversation is None and group is None:
        conversation = "main"
    given = None if surface is None else read_surface(surface, "surface")
    chosen = read_mode(mode)
    with opened(db, now=now, speaking=True) as app:
        result = app.turn(
            tenant=tenant,
            user=user,
            agent=agent,
            conversation=conversation,
            group=group,
            message_id=message_id or f"cli-{uuid.uuid4().hex}",
            text=said,
            surface=given,
            mode=chosen,
        )
    if as_json:
        print_json(result_to_json(result))
        return
    show(result.reply)
    if footer := turn_footer(result):
        note(f"  {footer}")


@command
def select(
    source: Annotated[str, typer.Option("--input", help="JSON lines of {text, scope}; - reads standard input.")],
    as_json: Json = True,
) -> None:
    """Say which built-in skill would serve each line."""
    from dataclasses import asdict

    from prowess.runtime.selection import select_built_in

    def answer(entry: dict[str, Any], _number: int) -> Answer:
        selection = select_built_in(entry.get("text"), entry.get("scope", "single_chat"))
        return Answer({"selection": None if selection is None else asdict(selection)})

    answer_lines(source, answer)


@command
def chat(
    db: Db = None,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    conversation: Annotated[str, typer.Option("--conversation", help="Which conversation.")] = "main",
    as_json: Annotated[bool, typer.Option("--json", help="Read lines, answer each with a line of JSON.")] = False,
    mode: Mode = None,
) -> None:
    """Talk to an agent; /help shows what can be asked for."""
    from prowess.cli.chat import talk
    from prowess.cli.reading import read_mode

    chosen = read_mode(mode)
    with opened(db, speaking=True) as app:
        ok = talk(app, tenant=tenant, user=user, agent=agent, conversation=conversation, as_json=as_json, mode=chosen)
    if not ok:
        raise typer.Exit(FAILED)


@command
def tour(as_json: Json = False) -> None:
    """Run the whole story on a throw-away database."""
    from prowess.cli.tour import run_tour

    if not run_tour(as_json=as_json):
        raise typer.Exit(FAILED)
