"""Bind requirement ids to the tests named for them: ``test_w5_…`` belongs to W5, ``test_t4_c20_…`` to T4 and C20.

Shows what would change in tests/requirements.toml; ``--write`` changes it. Titles stay, and so do bindings of tests
with other names, as long as the tests exist. With the first test an ``open = "in work"`` goes, and any other becomes
"rest: …": one test of something planned for later does not finish it, so a person takes that line out.
"""

from __future__ import annotations

import ast
import difflib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "requirements.toml"

Test = ast.FunctionDef | ast.AsyncFunctionDef


def expand(ranges: list[str]) -> list[str]:
    """``["C01-C03"]`` as ``["C01", "C02", "C03"]``."""
    ids = []
    for entry in ranges:
        first, _, last = entry.partition("-")
        width = len(first) - 1
        ids += [f"{first[0]}{n:0{width}d}" for n in range(int(first[1:]), int((last or first)[1:]) + 1)]
    return ids


def find_tests(root: Path = ROOT) -> dict[str, Test]:
    """Every test function under ``tests``, by its node id as pytest writes it."""
    found: dict[str, Test] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name, test in _tests_in(tree.body):
            found[f"{path.relative_to(root).as_posix()}::{name}"] = test
    return found


def _tests_in(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Test]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests_in(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, Test) and node.name.startswith("test"):
            yield prefix + node.name, node


def ids_in_name(node_id: str, ids: set[str]) -> list[str]:
    """The requirement ids that a test's name begins with."""
    named = []
    for word in node_id.rpartition("::")[2].removeprefix("test_").split("_"):
        if word.upper() not in ids or word != word.lower():
            break
        named.append(word.upper())
    return named


def bind(table: dict[str, Any], tests: dict[str, Test]) -> dict[str, Any]:
    """``table`` with its ``tests`` brought up to date."""
    ids = set(expand(table["ids"]))
    bound: dict[str, set[str]] = {key: set() for key in table if key != "ids"}
    for key, nodes in bound.items():
        nodes.update(node for node in table[key].get("tests", ()) if node in tests and not ids_in_name(node, ids))
    for node in tests:
        for key in ids_in_name(node, ids):
            bound[key].add(node)
    result = {"ids": table["ids"]}
    for key, nodes in bound.items():
        entry = {name: value for name, value in table[key].items() if name != "tests"}
        if nodes:
            entry["tests"] = sorted(nodes)
            planned = entry.pop("open", "in work").removeprefix("rest: ")
            if planned != "in work":
                entry["open"] = f"rest: {planned}"
        result[key] = entry
    return result


def render(table: dict[str, Any]) -> str:
    """The tables of the ids as TOML, in their order."""
    blocks = []
    for key, entry in table.items():
        if key == "ids":
            continue
        lines = [f"[{key}]", f"title = {_quoted(entry['title'])}"]
        if "tests" in entry:
            lines += ["tests = [", *(f"    {_quoted(node)}," for node in entry["tests"]), "]"]
        if "open" in entry:
            lines.append(f"open = {_quoted(entry['open'])}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    """Show or write the proposal."""
    old = FILE.read_text(encoding="utf-8")
    head = old[: old.index("\n[") + 1]
    new = head + render(bind(tomllib.loads(old), find_tests()))
    if new == old:
        print("tests/requirements.toml is up to date")
    elif "--write" in sys.argv[1:]:
        FILE.write_text(new, encoding="utf-8")
        print("wrote tests/requirements.toml")
    else:
        name = "tests/requirements.toml"
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "proposed"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
