"""The evaluations that ship with Prowess."""

from __future__ import annotations

import subprocess
import sys

import pytest

from prowess.errors import InvalidInput
from prowess.runtime.evaluation import cases, evaluate, suite_names


def test_every_case_passes() -> None:
    report = evaluate()
    assert [failure for suite in report.suites for failure in suite.failures] == []
    assert {suite.name: suite.total for suite in report.suites} == {name: len(cases(name)) for name in suite_names()}


def test_case_ids_are_unique_and_the_kinds_are_covered() -> None:
    for name in suite_names():
        ids = [case["id"] for case in cases(name)]
        assert len(set(ids)) == len(ids)
    written = cases("selector")
    triggers = [case["expect"]["trigger"] for case in written if case["expect"] and "trigger" in case["expect"]]
    assert triggers.count("explicit") >= 10
    assert triggers.count("rule") >= 40
    assert sum("bound" in case for case in written) >= 4
    assert sum(case.get("scope") == "group_chat" for case in written) >= 5
    assert sum(case["expect"] is None for case in written) >= 30


def test_a_wrong_case_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"id": "w", "text": "hello", "expect": {"skill": "memory-recall", "trigger": "rule"}}
    monkeypatch.setattr("prowess.runtime.evaluation.cases", lambda suite: (wrong,))
    report = evaluate(("selector",))
    assert not report.ok
    failure = report.suites[0].failures[0]
    assert (failure.case, failure.expected, failure.got) == ("w", wrong["expect"], None)


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unknown_suite"):
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
