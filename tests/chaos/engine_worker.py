"""A process of its own that serves an engine with the tiny ledger; run as ``python -m tests.chaos.engine_worker``.

It says ``ready``, waits for a line, and serves until its input ends, or dies between a claim and its effects.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from tests.support.tiny_ledger import LEASE, TinyLedger

from prowess.adapters.engines.pgqueuer import PGQueuerEngine, PGQueuerSettings


async def serve(engine: PGQueuerEngine, ledger: TinyLedger) -> None:
    stop = asyncio.Event()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ended.add_done_callback(lambda _: stop.set())
    await engine.serve(ledger, stop)


def main() -> None:
    plan = json.loads(sys.argv[1])

    def die(ids: list[str]) -> None:
        if plan.get("die_with", 0) and len(ids) >= plan["die_with"]:
            os.kill(os.getpid(), signal.SIGKILL)

    engine = PGQueuerEngine(plan["url"], settings=PGQueuerSettings(heartbeat=LEASE))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    asyncio.run(serve(engine, TinyLedger(plan["url"], plan["name"], held=die)))


if __name__ == "__main__":
    main()
