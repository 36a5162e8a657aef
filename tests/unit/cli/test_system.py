"""``migrate``, ``doctor``, ``eval`` and ``bench``."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from prowess.cli import system
from prowess.errors import NotFound
from prowess.runtime.evaluation import EvaluationReport, Failure, SuiteReport

Run = Callable[..., Result]
Call = Callable[..., Any]


def test_migrating_says_the_revision(run: Run, document: Call) -> None:
    revision = document("migrate")["revision"]
    assert run("migrate").stdout == f"The database is at schema {revision}.\n"


def test_a_machine_that_never_ran_prowess_is_well(run: Run, document: Call) -> None:
    report = document("doctor")
    states = {row["check"]: row["state"] for row in report["checks"]}
    assert report["ok"] is True
    assert states["database"] == "warn"
    assert list(states) == [
        "python", "sqlite", "database", "langgraph", "psycopg", "prompt_toolkit", "model", "resolver",
        "policies", "secrets", "isolation", "terminal", "locale",
    ]  # fmt: skip
    assert all(row["state"] in ("ok", "warn", "missing") for row in report["checks"])
    run("migrate")
    assert {row["check"]: row["state"] for row in document("doctor")["checks"]}["database"] == "ok"


def test_what_is_needed_and_missing_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "langgraph" else find(name, *rest)
    )
    without = run("doctor")
    assert without.exit_code == 1
    assert "pip install langgraph" in without.stdout
    monkeypatch.undo()
    unusable = run("doctor", "--db", f"sqlite:///{tmp_path}", "--lang", "zh")
    assert unusable.exit_code == 1
    assert "缺失" in unusable.stdout


def test_evaluations_pass_and_a_failure_is_shown(run: Run, document: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    report = document("eval", "selector")
    assert report["ok"] is True
    assert [suite["name"] for suite in report["suites"]] == ["selector"]
    failed = EvaluationReport((SuiteReport("selector", 2, (Failure("s1", "a", None),)),))
    monkeypatch.setattr("prowess.runtime.evaluation.evaluate", lambda _suites: failed)
    result = run("eval")
    assert result.exit_code == 1
    assert result.stdout.endswith("selector/s1: expected a, got None\n")


def test_an_unknown_suite_names_the_known(error: Call) -> None:
    found = error("eval", "nope")
    assert found["code"] == "unknown_suite"
    assert "selector" in found["remedy"]


@pytest.fixture
def benchmarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "two_words.py").write_text(
        "def run(args):\n"
        '    """``args``: how often."""\n'
        '    return {"name": "two_words", "figures": {"ms": int(args[0]) if args else 1}, "peer": {}, "ratio": 0.5}\n'
    )
    monkeypatch.setattr(system, "_benchmarks", lambda: folder)


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_is_found_by_name_and_gets_its_arguments(run: Run, document: Call) -> None:
    assert document("bench") == {"benchmarks": ["two-words"]}
    assert run("bench").stdout == "two-words\n"
    assert document("bench", "two-words", "7")["figures"] == {"ms": 7}
    assert document("bench", "two_words")["ratio"] == 0.5
    assert "figures: ms 7\n" in run("bench", "two-words", "7").stdout


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_that_cannot_run_says_what_it_takes(run: Run, error: Call) -> None:
    found = error("bench", "two-words", "--often")
    assert found["code"] == "bench_failed"
    assert "how often" in found["remedy"]
    unknown = error("bench", "other")
    assert (unknown["code"], unknown["detail"]["known"]) == ("bench_unknown", ["two-words"])
    assert "ValueError" in run("bench", "two-words", "x", "--debug").stderr


def test_benchmarks_are_in_the_repository_alone(error: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("prowess.__file__", str(tmp_path / "site" / "lib" / "prowess" / "__init__.py"))
    assert error("bench")["code"] == "bench_missing"


def test_a_benchmark_may_refuse_in_its_own_words(
    error: Call, benchmarks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def run(self, _args: list[str]) -> dict[str, Any]:
            raise NotFound("skill_not_found", skill="x")

    monkeypatch.setattr(system, "_load", lambda _file: Refusing())
    assert error("bench", "two-words")["code"] == "skill_not_found"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("sqlite:////nonexistent/folder/x.db", "database_unavailable"),
        ("mysql://somewhere/else", "database_url"),
        ("what is this", "database_url"),
    ],
)
@pytest.mark.parametrize("command", [("turn", "--text", "hi"), ("migrate",), ("skills", "list")], ids=" ".join)
def test_addresses_that_lead_nowhere_are_refused(error: Call, url: str, code: str, command: tuple[str, ...]) -> None:
    assert error(*command, "--db", url)["code"] == code


def test_an_address_that_cannot_be_used_keeps_its_password(run: Run) -> None:
    result = run("turn", "--text", "hi", "--db", "postgresql://u:secret@127.0.0.1:1/x", "--debug")
    assert result.exit_code == 1
    assert "secret" not in result.output


@pytest.mark.parametrize("args", [(), ("turn",), ("turn", "--text"), ("audit", "list", "--limit", "x")], ids=" ".join)
def test_wrong_usage_is_no_error_object(run: Run, args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert "Error: " in result.output or "Usage: " in result.output


def checks(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {row["check"]: row for row in report["checks"]}


def test_doctor_shows_what_the_environment_sets(document: Call, run: Run, tmp_path: Path) -> None:
    key = document("secrets", "new-key", str(tmp_path / "key"))
    found = checks(
        document(
            "doctor",
            PROWESS_RESOLVER="roles",
            PROWESS_MODE="dont_ask",
            PROWESS_MODEL="some-model",
            PROWESS_MODEL_URL="http://127.0.0.1:9/v1",
            PROWESS_SECRET_KEY_FILE=key["file"],
        )
    )
    assert (found["model"]["state"], found["model"]["detail"]) == ("ok", "some-model")
    assert (found["resolver"]["detail"], found["policies"]["detail"]) == ("roles", "0 rules, mode dont_ask")
    assert (found["secrets"]["state"], found["secrets"]["detail"]) == ("ok", key["key_id"])
    without = checks(document("doctor", PROWESS_MODEL="openai:some-model"))
    assert (without["model"]["state"], without["secrets"]["state"]) == ("warn", "warn")
    assert "OPENAI_API_KEY" in without["model"]["remedy"]
    assert "new-key" in without["secrets"]["remedy"]
    Path(key["file"]).chmod(0o644)
    exposed = run("doctor", "--json", PROWESS_SECRET_KEY_FILE=key["file"])
    assert exposed.exit_code == 1


def test_doctor_looks_at_a_database_without_touching_it(run: Run, tmp_path: Path) -> None:
    absent = tmp_path / "absent.db"
    assert run("doctor", "--db", f"sqlite:///{absent}", "--json").exit_code == 0
    assert not absent.exists()


def test_doctor_tells_an_older_database_from_a_newer_one(run: Run, tmp_path: Path) -> None:
    import sqlite3

    file = tmp_path / "old.db"
    for revision, code in (("0001", 0), ("9999", 1)):
        with sqlite3.connect(file) as connection:
            connection.execute("DROP TABLE IF EXISTS alembic_version")
            connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
            connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
        connection.close()
        done = run("doctor", "--db", f"sqlite:///{file}", "--json")
        (row,) = [row for row in json.loads(done.stdout)["checks"] if row["check"] == "database"]
        assert (done.exit_code, row["state"]) == (code, "warn" if code == 0 else "missing")
        assert revision in row["detail"]
