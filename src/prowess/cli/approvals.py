"""``prowess approvals``: what waits for a yes, answering it, and who may answer."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from prowess.cli.output import Db, Json, Tenant, command, note, opened, print_json, print_table, say, show

app = typer.Typer(help="What waits for a person's yes.", no_args_is_help=True)
approvers = typer.Typer(help="Who may answer for others.", no_args_is_help=True)
app.add_typer(approvers, name="approvers")


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="approvals")


ApprovalId = Annotated[str, typer.Argument(help="Id, as shown by list.")]
By = Annotated[str, typer.Option("--user", help="Who answers.")]
Code = Annotated[str, typer.Option("--code", help="For this permission code; * for all.")]
Person = Annotated[str, typer.Argument(help="Which person.")]


@app.command("list")
@command
def list_approvals(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str, typer.Option("--user", help="Who asks; what they may answer is shown.")] = "me",
    status: Annotated[
        str | None, typer.Option("--status", help="pending, approved, denied, expired or cancelled.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Of everybody, without arguments: for operators.")] = False,
) -> None:
    """Show what this person may answer, and what became of it."""
    with opened(db) as runtime:
        found = runtime.approvals(user=None if everybody else user, status=status, tenant=tenant)
    documents = [item.to_json() for item in found]
    if as_json:
        print_json({"approvals": documents})
        return
    rows = [
        (item["id"], say(f"approval.{item['status']}"), item["tool"], _arguments(item), item["expires_at"])
        for item in documents
    ]
    print_table(("id", "status", "tool", "arguments", "expires"), rows, empty=say("no_approvals"))


@app.command("show")
@command
def show_approval(
    approval_id: ApprovalId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: By = "me"
) -> None:
    """Show the very call that a yes would be for."""
    with opened(db) as runtime:
        document = runtime.approval(approval_id, user=user, tenant=tenant).to_json()
    _print(document, as_json=as_json)


@app.command()
@command
def approve(
    approval_id: ApprovalId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: By = "me"
) -> None:
    """Say yes to exactly this call."""
    with opened(db) as runtime:
        document = runtime.approve(approval_id, by=user, tenant=tenant).to_json()
    _print(document, as_json=as_json)
    if document["status"] == "approved" and not as_json:
        note(say("approval_runs"))


@app.command()
@command
def deny(
    approval_id: ApprovalId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: By = "me"
) -> None:
    """Say no; nothing is done."""
    with opened(db) as runtime:
        document = runtime.deny(approval_id, by=user, tenant=tenant).to_json()
    _print(document, as_json=as_json)


@app.command()
@command
def cancel(
    approval_id: ApprovalId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: By = "me"
) -> None:
    """Withdraw what has not run."""
    with opened(db) as runtime:
        document = runtime.cancel_approval(approval_id, by=user, tenant=tenant).to_json()
    _print(document, as_json=as_json)


@approvers.command("list")
@command
def list_approvers(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show who may answer for others, and for what."""
    with opened(db) as runtime:
        found = runtime.approvers(tenant=tenant)
    if as_json:
        print_json({"approvers": [{"user": user, "code": code} for user, code in found]})
    else:
        print_table(("user", "code"), found, empty=say("no_approvers"))


@approvers.command("add")
@command
def add_approver(
    user: Person, db: Db = None, as_json: Json = False, tenant: Tenant = "default", code: Code = "*"
) -> None:
    """Let a person answer for others."""
    with opened(db) as runtime:
        changed = runtime.add_approver(user, code=code, tenant=tenant)
    _changed("approver_added" if changed else "approver_had", user, code, changed, as_json)


@approvers.command("remove")
@command
def remove_approver(
    user: Person, db: Db = None, as_json: Json = False, tenant: Tenant = "default", code: Code = "*"
) -> None:
    """Take that back, from the next answer on."""
    with opened(db) as runtime:
        changed = runtime.remove_approver(user, code=code, tenant=tenant)
    _changed("approver_removed" if changed else "approver_not_had", user, code, changed, as_json)


def _changed(key: str, user: str, code: str, changed: bool, as_json: bool) -> None:
    if as_json:
        print_json({"user": user, "code": code, "changed": changed})
    else:
        show(say(key, user=user, code=code))


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    show(say("approval_said", id=document["id"], status=say(f"approval.{document['status']}")))
    rows = [
        (say("column.user"), document["user"]),
        (say("column.agent"), document["agent"]),
        (say("column.skill"), f"{document['skill_id']}@{document['skill_version']}"),
        (say("column.tool"), document["tool"]),
        (say("column.risk"), document["risk"]),
        (say("column.resource"), document["resource"]),
        (say("column.arguments"), _arguments(document)),
        (say("column.expires"), document["expires_at"]),
        (say("column.outcome"), document["outcome"]),
    ]
    print_table(("name", "detail"), [row for row in rows if row[1] is not None], empty="")
    if document["seats"] > 1:
        show(say("approval_seats", filled=len(document["answers"]), seats=document["seats"]))


def _arguments(document: dict[str, Any]) -> str | None:
    """Arguments as JSON while they are kept; where the asker may not see them, that it is so."""
    if document["arguments"] is not None:
        return json.dumps(document["arguments"], ensure_ascii=False)
    return say("approval_hidden") if document["outcome"] is None and document["used_at"] is None else None
