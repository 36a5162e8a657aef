"""``prowess quotas``: budgets of calls, time, tokens and cost, and how much of them is gone (U9)."""

from __future__ import annotations

from typing import Annotated

import typer

from prowess.cli.output import Db, Json, Tenant, command, opened, print_json, print_table, say, show

app = typer.Typer(help="Budgets: how much may be used, and how much is gone.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="quotas")


OfUser = Annotated[str | None, typer.Option("--user", help="For this user; * for each user by itself.")]
OfAgent = Annotated[str | None, typer.Option("--agent", help="For this agent; * for each agent by itself.")]
OfTrigger = Annotated[str | None, typer.Option("--trigger", help="For this automation; * for each by itself.")]
OfJob = Annotated[str | None, typer.Option("--job", help="For this job; * for each job by itself.")]
OfSkill = Annotated[str | None, typer.Option("--skill", help="For this skill; * for each skill by itself.")]


@app.command("list")
@command
def list_quotas(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show what is limited."""
    with opened(db) as runtime:
        found = [quota.to_json() for quota in runtime.quotas(tenant=tenant)]
    if as_json:
        print_json({"quotas": found})
        return
    columns = ("resource", "window", "limit", "user", "agent", "skill", "trigger", "job", "id")
    rows = [tuple(item[name] for name in columns) for item in found]
    print_table(columns, rows, empty=say("no_quotas"))


@app.command("set")
@command
def set_quota(
    resource: Annotated[
        str, typer.Argument(help="calls, wall_ms, sandbox_ms, model_tokens or cost_micros (millionths of a currency).")
    ],
    limit: Annotated[int, typer.Argument(help="How much may be used in the window.")],
    window: Annotated[str, typer.Option("--window", help="minute, hour, day, month (UTC) or total.")] = "day",
    user: OfUser = None,
    agent: OfAgent = None,
    skill: OfSkill = None,
    trigger: OfTrigger = None,
    job: OfJob = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Limit something, or change the limit that there is."""
    named = {"user": user, "agent": agent, "skill": skill, "trigger": trigger, "job": job}
    with opened(db) as runtime:
        quota = runtime.set_quota(resource, limit, window=window, tenant=tenant, **named)
    if as_json:
        print_json(quota.to_json())
    else:
        show(say("quota_set", resource=quota.resource, limit=quota.limit, window=quota.window, id=quota.id))


@app.command()
@command
def remove(
    quota: Annotated[str, typer.Argument(help="Id of the quota.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Take a limit away, with what it has counted."""
    with opened(db) as runtime:
        runtime.remove_quota(quota, tenant=tenant)
    if as_json:
        print_json({"id": quota, "removed": True})
    else:
        show(say("quota_removed", id=quota))


@app.command()
@command
def usage(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show how much is used and reserved at this moment."""
    with opened(db) as runtime:
        found = runtime.quota_usage(tenant=tenant)
    if as_json:
        print_json({"usage": [item.to_json() for item in found]})
        return
    rows = [
        (
            item.quota.resource,
            item.quota.window,
            " ".join(item.counter),
            item.used,
            item.reserved,
            item.left,
            item.quota.limit,
            item.until,
        )
        for item in found
    ]
    columns = ("resource", "window", "counter", "used", "reserved", "left", "limit", "until")
    print_table(columns, rows, empty=say("no_usage"))
