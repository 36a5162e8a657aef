"""Scripts without namespaces: Landlock, filters, limits, and a user of its own for each run. Reduced, and says so.

For machines that do not let user namespaces be made, where the operator chose it. It needs root, to become that user,
and Landlock 6 (Linux 6.12), which keeps signals in. No network, no programs; that a file exists can be seen where the
machine shows it to everybody; the two writable areas are folders of the machine, bounded by file.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from prowess.adapters.sandboxes.bubblewrap import code, filters, launch, programs, selftest, session
from prowess.adapters.sandboxes.bubblewrap.outcome import result_of
from prowess.adapters.sandboxes.bubblewrap.sandbox import Either, Flag, check_job, refused
from prowess.sandbox.model import Isolation, SandboxJob, SandboxProfile, SandboxResult, SandboxStatus, ScriptCall
from prowess.sandbox.ports import Cancellation, ScriptCallRefused, ScriptHost

FIRST_ID, IDS = 65_400, 64
"""users of runs; none may belong to anybody"""
NEEDED_LANDLOCK = 6
_LOCKS = Path("/run/prowess-sandbox")
_FOLDERS = "/var/tmp"
_SWEEP_S = 2.0
_PLACES = ("skill", "tmp", "out")


class LandlockSandbox:
    """Runs each script as a user of its own, in a folder of its own."""

    name = "landlock"

    def __init__(self) -> None:
        self._closed = Flag()
        self._fault: str | None = None

    @property
    def fault(self) -> str:
        """Why nothing runs; empty where it does. Tested once."""
        if self._fault is None:
            self._fault = self.examine().fault
        return self._fault

    def examine(self) -> selftest.Examination:
        """Run the self-test now."""
        if os.geteuid() != 0:
            return selftest.Examination("root")
        if selftest.landlock_version() < NEEDED_LANDLOCK:
            return selftest.Examination(f"Landlock {NEEDED_LANDLOCK}")
        try:
            with _own_user() as user, _folder(user) as folder:
                return selftest.examine(partial(_start, user, folder), bwrap=False)
        except OSError as error:
            return selftest.Examination(str(error)[:300])

    @property
    def isolation(self) -> Isolation:
        """As the port."""
        return Isolation.NONE if self.fault else Isolation.REDUCED

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        """As the port."""
        began = time.monotonic()
        if self.fault:
            return refused("sandbox_unavailable", cause=self.fault)
        if job.profile.hosts or job.profile.commands:
            return refused("sandbox_reduced")
        if (found := check_job(job)) is not None:
            return found
        stop = Either(cancel, self._closed)
        if stop.cancelled:
            return SandboxResult(SandboxStatus.CANCELLED, self.isolation, code="sandbox_cancelled")
        try:
            document = session.document_of(job)
            with _own_user() as user, _folder(user) as folder:
                started = _start(user, folder, job.profile)
                try:
                    session.wait_ready(started)
                    limits = job.profile.limits
                    ended = session.Session(started, document, limits, host, stop, _no_command).run()
                finally:
                    started.close()
                    _sweep(user)
        except (OSError, programs.ProgramMissing, subprocess.SubprocessError, session.StartFailed) as error:
            return refused("sandbox_start_failed", cause=str(error)[:300])
        except (TypeError, ValueError, RecursionError):
            return refused("sandbox_input", limit=session.MAX_INPUT_BYTES)
        return result_of(ended, limits, self.isolation, (time.monotonic() - began) * 1000)

    def close(self) -> None:
        """As the port."""
        self._closed.cancelled = True


def _no_command(call: ScriptCall) -> Any:
    raise ScriptCallRefused("sandbox_command")


def _start(user: int, folder: Path, profile: SandboxProfile) -> launch.Started:
    """The interpreter as that user, which takes everything off itself. Raises ``OSError``."""
    kind = filters.machine()
    assert kind is not None, "asked by the self-test"
    places = {name: str(folder / name) for name in _PLACES}
    told = launch.setting(profile, selftest.landlock_version())
    told |= {"outer_filter": filters.outer(kind, attributes=False), "own_areas": False, "places": places}
    env = {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", "HOME": places["tmp"], "TMPDIR": places["tmp"]}
    sent = code.frame() + launch.frame_of(told)
    return launch.spawn([], sent, env=env, cwd=places["out"], user=user, group=user, extra_groups=[])


@contextmanager
def _own_user() -> Iterator[int]:
    """A user that no other run on this machine has now. Raises ``OSError`` where all are taken."""
    _LOCKS.mkdir(mode=0o755, exist_ok=True)
    for user in range(FIRST_ID, FIRST_ID + IDS):
        lock = os.open(_LOCKS / f"user-{user}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        try:
            _sweep(user)
            yield user
        finally:
            os.close(lock)
        return
    raise BlockingIOError("too many runs")


@contextmanager
def _folder(user: int) -> Iterator[Path]:
    for left in Path(_FOLDERS).glob(f"prowess-run-{user}-*"):  # by a host that was killed
        if left.lstat().st_uid == 0:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"prowess-run-{user}-", dir=_FOLDERS))
    try:
        for name in _PLACES:
            (folder / name).mkdir(mode=0o700)
            os.chown(folder / name, user, user)
        folder.chmod(0o711)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(user: int) -> None:
    """End whatever a user of a run still has. Raises ``OSError`` where something stays."""
    deadline = time.monotonic() + _SWEEP_S
    while left := [pid for pid in _processes(user) if pid != os.getpid()]:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError("processes of an earlier run do not end")


def _processes(user: int) -> list[int]:
    """Those that are not dead yet."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, KeyError, IndexError):
            fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            if fields["Uid"].split()[0] == str(user) and fields["State"].split()[0] not in ("Z", "X"):
                found.append(int(entry.parent.name))
    return found
