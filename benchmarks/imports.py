"""CPU of ``import prowess`` with every public name, against ``import sqlalchemy, pydantic``.

prowess bench imports [ROUNDS]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import Any

_BARE = "import prowess"
_WHOLE = "import prowess; [getattr(prowess, name) for name in prowess.__all__]"
_PEER = "import sqlalchemy, pydantic"


def run(args: list[str]) -> dict[str, Any]:
    """``args``: how many rounds (default 7); each runs the three in turn."""
    rounds = int(args[0]) if args else 7
    programs = (_BARE, _WHOLE, _PEER)
    for program in programs:
        _cpu(program)
    spent: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(rounds):
        for program in programs:
            spent[program].append(_cpu(program))
    bare, whole, peer = (sorted(spent[program])[rounds // 2] for program in programs)
    return {
        "name": "imports",
        "figures": {"import_ms": round(bare * 1000), "every_public_name_ms": round(whole * 1000)},
        "peer": {"name": _PEER, "import_ms": round(peer * 1000)},
        "ratio": round(bare / peer, 3),
        "ratio_every_public_name": round(whole / peer, 3),
        "target": 1.5,
    }


def _cpu(program: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
