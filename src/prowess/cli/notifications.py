"""``prowess notifications`` and ``prowess audit alerts``: what people are told, and where it is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.output import (
    Db,
    Json,
    Tenant,
    User,
    command,
    language,
    opened,
    print_json,
    print_table,
    say,
    show,
)

if TYPE_CHECKING:
    from prowess.automation.notifications.model import Notification

app = typer.Typer(help="What you are told, and where it is sent.", no_args_is_help=True)
hooks = typer.Typer(help="Webhooks that notifications go out by.", no_args_is_help=True)
app.add_typer(hooks, name="hooks")


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="notifications")


Operators = Annotated[bool, typer.Option("--operators", help="The operators' alerts, instead of a user's.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")]
HookId = Annotated[str, typer.Argument(help="Id, as shown by list.")]


def _reader(user: str, operators: bool) -> str | None:
    return None if operators else user


def _print(found: Iterable[Notification], empty: str) -> None:
    rows = [
        (shown["created_at"], say(f"severity.{shown['severity']}"), shown["text"], shown["read_at"], shown["id"])
        for shown in (item.to_json(language()) for item in found)
    ]
    print_table(("time", "severity", "text", "read", "id"), rows, empty=empty)


@app.command("list")
@command
def list_notifications(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
    unread: Annotated[bool, typer.Option("--unread", help="Only those that were not read.")] = False,
    limit: Limit = 50,
) -> None:
    """Show an inbox: unread ones first, then the newest."""
    with opened(db) as runtime:
        reader = _reader(user, operators)
        found = runtime.notifications(user=reader, unread=unread, limit=limit, tenant=tenant)
        count = runtime.unread_notifications(user=reader, tenant=tenant)
    if as_json:
        print_json({"notifications": [item.to_json(language()) for item in found], "unread": count})
    else:
        _print(found, say("no_notifications"))


@app.command()
@command
def read(
    notification_id: Annotated[str | None, typer.Argument(help="Id, as shown by list.")] = None,
    every: Annotated[bool, typer.Option("--all", help="The whole inbox.")] = False,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
) -> None:
    """Mark one notification read, or all of an inbox."""
    if (notification_id is None) is not every:
        raise typer.BadParameter(say("one_or_all"))
    with opened(db) as runtime:
        count = runtime.mark_read(notification_id, user=_reader(user, operators), tenant=tenant)
    if as_json:
        print_json({"read": count})
    else:
        show(say("marked_read", count=count))


@hooks.command()
@command
def add(
    url: Annotated[str, typer.Argument(help="Where to; its host must be in PROWESS_OUTGOING_HOSTS.")],
    secret: Annotated[str, typer.Option("--secret", help="Slot with the signing key (whsec_…).")],
    kinds: Annotated[list[str] | None, typer.Option("--kind", help="Only this kind. May be repeated.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
) -> None:
    """Send notifications to a URL, signed."""
    with opened(db) as runtime:
        hook = runtime.add_hook(url, secret=secret, user=_reader(user, operators), kinds=kinds or None, tenant=tenant)
    if as_json:
        print_json(hook.to_json())
    else:
        show(say("hook_added", id=hook.id))


@hooks.command("list")
@command
def list_hooks(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
) -> None:
    """Show webhooks, and whether they deliver."""
    with opened(db) as runtime:
        found = [hook.to_json() for hook in runtime.hooks(user=_reader(user, operators), tenant=tenant)]
    if as_json:
        print_json({"hooks": found})
        return
    rows = [(hook["id"], hook["url"], _kinds(hook), say(f"hook.{hook['status']}")) for hook in found]
    print_table(("id", "url", "kind", "status"), rows, empty=say("no_hooks"))


def _kinds(hook: dict[str, Any]) -> str | None:
    return None if hook["kinds"] is None else ", ".join(hook["kinds"])


@hooks.command()
@command
def remove(
    hook_id: HookId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
) -> None:
    """Remove a webhook."""
    with opened(db) as runtime:
        runtime.remove_hook(hook_id, user=_reader(user, operators), tenant=tenant)
    if as_json:
        print_json({"removed": hook_id})
    else:
        show(say("deleted", id=hook_id))


@hooks.command("test")
@command
def try_hook(
    hook_id: HookId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    operators: Operators = False,
) -> None:
    """Send a test by a webhook; done only where it was taken."""
    with opened(db) as runtime:
        hook = runtime.test_hook(hook_id, user=_reader(user, operators), tenant=tenant)
    if as_json:
        print_json(hook.to_json())
    else:
        show(say("hook_took_test", id=hook.id))


@command
def alerts(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    since: Annotated[str | None, typer.Option("--since", help="Instant with offset (ISO 8601).")] = None,
    limit: Limit = 50,
) -> None:
    """Show the alerts of the organisation, newest first."""
    from prowess.kernel.clock import parse_instant

    start = None if since is None else parse_instant(since, "since")
    with opened(db) as runtime:
        found = runtime.alerts(since=start, limit=limit, tenant=tenant)
    if as_json:
        print_json({"alerts": [item.to_json(language()) for item in found]})
    else:
        _print(found, say("no_alerts"))
