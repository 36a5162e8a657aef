"""``prowess memory``: see, add, correct, export and delete what is remembered (M4)."""

from __future__ import annotations

from typing import Annotated

import typer

from prowess.cli.output import Agent, Db, Json, Tenant, User, command, opened, print_json, print_table, say, show

app = typer.Typer(help="What is remembered of you.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="memory")


AnyAgent = Annotated[str | None, typer.Option("--agent", help="Only of this agent.")]
MemoryId = Annotated[str, typer.Argument(help="Id, as shown by list.")]
Text = Annotated[str, typer.Option("--text", help="What to remember.")]


@app.command("list")
@command
def list_memories(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: AnyAgent = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 100,
) -> None:
    """Show what is remembered, newest first."""
    with opened(db) as app:
        memories = app.memories(user=user, agent=agent, limit=limit, tenant=tenant)
    if as_json:
        print_json({"memories": [memory.to_json() for memory in memories]})
        return
    rows = [(memory.id, memory.agent, memory.layer, memory.importance, memory.text) for memory in memories]
    print_table(("id", "agent", "layer", "importance", "text"), rows, empty=say("no_memories"))


@app.command()
@command
def add(
    text: Text,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    importance: Annotated[float, typer.Option("--importance", help="0 to 1.")] = 0.5,
    layer: Annotated[str, typer.Option("--layer", help="L2 for some days, L3 for good.")] = "L3",
) -> None:
    """Remember something."""
    with opened(db) as app:
        memory = app.add_memory(user, agent, text, importance, layer=layer, tenant=tenant)
    if as_json:
        print_json(memory.to_json())
    else:
        show(say("remembered", id=memory.id))


@app.command()
@command
def correct(
    memory_id: MemoryId,
    text: Text,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
) -> None:
    """Replace what is remembered; the old text is gone."""
    with opened(db) as app:
        memory = app.correct_memory(user=user, memory_id=memory_id, text=text, tenant=tenant)
    if as_json:
        print_json(memory.to_json())
    else:
        show(say("corrected", id=memory.id))


@app.command()
@command
def export(
    db: Db = None, as_json: Json = True, tenant: Tenant = "default", user: User = "me", agent: AnyAgent = None
) -> None:
    """Write everything that is remembered, always as JSON."""
    with opened(db) as app:
        print_json({"user": user, "memories": app.export_memories(user=user, agent=agent, tenant=tenant)})


@app.command()
@command
def delete(
    memory_id: MemoryId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me"
) -> None:
    """Delete for good."""
    with opened(db) as app:
        app.delete_memory(user=user, memory_id=memory_id, tenant=tenant)
    if as_json:
        print_json({"deleted": memory_id})
    else:
        show(say("deleted", id=memory_id))
