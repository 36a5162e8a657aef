"""``prowess permissions``: what skills ask for, what was granted, grant and revoke, and what is always allowed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from prowess.cli import asking, risks
from prowess.cli.output import Agent, Db, Json, Tenant, User, command, opened, print_json, print_table, say, show
from prowess.cli.skills import skills_for

app = typer.Typer(help="What skills may touch.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="permissions")


Skill = Annotated[str, typer.Option("--skill", help="Skill id.")]
Code = Annotated[str, typer.Option("--code", help="Permission code, such as memory:read.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only for this agent; default: all of them.")]
Tool = Annotated[str, typer.Option("--tool", help="Name of a tool.")]
Arguments = Annotated[str, typer.Option("--arguments", help="Arguments of the tool, as JSON.")]


def grant_to_json(grant: Any, now: datetime) -> dict[str, Any]:
    """A grant as the command line shows it; one whose time is over reads ``expired``, though it was never revoked."""
    from prowess.kernel.clock import iso

    over = grant.expires_at is not None and grant.expires_at <= now

    return {
        "id": grant.id,
        "user": grant.user,
        "skill": grant.skill_id,
        "version_at_grant": grant.skill_version,
        "code": grant.code,
        "scope": str(grant.scope),
        "agent": grant.agent,
        "resource": grant.resource,
        "status": "expired" if over and grant.status == "active" else str(grant.status),
        "granted_at": iso(grant.granted_at),
        "expires_at": iso(grant.expires_at),
        "revoked_at": iso(grant.revoked_at),
    }


def standing_to_json(approval: Any) -> dict[str, Any]:
    """A standing approval as the command line shows it."""
    from prowess.kernel.clock import iso

    return {
        "id": approval.id,
        "user": approval.user,
        "agent": approval.agent,
        "skill": approval.skill_id,
        **approval.action._asdict(),
        "created_at": iso(approval.created_at),
        "revoked_at": iso(approval.revoked_at),
    }


@app.command("list")
@command
def list_permissions(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    revoked: Annotated[bool, typer.Option("--all", help="Revoked grants too.")] = False,
) -> None:
    """Show what the user's skills ask for and what they have granted."""
    now = _now()
    with opened(db) as app:
        grants = [grant_to_json(item, now) for item in app.grants(user=user, with_revoked=revoked, tenant=tenant)]
        entries = [entry for entry, _ in skills_for(app, user=user, agent=None, tenant=tenant)]
    active = {(grant["skill"], grant["code"]) for grant in grants if grant["status"] == "active"}
    requests = [
        {
            "skill": entry.manifest.id,
            "code": item.code,
            "risk": str(item.risk),
            "approval": str(item.approval),
            "granted": (entry.manifest.id, item.code) in active,
        }
        for entry in entries
        for item in entry.manifest.requirements
    ]
    if as_json:
        print_json({"grants": grants, "requests": requests})
        return
    rows = [(r["skill"], r["code"], r["risk"], say("yes") if r["granted"] else say("no")) for r in requests]
    print_table(("skill", "code", "risk", "granted"), rows, empty=say("no_requests"))
    if grants:
        show()
        shown = [
            (g["skill"], g["code"], g["agent"] or say("every_agent"), say(f"grant.{g['status']}"), g["expires_at"])
            for g in grants
        ]
        print_table(("skill", "code", "agent", "status", "expires"), shown, empty="")


@app.command()
@command
def grant(
    skill: Skill,
    code: Code,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: OneAgent = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Instant with offset (ISO 8601).")] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", help="Only for this address, path, or folder as path/**.")
    ] = None,
) -> None:
    """Allow a skill what it asks for."""
    from prowess.kernel.clock import parse_instant

    until = None if expires is None else parse_instant(expires, "expires")
    with opened(db) as app:
        made = app.grant(
            user=user, skill=skill, code=code, agent=agent, resource=resource, expires_at=until, tenant=tenant
        )
    if as_json:
        print_json(grant_to_json(made, _now()))
    else:
        show(say("granted", skill=made.skill_id, code=made.code))


@app.command()
@command
def revoke(
    skill: Skill,
    code: Code,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: OneAgent = None,
) -> None:
    """Take back what was allowed; effective at the next operation."""
    with opened(db) as app:
        count = app.revoke(user=user, skill=skill, code=code, agent=agent, tenant=tenant)
    if as_json:
        print_json({"skill": skill, "code": code, "revoked": count})
    else:
        show(say("revoked", skill=skill, code=code, count=count))


@app.command()
@command
def surface(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Annotated[str | None, typer.Option("--agent", help="With this agent.")] = None,
) -> None:
    """Show what the resolver says that a user may use at all."""
    with opened(db) as app:
        found = app.surface(user=user, agent=agent, tenant=tenant)
    document = found.to_json()
    if as_json:
        print_json(document)
    elif found.allows_all:
        show(say("everything"))
    else:
        rows = [(say(f"column.{name}"), _names(entries)) for name, entries in document.items()]
        print_table(("dimension", "granted"), rows, empty="")


def _names(entries: list[Any] | None) -> str:
    if not entries:
        return say("no_part" if entries is None else "nothing")
    return ", ".join(entry if isinstance(entry, str) else ":".join(entry) for entry in entries)


@app.command()
@command
def standing(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    revoked: Annotated[bool, typer.Option("--all", help="Those taken back too.")] = False,
) -> None:
    """Show what the user has always allowed."""
    with opened(db) as app:
        found = [
            standing_to_json(item) for item in app.standing_approvals(user=user, with_revoked=revoked, tenant=tenant)
        ]
    if as_json:
        print_json({"standing": found})
        return
    rows = [
        (
            item["id"],
            item["agent"],
            item["tool"],
            say(f"verb.{item['verb']}"),
            item["resource"],
            say("grant.active" if item["revoked_at"] is None else "grant.revoked"),
        )
        for item in found
    ]
    print_table(("id", "agent", "tool", "verb", "resource", "status"), rows, empty=say("no_standing"))


@app.command("always-allow")
@command
def always_allow(
    tool: Tool,
    arguments: Arguments,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    preview: Annotated[bool, typer.Option("--preview", help="Only say what it would bind; store nothing.")] = False,
) -> None:
    """Never ask again about this very action of this agent."""
    from prowess.cli.reading import read_object

    given = read_object(arguments, "arguments")
    with opened(db) as app:
        call: dict[str, Any] = {"user": user, "agent": agent, "tool": tool, "arguments": given, "tenant": tenant}
        document = app.preview_always_allow(**call)._asdict() if preview else standing_to_json(app.always_allow(**call))
    if as_json:
        print_json(document)
        return
    words = {"tool": document["tool"], "verb": say(f"verb.{document['verb']}"), "resource": document["resource"]}
    show(say("would_allow", **words) if preview else say("always_allowed", id=document["id"], **words))


@app.command()
@command
def forget(
    approval_id: Annotated[str, typer.Argument(help="Id, as shown by standing.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
) -> None:
    """Take a standing approval back; the next call asks again."""
    with opened(db) as app:
        app.revoke_standing(approval_id, user=user, tenant=tenant)
    if as_json:
        print_json({"forgotten": approval_id})
    else:
        show(say("forgotten", id=approval_id))


def _now() -> datetime:
    from prowess.kernel.clock import SystemClock

    return SystemClock().now()


asking.register(app)
risks.register(app)
