"""``migrate``, ``doctor``, ``eval`` and ``bench``."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from prowess.cli.output import FAILED, Db, Json, command, language, print_json, print_table, say
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
        print(say("migrated", revision=revision))


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

    python = platform.python_version()
    yield _row("python", "ok" if sys.version_info >= (3, 11) else "missing", python, say("doctor.python"))
    yield _row("sqlite", "ok", sqlite3.sqlite_version, "")
    yield _database(db)
    for module, state in (("langgraph", "missing"), ("psycopg", "warn"), ("prompt_toolkit", "warn")):
        found = importlib.util.find_spec(module) is not None
        yield _row(module, "ok" if found else state, "", "" if found else say(f"doctor.{module}"))
    yield _row("model", "warn", say("doctor.no_model"), say("doctor.model"))
    yield _row("isolation", "warn", say("doctor.no_isolation"), "")
    encoding = sys.stdout.encoding or ""
    utf8 = encoding.lower().replace("-", "") == "utf8"
    yield _row("terminal", "ok" if utf8 else "warn", encoding, "" if utf8 else say("doctor.encoding"))


def _database(db: str | None) -> dict[str, str]:
    from prowess.runtime.keeping import describe_database
    from prowess.runtime.settings import database_url

    try:
        return _row("database", "ok", describe_database(database_url(db)), "")
    except ProwessError as error:
        return _row("database", "missing", error.message(language()), error.remedy(language()))


def _row(check: str, state: str, detail: str, remedy: str) -> dict[str, str]:
    return {"check": check, "state": state, "detail": detail, "remedy": remedy if state != "ok" else ""}


@command
def evaluate(
    suites: Annotated[list[str] | None, typer.Argument(help="Suites; default: all.")] = None, as_json: Json = False
) -> None:
    """Run the evaluation cases that ship with Prowess; no network, database or model."""
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
                print(f"{suite['name']}/{failure['case']}: {failure['expected']} ≠ {failure['got']}")
    if not document["ok"]:
        raise typer.Exit(FAILED)


@command
def bench(
    name: Annotated[str | None, typer.Argument(help="Which; without it they are listed.")] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Its own arguments.")] = None,
    as_json: Json = False,
) -> None:
    """Measure against a peer in the same run; benchmarks live in the repository."""
    folder = _benchmarks()
    names = sorted(file.stem.replace("_", "-") for file in folder.glob("*.py"))
    if name is None:
        print_json({"benchmarks": names}) if as_json else print("\n".join(names))
        return
    if name not in names:
        raise NotFound("bench_unknown", name=name[:80], known=names)
    result = _load(folder / f"{name.replace('-', '_')}.py").run(args or [])
    if as_json:
        print_json(result)
        return
    for key, value in result.items():
        print(f"{key}: {value}")


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
