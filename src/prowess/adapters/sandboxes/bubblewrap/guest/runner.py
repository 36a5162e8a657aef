"""Process 1 of a sandbox: takes one job over its channel, starts the script, watches, reaps, reports, ends.

The script never has the control channel: it is closed before the script's process starts, and no process of the sandbox
can look into this one. Runs with the standard library of Python 3.9 alone; a frame is four bytes of length, and marshal
from the host, which is trusted here, or JSON to it, where nothing is.
"""

from __future__ import annotations

import _signal
import binascii
import gc
import marshal
import os
import select
import time

from prowess.adapters.sandboxes.bubblewrap.guest import kernel, program, quick_json, script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WATCH_MS = 20
"""how often the memory of all processes is added up"""
_MAX_ARTIFACTS = 100
_MAX_FILES = 10_000
"""in each writable area"""


def serve(control: int, channel: int, setting: dict[str, Any]) -> None:
    """Take the job, run it, report. ``setting`` is what the host knows before there is a job."""
    # Python's own handler would turn a SIGINT that the script sends into an exception here.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    kernel.hide_memory()
    kernel.no_new_privileges()
    if setting["outer_filter"]:  # without bubblewrap, which would have loaded it
        kernel.stand_in_for_init()
        kernel.install_filter(setting["outer_filter"])
    if not setting["command"]:
        kernel.install_filter(setting["boot_filter"])
    abi = kernel.landlock_version()
    gc.collect()
    gc.freeze()
    child, feed = _prepare(control, channel, setting, abi)
    if setting["hosts"]:  # after the fork: the script's process has nothing of it
        from prowess.adapters.sandboxes.network import forward

        forward.start()
    _send(control, {"ready": {"landlock": abi}})
    job = _receive(control)
    if job is None:
        return
    _lay_out(setting["places"]["skill"], job.pop("files"))
    started = time.monotonic()
    with os.fdopen(feed, "wb") as pipe:
        pipe.write(marshal.dumps(job))
    reason = _watch(child, control, started + setting["wall_ms"] / 1000, setting)
    ended = time.monotonic()
    _kill_all()
    status, peak_kb = _reap(child)
    artifacts = _artifacts(setting["places"]["out"], setting["artifact_bytes"]) if reason == "exit" else []
    report = {"reason": reason, "status": status, "peak_kb": peak_kb, "duration_ms": (ended - started) * 1000}
    _send(control, {**report, "artifacts": artifacts})


def _prepare(control: int, channel: int, setting: dict[str, Any], abi: int) -> tuple[int, int]:
    """Start the process of the script, which gives up all it has to and waits: its id, and where its job is written.

    Ends this process where it could not give it up; it says why on standard error.
    """
    job_read, job_write = os.pipe()
    done_read, done_write = os.pipe()
    child = os.fork()
    if child == 0:
        for end in (control, job_write, done_read):
            os.close(end)
        become = program.become if setting["command"] else script.become
        become(setting, channel, abi, job_read, done_write)
    for end in (channel, job_read, done_write):
        os.close(end)
    if os.read(done_read, 1) != b"1":
        os._exit(1)
    os.close(done_read)
    return child, job_write


def _kill_all() -> None:
    """All processes but this: in its namespace, or of its user, which is then of this run alone."""
    assert os.getuid() != 0
    try:
        os.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass


def _watch(child: int, control: int, deadline: float, setting: dict[str, Any]) -> str:
    """Wait for the end of the script's process, its time, the host's word, or too much memory."""
    ended = os.pidfd_open(child)
    baseline = _own_kb("self")
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout"
        events = dict(poll.poll(min(_WATCH_MS, left * 1000 + 1)))
        if ended in events:
            return "exit"
        if control in events:
            return "cancel"
        if _held_kb(baseline) > setting["memory_mb"] * 1024:
            return "memory"
        if setting["own_areas"] and _too_many_files():
            return "disk"


def _too_many_files() -> bool:
    """Empty files take no room in a tmpfs, and kernel memory all the same."""
    found = [os.statvfs(area) for area in ("/tmp", "/out")]
    return any(area.f_files - area.f_ffree > _MAX_FILES for area in found)


def _held_kb(baseline: int) -> int:
    """The memory of all processes here but this one, beyond what each has from it by being forked."""
    held = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            held += max(_own_kb(name) - baseline, 0)
    return held


def _own_kb(process: str) -> int:
    """Anonymous and shared memory of a process in KiB, as the kernel says; 0 where it has ended."""
    try:
        with open("/proc/" + process + "/status", "rb") as found:
            lines = found.read().split(b"\n")
        fields = {line.split(b":")[0]: line.split()[1:] for line in lines if b":" in line}
        # Without a namespace others are seen too, and are not counted.
        if int(fields[b"Uid"][0]) != os.getuid():
            return 0
        return int(fields[b"RssAnon"][0]) + int(fields[b"RssShmem"][0])
    except (OSError, KeyError, IndexError, ValueError):
        return 0


def _reap(child: int) -> tuple[int, int]:
    """The wait status of the script's process, and the most memory that any process here held."""
    status, peak = 0, 0
    while True:
        try:
            pid, found, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return status, peak
        peak = max(peak, usage.ru_maxrss)
        if pid == child:
            status = found


def _lay_out(folder: str, files: list[dict[str, Any]]) -> None:
    for entry in files:
        path = folder + "/" + entry["path"]
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        mode = 0o755 if entry["executable"] else 0o644
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            view = memoryview(entry["content"])
            while view:
                view = view[os.write(made, view) :]
        finally:
            os.close(made)


def _artifacts(area: str, limit: int) -> list[dict[str, Any]] | None:
    """The regular files below an area; null where there are too many or too large ones. All others are dead by now."""
    found: list[dict[str, Any]] = []
    total = 0
    for folder, _, names, folder_fd in os.fwalk(area):
        for name in sorted(names):
            try:
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
            except OSError:
                continue
            with os.fdopen(opened, "rb") as file:
                what = os.fstat(opened)
                if what.st_mode & 0o170000 != 0o100000:
                    continue
                total += what.st_size
                if total > limit or len(found) >= _MAX_ARTIFACTS:
                    return None
                content = binascii.b2a_base64(file.read(limit + 1), newline=False).decode()
            path = os.path.join(folder, name)[len(area) + 1 :]
            found.append({"path": path, "content": content, "executable": bool(what.st_mode & 0o100)})
    return found


def _send(control: int, message: Any) -> None:
    frame = quick_json.dumps(message)
    view = memoryview(len(frame).to_bytes(4, "big") + frame)
    while view:
        view = view[os.write(control, view) :]


def _receive(control: int) -> dict[str, Any] | None:
    head = _exactly(control, 4)
    if head is None:
        return None
    body = _exactly(control, int.from_bytes(head, "big"))
    found: dict[str, Any] | None = None if body is None else marshal.loads(body)
    return found


def _exactly(control: int, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        chunk = os.read(control, count - len(parts))
        if not chunk:
            return None
        parts += chunk
    return bytes(parts)
