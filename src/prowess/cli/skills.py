"""``prowess skills``: the catalog, and the linter for skill folders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli import packages
from prowess.cli.output import (
    FAILED,
    Agent,
    Db,
    Json,
    Tenant,
    User,
    command,
    language,
    note,
    opened,
    print_json,
    print_table,
    say,
    show,
)
from prowess.errors import InvalidInput, NotFound
from prowess.messages import render

if TYPE_CHECKING:
    from prowess.runtime.app import Prowess
    from prowess.turns.view import Entry

app = typer.Typer(help="The skill catalog, and a linter for skill folders.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Put the commands of this module on ``main``."""
    main.add_typer(app, name="skills")


SkillId = Annotated[str, typer.Argument(help="Skill id.")]
ForUser = Annotated[str | None, typer.Option("--user", help="For this user.")]
ForAgent = Annotated[str | None, typer.Option("--agent", help="For this agent.")]
OneVersion = Annotated[str | None, typer.Option("--version", help="Only this version.")]

LEVELS = ("syntax", "behavior", "security", "all")
FORMS = ("standard", "rich", "exact")


def skill_to_json(entry: Any, *, status: str) -> dict[str, Any]:
    """One entry of the index (S6); scores come with quality."""
    manifest = entry.manifest
    return {
        "id": manifest.id,
        "name": manifest.display_name or manifest.id,
        "display_name": manifest.display_name,
        "version": manifest.version,
        "kind": str(manifest.kind),
        "status": status,
        "category": manifest.category,
        "tags": list(manifest.tags),
        "scopes": [str(scope) for scope in manifest.scopes],
        "source": entry.source,
        "digest": entry.digest,
        "trust": str(entry.trust),
        "signer": entry.signer,
        "summary": manifest.description,
        "requirements": [item.model_dump(mode="json") for item in manifest.requirements],
        "notes": notes_of(entry.notes),
        "last_call": None,
        "calls_30d": None,
    }


def notes_of(codes: Sequence[str]) -> list[dict[str, str]]:
    """What reading a skill said about it, as codes and sentences."""
    return [{"code": code, "text": render(f"note.{code}", language())} for code in codes]


def skills_for(app: Prowess, *, user: str | None, agent: str | None, tenant: str) -> list[tuple[Entry, str]]:
    """The skills that exist for this user, and whether they serve: ``active``, ``enabled`` or ``disabled``.

    Without a user the asker is the operator, for whom all of them exist.
    """
    entries = app.skills(tenant=tenant)
    if user is None and agent is None:
        return [(entry, "active") for entry in entries]
    serving = {entry.manifest.id: entry for entry in app.candidates(user=user, agent=agent, tenant=tenant)}
    found: list[tuple[Entry, str]] = []
    for entry in entries:
        skill_id = entry.manifest.id
        if skill_id in serving:
            found.append((serving[skill_id], "enabled"))
        elif user is None:
            found.append((entry, "disabled"))
        else:
            with suppress(NotFound):  # not granted: it does not exist for them (G8)
                found.append((_unserved(app, skill_id, user, agent, tenant), "disabled"))
    return found


def _entry_for(app: Prowess, skill: str, user: str, agent: str | None, tenant: str) -> Entry:
    """The version that serves the user; of a skill that is disabled for them, the current one. Raises ``NotFound``."""
    from prowess.kernel.names import normalise_skill_name

    wanted = normalise_skill_name(skill)
    candidates = app.candidates(user=user, agent=agent, tenant=tenant)
    serving = next((entry for entry in candidates if entry.manifest.id == wanted), None)
    return serving or _unserved(app, skill, user, agent, tenant)


def _unserved(app: Prowess, skill: str, user: str, agent: str | None, tenant: str) -> Entry:
    """A skill that exists for the user, though it does not serve them. Raises ``NotFound``, also for a draft."""
    entry = app.skill_for(skill, user=user, agent=agent, tenant=tenant)
    if entry.rollout < 100:
        raise NotFound("skill_not_found", skill=skill[:80])
    return entry


def _versions_for(app: Prowess, skill: str, entry: Entry, user: str, agent: str | None, tenant: str) -> list[Entry]:
    """The versions of a skill that the user may see: the one that was found for them, and others that are granted."""
    from prowess.access.surface import SkillKey

    surface = app.surface(user=user, agent=agent, tenant=tenant)
    return [
        item
        for item in app.skill_versions(skill, tenant=tenant)
        if item.manifest.version == entry.manifest.version
        # A draft, or a version that is rolled out to others, is no news for this user.
        or (item.rollout == 100 and surface.names_skill(SkillKey(item.manifest.id, item.manifest.version, item.source)))
    ]


