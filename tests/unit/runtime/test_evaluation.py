"""The evaluations that ship with Prowess."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prowess.errors import NotFound
from prowess.runtime.evaluation import SUITES, evaluate, load_cases


def test_every_case_passes() -> None:
    report = evaluate()
    assert [failure for suite in report.suites for failure in suite.failures] == []
    assert {suite.name: suite.total for suite in report.suites} == {
        name: len(list(load_cases(name))) for name in SUITES
    }


def test_case_ids_are_unique_and_the_kinds_are_covered() -> None:
    cases = list(load_cases("selector"))
    assert len({case["id"] for case in cases}) == len(cases)
    assert sum(case.get("trigger") == "explicit" for case in cases) >= 10
    assert sum("bound" in case for case in cases) >= 6
    assert sum(case.get("scope") == "group_chat" for case in cases) >= 5
    assert sum(case["expect"] is None for case in cases) >= 20


def test_a_wrong_case_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"id": "w", "text": "hello", "expect": "memory-recall"}
    monkeypatch.setattr("prowess.runtime.evaluation.load_cases", lambda name: iter([wrong]))
    report = evaluate(("selector",))
    assert not report.ok
    failure = report.suites[0].failures[0]
    assert (failure.id, failure.expected, failure.got) == ("w", "memory-recall", None)


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(NotFound, match="suite_not_found"):
        evaluate(("nope",))


def test_it_opens_no_database() -> None:
    program = (
        "import sys, prowess.db.engine as engine\n"
        "def refuse(*args): raise AssertionError('a database was opened')\n"
        "engine.Database.__init__ = refuse\n"
        "from prowess.runtime.evaluation import evaluate\n"
        "sys.exit(0 if evaluate().ok else 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
