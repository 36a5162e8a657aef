"""Fixtures for all tests: a clock and ids that are given, and fresh databases of both kinds."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import hypothesis
import psycopg
import pytest
from tests.support.postgres import QUICK, running_server

from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow or busy machine is no fault of the code under test; pytest-timeout catches what hangs.
hypothesis.settings.register_profile("prowess", deadline=None, print_blob=True)
hypothesis.settings.load_profile("prowess")


@pytest.fixture
def clock() -> ManualClock:
    """Stands at 2026-03-01 08:00 UTC until moved."""
    return ManualClock(datetime(2026, 3, 1, 8, 0, tzinfo=UTC))


@pytest.fixture
def ids() -> SequentialIds:
    """Makes ``run-1``, ``run-2`` …."""
    return SequentialIds()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'prowess.db'}"
        return
    new_database: Callable[[], contextlib.AbstractContextManager[str]] = request.getfixturevalue("new_database")
    with new_database() as url:
        yield url


@pytest.fixture(scope="session")
def new_database(postgres_url: str) -> Callable[[], contextlib.AbstractContextManager[str]]:
    """Makes an empty PostgreSQL database for the length of a ``with`` block, and yields its URL."""
    server = postgres_url.replace("+psycopg", "")
    numbers = itertools.count(1)

    @contextlib.contextmanager
    def make() -> Iterator[str]:
        name = f"test_{next(numbers)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        try:
            yield postgres_url.replace("/postgres?", f"/{name}?")
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    return make


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL 18 of this worker's own: its URL, as the superuser, at the database ``postgres``."""
    # Short and outside pytest's own folders, which are closed to other users: a socket's path has room for 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="prowess-pg-"))
    try:
        with running_server(home, QUICK):
            yield f"postgresql+psycopg://postgres@/postgres?host={home}"
    finally:
        shutil.rmtree(home)
