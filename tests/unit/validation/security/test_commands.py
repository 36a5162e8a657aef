"""Which programs a line really starts (C40)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.validation.security.kit import scan, warned

from prowess.validation.security.commands import programs_of
from prowess.validation.security.words import UNKNOWN, pipelines

SUDO = [
    "sudo id",
    "/usr/bin/sudo id",
    "su\\do id",
    '"su"do id',
    "$'\\x73udo' id",
    "env sudo id",
    "env -i A=1 sudo id",
    "sh -c 'sudo id'",
    'bash -lc "sudo id"',
    "echo id | xargs -n 1 sudo",
    "find . -exec sudo rm {} \\;",
    "timeout 5 sudo id",
    "nohup nice -n 5 sudo id &",
    "$(echo sudo) id",
    "a=sudo; $a id",
    "if true; then sudo id; fi",
    "x=$(sudo id)",
    "cat <(sudo id)",
    "eval 'sudo id'",
    "busybox env sudo id",
    "true && { sudo id; }",
    "sud\\\no id",
]


def names(line: str) -> list[str]:
    return [program.name for program in programs_of(pipelines(line))]


@pytest.mark.parametrize("line", SUDO)
def test_c40_the_same_command_in_disguise_is_the_same_command(line: str) -> None:
    assert "sudo" in names(line)


@pytest.mark.parametrize("line", ["echo sudo", "# sudo id", "echo 'run sudo id'", "pseudo id", "cat <<'X'\nsudo id\nX"])
def test_c40_a_word_is_no_command(line: str) -> None:
    assert "sudo" not in names(line)


def test_c40_what_only_the_run_can_know_is_unknown() -> None:
    assert names('"$1" id') == [UNKNOWN]


PERMITTED = "kind: tool\npermissions:\n  shell: {allowed: true, commands: [ls]}\n"


@pytest.mark.parametrize("line", SUDO)
def test_c40_v3_a_skill_that_may_list_runs_nothing_else(tmp_path: Path, line: str) -> None:
    report = scan(tmp_path / "lister", **{"prowess.yaml": PERMITTED, "scripts/run.sh": f"#!/bin/sh\n{line}\n"})
    assert report.verdict == "reject"
    found = {issue.detail["what"]: issue.line for issue in report.issues if issue.code == "sec_undeclared"}
    assert 2 <= found["sudo"] <= 3


def test_c40_an_unknown_command_is_asked_about(tmp_path: Path) -> None:
    report = scan(tmp_path / "lister", **{"prowess.yaml": PERMITTED, "scripts/run.sh": '#!/bin/sh\nls\n"$1"\n'})
    assert (report.verdict, warned(report)) == ("review", {"sec_undecided_command"})


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="su do'\"\\$()`|;&<>{}\n#=-c", max_size=60))
def test_c40_any_text_is_read_without_an_exception(line: str) -> None:
    for program in programs_of(pipelines(line)):
        assert isinstance(program.name, str)
