"""``prowess permissions open``, ``close`` and ``opened``: which irreversible operations two people may approve (G1)."""

from __future__ import annotations

from typing import Annotated

import typer

from prowess.cli.output import Db, Json, Tenant, command, opened, print_json, print_table, say, show

Code = Annotated[str, typer.Argument(help="Permission code of risk L4, such as card:charge.")]


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    app.command("open")(open_risk)
    app.command("close")(close_risk)
    app.command("opened")(opened_risks)


@command
def open_risk(code: Code, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Let an irreversible operation be asked for: two people's yes."""
    with opened(db) as runtime:
        changed = runtime.open_risk(code, tenant=tenant)
    _said("risk_opened" if changed else "risk_was_opened", code, changed, as_json)


@command
def close_risk(code: Code, db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Close it again; what waits does not run any more."""
    with opened(db) as runtime:
        changed = runtime.close_risk(code, tenant=tenant)
    _said("risk_closed" if changed else "risk_was_closed", code, changed, as_json)


@command
def opened_risks(db: Db = None, as_json: Json = False, tenant: Tenant = "default") -> None:
    """Show which irreversible codes are open."""
    with opened(db) as runtime:
        found = runtime.opened_risks(tenant=tenant)
    if as_json:
        print_json({"opened": list(found)})
    else:
        print_table(("code",), [(code,) for code in found], empty=say("none_opened"))


def _said(key: str, code: str, changed: bool, as_json: bool) -> None:
    if as_json:
        print_json({"code": code, "changed": changed})
    else:
        show(say(key, code=code))
