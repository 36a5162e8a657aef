"""Starting one sandbox: the arguments of ``bwrap``, its descriptors, and what our process 1 is told."""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prowess.adapters.sandboxes.bubblewrap import code, filters
from prowess.adapters.sandboxes.bubblewrap.programs import SANDBOX_ID, Interpreter, bwrap, interpreter
from prowess.sandbox.model import MEBIBYTE, SandboxProfile

CERTIFICATES = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted")
PROXY_SOCKET = "/run/net/proxy.sock"
_MERGED = ("lib", "lib32", "lib64", "libx32", "bin", "sbin")


@dataclass(slots=True)
class Started:
    """A sandbox that was started: its process and this side of its descriptors, all to be closed by who holds it."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    channel: socket.socket
    stdout: int
    stderr: int

    def kill(self) -> None:
        """End it now, whatever it does; with ``bwrap`` the kernel ends all of it."""
        self.process.kill()

    def close(self) -> None:
        """End it where it still runs, reap it and close everything."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.control, self.channel):
            end.close()
        for pipe in (self.stdout, self.stderr):
            if pipe >= 0:
                os.close(pipe)
        self.stdout = self.stderr = -1


def start(
    profile: SandboxProfile, landlock: int, *, proxy: str | None = None, command: tuple[str, ...] = ()
) -> Started:
    """Start a sandbox that waits for its job.

    ``proxy``: the socket of the filtering proxy, where there are hosts. ``command``: for a program instead of a script,
    the files that may be started, it first.
    Raises ``OSError`` and ``ProgramMissing``. The kernel ends the sandbox when the *thread* that called this ends.
    """
    kind = filters.machine()
    assert kind is not None, "asked by the self-test"
    seccomp = _pipe_of(filters.outer(kind))
    try:
        argv = [bwrap(), *arguments(profile, interpreter(), seccomp, proxy)]
        told = code.frame(bool(profile.hosts)) + frame_of(setting(profile, landlock, command))
        return spawn(argv, told, inherited=(seccomp,), **_demoted())
    finally:
        os.close(seccomp)


def spawn(
    argv: list[str],
    told: bytes,
    *,
    inherited: tuple[int, ...] = (),
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    **user: Any,
) -> Started:
    """Start the interpreter behind ``argv`` with its two channels, and send it what it is told. Raises ``OSError``."""
    control, inner_control = socket.socketpair()
    channel, inner_channel = socket.socketpair()
    out, inner_out = os.pipe2(os.O_CLOEXEC)
    err, inner_err = os.pipe2(os.O_CLOEXEC)
    fds = (inner_control.fileno(), inner_channel.fileno())
    try:
        process = subprocess.Popen(
            [*argv, interpreter().path, "-I", "-S", "-B", "-c", code.BOOTSTRAP, *map(str, fds)],
            stdin=subprocess.DEVNULL,
            stdout=inner_out,
            stderr=inner_err,
            env=env or {},
            pass_fds=(*fds, *inherited),
            cwd=cwd,
            start_new_session=True,
            **user,
        )
    except BaseException:
        control.close()
        channel.close()
        os.close(out)
        os.close(err)
        raise
    finally:
        inner_control.close()
        inner_channel.close()
        os.close(inner_out)
        os.close(inner_err)
    with suppress(OSError):  # it has ended: whoever waits for it to be ready learns why
        control.sendall(told)
    return Started(process, control, channel, out, err)


def _demoted() -> dict[str, Any]:
    """Root's own processes may write ``core_pattern`` in any namespace: only another user may not."""
    return {"user": SANDBOX_ID, "group": SANDBOX_ID, "extra_groups": []} if os.geteuid() == 0 else {}


def arguments(profile: SandboxProfile, python: Interpreter, seccomp: int, proxy: str | None) -> list[str]:
    """What ``bwrap`` is told."""
    scratch = str(profile.limits.scratch_mb * MEBIBYTE)
    # fmt: off
    argv = [
        "--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
        "--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
        "--setenv", "PATH", "/usr/bin", "--setenv", "LC_ALL", "C.UTF-8", "--setenv", "HOME", "/tmp",
        "--setenv", "MALLOC_ARENA_MAX", "1", "--hostname", "skill", "--seccomp", str(seccomp),
        "--size", str(MEBIBYTE), "--tmpfs", "/", "--ro-bind", "/usr", "/usr",
    ]
    for name in _MERGED:
        place = Path(f"/{name}")
        if place.is_symlink():
            argv += ["--symlink", str(place.readlink()).lstrip("/"), str(place)]
        elif place.is_dir():
            argv += ["--ro-bind", str(place), str(place)]
    for prefix in python.prefixes:
        argv += ["--ro-bind", prefix, prefix]
    argv += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    for area, size in (("/tmp", scratch), ("/out", scratch), ("/skill", str(32 * MEBIBYTE))):
        argv += ["--size", size, "--tmpfs", area]
    # fmt: on
    argv += _declared(profile)
    if profile.hosts:
        argv += ["--setenv", "HTTPS_PROXY", "http://127.0.0.1:3128", "--setenv", "https_proxy", "http://127.0.0.1:3128"]
        for folder in CERTIFICATES:
            argv += ["--ro-bind-try", folder, folder]
        argv += ["--ro-bind", proxy or PROXY_SOCKET, PROXY_SOCKET]
    return [*argv, "--remount-ro", "/", "--chdir", "/out"]


def _declared(profile: SandboxProfile) -> list[str]:
    """Mounts of the paths that the profile names, outer folders first."""
    changed = {*profile.write, *profile.delete}
    argv: list[str] = []
    for path in sorted({*profile.read, *changed}):
        argv += ["--bind" if path in changed else "--ro-bind-try", path, path]
    return argv


def setting(profile: SandboxProfile, landlock: int, command: tuple[str, ...] = ()) -> dict[str, Any]:
    """What process 1 is told before there is a job."""
    kind = filters.machine()
    assert kind is not None, "asked by the self-test"
    limits = profile.limits
    script = filters.script(kind, network=bool(profile.hosts), landlock=landlock)
    return {
        "boot_filter": filters.boot(kind),
        "script_filter": script,
        "command": list(command),
        "outer_filter": b"",
        "own_areas": True,
        "places": {"skill": "/skill", "tmp": "/tmp", "out": "/out"},
        "hosts": bool(profile.hosts),
        "read": list(profile.read),
        "write": list(profile.write),
        "delete": list(profile.delete),
        "interpreter": list(interpreter().prefixes),
        "wall_ms": limits.wall_ms,
        "memory_mb": limits.memory_mb,
        "processes": limits.processes,
        "file_bytes": limits.scratch_mb * MEBIBYTE,
        "artifact_bytes": limits.artifact_bytes,
    }


def frame_of(message: Any) -> bytes:
    """Length and content, as process 1 reads them; marshal needs no import there. Raises ``ValueError``."""
    body = marshal.dumps(message, 2)
    return len(body).to_bytes(4, "big") + body


def _pipe_of(content: bytes) -> int:
    """A descriptor to read a short text from."""
    assert len(content) <= 4096 * 16, "what a pipe holds"
    reading, writing = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(writing, "wb") as end:
        end.write(content)
    return reading
