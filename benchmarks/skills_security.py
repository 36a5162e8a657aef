"""Level 3 on real skills and on malicious ones: verdicts, and what a skill costs.

Paths are trees of skills that are taken to be benign; the malicious ones are the project's own (``tests/data``), and
any below ``--malicious PATH``. ``--peer PATH`` is the environment of an installed ``skill-scanner``
(cisco-ai-skill-scanner), which scans the first 200 benign skills without a model, as a whole process; so does Prowess.
``ratio`` is Prowess / peer in CPU seconds; the target is at most 0.05. Without a path, made-up skills stand in for
benign ones, and say nothing of false alarms.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

PEER_SKILLS = 200
SYNTHETIC_SKILLS = 100
_OWN = Path(__file__).resolve().parents[1] / "tests" / "data" / "malicious_skills"


def run(arguments: list[str]) -> dict[str, Any]:
    """``{"name", "figures", "peer", "ratio"}``; see the head of this module for the arguments."""
    from prowess.skills.skill_md import find_skill_folders

    paths, malicious, peer = _options(arguments)
    with tempfile.TemporaryDirectory() as place:
        if not paths:
            _neighbour("skills_check").make_skills(Path(place, "benign"), SYNTHETIC_SKILLS)
            paths = [str(Path(place, "benign"))]
        benign = [folder for path in paths for folder in find_skill_folders(path)[0]]
        own = _own_malicious(Path(place, "malicious"))
        foreign = [folder for path in malicious for folder in find_skill_folders(path)[0]]
        figures = {"benign": _scan(benign), "malicious": _scan(own)}
        if foreign:
            figures["malicious_given"] = _scan(foreign)
        compared = _against(peer, benign[:PEER_SKILLS], Path(place, "compared")) if peer else {}
    return {
        "name": "skills_security",
        "figures": {**figures, **compared.get("figures", {})},
        "peer": compared.get("peer", {}),
        "ratio": compared.get("ratio"),
    }


def _neighbour(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _options(arguments: list[str]) -> tuple[list[str], list[str], str | None]:
    paths: list[str] = []
    malicious: list[str] = []
    peer = None
    pending = iter(arguments)
    for word in pending:
        if word == "--peer":
            peer = next(pending)
        elif word == "--malicious":
            malicious.append(next(pending))
        elif word == "--corpus":
            paths.append(next(pending))
        else:
            paths.append(word)
    return paths, malicious, peer


def _scan(folders: list[str]) -> dict[str, Any]:
    from prowess.validation.security.check import check_security

    verdicts: Counter[str] = Counter()
    started = time.process_time()
    for folder in folders:
        verdicts[check_security(folder).verdict] += 1
    spent = time.process_time() - started
    count = max(1, len(folders))
    return {
        "skills": len(folders),
        **{name: verdicts[name] for name in ("pass", "review", "reject")},
        "reject_percent": round(100 * verdicts["reject"] / count, 2),
        "review_percent": round(100 * verdicts["review"] / count, 2),
        "cpu_ms_a_skill": round(1000 * spent / count, 2),
    }


def _own_malicious(place: Path) -> list[str]:
    import yaml

    folders = []
    for source in sorted(_OWN.glob("*.yaml")):
        for skill in yaml.safe_load(source.read_text("utf-8")):
            folder = place / skill["name"]
            for path, text in skill["files"].items():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode("latin-1" if text.startswith("\x7fELF") else "utf-8"))
            folders.append(str(folder))
    return folders


def _against(peer: str, folders: list[str], place: Path) -> dict[str, Any]:
    """Both scanners as one process each over copies of the same skills."""
    for index, folder in enumerate(folders):
        shutil.copytree(folder, place / f"{index:03d}" / Path(folder).name, symlinks=True)
    ours = [sys.executable, "-m", "prowess.cli.main", "skills", "check", "--level", "security", "--json", str(place)]
    theirs = [str(Path(peer, "bin", "skill-scanner")), "scan-all", str(place), "--recursive", "--format", "json"]
    mine, other = _child_seconds(ours), _child_seconds(theirs)
    return {
        "figures": {"compared_skills": len(folders), "cpu_seconds": round(mine, 3)},
        "peer": {"name": "cisco-ai-skill-scanner", "cpu_seconds": round(other, 3)},
        "ratio": round(mine / other, 4),
    }


def _child_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if b"{" not in done.stdout:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:])))
