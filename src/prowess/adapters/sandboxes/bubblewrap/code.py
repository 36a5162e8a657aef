"""The code that runs inside, as the sandbox's own Python compiled it; sent over the channel, so nothing is mounted."""

from __future__ import annotations

import marshal
import subprocess
from functools import cache
from pathlib import Path

from prowess.adapters.sandboxes.bubblewrap.programs import interpreter

_GUEST = "prowess.adapters.sandboxes.bubblewrap.guest"
_MODULES = ("kernel", "quick_json", "prowess_skill", "confine", "program", "script", "runner")
_FORWARD = "prowess.adapters.sandboxes.network.forward"
_LIMIT_S = 20

BOOTSTRAP = """\
import os, sys, marshal
control, channel = int(sys.argv[1]), int(sys.argv[2])
def read(count):
    found = bytearray()
    while len(found) < count:
        chunk = os.read(control, count - len(found))
        if not chunk:
            os._exit(0)
        found += chunk
    return bytes(found)
kind = type(sys)
for name, code in marshal.loads(read(int.from_bytes(read(4), "big"))):
    module = sys.modules[name] = kind("prowess_skill" if name.endswith(".prowess_skill") else name)
    if code is None:
        module.__path__ = []
    else:
        exec(marshal.loads(code), module.__dict__)
        if name.endswith(".prowess_skill"):
            sys.modules["prowess_skill"] = module
setting = marshal.loads(read(int.from_bytes(read(4), "big")))
serve = sys.modules["prowess.adapters.sandboxes.bubblewrap.guest.runner"].serve
serve(control, channel, setting)
os._exit(0)
"""
"""What the Python of a sandbox is started with: takes the code from its channel, then the setting, and serves."""

_COMPILER = """\
import marshal, sys
names = marshal.loads(sys.stdin.buffer.read())
made = [(name, marshal.dumps(compile(source, "<prowess " + name.rpartition(".")[2] + ">", "exec", dont_inherit=True)))
        for name, source in names]
sys.stdout.buffer.write(marshal.dumps(made, 2))
"""


@cache
def frame(network: bool = False) -> bytes:
    """Length and code of all modules, as the bootstrap reads them. Raises ``OSError``, ``SubprocessError``."""
    sources = [(name, file.read_bytes()) for name, file in _files(network)]
    argv = [interpreter().path, "-I", "-S", "-B", "-c", _COMPILER]
    found = subprocess.run(
        argv, input=marshal.dumps(sources, 2), stdout=subprocess.PIPE, check=True, env={}, timeout=_LIMIT_S
    )
    packages = {name.rpartition(".")[0] for name, _ in sources}
    parents = {".".join(name.split(".")[:depth]) for name in packages for depth in range(1, name.count(".") + 2)}
    body = marshal.dumps([*((name, None) for name in sorted(parents)), *marshal.loads(found.stdout)], 2)
    return len(body).to_bytes(4, "big") + body


def _files(network: bool) -> list[tuple[str, Path]]:
    here = Path(__file__).parent
    files = [(f"{_GUEST}.{name}", here / "guest" / f"{name}.py") for name in _MODULES]
    return [(_FORWARD, here.parent / "network" / "forward.py"), *files] if network else files