@app.command("list")
@command
def list_skills(
    db: Db = None, as_json: Json = False, tenant: Tenant = "default", user: ForUser = None, agent: ForAgent = None
) -> None:
    """Show the catalog; with --user or --agent, what exists there."""
    with opened(db) as app:
        found = skills_for(app, user=user, agent=agent, tenant=tenant)
    shown = [skill_to_json(entry, status=status) for entry, status in found]
    if as_json:
        print_json({"skills": shown})
        return
    rows = [
        (item["id"], item["version"], item["kind"], say(f"status.{item['status']}"), item["source"], item["name"])
        for item in shown
    ]
    print_table(("skill", "version", "kind", "status", "source", "name"), rows, empty=say("no_skills"))
    for item in shown:
        for remark in item["notes"]:
            note(f"{item['id']}: {remark['text']}")


@app.command("show")
@command
def show_skill(
    skill: SkillId,
    version: OneVersion = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: ForUser = None,
    agent: ForAgent = None,
) -> None:
    """Show one skill: manifest, manual, versions; --user: as they may."""
    with opened(db) as app:
        if user is None:
            entry = app.skill(skill, version, tenant=tenant)
            listed = app.skill_versions(skill, tenant=tenant)
        else:
            entry = _entry_for(app, skill, user, agent, tenant)
            listed = _versions_for(app, skill, entry, user, agent, tenant)
            entry = _one_of(listed, entry, version)
    versions = [item.manifest.version for item in listed]
    body = getattr(entry.definition, "body", None)
    if as_json:
        declared = entry.manifest.model_dump(mode="json", exclude_defaults=True)
        print_json({**skill_to_json(entry, status="active"), "versions": versions, "manifest": declared, "body": body})
        return
    manifest = entry.manifest
    show(f"{manifest.id} {manifest.version} · {manifest.kind} · {entry.source}")
    show(manifest.description)
    for item in manifest.requirements:
        show(f"  {say('asks_for', code=item.code, risk=item.risk, approval=item.approval)}")
    for remark in notes_of(entry.notes):
        show(f"  {remark['text']}")
    show(f"  {say('versions', versions=versions)}")
    if body:
        show(f"\n{body.strip()}")


def _one_of(listed: list[Entry], entry: Entry, version: str | None) -> Entry:
    """Raises ``NotFound('version_not_found')`` alike for a version that is not there and one that is not granted."""
    if version is None:
        return entry
    found = next((item for item in listed if item.manifest.version == version), None)
    if found is None:
        raise NotFound("version_not_found", skill=entry.manifest.id, version=version[:80])
    return found


