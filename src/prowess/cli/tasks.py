"""``prowess tasks`` and ``prowess stop``: what agents handed to each other, and stopping a turn with all of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from prowess.cli.output import (
    FAILED,
    Agent,
    Db,
    Json,
    Tenant,
    command,
    opened,
    print_json,
    print_table,
    say,
    show,
)

app = typer.Typer(help="What agents handed to each other.", no_args_is_help=True)

Message = Annotated[str, typer.Argument(help="Id of the message that the turn answers.")]
Conversation = Annotated[str | None, typer.Option("--conversation", help="Its conversation; default: main.")]
Group = Annotated[str | None, typer.Option("--group", help="Its group chat instead of a conversation.")]
Whose = Annotated[str | None, typer.Option("--user", help="Only if it is this user's.")]


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.command()(stop)
    main.add_typer(app, name="tasks")


@app.command("list")
@command
def list_tasks(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")] = 20,
) -> None:
    """Show what agents handed to each other, the latest first."""
    with opened(db) as opened_app:
        found = [item.to_json() for item in opened_app.tasks(user=user, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"tasks": found})
        return
    rows = [
        (item["created_at"], item["from"]["agent"], item["to"]["agent"], item["status"], item["error_code"], item["id"])
        for item in found
    ]
    print_table(("time", "from", "to", "status", "error", "id"), rows, empty=say("no_tasks"))


@app.command("show")
@command
def show_task(
    message: Message,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Whose = None,
    agent: Agent = "mira",
    conversation: Conversation = None,
    group: Group = None,
) -> None:
    """Show the whole task that a turn belongs to."""
    with opened(db) as opened_app:
        graph = opened_app.task_graph(
            message, agent=agent, user=user, tenant=tenant, **_chat(conversation, group)
        ).to_json()
    if as_json:
        print_json(graph)
        return
    source = {edge["to"]: edge["from"] for edge in graph["edges"]}
    rows = [
        (node["id"], node["agent"], source.get(node["id"]), node["status"], node["error_code"])
        for node in graph["nodes"]
    ]
    print_table(("id", "agent", "from", "status", "error"), rows, empty="")


@command
def stop(
    message: Message,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Whose = None,
    agent: Agent = "mira",
    conversation: Conversation = None,
    group: Group = None,
    limit: Annotated[float, typer.Option("--limit", help="How many seconds to wait for what runs.")] = 10.0,
) -> None:
    """Stop a turn: voice, tools, delegates, approvals and jobs."""
    with opened(db) as opened_app:
        stopped = opened_app.stop_turn(
            user=user, message_id=message, agent=agent, limit=limit, tenant=tenant, **_chat(conversation, group)
        ).to_json()
    if as_json:
        print_json(stopped)
    else:
        counts = ("turns", "delegates", "tools", "approvals", "jobs")
        print_table(("stopped", "count"), [(say(f"stopped.{name}"), stopped[name]) for name in counts], empty="")
        running = stopped["still_running"]
        show(say("all_down") if not running else say("still_running", names=", ".join(running)))
    if not stopped["all_down"]:
        raise typer.Exit(FAILED)


def _chat(conversation: str | None, group: str | None) -> dict[str, Any]:
    return {"conversation": conversation or (None if group else "main"), "group": group}
