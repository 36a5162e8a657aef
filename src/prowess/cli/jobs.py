"""``prowess jobs`` and the worker that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.output import Agent, Db, Json, Tenant, User, command, opened, print_json, print_table, say, show

if TYPE_CHECKING:
    from prowess.automation.jobs.model import Job

app = typer.Typer(help="Work that outlives the request.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="jobs")


JobId = Annotated[str, typer.Argument(help="Id, as shown by list.")]


@app.command("list")
@command
def list_jobs(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only of this user.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="Only in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many at most.")] = 20,
) -> None:
    """Show jobs, the latest first."""
    with opened(db) as opened_app:
        found = [job.to_json() for job in opened_app.jobs(user=user, status=status, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"jobs": found})
        return
    rows = [(job["planned_at"], job["task"], _skill(job), job["status"], job["error_code"], job["id"]) for job in found]
    print_table(("time", "task", "skill", "status", "error", "id"), rows, empty=say("no_jobs"))


@app.command("show")
@command
def show_job(
    job_id: JobId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Show one job."""
    with opened(db) as opened_app:
        job = opened_app.job(job_id, tenant=tenant)
    _print(job, as_json)


@app.command()
@command
def add(
    agent: Agent,
    at: Annotated[str | None, typer.Option("--at", help="Instant with offset (ISO 8601).")] = None,
    ahead: Annotated[str | None, typer.Option("--in", help="How far ahead: 90s, 30m, 2h or 3d.")] = None,
    skill: Annotated[str, typer.Option("--skill", help="Background skill, by id.")] = "goal-check-in-reminder",
    note: Annotated[str, typer.Option("--note", help="What it is about; quoted, never obeyed.")] = "",
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
) -> None:
    """Schedule a background skill for a user."""
    from prowess.kernel.clock import parse_instant, parse_span

    if (at is None) == (ahead is None):
        raise typer.BadParameter(say("at_or_in"))
    span = None if ahead is None else parse_span(ahead, "in")
    with opened(db) as opened_app:
        moment = parse_instant(at or "", "at") if span is None else opened_app.now() + span
        job = opened_app.schedule(user=user, agent=agent, skill=skill, at=moment, note=note, tenant=tenant)
    if as_json:
        print_json(job.to_json())
    else:
        show(say("job_scheduled", id=job.id, at=job.to_json()["planned_at"]))


@app.command()
@command
def cancel(
    job_id: JobId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: Annotated[str | None, typer.Option("--user", help="Only if it is this user's.")] = None,
) -> None:
    """Cancel a job that has not started."""
    with opened(db) as opened_app:
        job = opened_app.cancel_job(job_id, user=user, tenant=tenant)
    if as_json:
        print_json(job.to_json())
    else:
        show(say("job_cancelled" if job.attempts == 0 else "job_given_up", id=job.id, attempts=job.attempts))


def _print(job: Job, as_json: bool) -> None:
    shown = job.to_json()
    if as_json:
        print_json(shown)
        return
    rows = [(name, _plain(value)) for name, value in shown.items() if value is not None]
    print_table(("field", "value"), rows, empty="")


def _skill(job: dict[str, Any]) -> str:
    return "" if job["skill"] is None else f"{job['skill']['id']}@{job['skill']['version']}"


def _plain(value: Any) -> str:
    return f"{value['id']}@{value['version']}" if isinstance(value, dict) else str(value)
