"""``prowess worker`` and ``prowess up``: running jobs until told to stop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from prowess.cli.output import Db, Json, command, note, opened, print_json, say

if TYPE_CHECKING:
    from prowess.runtime.app import Prowess

DEFAULT_PORT = 8766


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    app.command()(worker)
    app.command()(up)


@command
def worker(db: Db = None, as_json: Json = False) -> None:
    """Run jobs, triggers and approved calls until stopped."""
    with opened(db, speaking=True) as app:
        _announce(app, as_json)
        asyncio.run(_until_told(app))
    note(say("worker_stopped"))


@command
def up(
    db: Db = None,
    as_json: Json = False,
    host: Annotated[str, typer.Option("--host", help="Where to listen for webhooks.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="On which port; 0 lets the machine choose.")
    ] = DEFAULT_PORT,
) -> None:
    """Run all of it in one process: jobs, triggers, webhooks."""
    with opened(db, speaking=True) as app:
        asyncio.run(_up(app, host, port, as_json))
    note(say("worker_stopped"))


async def _up(app: Prowess, host: str, port: int, as_json: bool) -> None:
    from prowess.server.hooks import serving_hooks

    async with serving_hooks(app, host=host, port=port) as listening:
        _announce(app, as_json, hooks=f"http://{host}:{listening}/hooks/")
        await _until_told(app)


def _announce(app: Prowess, as_json: bool, hooks: str | None = None) -> None:
    if as_json:
        print_json({"engine": app.engine_name, "database": app.dialect, **({} if hooks is None else {"hooks": hooks})})
    note(say("worker_started", engine=app.engine_name, database=app.dialect))
    if hooks is not None:
        note(say("hooks_listening", url=hooks))


async def _until_told(app: Prowess) -> None:
    """Until SIGINT or SIGTERM; what runs then is given a moment to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await app.serve_jobs(stop)
