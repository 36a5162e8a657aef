"""What checking a tree of skills costs, against bare YAML loading of the same front matters.

The check is a whole process, its start and end included; the peer is ``yaml.safe_load`` alone, within this process.
Both are CPU seconds (user and system), the least of three rounds. ``ratio`` is check / peer; the target is at most 3.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROUNDS = 3
SYNTHETIC_SKILLS = 600
_SKIPPED = {".git", "node_modules", ".venv", "__pycache__"}
_BY_HAND = "import sys; from prowess.validation.syntax import check_tree; check_tree(sys.argv[1:], print)"


def run(paths: list[str]) -> dict[str, Any]:
    """``{"name", "figures", "peer", "ratio"}`` for skill folders or trees, or 600 made-up skills if none is given."""
    if not paths:
        with tempfile.TemporaryDirectory() as folder:
            make_skills(Path(folder), SYNTHETIC_SKILLS)
            return run([folder])
    fronts = [front for path in paths for front in _front_matters(Path(path))]
    command = [sys.executable, *_check_command(), *paths]
    check = min(_child_seconds(command) for _ in range(ROUNDS))
    peer = min(_load_seconds(fronts) for _ in range(ROUNDS))
    return {
        "name": "skills_check",
        "figures": {"skill_files": len(fronts), "cpu_seconds": round(check, 4)},
        "peer": {"name": "yaml.safe_load", "cpu_seconds": round(peer, 4)},
        "ratio": round(check / peer, 3),
    }


def _check_command() -> list[str]:
    if importlib.util.find_spec("prowess.cli.main") is None:
        return ["-c", _BY_HAND]
    return ["-m", "prowess.cli.main", "skills", "check", "--level", "syntax", "--json"]


def _child_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1) or not done.stdout.startswith(b"{"):
        raise RuntimeError(f"the check ended with {done.returncode}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _load_seconds(fronts: list[str]) -> float:
    started = time.process_time()
    for front in fronts:
        try:
            yaml.safe_load(front)
        except yaml.YAMLError:
            continue
    return time.process_time() - started


def _front_matters(root: Path) -> list[str]:
    fronts = []
    for path in sorted(root.rglob("SKILL.md")):
        if _SKIPPED.intersection(path.parts) or not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        if lines and lines[0].rstrip() == "---":
            end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), len(lines))
            fronts.append("\n".join(lines[1:end]))
    return fronts


def make_skills(folder: Path, number: int) -> None:
    """Write ``number`` skills of the usual size, the same in every run."""
    for index in range(number):
        name = f"skill-{index:04d}"
        sentence = f"Reads the report of day {index} and writes a summary of it. Use when somebody asks for figures, "
        lines = ["---", f"name: {name}", f"description: {sentence * 3}and nothing else will do."]
        if index % 5 == 0:
            lines += ["license: Apache-2.0", "metadata:", f"  author: team-{index % 7}", '  version: "1.0.0"']
        if index % 50 == 0:
            lines += ["allowed-tools: Read Bash(git log *)"]
        lines += ["---", "", f"# {name}", ""] + [f"{step}. Do step {step} with care." for step in range(1, 120)]
        place = folder / name
        (place / "references").mkdir(parents=True)
        (place / "SKILL.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (place / "references" / "notes.md").write_text("Notes.\n", encoding="utf-8")


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1:])))
