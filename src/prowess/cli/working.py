"""``prowess worker`` and ``prowess up``: running jobs until told to stop."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import typer

from prowess.cli.output import Db, Json, command, note, opened, print_json, say

if TYPE_CHECKING:
    from prowess.runtime.app import Prowess


def register(app: typer.Typer) -> None:
    """Put the commands of this module on ``app``."""
    app.command()(worker)


@command
def worker(db: Db = None, as_json: Json = False) -> None:
    """Run jobs, triggers and approved calls until stopped."""
    with opened(db, speaking=True) as app:
        engine = app.engine_name
        if as_json:
            print_json({"engine": engine, "database": app.dialect})
        note(say("worker_started", engine=engine, database=app.dialect))
        asyncio.run(_serve(app))
    note(say("worker_stopped"))


async def _serve(app: Prowess) -> None:
    """Until SIGINT or SIGTERM; what runs then is given a moment to end."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await app.serve_jobs(stop)
