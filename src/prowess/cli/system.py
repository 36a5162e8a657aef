"""``migrate``, ``doctor``, ``eval`` and ``bench``."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from prowess.cli.output import (
    FAILED,
    LANGUAGE_VARIABLES,
    Db,
    Json,
    command,
    debugging,
    language,
    print_json,
    print_table,
    say,
    show,
)
from prowess.errors import InvalidInput, NotFound, ProwessError


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    app.command()(migrate)
    app.command()(doctor)
    app.command("eval")(evaluate)
    app.command(context_settings={"ignore_unknown_options": True})(bench)


@command
def migrate(db: Db = None, as_json: Json = False) -> None:
    """Bring the database to the schema of this program."""
    from prowess.runtime.keeping import migrate_database
    from prowess.runtime.settings import database_url

    revision = migrate_database(database_url(db))
    if as_json:
        print_json({"revision": revision})
    else:
        show(say("migrated", revision=revision))


@command
def doctor(db: Db = None, as_json: Json = False) -> None:
    """Say what this machine can do, and what to install."""
    rows = list(_examine(db))
    ok = all(row["state"] != "missing" for row in rows)
    if as_json:
        print_json({"ok": ok, "checks": rows})
    else:
        shown = [(row["check"], say(f"state.{row['state']}"), row["detail"], row["remedy"]) for row in rows]
        print_table(("check", "state", "detail", "remedy"), shown, empty="")
    if not ok:
        raise typer.Exit(FAILED)


def _examine(db: str | None) -> Iterator[dict[str, str]]:
    import sqlite3

    yield _row("python", "ok" if sys.version_info >= (3, 11) else "missing", platform.python_version(), "python")
    yield _row("sqlite", "ok", sqlite3.sqlite_version)
    yield _database(db)
    yield from _jobs(db)
    for package, state in (("langgraph", "missing"), ("psycopg", "warn"), ("prompt_toolkit", "warn")):
        installed = _version(package)
        yield _row(package, state if installed is None else "ok", installed or "", package)
    yield _model()
    yield from _law()
    yield _secrets()
    yield _isolation()
    yield from _mounts(db)
    yield _terminal()
    chosen = next((f"{name}={os.environ[name]}" for name in LANGUAGE_VARIABLES if os.environ.get(name)), "")
    yield _row("locale", "ok", f"{language()} ({chosen})" if chosen else language())


def _version(package: str) -> str | None:
    from importlib import metadata

    if importlib.util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _terminal() -> dict[str, str]:
    import locale
    import shutil

    # Standard output itself always writes UTF-8 here; what the terminal shows is the locale's matter.
    encoding = locale.getencoding()
    size = shutil.get_terminal_size()
    shown = f"{encoding}, {size.columns}×{size.lines}" if sys.stdout.isatty() else encoding
    utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    return _row("terminal", "ok" if utf8 else "warn", shown, "encoding")


def _database(db: str | None) -> dict[str, str]:
    from prowess.runtime.keeping import describe_database
    from prowess.runtime.settings import database_url

    try:
        return _row("database", "ok", describe_database(database_url(db)))
    except ProwessError as error:
        # One that was never used is set up at the first command that needs it.
        return _refused("database", "warn" if error.code == "database_not_migrated" else "missing", error)


def _jobs(db: str | None) -> Iterator[dict[str, str]]:
    """Whether somebody runs what is due; nothing where the database cannot be asked, which is told already."""
    from prowess.runtime.keeping import describe_database, overdue_jobs
    from prowess.runtime.settings import database_url, environment_options

    try:
        engine = environment_options().get("engine", "embedded")
        describe_database(database_url(db))
        overdue = overdue_jobs(database_url(db))
    except ProwessError:
        return
    if overdue:
        yield _row("jobs", "warn", say("doctor.overdue", count=overdue), "jobs")
    else:
        yield _row("jobs", "ok", engine)


def _model() -> dict[str, str]:
    from prowess.runtime.settings import environment_voice

    try:
        voice = environment_voice()
    except ProwessError as error:
        return _refused("model", "warn", error)
    return _row("model", "warn", say("doctor.no_model"), "model") if voice is None else _row("model", "ok", voice.name)


def _law() -> Iterator[dict[str, str]]:
    """Resolver and policies. Where they do not hold, no command that opens a database works."""
    from prowess.access.model import Mode
    from prowess.access.policies import load_policies
    from prowess.runtime.settings import environment_options
    from prowess.turns.view import stricter

    try:
        options = environment_options()
    except ProwessError as error:
        yield _refused("resolver", "missing", error)
        return
    yield _row("resolver", "ok", options.get("resolver") or say("doctor.no_resolver"))
    try:
        policies = load_policies(options.get("policies", ()))
    except ProwessError as error:
        yield _refused("policies", "missing", error)
        return
    mode = stricter(options.get("mode", Mode.DEFAULT), policies.mode)
    yield _row("policies", "ok", say("doctor.policies", count=len(policies.rules), mode=str(mode)))


def _secrets() -> dict[str, str]:
    from prowess.secrets.keys import KEY_FILE_VARIABLE, read_keys

    try:
        return _row("secrets", "ok", " ".join(read_keys().key_ids))
    except ProwessError as error:
        if error.code == "secret_key_missing" and not os.environ.get(KEY_FILE_VARIABLE):
            return _row("secrets", "warn", say("doctor.no_key"), "key")
        return _refused("secrets", "missing", error)


def _isolation() -> dict[str, str]:
    """How far scripts of skills are kept apart; where they are not, they do not run."""
    from prowess.runtime.sandboxing import environment_sandbox, sandbox_fault

    try:
        sandbox = environment_sandbox()
        fault = sandbox_fault(sandbox)
    except ProwessError as error:
        return _refused("isolation", "missing", error)
    shown = f"{sandbox.name} ({sandbox.isolation})"
    if sandbox.isolation == "reduced":
        return _row("isolation", "warn", shown, "reduced")
    return _row("isolation", "warn", f"{shown}: {fault}", "isolation") if fault else _row("isolation", "ok", shown)


def _mounts(db: str | None) -> Iterator[dict[str, str]]:
    """Whether mounted servers want to be looked at; nothing where none is mounted, or the database cannot be asked."""
    from prowess.runtime.keeping import describe_database, mounts_in
    from prowess.runtime.settings import database_url

    try:
        describe_database(database_url(db))
        found = mounts_in(database_url(db))
    except ProwessError:
        return
    if found.mounted:
        state = "warn" if found.waiting or found.failing else "ok"
        yield _row("mounts", state, say("doctor.mounts_shown", **found._asdict()), "mounts")


def _refused(check: str, state: str, error: ProwessError) -> dict[str, str]:
    shown = {"detail": error.message(language()), "remedy": error.remedy(language())}
    return {"check": check, "state": state, **shown}


def _row(check: str, state: str, detail: str, remedy: str | None = None) -> dict[str, str]:
    advice = "" if remedy is None or state == "ok" else say(f"doctor.{remedy}")
    return {"check": check, "state": state, "detail": detail, "remedy": advice}


@command
def evaluate(
    suites: Annotated[list[str] | None, typer.Argument(help="Suites; default: all.")] = None, as_json: Json = False
) -> None:
    """Run the evaluation cases that ship with Prowess."""
    from prowess.runtime.evaluation import evaluate as run_suites

    report = run_suites(tuple(suites) if suites else None)
    document = report.to_json()
    if as_json:
        print_json(document)
    else:
        rows = [(suite["name"], suite["total"], suite["passed"]) for suite in document["suites"]]
        print_table(("suite", "cases", "passed"), rows, empty="")
        for suite in document["suites"]:
            for failure in suite["failures"]:
                expected, got = failure["expected"], failure["got"]
                show(say("eval_failure", suite=suite["name"], case=failure["case"], expected=expected, got=got))
    if not document["ok"]:
        raise typer.Exit(FAILED)


@command
def bench(
    name: Annotated[str | None, typer.Argument(help="Which; without it they are listed.")] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Its own arguments.")] = None,
    as_json: Json = False,
) -> None:
    """Measure against a peer in the same run."""
    folder = _benchmarks()
    names = sorted(file.stem.replace("_", "-") for file in folder.glob("*.py"))
    if name is None:
        print_json({"benchmarks": names}) if as_json else show("\n".join(names))
        return
    wanted = name.replace("_", "-")
    if wanted not in names:
        raise NotFound("bench_unknown", name=name[:80], known=names)
    result = _measure(folder / f"{wanted.replace('-', '_')}.py", args or [])
    if as_json:
        print_json(result)
        return
    for key, value in result.items():
        figures = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        show(f"{key}: {figures}")


def _measure(file: Path, args: list[str]) -> dict[str, Any]:
    module = _load(file)
    try:
        result: dict[str, Any] = module.run(args)
    except ProwessError:
        raise
    except Exception as error:
        if debugging():
            raise
        usage = " ".join((module.run.__doc__ or "").replace("``", "").split()).rstrip(".")
        cause = f"{type(error).__name__}: {error}"[:200]
        raise InvalidInput("bench_failed", name=file.stem, cause=cause, usage=usage) from None
    return result


def _benchmarks() -> Path:
    import prowess

    folder = Path(prowess.__file__).resolve().parents[2] / "benchmarks"
    if not folder.is_dir():
        raise InvalidInput("bench_missing")
    return folder


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"prowess_benchmark_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
