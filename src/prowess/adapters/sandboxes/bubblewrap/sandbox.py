"""Scripts by bubblewrap: the port, over sandboxes that are started for one run each."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from prowess.adapters.sandboxes.bubblewrap import commands, launch, network, selftest, session
from prowess.adapters.sandboxes.bubblewrap.outcome import result_of
from prowess.adapters.sandboxes.bubblewrap.pool import Pool
from prowess.adapters.sandboxes.bubblewrap.programs import ProgramMissing
from prowess.adapters.sandboxes.network.proxy import FilteringProxy
from prowess.errors import InvalidInput
from prowess.sandbox.model import Isolation, SandboxJob, SandboxProfile, SandboxResult, SandboxStatus, ScriptCall
from prowess.sandbox.ports import Cancellation, ScriptCallRefused, ScriptHost

MAX_FILES_BYTES = 16 * 1024 * 1024
"""of all files of a job"""
MAX_FILES = 1_000
_FAILURES = (OSError, ProgramMissing, subprocess.SubprocessError, session.StartFailed)


class BubblewrapSandbox:
    """Runs each script in a sandbox of its own; some are kept ready, by profile."""

    name = "bubblewrap"

    def __init__(self, *, ready: int = 0, proxies: network.Proxies = network.filtering) -> None:
        """``ready``: how many sandboxes are kept ready for each profile that was used, where it has no hosts."""
        self._proxies = proxies
        self._pool = Pool(_start, per_profile=ready, total=2 * ready) if ready else None
        self._closed = Flag()

    @property
    def isolation(self) -> Isolation:
        """As the port."""
        return Isolation.NONE if selftest.fault() else Isolation.FULL

    def warm(self, profile: SandboxProfile, limit: float = 10.0) -> bool:
        """Have sandboxes of a profile ready; whether they are, within ``limit`` seconds."""
        if self._pool is None:
            return False
        if (started := self._pool.take(profile)) is not None:
            started.close()
        return self._pool.wait_filled(profile, limit)

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        """As the port."""
        began = time.monotonic()
        if fault := selftest.fault():
            return refused("sandbox_unavailable", cause=fault)
        if (found := check_job(job)) is not None:
            return found
        stop = Either(cancel, self._closed)
        if stop.cancelled:
            return SandboxResult(SandboxStatus.CANCELLED, Isolation.FULL, code="sandbox_cancelled")
        try:
            document = session.document_of(job)
        except (TypeError, ValueError, RecursionError):
            return refused("sandbox_input", limit=session.MAX_INPUT_BYTES)
        limits = job.profile.limits
        try:
            with network.proxy_for(job.profile, self._proxies) as proxy:
                started = self._ready(job.profile, proxy)
                try:
                    runner = _Commands(job.profile, document["files"], stop, began)
                    ended = session.Session(started, document, limits, host, stop, runner.run).run()
                    runner.done.cancelled = True
                finally:
                    started.close()
        except _FAILURES as error:
            return refused("sandbox_start_failed", cause=str(error)[:300])
        except InvalidInput as error:
            return refused(error.code, **error.detail)
        result = result_of(ended, limits, Isolation.FULL, (time.monotonic() - began) * 1000)
        return network.with_record(result, proxy)

    def close(self) -> None:
        """As the port."""
        self._closed.cancelled = True
        if self._pool is not None:
            self._pool.close()

    def _ready(self, profile: SandboxProfile, proxy: FilteringProxy | None) -> launch.Started:
        if proxy is not None:  # its socket is of this run
            return _start(profile, proxy=str(proxy.path))
        kept = self._pool.take(profile) if self._pool is not None else None
        return kept or _start(profile)


def _start(profile: SandboxProfile, *, proxy: str | None = None, command: tuple[str, ...] = ()) -> launch.Started:
    """A sandbox that is ready for its job."""
    started = launch.start(profile, selftest.landlock_version(), proxy=proxy, command=command)
    try:
        session.wait_ready(started)
    except BaseException:
        started.close()
        raise
    return started


def check_job(job: SandboxJob) -> SandboxResult | None:
    """Why the job is not run at all, as a result; null where it is."""
    for path in (*job.profile.write, *job.profile.delete):
        if not os.path.lexists(path):
            return refused("sandbox_path_missing", path=path)
    paths = [file.path for file in job.files]
    if job.script not in paths:
        return refused("sandbox_no_script", path=job.script[:200])
    if len(set(paths)) != len(paths) or not all(map(_relative, paths)):
        return refused("sandbox_bad_files")
    if len(paths) > MAX_FILES or sum(len(file.content) for file in job.files) > MAX_FILES_BYTES:
        return refused("sandbox_files_large", limit=MAX_FILES_BYTES, files=MAX_FILES)
    return None


def _relative(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and len(path) <= 500 and all(part not in ("", ".", "..") for part in parts)


class Flag:
    """Cancelled where somebody set it."""

    cancelled = False


class Either:
    """Cancelled where either is."""

    def __init__(self, first: Cancellation | None, second: Cancellation) -> None:
        self._first = first
        self._second = second

    @property
    def cancelled(self) -> bool:
        """Whether to stop."""
        return self._second.cancelled or (self._first is not None and self._first.cancelled)


class _Commands:
    """Runs the programs of one run, each in a sandbox of its own, within what is left of its time."""

    def __init__(self, profile: SandboxProfile, files: Any, cancel: Cancellation, began: float) -> None:
        self._profile = profile
        self._files = files
        self._ends = began + profile.limits.wall_ms / 1000
        self.done = Flag()
        self._cancel = Either(cancel, self.done)

    def run(self, call: ScriptCall) -> Mapping[str, Any]:
        """Code and output. Raises ``ScriptCallRefused``."""
        executable, words = commands.resolve(self._profile, call)
        profile = commands.profile_of(self._profile, int((self._ends - time.monotonic()) * 1000))
        document = commands.document_of(self._files, words, call.arguments.get("input"))
        started = _start(profile, command=tuple(executable))
        try:
            ended = session.Session(started, document, profile.limits, None, self._cancel, _no_command).run()
        finally:
            started.close()
        if ended.report is None or ended.report["reason"] != "exit":
            raise ScriptCallRefused("sandbox_command_ended")
        code = os.waitstatus_to_exitcode(int(ended.report["status"]))
        shown = {"stdout": ended.stdout.decode(errors="replace"), "stderr": ended.stderr.decode(errors="replace")}
        return {"code": code, **shown}


def _no_command(call: ScriptCall) -> Any:
    raise ScriptCallRefused("sandbox_command")


def refused(code: str, **detail: Any) -> SandboxResult:
    """The result where nothing ran."""
    return SandboxResult(SandboxStatus.REFUSED, Isolation.NONE, code=code, detail=detail)
