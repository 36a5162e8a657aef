"""``prowess skills install`` and what goes with it, and ``prowess keys``: skills from outside, and their revisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.output import (
    FAILED,
    Db,
    Json,
    Tenant,
    command,
    language,
    opened,
    print_json,
    print_table,
    say,
    show,
)
from prowess.errors import InvalidInput

if TYPE_CHECKING:
    from prowess.packages.model import Install

installs = typer.Typer(help="What was taken in from outside, and what waits.", no_args_is_help=True)
keys = typer.Typer(help="Keys that are trusted to sign skills.", no_args_is_help=True)

InstallId = Annotated[str, typer.Argument(help="Id of the install.")]
By = Annotated[str | None, typer.Option("--by", help="The person who answers; default: the operator.")]
SkillId = Annotated[str, typer.Argument(help="Skill id.")]
To = Annotated[str | None, typer.Option("--to", help="A version, a digest, or the beginning of one.")]
Place = Annotated[str, typer.Argument(help="Skill folder.")]


def register(main: typer.Typer) -> None:
    """Put ``keys`` on ``main``."""
    main.add_typer(keys, name="keys")


def register_skills(app: typer.Typer) -> None:
    """Add the commands to ``prowess skills``."""
    for function in (install, keygen, sign, verify, lock, unlock, rollback, lockfile, diff, merge):
        app.command()(function)
    app.add_typer(installs, name="installs")


@command
def install(
    paths: Annotated[list[str] | None, typer.Argument(help="Skill folders or archives.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    review: Annotated[str, typer.Option("--review", help="auto, or always: a person approves each.")] = "auto",
    locked: Annotated[str | None, typer.Option("--locked", help="Only what this lock file names, unchanged.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who installs; default: the operator.")] = None,
) -> None:
    """Take in skills from folders or archives, by way of quarantine."""
    if not paths and locked is None:
        raise InvalidInput("target_missing", field="paths")
    found: list[Install] = []
    with opened(db) as app:
        if locked is not None:
            found = app.install_locked(locked, paths or (), tenant=tenant)
        for path in paths if paths and locked is None else ():
            found.append(app.install_skill(path, review=review, by=by, tenant=tenant))  # type: ignore[arg-type]
    for item in found:
        _show_install(item, as_json)
    if any(item.state == "rejected" for item in found):
        raise typer.Exit(FAILED)


@installs.command("list")
@command
def list_installs(
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    state: Annotated[list[str] | None, typer.Option("--state", help="Only these states, such as rejected.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many.")] = 100,
) -> None:
    """Show what was taken in, the newest first."""
    with opened(db) as app:
        found = [item.to_json(language()) for item in app.installs(states=state or None, limit=limit, tenant=tenant)]
    if as_json:
        print_json({"installs": found})
        return
    names = ("id", "skill", "version", "state", "reason", "trust")
    print_table(names, [tuple(item[name] for name in names) for item in found], empty=say("no_installs"))


@installs.command("show")
@command
def show_install(install: InstallId, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show one: what is new, and what the checks found."""
    with opened(db) as app:
        _show_install(app.install(install, tenant=tenant), as_json)


