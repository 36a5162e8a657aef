"""DBOS with a workflow that does nothing, on its own queue; on PostgreSQL, or on SQLite with write-ahead logging."""

from __future__ import annotations

import os
import sqlite3
import threading
from datetime import datetime
from typing import Any

os.environ.setdefault("DBOS__VMID", f"worker-{os.getpid()}")

import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig
from sqlalchemy.engine import make_url

from queues.meter import Meter

POLL = 0.05
"""seconds; DBOS's own default of one second only adds waiting"""
CONCURRENCY = 100


def _config(url: str) -> DBOSConfig:
    return {
        "name": "bench",
        "system_database_url": url,
        "log_level": "ERROR",
        "application_version": "bench",
        "executor_id": f"worker-{os.getpid()}",
    }


def _schema(url: str) -> str:
    return "" if url.startswith("sqlite") else "dbos."


def _ask(url: str, statement: str, **values: Any) -> Any:
    engine = sqlalchemy.create_engine(make_url(url))
    try:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text(statement), values).one()
    finally:
        engine.dispose()


def prepare(url: str) -> None:
    """The tables, made by DBOS itself; WAL is a property of the file."""
    if url.startswith("sqlite"):
        with sqlite3.connect(str(make_url(url).database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    DBOS(config=_config(url))
    DBOS.launch()
    DBOS.destroy()


def add(url: str, name: str, count: int, _due: datetime) -> None:
    """Into a queue that nobody listens to before ``begin``."""
    client = DBOSClient(system_database_url=url)
    for number in range(count):
        client.enqueue(
            {"workflow_name": "noop", "queue_name": name, "app_version": "bench", "workflow_id": f"{name}-{number}"}
        )
    client.destroy()


def left(url: str, name: str) -> int:
    statement = f"SELECT count(*) FROM {_schema(url)}workflow_status WHERE queue_name = :name AND status <> 'SUCCESS'"
    return int(_ask(url, statement, name=name)[0])


class Server:
    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter
        self._round = ""

    def begin(self, name: str) -> None:
        self._round = name
        DBOS.register_queue(name, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL)

    def report(self) -> dict[str, Any]:
        """The end is that of the record, which is written after the function."""
        column = "coalesce(completed_at, updated_at)"
        statement = f"SELECT max({column}) FROM {_schema(self._url)}workflow_status WHERE queue_name = :name"
        last = _ask(self._url, statement, name=self._round)[0]
        return self._meter.report() | {"last": last / 1000}

    def serve(self, stop: threading.Event, ready: threading.Event) -> None:
        DBOS(config=_config(self._url))

        @DBOS.workflow(name="noop")
        def noop() -> None:
            self._meter.started()

        DBOS.launch()
        ready.set()
        stop.wait()
        DBOS.destroy()
