"""``prowess sessions``, ``runs``, ``audit`` and ``agents``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from prowess.cli import audit as evidence
from prowess.cli.notifications import alerts
from prowess.cli.output import Db, Json, Tenant, User, command, opened, print_json, print_table, say, show
from prowess.errors import InvalidInput

sessions = typer.Typer(help="Workflow sessions.", no_args_is_help=True)
runs = typer.Typer(help="Uses of skills.", no_args_is_help=True)
audit = typer.Typer(help="Who let it happen, and why.", no_args_is_help=True)
agents = typer.Typer(help="Agents.", no_args_is_help=True)
for function in (evidence.seal, evidence.verify, evidence.export, alerts):
    audit.command(function.__name__)(function)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    for name, group in {"sessions": sessions, "runs": runs, "audit": audit, "agents": agents}.items():
        main.add_typer(group, name=name)


Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")]

GoodAt = Annotated[
    list[str] | None, typer.Option("--good-at", help="Tag of tasks that are handed to it. May be repeated.")
]
NotFor = Annotated[list[str] | None, typer.Option("--not-for", help="Tag of tasks that never are. May be repeated.")]

DECISIONS = ("allowed", "denied", "succeeded", "failed", "cancelled")


@sessions.command("list")
@command
def list_sessions(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    active: Annotated[bool, typer.Option("--active", help="Only those that can take an answer.")] = False,
    limit: Limit = 20,
) -> None:
    """Show workflow sessions and what they wait for."""
    with opened(db) as app:
        found = [item.to_json() for item in app.sessions(user=user, live_only=active, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"sessions": found})
        return
    rows = [(s["id"], s["skill_id"], s["status"], s["step"], s["pending_question"], s["updated_at"]) for s in found]
    print_table(("id", "skill", "status", "step", "question", "time"), rows, empty=say("no_sessions"))


@sessions.command()
@command
def cancel(
    session_id: Annotated[str, typer.Argument(help="Id, as shown by list.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
) -> None:
    """Cancel a running session."""
    with opened(db) as app:
        session = app.cancel_session(session_id, user=user, tenant=tenant)
    if as_json:
        print_json(session.to_json())
    else:
        show(say("session_cancelled", id=session.id))


@runs.command("list")
@command
def list_runs(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    skill: Annotated[str | None, typer.Option("--skill", help="Only of this skill.")] = None,
    limit: Limit = 20,
) -> None:
    """Show uses of skills, newest first."""
    with opened(db) as app:
        found = [run.to_json() for run in app.runs(user=user, skill=skill, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"runs": found})
        return
    rows = [(r["started_at"], r["skill_id"], r["trigger"], r["status"], r["error_code"], r["id"]) for r in found]
    print_table(("time", "skill", "trigger", "status", "error", "id"), rows, empty=say("no_runs"))


@audit.command("list")
@command
def list_audit(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    skill: Annotated[str | None, typer.Option("--skill", help="Only of this skill.")] = None,
    decision: Annotated[
        str | None, typer.Option("--decision", help="allowed, denied, succeeded, failed or cancelled.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Instant with offset (ISO 8601).")] = None,
    limit: Limit = 50,
) -> None:
    """Show audit events, newest first."""
    from prowess.kernel.clock import parse_instant

    if decision is not None and decision not in DECISIONS:
        raise InvalidInput("bad_choice", field="decision", known=list(DECISIONS))
    start = None if since is None else parse_instant(since, "since")
    with opened(db) as app:
        found = [
            event.to_json()
            for event in app.audit(user=user, skill=skill, decision=decision, since=start, limit=limit, tenant=tenant)
        ]
    if as_json:
        print_json({"events": found})
        return
    rows = [
        (
            event["at"],
            event["type"],
            event.get("decision"),
            event["actor"]["id"],
            event.get("user"),
            event.get("skill_id"),
            event["data"].get("reason") or event["data"].get("code"),
        )
        for event in found
    ]
    print_table(("time", "event", "decision", "actor", "user", "skill", "reason"), rows, empty=say("no_events"))


@agents.command("list")
@command
def list_agents(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show the agents."""
    with opened(db) as app:
        found = [agent_to_json(agent) for agent in app.agents(tenant=tenant)]
    if as_json:
        print_json({"agents": found})
        return
    rows = [
        (
            a["id"],
            a["name"],
            a["language"],
            a["owner"],
            _design(a["skill_filter"]),
            " ".join(a["good_at"]),
            " ".join(a["not_for"]),
        )
        for a in found
    ]
    columns = ("id", "name", "language", "owner", "skills", "good_at", "not_for")
    print_table(columns, rows, empty=say("no_agents"))


def agent_to_json(agent: Any) -> dict[str, Any]:
    """An agent as the command line shows it."""
    return {
        "id": agent.id,
        "name": agent.name,
        "language": agent.language,
        "owner": agent.owner,
        "skill_filter": agent.skill_filter.to_json(),
        "good_at": list(agent.good_at),
        "not_for": list(agent.not_for),
    }


def _design(skill_filter: dict[str, Any]) -> str:
    return say(f"design.{skill_filter['kind']}", names=skill_filter["names"])


@agents.command()
@command
def create(
    agent: Annotated[str, typer.Argument(help="Id.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    name: Annotated[str | None, typer.Option("--name", help="How it is called; default: its id.")] = None,
    persona: Annotated[str, typer.Option("--persona", help="How it speaks.")] = "",
    agent_language: Annotated[str, typer.Option("--language", help="en or zh.")] = "en",
    owner: Annotated[str | None, typer.Option("--owner", help="Its user; default: the whole tenant.")] = None,
    good_at: GoodAt = None,
    not_for: NotFor = None,
) -> None:
    """Make an agent."""
    with opened(db) as app:
        made = app.create_agent(
            agent,
            name=name,
            persona=persona,
            language=agent_language,
            owner=owner,
            good_at=good_at or (),
            not_for=not_for or (),
            tenant=tenant,
        )
    if as_json:
        print_json(agent_to_json(made))
    else:
        show(say("agent_created", id=made.id))


@agents.command()
@command
def design(
    agent: Annotated[str, typer.Argument(help="Id.")],
    every: Annotated[bool, typer.Option("--all", help="Every skill of the catalog.")] = False,
    none: Annotated[bool, typer.Option("--none", help="No skill.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="These skills alone. May be repeated.")] = None,
    excepted: Annotated[
        list[str] | None, typer.Option("--except", help="Every skill but these. May be repeated.")
    ] = None,
    good_at: GoodAt = None,
    not_for: NotFor = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Say which skills and tasks an agent is designed for."""
    from prowess.access.filters import SkillFilter

    given = {"all": every, "none": none, "only": only, "except": excepted}
    kinds = [kind for kind, value in given.items() if value]
    if len(kinds) > 1 or not (kinds or good_at or not_for):
        raise typer.BadParameter(say("one_design"))
    wanted = SkillFilter.of(kinds[0], (*(only or ()), *(excepted or ()))) if kinds else None
    with opened(db) as app:
        made = app.design_agent(agent, wanted, good_at=good_at, not_for=not_for, tenant=tenant)
    if as_json:
        shown = agent_to_json(made)
        print_json({name: shown[name] for name in ("id", "skill_filter", "good_at", "not_for")})
        return
    show(f"{agent}{say('colon')}{_design(made.skill_filter.to_json())}")
    for name, tags in (("good_at", made.good_at), ("not_for", made.not_for)):
        if tags:
            show(say(name, tags=" ".join(tags)))
