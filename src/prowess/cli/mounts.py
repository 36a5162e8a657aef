"""``prowess mounts``: MCP servers as tools, and what a person has to look at before one can be called (X7)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.output import Db, Json, Tenant, command, opened, print_json, print_table, say, show

if TYPE_CHECKING:
    from prowess.mounts.model import MountedTool

app = typer.Typer(help="MCP servers as tools: mounted, reviewed, mapped.", no_args_is_help=True)
Server = Annotated[str, typer.Argument(help="Name of the server.")]


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="mounts")


@app.command()
@command
def add(
    server: Server,
    words: Annotated[
        list[str] | None,
        typer.Argument(help="The command and its words, after --; it speaks MCP on its standard input."),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="In place of a command: where a server is; its host must be allowed.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="Variable that the command gets from this environment; repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", help="NAME=SLOT or NAME=SLOT:user, a variable or header from a slot; repeatable."),
    ] = None,
    bearer: Annotated[
        str | None, typer.Option("--bearer", help="SLOT or SLOT:user, sent as a bearer token in Authorization.")
    ] = None,
    call_ms: Annotated[int, typer.Option("--call-ms", help="How long a call may take.")] = 20_000,
    start_ms: Annotated[int, typer.Option("--start-ms", help="How long the server may take to start.")] = 15_000,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Mount a server, or change how one is reached."""
    secrets = [_secret(item) for item in secret or ()]
    if bearer is not None:
        secrets.append({**_secret(f"Authorization={bearer}"), "prefix": "Bearer "})
    with opened(db) as runtime:
        mount = runtime.mount(
            server,
            command=words or (),
            url=url,
            environment=env or (),
            secrets=secrets,
            call_ms=call_ms,
            start_ms=start_ms,
            tenant=tenant,
        )
    if as_json:
        print_json(mount.spec.to_json())
    else:
        show(say("mount_added", server=server, transport=mount.spec.transport))


