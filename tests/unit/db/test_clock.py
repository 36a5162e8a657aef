"""The database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prowess.db.clock import REFRESH, DatabaseClock

START = datetime(2026, 3, 1, 8, tzinfo=UTC)


class Server:
    """A database whose clock and this machine's ticks are set by hand."""

    def __init__(self) -> None:
        self.instant = START
        self.seconds = 100.0
        self.asked = 0

    def ask(self) -> datetime:
        self.asked += 1
        return self.instant

    def ticks(self) -> float:
        return self.seconds


def test_it_counts_on_from_a_reading_and_asks_again_when_it_is_old() -> None:
    server = Server()
    clock = DatabaseClock(server.ask, server.ticks)
    server.seconds += 5
    assert clock.now() == START + timedelta(seconds=5)
    assert server.asked == 1
    server.seconds += REFRESH.total_seconds()
    server.instant = START + timedelta(minutes=3)  # the server's clock was set meanwhile
    assert clock.now() == server.instant
    assert server.asked == 2


def test_another_zone_is_the_same_instant() -> None:
    server = Server()
    server.instant = START.astimezone(tz=__import__("zoneinfo").ZoneInfo("Asia/Shanghai"))
    assert DatabaseClock(server.ask, server.ticks).now() == START
