"""Events as those who will emit them write them, and what is told of them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert

from prowess.db.engine import Database
from prowess.events.log import events
from prowess.kernel.clock import to_ms


def emit(database: Database, at: datetime, kind: str, **fields: Any) -> None:
    """One event of any type; ``data`` is its data."""
    row = {
        "tenant": "default",
        "type": kind,
        "at": to_ms(at),
        "actor_kind": "system",
        "actor_id": "prowess",
        "data": json.dumps(fields.pop("data", {})),
        "audit": False,
        **fields,
    }
    with database.write() as connection:
        connection.execute(insert(events), row)


def deny(database: Database, at: datetime, user: str, count: int = 1, *, every: timedelta = timedelta(0)) -> None:
    """Denied calls of a user, one after the other."""
    for number in range(count):
        emit(database, at + every * number, "tool.decided", user_id=user, decision="denied")
