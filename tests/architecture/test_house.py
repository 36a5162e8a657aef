"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

import prowess.errors

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "prowess"
MESSAGES = SOURCE / "messages"

HEAVY = {"alembic", "fastapi", "langgraph", "pydantic_ai"}
# Alembic itself loads these, and only while migrating.
MAY_LOAD_HEAVY = ("db/migrations/",)

TAKES_TIME = {"datetime.now", "datetime.utcnow", "date.today", "time.sleep", "time.time", "time.time_ns"}


def source_files() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def parse(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text(encoding="utf-8"), file)


def sentences(language: str) -> dict[str, str]:
    merged: dict[str, str] = {}
    for path in sorted((MESSAGES / language).glob("*.json")):
        room = json.loads(path.read_text(encoding="utf-8"))
        twice = merged.keys() & room.keys()
        assert not twice, f"{path.name} repeats {sorted(twice)}"
        merged |= room
    return merged


def placeholders(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def raised_codes() -> Iterator[tuple[str, str]]:
    kinds = set(prowess.errors.__all__)
    for file in source_files():
        for node in ast.walk(parse(file)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            code = node.args[0]
            if name in kinds and isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield code.value, f"{file}:{node.lineno}"


# Sentences


def test_both_languages_have_the_same_files_and_keys() -> None:
    files = {language: {path.name for path in (MESSAGES / language).glob("*.json")} for language in ("en", "zh")}
    assert files["en"] == files["zh"]
    assert sentences("en").keys() == sentences("zh").keys()


def test_both_languages_have_the_same_placeholders() -> None:
    english, chinese = sentences("en"), sentences("zh")
    differing = [
        key for key in english.keys() & chinese.keys() if placeholders(english[key]) != placeholders(chinese[key])
    ]
    assert differing == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_error_has_its_words(language: str) -> None:
    known = sentences(language)
    speechless = [
        f"{prefix}.{code} ({place})"
        for code, place in raised_codes()
        for prefix in ("error", "remedy")
        if not known.get(f"{prefix}.{code}")
    ]
    assert speechless == []


# Imports


def loaded_at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements that run when the module is imported; those for type checkers do not."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from loaded_at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in ("body", "orelse", "finalbody", "handlers"):
                for child in getattr(node, part, ()):
                    yield from loaded_at_import(child.body if isinstance(child, ast.ExceptHandler) else [child])


def imported_packages(statement: ast.Import | ast.ImportFrom) -> set[str]:
    names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else [statement.module or ""]
    return {name.partition(".")[0] for name in names}


def test_heavy_libraries_are_loaded_only_when_needed() -> None:
    eager = [
        f"{file}:{statement.lineno}"
        for file in source_files()
        if not file.startswith(MAY_LOAD_HEAVY)
        for statement in loaded_at_import(parse(file).body)
        if imported_packages(statement) & HEAVY
    ]
    assert eager == []


def test_the_search_for_eager_imports_sees_through_blocks() -> None:
    module = ast.parse(
        "if TYPE_CHECKING:\n import a\nelse:\n import b\ntry:\n import c\nexcept E:\n import d\ndef f():\n import e\n"
    )
    assert [next(iter(imported_packages(s))) for s in loaded_at_import(module.body)] == ["b", "c", "d"]


# Time


def test_time_is_given_not_taken() -> None:
    takers = []
    for file in source_files():
        if file == "kernel/clock.py":
            continue
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                taken = {f"time.{alias.name}" for alias in node.names} & TAKES_TIME
            elif isinstance(node, ast.Attribute):
                taken = {".".join(ast.unparse(node).split(".")[-2:])} & TAKES_TIME
            else:
                continue
            takers += [f"{file}:{node.lineno} {name}" for name in taken]
    assert takers == []


# What lies beside the source


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock", "requirements-uv.lock"])
def test_locks_are_hashed_and_name_no_address(lock: str) -> None:
    content = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in content
    assert "index-url" not in content
    requirements = re.split(r"\n(?=\S)", "\n".join(line for line in content.splitlines() if line.strip()[:1] != "#"))
    unhashed = [entry.splitlines()[0] for entry in requirements if "==" not in entry or "--hash=sha256:" not in entry]
    assert unhashed == []


def test_the_runtime_lock_is_part_of_the_dev_lock() -> None:
    pins = {
        lock: set(re.findall(r"^[a-z0-9][^ ]*==[^ ]+", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))
        for lock in ("requirements.lock", "requirements-dev.lock")
    }
    assert pins["requirements.lock"] - pins["requirements-dev.lock"] == set()


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_readme_begins_with_run_and_check(page: str) -> None:
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for fence in fences for line in fence.splitlines()]
    commands = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert commands[:2] == ["./run", "./check"]