@app.command()
@command
def why(
    text: Annotated[str, typer.Option("--text", help="What the user would say.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: User = "me",
    agent: Agent = "mira",
    scope: Annotated[str, typer.Option("--scope", help="single_chat or group_chat.")] = "single_chat",
) -> None:
    """Say why each skill would serve a message, or would not."""
    with opened(db) as app:
        found = [item.to_json() for item in app.why_not(user=user, agent=agent, text=text, scope=scope, tenant=tenant)]
    if as_json:
        print_json({"skills": found})
        return
    rows = [
        (item["skill_id"], item["version"], say(f"why.{item['reason']}"), item["score"], item["chosen"])
        for item in found
    ]
    print_table(("skill", "version", "reason", "score", "chosen"), rows, empty=say("no_skills"))


@app.command()
@command
def usage(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    since: Annotated[str | None, typer.Option("--since", help="Instant with offset (ISO 8601).")] = None,
) -> None:
    """Show which skills are used, by whom and with what success."""
    from prowess.kernel.clock import parse_instant

    start = None if since is None else parse_instant(since, "since")
    with opened(db) as app:
        found = [item.to_json() for item in app.skill_usage(since=start, tenant=tenant)]
    if as_json:
        print_json({"usage": found})
        return
    columns = ("skill", "user", "uses", "completed", "failed", "denied", "last_used")
    names = ("skill_id", "user", "uses", "completed", "failed", "denied", "last_used_at")
    print_table(columns, [tuple(item[name] for name in names) for item in found], empty=say("no_runs"))


@app.command()
@command
def add(
    paths: Annotated[list[str], typer.Argument(help="Skill folders.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Take skill folders into the catalog."""
    with opened(db) as app:
        for path in paths:
            added = app.add_skill(path, tenant=tenant)
            notes = notes_of(added.notes)
            if as_json:
                print_json(
                    {
                        "id": added.ref.id,
                        "version": added.ref.version,
                        "digest": added.digest,
                        "state": added.state,
                        "notes": notes,
                    }
                )
                continue
            show(say(f"skill_{added.state}", skill=added.ref.id, version=added.ref.version))
            for remark in notes:
                show(f"  {remark['text']}")


@app.command()
@command
def remove(
    skill: SkillId, version: OneVersion = None, db: Db = None, as_json: Json = False, tenant: Tenant = "default"
) -> None:
    """Take a skill out of use; adding it again restores it."""
    with opened(db) as app:
        count = app.remove_skill(skill, version, tenant=tenant)
    if as_json:
        print_json({"id": skill, "version": version, "removed": count})
    else:
        show(say("skill_removed", skill=skill, count=count))


@app.command()
@command
def export(
    skill: SkillId,
    destination: Annotated[str, typer.Argument(help="Folder that gets the skill's folder.")] = ".",
    version: OneVersion = None,
    form: Annotated[
        str, typer.Option("--form", help="standard, rich (one SKILL.md that holds everything) or exact.")
    ] = ("standard"),
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Write a skill as a folder."""
    if form not in FORMS:
        raise InvalidInput("bad_choice", field="form", known=list(FORMS))
    with opened(db) as app:
        path = app.export_skill(skill, destination, version=version, form=form, tenant=tenant)  # type: ignore[arg-type]
    if as_json:
        print_json({"id": path.name, "path": str(path), "form": form})
    else:
        show(path)


def _bind(
    skill: str,
    db: str | None,
    as_json: bool,
    tenant: str,
    user: str | None,
    agent: str | None,
    **change: Any,
) -> None:
    with opened(db) as app:
        if user is None and agent is None:
            user = "me"
        binding = app.bind_skill(skill, user=user, agent=agent, **change, tenant=tenant)
    if as_json:
        print_json(
            {
                "id": binding.skill_id,
                "target": {"kind": binding.target_kind, "id": binding.target_id},
                "enabled": binding.enabled,
                "pinned_version": binding.pinned_version,
            }
        )
        return
    state = say("status.enabled" if binding.enabled else "status.disabled")
    pinned = "" if binding.pinned_version is None else f" · {say('pinned', version=binding.pinned_version)}"
    target = say(f"target.{binding.target_kind}", id=binding.target_id)
    show(say("binding", skill=binding.skill_id, state=f"{state}{pinned}", target=target))


@app.command()
@command
def enable(
    skill: SkillId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: ForUser = None,
    agent: ForAgent = None,
) -> None:
    """Enable a skill for a user (default: me) or an agent."""
    _bind(skill, db, as_json, tenant, user, agent, enabled=True)


@app.command()
@command
def disable(
    skill: SkillId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: ForUser = None,
    agent: ForAgent = None,
) -> None:
    """Disable a skill for a user (default: me) or an agent."""
    _bind(skill, db, as_json, tenant, user, agent, enabled=False)


@app.command()
@command
def pin(
    skill: SkillId,
    version: Annotated[str, typer.Argument(help="Version to stay on.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: ForUser = None,
    agent: ForAgent = None,
) -> None:
    """Stay on one version for a user (default: me) or an agent."""
    _bind(skill, db, as_json, tenant, user, agent, pin=version)


@app.command()
@command
def unpin(
    skill: SkillId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    user: ForUser = None,
    agent: ForAgent = None,
) -> None:
    """Follow the newest stable version again."""
    _bind(skill, db, as_json, tenant, user, agent, unpin=True)


@app.command()
@command
def check(
    paths: Annotated[list[str], typer.Argument(help="Skill folders, or trees of them.")],
    as_json: Json = False,
    level: Annotated[str, typer.Option("--level", help="syntax, behavior, security or all.")] = "all",
    write: Annotated[bool, typer.Option("--write", help="Keep each report in the skill's validation/ folder.")] = False,
) -> None:
    """Check skill folders: file, line and remedy of each fault."""
    from prowess.runtime.checking import check_skills

    if level not in LEVELS:
        raise InvalidInput("level_unavailable", field="level", level=level, known=list(LEVELS))
    for path in paths:
        if not _exists(path):
            raise InvalidInput("not_readable", file=path, cause=say("no_such_path"))
    tally = check_skills(paths, print if as_json else _print_report, language(), level, keep=write)
    if not as_json:
        show(say("check_summary", checked=tally.checked, rejected=tally.rejected))
    if tally.rejected:
        raise typer.Exit(FAILED)


advisories = typer.Typer(help="The list of packages known to be malicious.", no_args_is_help=True)
app.add_typer(advisories, name="advisories")


@advisories.command("show")
@command
def show_advisories(as_json: Json = False) -> None:
    """Show which list is in force, and the version of the rules."""
    from prowess.validation.security.advisories import current_advisories, own_copy
    from prowess.validation.security.version import rules_version

    found = current_advisories()
    own = own_copy().exists()
    shown = {"date": found.date, "advisories": len(found.known), "own": own, "rules_version": rules_version(found)}
    print_json(shown) if as_json else show(" · ".join(f"{key}: {value}" for key, value in shown.items()))


@advisories.command("update")
@command
def update_advisories(
    file: Annotated[str, typer.Argument(help="A list of advisories as JSON.")], as_json: Json = False
) -> None:
    """Check a list from a file and use it from now on."""
    from prowess.validation.security.advisories import own_copy, replace_advisories

    found = replace_advisories(Path(file))
    shown = {"date": found.date, "advisories": len(found.known), "path": str(own_copy())}
    print_json(shown) if as_json else show(" · ".join(f"{key}: {value}" for key, value in shown.items()))


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False  # a name that no file can have


def _print_report(line: str) -> None:
    import json

    report = json.loads(line)
    for issue in report["issues"]:
        severity = say(f"severity.{issue['severity']}")
        show(f"{issue['file']}:{issue['line']}: {severity} {issue['code']}{say('colon')}{issue['message']}")
        if issue["severity"] != "info":
            show(f"    {issue['remedy']}")


packages.register_skills(app)
