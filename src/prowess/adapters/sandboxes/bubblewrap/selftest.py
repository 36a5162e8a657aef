"""Whether this machine isolates: real attempts in a real sandbox, seen from both sides, once per boot."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prowess.adapters.sandboxes.bubblewrap import filters, launch, programs, session
from prowess.adapters.sandboxes.bubblewrap.guest import kernel
from prowess.adapters.sandboxes.bubblewrap.outcome import result_of
from prowess.sandbox.model import Isolation, SandboxJob, SandboxLimits, SandboxProfile, SandboxStatus, ScriptFile

_GUEST = Path(__file__).parent / "guest"
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
_LIMITS = SandboxLimits(wall_ms=5_000)


@dataclass(frozen=True, slots=True)
class Examination:
    """What the self-test found."""

    fault: str
    """why scripts do not run, in a few words; empty where they do"""
    canaries: tuple[tuple[str, bool], ...] = ()
    """by name, whether the sandbox stopped it"""


@cache
def landlock_version() -> int:
    """Of this kernel; 0 where it has none."""
    return kernel.landlock_version() if sys.platform == "linux" else 0


Start = Callable[[SandboxProfile], launch.Started]


def _full(profile: SandboxProfile) -> launch.Started:
    return launch.start(profile, landlock_version())


_lock = threading.Lock()
_known: Examination | None = None


def fault() -> str:
    """Why scripts cannot run here; empty where they can. Tested once per boot, and where a program changed."""
    global _known
    with _lock:
        if _known is None:
            name = _name()
            passed = name != "" and _remembered() == name
            _known = Examination("") if passed else examine()
            if name and not passed and not _known.fault:
                _remember(name)
        return _known.fault


def examine(start: Start = _full, *, bwrap: bool = True) -> Examination:
    """Run the test now, in a sandbox that ``start`` makes."""
    if missing := _missing(bwrap):
        return Examination(missing)
    try:
        return _try(start)
    except (OSError, programs.ProgramMissing, session.StartFailed, subprocess.SubprocessError) as error:
        return Examination(str(error)[:300] or type(error).__name__)


def _missing(bwrap: bool) -> str:
    if sys.platform != "linux":
        return "Linux"
    if filters.machine() is None:
        return "seccomp"
    if landlock_version() < 1:
        return "Landlock"
    try:
        programs.interpreter()
        if bwrap:
            programs.bwrap()
    except programs.ProgramMissing as error:
        return str(error)
    return ""


def _try(start: Start) -> Examination:
    before = _CORE_PATTERN.read_bytes()
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file, socket.socket() as listener:
        os.fchmod(file.fileno(), 0o644)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        listener.setblocking(False)
        found = _inside(start, file.name, listener.getsockname()[1])
        with suppress(BlockingIOError):
            listener.accept()[0].close()
            found["loopback"] = False
    if _CORE_PATTERN.read_bytes() != before:
        found["core_pattern"] = False
    broken = [name for name, held in found.items() if not held]
    return Examination(", ".join(broken), tuple(sorted(found.items())))


def _inside(start: Start, host_file: str, port: int) -> dict[str, bool]:
    """Raises ``StartFailed`` too where the script did not come to its end."""
    file = ScriptFile("canaries.py", (_GUEST / "canaries.py").read_bytes())
    profile = SandboxProfile(limits=_LIMITS)
    job = SandboxJob((file,), file.path, "main", {"host_file": host_file, "port": port}, profile)
    started = start(profile)
    try:
        session.wait_ready(started)
        ended = session.Session(started, session.document_of(job), _LIMITS, None, None, lambda call: None).run()
    finally:
        started.close()
    result = result_of(ended, _LIMITS, Isolation.FULL, 0.0)
    if result.status is not SandboxStatus.OK or not isinstance(result.output, dict) or not result.output:
        said = result.stderr.strip().splitlines()
        raise session.StartFailed(said[-1][:300] if said else str(result.status))
    return {str(name): held is True for name, held in result.output.items()}


def _name() -> str:
    """What a passed test holds for: this boot, this user, these programs; empty where that cannot be told."""
    try:
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text(), os.uname().release, str(os.geteuid())]
        for file in (programs.bwrap(), programs.interpreter().path):
            parts += [file, str(Path(file).stat().st_mtime_ns)]
        parts.append(str(os.readlink("/proc/self/ns/user")))  # noqa: PTH115 -- no path, a name
        parts += [file.read_text() for file in sorted((*_GUEST.glob("*.py"), *Path(__file__).parent.glob("*.py")))]
    except (OSError, programs.ProgramMissing):
        return ""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _file() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("prowess") / "sandbox-test.json"


def _remembered() -> str:
    try:
        found = _file().lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return ""
        document = json.loads(_file().read_text())
    except (OSError, ValueError):
        return ""
    return str(document.get("passed", "")) if isinstance(document, dict) else ""


def _remember(name: str) -> None:
    file = _file()
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"passed": name}))
        fresh.chmod(0o600)
        fresh.replace(file)
