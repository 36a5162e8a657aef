"""A host with something to lose, and two who run scripts on it: root, and an ordinary user."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.ordinary_user import ORDINARY_ID, OrdinaryUser, as_json, job_of

from prowess.adapters.sandboxes.bubblewrap.programs import SANDBOX_ID
from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox
from prowess.adapters.sandboxes.landlock import LandlockSandbox

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
Attempt = Callable[..., dict[str, Any]]


class Host:
    """What a script could reach, and whether it did. ``given`` is told to every script, as an attacker would know it."""

    def __init__(self, folder: Path, owner: int) -> None:
        self.folder = folder
        self.secret = folder / "secret"
        self.readable, self.writable = folder / "readable", folder / "writable"
        folder.chmod(0o755)
        for made in (self.secret, self.readable, self.writable):
            made.mkdir()
            (made / "canary.txt").write_text("untouched")
            os.chown(made, owner, owner)
            os.chown(made / "canary.txt", owner, owner)
            (made / "canary.txt").chmod(0o666)  # so that it is not the file's mode that keeps it
        self.writable.chmod(0o777)
        (self.readable / "link").symlink_to("../secret/canary.txt")
        self._core_pattern = CORE_PATTERN.read_bytes()
        self._stack = contextlib.ExitStack()
        self.tcp = self._listening(socket.socket(), ("127.0.0.1", 0))
        self.udp = self._listening(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", 0))
        self.abstract = self._listening(socket.socket(socket.AF_UNIX), f"\0prowess-escape-{os.getpid()}")
        self.path = self._listening(socket.socket(socket.AF_UNIX), str(self.writable / "socket"))
        (self.writable / "socket").chmod(0o777)
        self.given = {
            "secret": str(self.secret / "canary.txt"),
            "readable": str(self.readable),
            "writable": str(self.writable),
            "port": self.tcp.getsockname()[1],
            "udp_port": self.udp.getsockname()[1],
            "abstract": self.abstract.getsockname()[1:].decode(),
            "host_pid": os.getpid(),
        }
        self.profile = {"read": [str(self.readable)], "write": [str(self.writable)]}

    def _listening(self, made: socket.socket, address: Any) -> socket.socket:
        made = self._stack.enter_context(made)
        made.bind(address)
        if made.type == socket.SOCK_STREAM:
            made.listen(8)
        made.setblocking(False)
        return made

    def check(self) -> None:
        """That nothing of it was touched."""
        for kept in (self.secret, self.readable, self.writable):
            assert (kept / "canary.txt").read_text() == "untouched"
            assert (kept / "canary.txt").stat().st_mode & 0o7777 == 0o666
        for listener in (self.tcp, self.abstract, self.path):
            with pytest.raises(BlockingIOError):
                listener.accept()
        with pytest.raises(BlockingIOError):
            self.udp.recv(10)
        assert CORE_PATTERN.read_bytes() == self._core_pattern
        assert sorted(file.name for file in self.secret.iterdir()) == ["canary.txt"]
        assert sorted(file.name for file in self.readable.iterdir()) == ["canary.txt", "link"]

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def ordinary() -> Iterator[OrdinaryUser]:
    user = OrdinaryUser()
    yield user
    user.close()


@pytest.fixture(params=["root", "user", "reduced"])
def who(request: pytest.FixtureRequest) -> str:
    """All are needed: where the tests are not root's, they fail and say so. ``reduced`` is without namespaces."""
    if os.geteuid() != 0:
        pytest.fail("the escape tests run as root, for scripts of root and of an ordinary user")
    return str(request.param)


@pytest.fixture
def host(who: str) -> Iterator[Host]:
    folder = Path(tempfile.mkdtemp(prefix="prowess-escape-", dir="/var/tmp"))
    made = Host(folder, ORDINARY_ID if who == "user" else SANDBOX_ID)
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def reduced() -> Iterator[LandlockSandbox]:
    sandbox = LandlockSandbox()
    yield sandbox
    sandbox.close()


@pytest.fixture
def attempt(who: str, host: Host, request: pytest.FixtureRequest) -> Attempt:
    """``attempt(source, **limits)``: the result of a script that tries, with one folder to read and one to write."""

    def run(source: str, profile: dict[str, Any] | None = None, **limits: Any) -> dict[str, Any]:
        job = (source, host.given, host.profile if profile is None else profile, limits)
        if who == "user":
            user: OrdinaryUser = request.getfixturevalue("ordinary")
            return user.run(*job)
        return as_json(job_of(*job), request.getfixturevalue("reduced") if who == "reduced" else BubblewrapSandbox())

    return run
