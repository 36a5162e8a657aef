"""Every requirement is bound to tests or listed as open, and every test named for one is bound to it."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script("bind_requirements")


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tests() -> dict[str, Any]:
    return script.find_tests()


def test_every_id_is_listed_once_and_in_order(table: dict[str, Any]) -> None:
    assert [key for key in table if key != "ids"] == script.expand(table["ids"])


def test_every_id_has_a_title_and_tests_or_says_that_it_is_open(table: dict[str, Any]) -> None:
    faults = []
    for key in script.expand(table["ids"]):
        entry = table[key]
        unknown = entry.keys() - {"title", "tests", "open"}
        if unknown:
            faults.append(f"{key}: unknown keys {sorted(unknown)}")
        if not entry.get("title"):
            faults.append(f"{key}: no title")
        if not entry.get("tests") and not entry.get("open"):
            faults.append(f"{key}: neither tests nor open")
        if entry.get("tests") and entry.get("open") and not entry["open"].startswith("rest:"):
            faults.append(f'{key}: has tests, so its open must begin with "rest:" or go')
    assert faults == []


def test_every_bound_test_exists_and_runs(table: dict[str, Any], tests: dict[str, Any]) -> None:
    faults = []
    for key in script.expand(table["ids"]):
        for node in table[key].get("tests", ()):
            if node not in tests:
                faults.append(f"{key}: no test {node}")
            elif re.search(r"mark\.(skip|xfail)", " ".join(map(ast.unparse, tests[node].decorator_list))):
                faults.append(f"{key}: {node} is marked as skipped or failing")
    assert faults == []


def test_every_test_named_for_an_id_is_bound_to_it(table: dict[str, Any], tests: dict[str, Any]) -> None:
    ids = set(script.expand(table["ids"]))
    unbound = [
        f"{key}: {node}"
        for node in tests
        for key in script.ids_in_name(node, ids)
        if node not in table[key].get("tests", ())
    ]
    assert unbound == [], "run python scripts/bind_requirements.py --write"


def test_binding_reads_ids_from_names_and_keeps_other_bindings() -> None:
    ids = {"W5", "C01", "T4", "C20"}
    assert script.ids_in_name("tests/a.py::test_w5_replay", ids) == ["W5"]
    assert script.ids_in_name("tests/a.py::TestX::test_t4_c20_both", ids) == ["T4", "C20"]
    assert script.ids_in_name("tests/a.py::test_other_w5", ids) == []
    assert script.ids_in_name("tests/a.py::test_c1_is_no_id", ids) == []

    before = {
        "ids": ["W5", "W6", "T4", "T5"],
        "W5": {"title": "five", "open": "in work"},
        "W6": {"title": "six", "tests": ["a.py::test_by_hand", "a.py::test_gone"], "open": "rest: later"},
        "T4": {"title": "four", "open": "issue 9"},
        "T5": {"title": "five", "open": "issue 9"},
    }
    after = script.bind(before, dict.fromkeys(["a.py::test_by_hand", "a.py::test_t4", "a.py::test_w5_w6_both"]))
    assert after == {
        "ids": ["W5", "W6", "T4", "T5"],
        "W5": {"title": "five", "tests": ["a.py::test_w5_w6_both"]},
        "W6": {"title": "six", "tests": ["a.py::test_by_hand", "a.py::test_w5_w6_both"], "open": "rest: later"},
        "T4": {"title": "four", "tests": ["a.py::test_t4"], "open": "rest: issue 9"},
        "T5": {"title": "five", "open": "issue 9"},
    }
    assert tomllib.loads(script.render(after)) == {key: entry for key, entry in after.items() if key != "ids"}
