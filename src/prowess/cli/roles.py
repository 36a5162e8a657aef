"""``prowess roles``: what people may use at all, by the roles that they have."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from prowess.cli.output import Db, Json, Tenant, command, note, opened, print_json, print_table, say, show
from prowess.errors import NotFound

app = typer.Typer(help="Roles: what people may use at all.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="roles")


RoleName = Annotated[str, typer.Argument(help="Name of the role.")]
Member = Annotated[str, typer.Option("--user", help="Whose role.")]


def _names(surface: list[Any] | None) -> str:
    return ", ".join(entry if isinstance(entry, str) else ":".join(entry) for entry in surface or ())


def _note_resolver() -> None:
    """A role that nobody asks for cuts nothing, and whoever defines one should know."""
    from prowess.runtime.settings import RESOLVER_VARIABLE

    if os.environ.get(RESOLVER_VARIABLE) != "roles":
        note(say("roles_inert", variable=RESOLVER_VARIABLE))


@app.command("list")
@command
def list_roles(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only those of this user.")] = None,
) -> None:
    """Show the roles and what each gives."""
    with opened(db) as runtime:
        found = [role.to_json() for role in runtime.roles(user=user, tenant=tenant)]
    if as_json:
        print_json({"roles": found})
        return
    rows = [
        (
            role["name"],
            say("everything") if role["everything"] else _names(role["skills"]),
            _names(role["groups"]),
            _names(role["tools"]),
        )
        for role in found
    ]
    print_table(("role", "skills", "groups", "tools"), rows, empty=say("no_roles"))


@app.command("show")
@command
def show_role(role: RoleName, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show one role and who has it."""
    with opened(db) as runtime:
        found = next((item for item in runtime.roles(tenant=tenant) if item.name == role), None)
        if found is None:
            raise NotFound("role_not_found", role=role[:80])
        members = [user for _, user in runtime.role_members(role, tenant=tenant)]
    document = found.to_json() | {"members": members}
    if as_json:
        print_json(document)
        return
    show(document["name"])
    if found.everything:
        show(f"  {say('everything')}")
    for dimension in ("skills", "groups", "tools"):
        if document[dimension] is not None:
            show(f"  {say(f'column.{dimension}')}{say('colon')}{_names(document[dimension])}")
    show(f"  {say('column.user')}{say('colon')}{', '.join(members)}")


@app.command("set")
@command
def set_role(
    role: RoleName,
    skill: Annotated[
        list[str] | None, typer.Option("--skill", help="A skill: id, or id@version. May be repeated.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="A tool group. May be repeated.")] = None,
    tool: Annotated[list[str] | None, typer.Option("--tool", help="A tool by its exact name. May be repeated.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All that an agent has.")] = False,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Make a role or replace what it gives; nothing named, nothing given."""
    if everything and (skill or group or tool):
        raise typer.BadParameter(say("everything_alone"))
    with opened(db) as runtime:
        made = runtime.define_role(
            role, skills=skill or None, groups=group or None, tools=tool or None, everything=everything, tenant=tenant
        )
    if as_json:
        print_json(made.to_json())
    else:
        show(say("role_set", role=made.name))
    _note_resolver()


@app.command()
@command
def remove(role: RoleName, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Remove a role from everybody."""
    with opened(db) as runtime:
        runtime.remove_role(role, tenant=tenant)
    if as_json:
        print_json({"removed": role})
    else:
        show(say("role_removed", role=role))


@app.command()
@command
def assign(role: RoleName, user: Member, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Give a user a role; they have it at their next call."""
    with opened(db) as runtime:
        changed = runtime.assign_role(role, user=user, tenant=tenant)
    if as_json:
        print_json({"role": role, "user": user, "changed": changed})
    else:
        show(say("role_assigned" if changed else "role_had", role=role, user=user))
    _note_resolver()


@app.command()
@command
def unassign(role: RoleName, user: Member, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Take a role back from a user; effective at their next call."""
    with opened(db) as runtime:
        changed = runtime.unassign_role(role, user=user, tenant=tenant)
    if as_json:
        print_json({"role": role, "user": user, "changed": changed})
    else:
        show(say("role_unassigned" if changed else "role_not_had", role=role, user=user))


@app.command()
@command
def members(
    role: Annotated[str | None, typer.Argument(help="Only of this role.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Show who has which role."""
    with opened(db) as runtime:
        found = runtime.role_members(role, tenant=tenant)
    if as_json:
        print_json({"members": [{"role": name, "user": user} for name, user in found]})
    else:
        print_table(("role", "user"), found, empty=say("no_members"))
