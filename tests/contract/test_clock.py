"""The clock of the database server."""

from __future__ import annotations

from datetime import timedelta

import prowess
from prowess.db.clock import postgres_clock
from prowess.db.engine import Database


def test_g2_on_postgresql_the_server_says_what_time_it_is(postgres_url: str) -> None:
    database = Database(postgres_url)
    try:
        with database.read() as connection:
            before = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        now = postgres_clock(database).now()
        with database.read() as connection:
            after = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    finally:
        database.close()
    assert before - timedelta(seconds=1) <= now <= after + timedelta(seconds=1)
    with prowess.open(postgres_url) as app:
        app.add_memory("u1", "mira", "tea")
        assert abs(app.memories(user="u1")[0].created_at - after) < timedelta(seconds=30)
