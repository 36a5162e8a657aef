"""``prowess automations``: what starts by itself, what it did, and when a schedule fires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.lines import Answer, answer_lines
from prowess.cli.output import Agent, Db, Json, Tenant, User, command, opened, print_json, print_table, say, show

if TYPE_CHECKING:
    from prowess.automation.triggers.model import Trigger

app = typer.Typer(help="What starts by itself: schedules, webhooks, files, reactions.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="automations")


Id = Annotated[str, typer.Argument(help="Id, as shown by list.")]


def _print_one(trigger: Trigger, *, as_json: bool) -> None:
    if as_json:
        print_json(trigger.to_json())
    else:
        show(say("automation_changed", id=trigger.id, status=say(f"trigger.{trigger.status}")))


@app.command("list")
@command
def list_command(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    everybody: Annotated[bool, typer.Option("--all", help="Of everybody; for operators.")] = False,
) -> None:
    """Show your automations."""
    with opened(db) as runtime:
        found = [trigger.to_json() for trigger in runtime.automations(user=None if everybody else user, tenant=tenant)]
    if as_json:
        print_json({"automations": found})
        return
    rows = [
        (item["id"], item["name"], item["kind"], say(f"trigger.{item['status']}"), item["next_fire_at"], item["agent"])
        for item in found
    ]
    print_table(("id", "name", "kind", "status", "next", "agent"), rows, empty=say("no_automations"))


@app.command()
@command
def add(
    kind: Annotated[str, typer.Argument(help="once, cron, interval, webhook, file or reaction.")],
    spec: Annotated[str, typer.Option("--spec", help="What it waits for, as JSON; by kind.")],
    name: Annotated[str, typer.Option("--name", help="A short name.")],
    prompt: Annotated[str, typer.Option("--prompt", help="What you would say.")] = "",
    skill: Annotated[str | None, typer.Option("--skill", help="The skill that it uses.")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Where; default: a new one for each fire.")
    ] = None,
    more: Annotated[str, typer.Option("--with", help="Other fields, as JSON, such as misfire and rate.")] = "{}",
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
) -> None:
    """Make an automation of yours."""
    from prowess.cli.reading import read_object

    fields: dict[str, Any] = {
        **read_object(more, "with", ("preapproved", "mode", "rate", "max_attempts", "misfire", "misfire_bound")),
        "kind": kind,
        "spec": read_object(spec, "spec"),
        "name": name,
        "prompt": prompt,
        "skill": skill,
        "conversation": conversation,
        "agent": agent,
    }
    with opened(db) as runtime:
        trigger = runtime.add_automation(user=user, tenant=tenant, **fields)
    if as_json:
        print_json(trigger.to_json())
    else:
        due = trigger.to_json()["next_fire_at"] or say("no_next_fire")
        show(say("automation_added", id=trigger.id, next=due))


@app.command("show")
@command
def show_command(
    trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me"
) -> None:
    """Show one automation in full."""
    with opened(db) as runtime:
        document = runtime.automation(trigger, user=user, tenant=tenant).to_json()
    if as_json:
        print_json(document)
        return
    for field, value in document.items():
        show(f"{field}: {'' if value is None else value}")


@app.command()
@command
def pause(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Let one rest; what passes meanwhile does not fire later."""
    with opened(db) as runtime:
        _print_one(runtime.pause_automation(trigger, user=user, tenant=tenant), as_json=as_json)


@app.command()
@command
def resume(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Let a paused one go on from now."""
    with opened(db) as runtime:
        _print_one(runtime.resume_automation(trigger, user=user, tenant=tenant), as_json=as_json)


@app.command()
@command
def confirm(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Say yes to what an agent proposed."""
    with opened(db) as runtime:
        _print_one(runtime.confirm_automation(trigger, user=user, tenant=tenant), as_json=as_json)


@app.command()
@command
def reject(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Say no to what an agent proposed."""
    with opened(db) as runtime:
        runtime.reject_automation(trigger, user=user, tenant=tenant)
    _gone("rejected", trigger, as_json=as_json)


@app.command()
@command
def remove(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Remove one; its history stays."""
    with opened(db) as runtime:
        runtime.remove_automation(trigger, user=user, tenant=tenant)
    _gone("removed", trigger, as_json=as_json)


@app.command()
@command
def fire(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Fire one now, beside its schedule."""
    with opened(db) as runtime:
        fired = runtime.fire_automation(trigger, user=user, tenant=tenant)
    if as_json:
        print_json(fired.to_json())
    else:
        show(say("automation_fired", job=fired.job_id))


@app.command("dry-run")
@command
def dry_run(trigger: Id, db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: User = "me") -> None:
    """Show what a fire would send now; nothing is stored."""
    from dataclasses import asdict

    with opened(db) as runtime:
        rehearsed = runtime.rehearse_automation(trigger, user=user, tenant=tenant)
    if as_json:
        print_json(asdict(rehearsed))
        return
    show(say("automation_text", agent=rehearsed.agent, text=rehearsed.text))
    if rehearsed.blocked is not None:
        show(say("automation_blocked", why=rehearsed.blocked))
    for due in rehearsed.next_fires:
        show(" ".join(filter(None, (due["utc"], say(f"fire.{due['note']}") if due["note"] else ""))))


@app.command()
@command
def history(
    trigger: Id,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    limit: Annotated[int, typer.Option("--limit", help="How many.")] = 100,
) -> None:
    """Show when one fired, was late, was missed or was refused."""
    with opened(db) as runtime:
        found = [fire.to_json() for fire in runtime.automation_history(trigger, user=user, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"fires": found})
        return
    rows = [
        (
            item["at"],
            item["planned"],
            say(f"automation_fire.{item['status']}"),
            None if item["late_ms"] is None else f"{item['late_ms'] / 1000:.1f}",
            item["missed"] or None,
            item["source"],
            item["job_id"],
            item["note"],
        )
        for item in found
    ]
    columns = ("time", "planned", "status", "late", "missed", "source", "job", "note")
    print_table(columns, rows, empty=say("no_fires"))


def _gone(word: str, trigger: str, *, as_json: bool) -> None:
    if as_json:
        print_json({word: trigger})
    else:
        show(say("automation_changed", id=trigger, status=say("trigger.removed")))


@app.command("next")
@command
def next_command(
    cron: Annotated[str | None, typer.Argument(help="Five fields, or @hourly, @daily, @weekly, @monthly.")] = None,
    tz: Annotated[str, typer.Option("--tz", help="IANA zone, such as Europe/Berlin.")] = "UTC",
    after: Annotated[str | None, typer.Option("--after", help="Instant with offset (ISO 8601); default: now.")] = None,
    count: Annotated[int, typer.Option("--count", help="How many.")] = 5,
    source: Annotated[
        str | None, typer.Option("--input", help="JSON lines of {cron, tz, after, count}; - reads standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the next fires of one expression, or of a file of them."""
    from prowess.runtime.schedules import next_fires

    if (cron is None) == (source is None):
        raise typer.BadParameter(say("automations.one_of"))
    if source is not None:
        answer_lines(source, lambda entry, _number: Answer({"fires": next_fires(entry)}))
        return
    fires = next_fires({"cron": cron, "tz": tz, "after": after, "count": count})
    if as_json:
        print_json({"fires": fires})
        return
    rows = [(fire["local"], fire["utc"], say(f"fire.{fire['note']}") if fire["note"] else "") for fire in fires]
    print_table(("local", "utc", "note"), rows, empty="")
