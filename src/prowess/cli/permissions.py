"""``prowess permissions``: what skills ask for, what was granted, grant and revoke."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from prowess.cli.output import Db, Json, Tenant, User, command, opened, print_json, print_table, say, show

app = typer.Typer(help="What skills may touch.", no_args_is_help=True)

Skill = Annotated[str, typer.Option("--skill", help="Skill id.")]
Code = Annotated[str, typer.Option("--code", help="Permission code, such as memory:read.")]
OneAgent = Annotated[str | None, typer.Option("--agent", help="Only for this agent; default: all of them.")]


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


@app.command("list")
@command
def list_permissions(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    revoked: Annotated[bool, typer.Option("--all", help="Revoked grants too.")] = False,
) -> None:
    """Show what skills ask for and what the user has granted."""
    now = _now()
    with opened(db) as app:
        grants = [grant_to_json(item, now) for item in app.grants(user=user, with_revoked=revoked, tenant=tenant)]
        entries = app.skills(tenant=tenant)
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
) -> None:
    """Allow a skill what it asks for."""
    from prowess.kernel.clock import parse_instant

    until = None if expires is None else parse_instant(expires, "expires")
    with opened(db) as app:
        made = app.grant(user=user, skill=skill, code=code, agent=agent, expires_at=until, tenant=tenant)
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


def _now() -> datetime:
    from prowess.kernel.clock import SystemClock

    return SystemClock().now()
