"""A worker process of one queue: ``python -m queues.worker MODULE URL``.

It says ``ready``, serves until its input ends, answers each ``report`` with what it did since the last one, and hands
``round NAME`` to the queue.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from typing import Any

from queues.meter import Meter


def main() -> None:
    module, url = sys.argv[1:3]
    meter, stop, ready = Meter(), threading.Event(), threading.Event()
    server: Any = importlib.import_module(f"queues.{module}").Server(url, meter)
    serving = threading.Thread(target=server.serve, args=(stop, ready))
    serving.start()
    ready.wait()
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, name = line.strip().partition(" ")
        if word == "report":
            print(json.dumps(server.report()), flush=True)
        else:
            server.begin(name)
    stop.set()
    serving.join()


if __name__ == "__main__":
    main()
