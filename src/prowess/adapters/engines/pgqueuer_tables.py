"""PGQueuer's tables in our database: their names, how they come to be there, and connections to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from asyncpg import Connection, InterfaceError, Pool, PostgresError, connect, create_pool
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import (
    QueryBuilderEnvironment,
    QueryQueueBuilder,
    QuerySchedulerBuilder,
)
from pgqueuer.core.tm import TaskManager
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.queries import Queries, SyncQueries
from sqlalchemy.engine import URL

if TYPE_CHECKING:
    from pgqueuer.ports.driver import Driver, NotifyCallback, SyncDriver

POOL_SIZE = 4
COMMAND_TIMEOUT = 30.0
"""seconds after which a silent connection counts as lost"""
CLOSE_LIMIT = 2.0
"""seconds"""

# What libpq understands and asyncpg would send on to the server as a setting.
_LIBPQ_ONLY = (
    "channel_binding",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "tcp_user_timeout",
)

# A prefix, because somebody may use PGQueuer beside us in the same database. Unlogged, because these rows only wake
# workers: what a crash of the server takes from them the sweep finds in the ledger.
SETTINGS = DBSettings(prefix="prowess_", durability=Durability.volatile)

PAYLOADS = f"SELECT payload FROM {SETTINGS.qualified.queue_table} WHERE entrypoint = $1 LIMIT $2"


def dsn(url: URL) -> str:
    """The address as asyncpg reads it, over TCP or a unix socket (``?host=/folder``)."""
    return url.set(drivername="postgresql").difference_update_query(_LIBPQ_ONLY).render_as_string(hide_password=False)


def queries(driver: Driver) -> Queries:
    """PGQueuer's statements on our tables."""
    builders = QueryBuilderEnvironment(SETTINGS), QueryQueueBuilder(SETTINGS), QuerySchedulerBuilder(SETTINGS)
    return Queries(driver, *builders)


def sync_queries(driver: SyncDriver) -> SyncQueries:
    """Those of them that synchronous code needs."""
    return SyncQueries(driver, QueryQueueBuilder(SETTINGS))


async def install(url: URL) -> None:
    """Make or upgrade the tables; workers that start together wait for each other.

    On one connection, because the lock belongs to a session.
    """
    connection = await connect(dsn(url), timeout=COMMAND_TIMEOUT, command_timeout=COMMAND_TIMEOUT)
    try:
        tables = queries(AsyncpgDriver(connection))
        async with tables.schema_lock():
            if await tables.schema_is_installed():
                await tables.upgrade()
            else:
                await tables.install(create_schema=False)
                await tables.optimize_autovacuum()
    finally:
        await connection.close()


class Link:
    """PGQueuer's driver over a pool, and a connection of its own that listens.

    PGQueuer's own pool driver never notices that its listening connection is gone, and would then only poll.
    """

    def __init__(self, url: URL) -> None:
        self._dsn = dsn(url)
        self._listening: Connection[Any] | None = None
        self._pool: Pool[Any] | None = None
        self._shutdown = asyncio.Event()
        self.lost = asyncio.Event()
        """set when the listening connection has ended"""

    async def open(self) -> None:
        """Connect. Raises what asyncpg raises, and ``OSError``."""
        options: dict[str, Any] = {"timeout": COMMAND_TIMEOUT, "command_timeout": COMMAND_TIMEOUT}
        self._listening = await connect(self._dsn, **options)
        self._listening.add_termination_listener(self._ended)
        self._pool = await create_pool(self._dsn, min_size=1, max_size=POOL_SIZE, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing: PGQueuer enters and leaves what we ``open`` and ``close``."""

    async def close(self) -> None:
        """End all connections; those that do not answer at once are cut."""
        if self._listening is not None:
            self._listening.remove_termination_listener(self._ended)
            self._listening.terminate()
        if self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), CLOSE_LIMIT)
            except (TimeoutError, OSError, PostgresError, InterfaceError):
                self._pool.terminate()

    def _ended(self, _connection: object) -> None:
        self.lost.set()

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        """Rows as dictionaries."""
        assert self._pool is not None
        return [dict(row) for row in await self._pool.fetch(query, *args)]

    async def execute(self, query: str, *args: object) -> str:
        """Run a statement; returns the server's word on it."""
        assert self._pool is not None
        status: str = await self._pool.execute(query, *args)
        return status

    async def notify(self, channel: str, payload: str) -> None:
        """Send a notice."""
        await self.execute("SELECT pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        """Hand every notice of ``channel`` to ``callback``."""
        assert self._listening is not None

        def relay(_connection: object, _pid: int, _channel: str, payload: object) -> None:
            if isinstance(payload, str):
                callback(payload)

        await self._listening.add_listener(channel, relay)

    @property
    def shutdown(self) -> asyncio.Event:
        """Set by nobody; PGQueuer's port asks for it."""
        return self._shutdown

    @property
    def tm(self) -> TaskManager:
        """Of no tasks: asyncpg reads its socket by itself."""
        return TaskManager()