@installs.command("check")
@command
def check_install(install: InstallId, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Check what waits once more."""
    with opened(db) as app:
        _show_install(app.check_install(install, tenant=tenant), as_json)


@installs.command("approve")
@command
def approve_install(
    install: InstallId,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
    by: By = None,
    digest: Annotated[str | None, typer.Option("--digest", help="The content that was looked at.")] = None,
) -> None:
    """Let in what waits, with what it newly asks for."""
    with opened(db) as app:
        _show_install(app.approve_install(install, by=by, digest=digest, tenant=tenant), as_json)


@installs.command("reject")
@command
def reject_install(
    install: InstallId, db: Db = None, as_json: Json = False, tenant: Tenant = "default", by: By = None
) -> None:
    """Turn down what waits."""
    with opened(db) as app:
        _show_install(app.reject_install(install, by=by, tenant=tenant), as_json)


@command
def keygen(
    file: Annotated[str, typer.Argument(help="Where to; the public key goes beside it as FILE.pub.")],
    as_json: Json = False,
) -> None:
    """Make a key that signs skills."""
    from prowess.packages.signing import new_key

    key_id, public = new_key(Path(file))
    if as_json:
        print_json({"key_id": key_id, "file": file, "public": str(public)})
    else:
        show(say("key_made", key_id=key_id, file=file, public=public))


@command
def sign(
    path: Place, key: Annotated[str, typer.Option("--key", help="File of the private key.")], as_json: Json = False
) -> None:
    """Sign a skill folder: writes prowess.sig beside SKILL.md."""
    from prowess.packages import signing
    from prowess.skills.skill_md import read_skill_folder

    skill = read_skill_folder(path)
    signature = signing.sign(skill, Path(key))
    file = signing.write_signature(skill.path, signature)
    if as_json:
        statement = signature.statement
        said = {"id": statement.skill, "version": statement.version, "digest": statement.digest}
        print_json({**said, "key_id": signature.key_id, "file": str(file)})
    else:
        show(say("skill_signed", skill=skill.manifest.id, key_id=signature.key_id, file=file))


@command
def verify(
    path: Annotated[str, typer.Argument(help="Skill folder or archive.")],
    key: Annotated[str | None, typer.Option("--key", help="Public key, or its file; default: those trusted.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Say who signed a skill, and whether it is unchanged since."""
    from prowess.packages.verifying import trusted_alone, verify_skill

    if key is not None:
        found = verify_skill(path, trusted_alone(key))
    else:
        with opened(db) as app:
            found = verify_skill(path, app.trusted_keys(tenant=tenant))
    if as_json:
        print_json(found)
    else:
        show(say(f"signature.{found['signature']}", skill=found["id"], key_id=found["key_id"]))
    if not found["ok"]:
        raise typer.Exit(FAILED)


@command
def lock(
    skill: Annotated[str | None, typer.Argument(help="Skill id; without one, the locks are shown.")] = None,
    to: To = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Let one version serve everybody; without a skill, show the locks."""
    from prowess.packages.revisions import lock_to_json

    with opened(db) as app:
        if skill is not None:
            _show_lock(lock_to_json(app.lock_skill(skill, to, tenant=tenant)), as_json)
            return
        found = [lock_to_json(item) for item in app.skill_locks(tenant=tenant)]
    if as_json:
        print_json({"locks": found})
        return
    rows = [(item["id"], item["version"], item["digest"]) for item in found]
    print_table(("skill", "version", "digest"), rows, empty=say("no_locks"))


@command
def unlock(skill: SkillId, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Let a skill follow its newest stable version again."""
    with opened(db) as app:
        changed = app.unlock_skill(skill, tenant=tenant)
    if as_json:
        print_json({"id": skill, "changed": changed})
    else:
        show(say("skill_unlocked" if changed else "skill_not_locked", skill=skill))


@command
def rollback(skill: SkillId, to: To = None, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Go back to the version before, or to another, for everybody."""
    from prowess.packages.revisions import lock_to_json

    with opened(db) as app:
        _show_lock(lock_to_json(app.rollback_skill(skill, to, tenant=tenant)), as_json)


@command
def lockfile(
    out: Annotated[str | None, typer.Option("--out", help="Write to this file.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Write down which revision of each installed skill serves."""
    import json

    with opened(db) as app:
        document = app.lock_file(tenant=tenant)
    if out is not None:
        Path(out).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print_json(document)
    elif out is None:
        show(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(out)


@command
def diff(
    before: Annotated[str, typer.Argument(help="Folder, archive, skill or skill@version.")],
    after: Annotated[str, typer.Argument(help="The same, to compare with it.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Show which files and permissions differ between two versions."""
    with opened(db) as app:
        found = app.diff_skills(before, after, tenant=tenant)
    if as_json:
        print_json(found)
        return
    for how, path in found["files"]:
        show(say("diff_file", how=how, path=path))
    _show_items("install_new", found["wider"])
    _show_items("diff_narrower", found["narrower"])
    show(say("diff_same") if found["needs"] is None else say("diff_needs", version=found["needs"]))


@command
def merge(
    mine: Annotated[str, typer.Argument(help="The folder that was edited here.")],
    theirs: Annotated[str, typer.Argument(help="Upstream: folder, archive, skill or skill@version.")],
    out: Annotated[str, typer.Option("--out", help="A new folder for what comes of it.")],
    base: Annotated[str | None, typer.Option("--base", help="Version or digest that both come from.")] = None,
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Merge a local edit with an upstream version, or show the conflict."""
    with opened(db) as app:
        merged = app.merge_skills(mine, theirs, out, base=base, tenant=tenant)
    if as_json:
        print_json(merged.to_json())
    elif merged.conflicts:
        show(say("merge_conflicts", count=len(merged.conflicts), folder=out))
        for file in merged.conflicts:
            show(f"  {file.path}:{file.line or 1}: {file.problem}")
    else:
        show(say("merge_done", folder=out))
    if merged.conflicts:
        raise typer.Exit(FAILED)


@keys.command("trust")
@command
def trust_key(
    key: Annotated[str, typer.Argument(help="Public key in base64, or its file.")],
    name: Annotated[str, typer.Option("--name", help="Whose key it is.")],
    prefix: Annotated[str, typer.Option("--prefix", help="Only for skills whose id begins so.")] = "",
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Trust a key to vouch for skills."""
    with opened(db) as app:
        found = app.trust_key(key, name=name, prefix=prefix, tenant=tenant).to_json()
    if as_json:
        print_json(found)
    else:
        show(say("key_trusted", name=name, key_id=found["key_id"], prefix=found["prefix"] or "*"))


@keys.command("list")
@command
def list_keys(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show the keys that are or were trusted."""
    with opened(db) as app:
        found = [item.to_json() for item in app.trusted_keys(tenant=tenant)]
    if as_json:
        print_json({"keys": found})
        return
    rows = [
        (item["name"], item["key_id"], item["prefix"] or "*", item["trusted_at"], item["revoked_at"]) for item in found
    ]
    print_table(("name", "key", "prefix", "trusted", "revoked"), rows, empty=say("no_keys"))


@keys.command("revoke")
@command
def revoke_key(
    key: Annotated[str, typer.Argument(help="Id or name of the key.")],
    db: Db = None,
    as_json: Json = False,
    tenant: Tenant = "default",
) -> None:
    """Trust a key no more; what needs it goes into quarantine."""
    with opened(db) as app:
        found = app.revoke_key(key, tenant=tenant)
    if as_json:
        print_json({"key": key, "quarantined": [{"id": ref.id, "version": ref.version} for ref in found]})
    else:
        show(say("key_revoked", key_id=key, count=", ".join(f"{ref.id} {ref.version}" for ref in found) or "0"))


def _show_lock(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        show(say("skill_locked", skill=found["id"], version=found["version"]))


def _show_install(install: Install, as_json: bool) -> None:
    found = install.to_json(language())
    if as_json:
        print_json(found)
        return
    said = {name: found[name] or "" for name in ("skill", "version", "trust", "reason")}
    show(say(f"install.{found['state']}", **said, install=install.id))
    if install.changes is not None:
        _show_items("install_new", found["changes"]["wider"])
        for how, path in found["changes"]["scripts"]:
            show(f"  {say('install_script', how=how, path=path)}")
    for issue in found["report"].get("issues", ()):
        if issue["severity"] != "info":
            _show_issue(issue)


def _show_issue(issue: dict[str, Any]) -> None:
    severity = say(f"severity.{issue['severity']}")
    show(f"  {issue['file']}:{issue['line']}: {severity} {issue['code']}{say('colon')}{issue['message']}")
    show(f"    {issue['remedy']}")


def _show_items(key: str, items: Sequence[Sequence[str]]) -> None:
    for area, value in items:
        show(f"  {say(key, area=area, value=value)}")
