"""``prowess audit seal``, ``verify`` and ``export``: evidence that the log is what it was (R4)."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from prowess.cli.output import FAILED, Db, Json, Tenant, command, note, opened, print_json, print_table, say, show
from prowess.errors import InvalidInput

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

COLUMNS = (
    "seq", "at", "type", "decision", "actor_kind", "actor_id", "user", "agent", "chat_kind", "chat_id", "message_id",
    "skill_id", "skill_version", "session_id", "run_id", "target", "data",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@command
def seal(db: Db = None, as_json: Json = False) -> None:
    """Seal what was logged since the last seal."""
    from dataclasses import asdict

    with opened(db) as app:
        made = app.seal_log()
    if as_json:
        print_json({"seal": None if made is None else asdict(made)})
    elif made is None:
        show(say("nothing_to_seal"))
    else:
        show(say("sealed", number=made.number, count=made.count, root=made.root))


@command
def verify(db: Db = None, as_json: Json = False) -> None:
    """Say whether the log is as it was sealed."""
    with opened(db) as app:
        found = app.verify_log()
    if as_json:
        print_json(found.to_json())
    else:
        show(say("verified" if found.ok else "tampered", seals=found.seals, events=found.events))
        rows = [(say(f"seal.{fault.kind}"), fault.seal, fault.first_seq, fault.last_seq) for fault in found.faults]
        if rows:
            print_table(("fault", "seal", "first", "last"), rows, empty="")
        note(say("unsealed", count=found.unsealed))
        if found.anchor is None:
            note(say("no_anchor"))
    if not found.ok:
        raise typer.Exit(FAILED)


@command
def export(
    db: Db = None,
    tenant: Tenant = "default",
    form: Annotated[str, typer.Option("--format", help="jsonl or csv.")] = "jsonl",
    out: Annotated[str | None, typer.Option("--out", help="A new file; default: standard output.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every event, not audit rows alone.")] = False,
    as_json: Json = True,
) -> None:
    """Write the log out, oldest first."""
    if form not in ("jsonl", "csv"):
        raise InvalidInput("bad_choice", field="format", known=["jsonl", "csv"])
    with opened(db) as app, _target(out) as stream:
        rows = app.export_log(audit_only=not everything, tenant=tenant)
        _write_csv(stream, rows) if form == "csv" else _write_lines(stream, rows)


def _target(out: str | None) -> AbstractContextManager[IO[str]]:
    if out is None:
        return nullcontext(sys.stdout)
    try:
        return Path(out).open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidInput("not_creatable", file=out, cause=error.strerror or type(error).__name__) from None


def _write_lines(stream: IO[str], rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_csv(stream: IO[str], rows: Iterable[dict[str, Any]]) -> None:
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for row in rows:
        flat = {**row, "actor_kind": row["actor"]["kind"], "actor_id": row["actor"]["id"]}
        flat["data"] = json.dumps(row["data"], ensure_ascii=False)
        writer.writerow([_plain(flat.get(name)) for name in COLUMNS])


def _plain(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