@app.command("list")
@command
def list_mounts(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show what is mounted, and what waits to be looked at."""
    with opened(db) as runtime:
        found = [view.to_json() for view in runtime.mounts(tenant=tenant)]
    if as_json:
        print_json({"mounts": found})
        return
    rows = [
        (
            item["server"],
            item["transport"],
            item["tools"]["approved"],
            item["tools"]["pending"] + item["tools"]["changed"],
            item["error"],
        )
        for item in found
    ]
    print_table(("server", "transport", "approved", "waiting", "error"), rows, empty=say("no_mounts"))


@app.command("show")
@command
def show_mount(server: Server, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show a server's tools as listed and as approved."""
    with opened(db) as runtime:
        view = runtime.mounted(server, tenant=tenant)
    if as_json:
        print_json({**view.to_json(), "tools": [_tool(tool) for tool in view.tools]})
        return
    _print_tools(view.tools)


@app.command()
@command
def refresh(
    server: Server,
    user: Annotated[
        str | None, typer.Option("--user", help="With whose credentials, where the server needs a user's.")
    ] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Connect to a server and list its tools anew."""
    with opened(db) as runtime:
        view = runtime.refresh_mount(server, user=user, tenant=tenant)
    if as_json:
        print_json({**view.to_json(), "tools": [_tool(tool) for tool in view.tools]})
    else:
        _print_tools(view.tools)


@app.command()
@command
def approve(
    server: Server,
    tools: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tools, each as NAME or NAME@DIGEST, so that nothing else is approved; default: all waiting."
        ),
    ] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Let tools be called as they are listed now."""
    with opened(db) as runtime:
        approved = runtime.approve_mounted_tools(server, tools or (), tenant=tenant)
    if as_json:
        print_json({"approved": [_tool(tool) for tool in approved]})
        return
    for tool in approved:
        show(say("mount_approved", tool=tool.id, digest=tool.listed.digest[:12]))
    if not approved:
        show(say("mount_nothing"))


@app.command()
@command
def override(
    server: Server,
    tool: Annotated[str, typer.Argument(help="Name of the tool.")],
    risk: Annotated[str | None, typer.Option("--risk", help="L1, L2, L3 or L4.")] = None,
    effect: Annotated[str | None, typer.Option("--effect", help="read or write.")] = None,
    code: Annotated[str | None, typer.Option("--code", help="The permission code that it needs.")] = None,
    destructive: Annotated[
        bool | None, typer.Option("--destructive/--harmless", help="Whether it destroys what is not brought back.")
    ] = None,
    network: Annotated[
        bool | None, typer.Option("--network/--no-network", help="Whether it reaches the world outside.")
    ] = None,
    ask: Annotated[bool | None, typer.Option("--ask/--no-ask", help="Whether each call is asked for.")] = None,
    hidden: Annotated[bool | None, typer.Option("--hide/--unhide", help="Whether it is kept away from all.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what was said before.")] = False,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Say what a tool needs, in place of its server's hints."""
    said = {"risk": risk, "effect": effect, "code": code}
    flags = {"destructive": destructive, "network": network, "ask": ask, "hidden": hidden}
    with opened(db) as runtime:
        changed = runtime.override_mounted_tool(server, tool, reset=reset, tenant=tenant, **said, **flags)
    if as_json:
        print_json(_tool(changed))
    else:
        show(say("mount_mapped", tool=changed.id, needs=_needs(changed)))


@app.command()
@command
def remove(server: Server, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Unmount a server, and forget what was approved of it."""
    with opened(db) as runtime:
        runtime.unmount(server, tenant=tenant)
    if as_json:
        print_json({"server": server, "removed": True})
    else:
        show(say("mount_removed", server=server))


def _secret(text: str) -> dict[str, str]:
    name, _, slot = text.partition("=")
    slot, _, owner = slot.partition(":")
    return {"name": name, "slot": slot, "owner": owner or "tenant"}


def _tool(tool: MountedTool) -> dict[str, Any]:
    """A tool whole: what is listed, what was approved, and what it needs."""
    from prowess.mounts.mapping import map_tool

    mapped = map_tool(tool.server, tool.pinned or tool.listed, tool.override)
    return {
        "tool": tool.id,
        "state": str(tool.state),
        "listed": tool.listed.to_json(),
        "approved": None if tool.pinned is None else tool.pinned.to_json(),
        "override": tool.override.to_json(),
        "effect": mapped.effect,
        "destructive": mapped.destructive,
        "needs": [item.model_dump(mode="json") for item in mapped.requirements],
        "approved_by": tool.approved_by,
    }


def _needs(tool: MountedTool) -> str:
    return " ".join(f"{item['code']}({item['risk']})" for item in _tool(tool)["needs"])


def _print_tools(tools: tuple[MountedTool, ...]) -> None:
    rows = [
        (
            tool.id,
            say(f"mount_state.{tool.state}"),
            _needs(tool),
            tool.listed.digest[:12],
            tool.listed.fault or _note(tool),
        )
        for tool in tools
    ]
    print_table(("tool", "state", "needs", "digest", "note"), rows, empty=say("no_mounted_tools"))
    for tool in tools:
        if str(tool.state) in ("pending", "changed"):
            _print_difference(tool)


def _note(tool: MountedTool) -> str:
    return " ".join(tool.listed.notes)


def _print_difference(tool: MountedTool) -> None:
    """What would be approved; where something was, the fields that differ, old and new."""
    listed = tool.listed.to_json()
    before = {} if tool.pinned is None else tool.pinned.to_json()
    show(f"\n{tool.id}")
    for name in ("description", "input_schema", "output_schema", "annotations", "notes"):
        if before.get(name) == listed[name]:
            continue
        if tool.pinned is not None:
            show("  " + say("mount_was", text=f"{name} {_shown(before[name])}"))
        show("  " + say("mount_is", text=f"{name} {_shown(listed[name])}"))


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
