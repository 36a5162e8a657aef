"""``prowess secrets``: credentials in encrypted slots. A value is read from a prompt or a pipe, and shown nowhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from prowess.cli.output import Db, Json, Tenant, command, opened, print_json, print_table, say, show

app = typer.Typer(help="Credentials in encrypted slots.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="secrets")


SlotName = Annotated[str, typer.Argument(help="Name of the slot, such as GITHUB_TOKEN.")]
OfUser = Annotated[str | None, typer.Option("--user", help="A slot of this user; default: the organisation's.")]
OfSkill = Annotated[str | None, typer.Option("--skill", help="A slot of this skill.")]

MAX_READ = 100_000
"""characters taken from a pipe; any slot refuses fewer"""


@app.command("new-key")
@command
def new_key(
    file: Annotated[str | None, typer.Argument(help="Where to; default: secret.key in your data folder.")] = None,
    as_json: Json = False,
) -> None:
    """Write a fresh key file, and say how to use it."""
    from prowess.runtime.settings import data_directory
    from prowess.secrets.keys import KEY_FILE_VARIABLE, new_key_file

    if file is None:
        folder = data_directory()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "secret.key"
    else:
        path = Path(file).absolute()
    key_id = new_key_file(path)
    line = f"export {KEY_FILE_VARIABLE}={shlex.quote(str(path))}"
    if as_json:
        print_json({"file": str(path), "key_id": key_id, "export": line})
    else:
        show(line)


@app.command("set")
@command
def set_secret(
    name: SlotName,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: OfUser = None,
    skill: OfSkill = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the value from standard input.")] = False,
) -> None:
    """Fill a slot; the value is typed unseen, or comes through --stdin."""
    from prowess.secrets.model import check_name

    check_name(name)
    value = _read_value(name, stdin)
    with opened(db) as runtime:
        filled = runtime.set_secret(name, value, user=user, skill=skill, tenant=tenant)
    if as_json:
        print_json(filled.to_json())
    else:
        show(say("secret_set", name=filled.name, owner=filled.owner.kind, id=filled.owner.id))


def _read_value(name: str, stdin: bool) -> str:
    if stdin:
        # What echo or a shell's redirection adds at the end is no part of the value.
        return sys.stdin.read(MAX_READ).removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        raise typer.BadParameter(say("secret_unread"))
    typed: str = typer.prompt(say("secret_prompt", name=name), hide_input=True, err=True)
    return typed


@app.command("list")
@command
def list_secrets(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    skill: Annotated[str | None, typer.Option("--skill", help="Only of this skill.")] = None,
) -> None:
    """Show which slots are filled; never what is in them."""
    with opened(db) as runtime:
        found = [item.to_json() for item in runtime.secrets(user=user, skill=skill, tenant=tenant)]
    if as_json:
        print_json({"secrets": found})
        return
    rows = [
        (item["name"], item["owner"]["kind"], item["owner"]["id"], item["updated_at"], item["last_used_at"])
        for item in found
    ]
    print_table(("slot", "owner", "id", "updated", "last_used"), rows, empty=say("no_secrets"))


@app.command()
@command
def delete(
    name: SlotName,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: OfUser = None,
    skill: OfSkill = None,
) -> None:
    """Empty a slot for good."""
    with opened(db) as runtime:
        runtime.delete_secret(name, user=user, skill=skill, tenant=tenant)
    if as_json:
        print_json({"deleted": name})
    else:
        show(say("deleted", id=name))


@app.command()
@command
def rotate(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Encrypt every value anew under the first key of the file."""
    with opened(db) as runtime:
        count = runtime.rotate_secrets(tenant=tenant)
    if as_json:
        print_json({"rotated": count})
    else:
        show(say("secrets_rotated", count=count))
