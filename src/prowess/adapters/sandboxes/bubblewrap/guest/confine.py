"""What a process gives up before it runs what is not ours.

Runs inside the sandbox with the standard library of Python 3.9 alone.
"""

from __future__ import annotations

import marshal
import os
import resource

from prowess.adapters.sandboxes.bubblewrap.guest import kernel, quick_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MEBIBYTE = 1024 * 1024
_READ = kernel.READ_FILE | kernel.READ_DIR
_WRITE = kernel.WRITE_FILE | kernel.TRUNCATE | kernel.MAKE_REG | kernel.MAKE_DIR | _READ
_DELETE = kernel.REMOVE_FILE | kernel.REMOVE_DIR | kernel.READ_DIR
_SCRATCH = _WRITE | _DELETE | kernel.REFER | kernel.MAKE_SYM
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROXY_PORT = 3128


def wait_for_job(setting: dict[str, Any], abi: int, source: int, done: int) -> dict[str, Any]:
    """Give everything up, say so, and wait for the job. Raises ``OSError``; ends the process where none comes."""
    os.setsid()
    kernel.end_with_parent()
    _give_up(setting, abi)
    os.write(done, b"1")
    os.close(done)
    # What is first used after a fork is copied then: better now than while somebody waits.
    quick_json.loads(quick_json.dumps({"warm": compile("pass", "<warm>", "exec").co_name}).decode())
    with os.fdopen(source, "rb") as pipe:
        text = pipe.read()
    if not text:
        os._exit(0)
    job: dict[str, Any] = marshal.loads(text)
    return job


def _give_up(setting: dict[str, Any], abi: int) -> None:
    """Limits, Landlock and the last filter, in this order: nothing of it can be taken back. Raises ``OSError``."""
    memory = setting["memory_mb"] * _MEBIBYTE
    limits = [
        (resource.RLIMIT_AS, memory + _address_space()),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_NPROC, setting["processes"] + 1),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, setting["file_bytes"]),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_CPU, setting["wall_ms"] // 1000 * setting["processes"] + 1),
    ]
    for limit, value in limits:
        resource.setrlimit(limit, (value, value))
    rules = _rules(setting) + [(path, kernel.EXECUTE | kernel.READ_FILE) for path in setting["command"]]
    kernel.restrict(rules, {_PROXY_PORT: 1} if setting["hosts"] else {}, abi)
    kernel.install_filter(setting["script_filter"])


def _address_space() -> int:
    with open("/proc/self/statm", "rb") as found:
        return int(found.read().split()[0]) * resource.getpagesize()


def _rules(setting: dict[str, Any]) -> list[tuple[str, int]]:
    """Paths and what may be done below them."""
    places = setting["places"]
    rules = [("/usr", _READ), (places["skill"], _READ), (places["tmp"], _SCRATCH), (places["out"], _SCRATCH)]
    if setting["own_areas"]:
        rules += [("/proc", _READ), ("/etc", _READ)]
    rules += [("/dev/" + name, kernel.READ_FILE | kernel.WRITE_FILE) for name in _DEVICES]
    rules += [(path, _READ) for path in setting["read"] + setting["interpreter"]]
    both = set(setting["write"]) & set(setting["delete"])
    rules += [(path, _WRITE | (kernel.REFER if path in both else 0)) for path in setting["write"]]
    rules += [(path, _DELETE | (kernel.REFER if path in both else 0)) for path in setting["delete"]]
    return rules
