"""A process that forks job workers; run as ``python -m tests.chaos.job_workers``.

Each line on its standard input is a plan as JSON; for each it forks a worker, which opens the database by itself, works
as the plan says and may be killed on the way, and answers with how that worker ended. Forking spares the imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

import prowess
from prowess import BackgroundContext, BackgroundSkill, background_skill

CODE = "proactive_message:write"
PATIENCE = 60.0
"""seconds that a worker may take at most"""


class Payload(BaseModel):
    """What the jobs of these tests know."""

    model_config = ConfigDict(extra="forbid")

    agent_id: str
    agent_name: str
    conversation_id: str
    note: str


def skills() -> tuple[BackgroundSkill, ...]:
    """One whose whole effect is in the database, one that runs by itself, one that kills whoever runs it."""

    def speak(context: BackgroundContext, payload: Payload) -> None:
        context.send(f"spoken in attempt {context.attempt}")

    def stall(context: BackgroundContext, payload: Payload) -> None:
        """Say that it has begun, then wait for a file of the job's name; what it says then may come too late."""
        folder = Path(payload.note)
        (folder / f"begun-{context.attempt}").touch()
        deadline = time.monotonic() + PATIENCE
        while context.attempt == 1 and not (folder / "go").exists() and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        context.send(f"stalled in attempt {context.attempt}")

    def die(context: BackgroundContext, payload: Payload) -> None:
        with Path(payload.note).open("a") as file:
            file.write(f"{context.attempt}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    made = {"execute": {"speaker": speak, "staller": stall, "killer": die}}
    composer = background_skill(
        "composer",
        description="Composes.",
        payload_schema=Payload,
        compose=lambda payload, language: "composed",
        permissions=[(CODE, "L2")],
    )
    executing = (
        background_skill(
            id, description=f"Does {id}.", payload_schema=Payload, execute=execute, permissions=[(CODE, "L2")]
        )
        for id, execute in made["execute"].items()
    )
    return (composer, *executing)


def work(plan: dict[str, Any]) -> None:
    """The worker: until nothing is left to do, or until it is killed at the point of the plan."""

    def observe(point: str, _job: str) -> None:
        if point == plan.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    with prowess.open(plan["url"], skills=skills(), lease=timedelta(seconds=plan["lease"]), observe=observe) as app:
        if plan.get("once"):
            app.work()
            return
        asyncio.run(_serve(app, plan["stop_file"]))


async def _serve(app: prowess.Prowess, stop_file: str) -> None:
    """By the engine, until the file is there."""
    stop = asyncio.Event()

    async def watch() -> None:
        while not Path(stop_file).exists():
            await asyncio.sleep(0.02)
        stop.set()

    watching = asyncio.create_task(watch())
    await app.serve_jobs(stop)
    await watching


def main() -> None:
    with prowess.open("sqlite://", skills=skills()) as app:
        app.work()  # all that a worker needs is imported before it is forked
    for line in sys.stdin:
        plans = json.loads(line)
        started = time.monotonic()
        children = [_fork(plan) for plan in plans]
        sys.stdout.write(json.dumps({"pids": children}) + "\n")
        sys.stdout.flush()
        ends = [os.waitpid(child, 0)[1] for child in children]
        codes = [os.waitstatus_to_exitcode(status) for status in ends]
        sys.stdout.write(json.dumps({"codes": codes, "seconds": time.monotonic() - started}) + "\n")
        sys.stdout.flush()


def _fork(plan: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work(plan)
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
