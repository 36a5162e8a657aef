"""``prowess sandbox``: files of scripts and of permissions, and what is said of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_v2_a_file_is_run_with_its_input(document: Callable[..., Any], tmp_path: Path) -> None:
    script = write(tmp_path, "add.py", "def main(a, b):\n    print('adding')\n    return {'sum': a + b}\n")
    found = document("sandbox", "run", script, "--input", '{"a": 1, "b": 2}')
    assert found.pop("duration_ms") > 0
    assert found.pop("peak_mb") > 5
    assert found == {
        "status": "ok", "output": {"sum": 3}, "stdout": "adding\n", "stderr": "", "isolation": "full", "denied": [],
        "artifacts": [], "calls": 0,
    }  # fmt: skip
    assert not (tmp_path / "cli.db").exists()


@pytest.mark.parametrize("lead", ["", "permissions:\n  "])
def test_v2_permissions_are_the_section_of_a_skill(run: Run, tmp_path: Path, lead: str) -> None:
    # Not below the test's own folder, which is closed to the sandbox's user.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        data = Path(folder)
        data.chmod(0o755)
        (data / "a.txt").write_text("of the data")
        script = write(tmp_path, "s.py", f"def main(): return open('{data}/a.txt').read()")
        indented = "\n  " if lead else "\n"
        sections = lead + f"filesystem:{indented}  read: ['{data}/**']\nconstraints:\n  max_execution_time: 5000\n"
        permissions = write(tmp_path, "p.yaml", sections)
        allowed = json.loads(run("sandbox", "run", script, "--permissions", permissions, "--json").stdout)
        assert (allowed["status"], allowed["output"]) == ("ok", "of the data")
        denied = run("sandbox", "run", script, "--json")
        assert denied.exit_code == 1
        told = json.loads(denied.stdout)
        assert (told["status"], told["denied"]) == ("denied", [f"file {data}/a.txt"])
        assert told["error"]["code"] == "sandbox_denied"
        assert f"{data}/a.txt" in told["error"]["message"]


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("p.yaml", "filesystem: {read: ['/**']}", "sandbox_permissions"),
        ("p.yaml", "filesystem: {read: ['/data/*.txt']}", "sandbox_path"),
        ("p.yaml", "filesystem: {reed: ['/data/**']}", "sandbox_permissions"),
        ("p.yaml", "- a list", "sandbox_permissions"),
        ("p.yaml", "a: [", "sandbox_permissions"),
        ("p.yaml", "x" * 70_000, "sandbox_file_large"),
    ],
)
def test_v2_permissions_that_cannot_be_read_are_refused(
    error: Callable[..., dict[str, Any]], tmp_path: Path, name: str, text: str, code: str
) -> None:
    script = write(tmp_path, "s.py", "x = 1")
    assert error("sandbox", "run", script, "--permissions", write(tmp_path, name, text))["code"] == code


def test_v2_what_is_no_script_or_input_is_refused(error: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", "x = 1")
    assert error("sandbox", "run", str(tmp_path / "none.py"))["code"] == "sandbox_file"
    assert error("sandbox", "run", str(tmp_path))["code"] == "sandbox_file"
    assert error("sandbox", "run", write(tmp_path, "l.py", "#" * 1_100_000))["code"] == "sandbox_file_large"
    for given in ("[1]", "{", "1"):
        assert error("sandbox", "run", script, "--input", given)["code"] == "sandbox_input"
    assert error("sandbox", "run", script, PROWESS_SANDBOX="none")["code"] == "sandbox_option"


def test_v2_the_machine_is_tested_and_the_operator_may_switch_scripts_off(run: Run, tmp_path: Path) -> None:
    tested = run("sandbox", "test", "--json")
    found = json.loads(tested.stdout)
    assert (tested.exit_code, found["isolation"], found["fault"]) == (0, "full", "")
    assert len(found["canaries"]) >= 12
    assert set(found["canaries"].values()) == {True}
    off = run("sandbox", "run", write(tmp_path, "s.py", "x = 1"), "--json", PROWESS_SANDBOX="refuse")
    assert (off.exit_code, json.loads(off.stdout)["error"]["code"]) == (1, "sandbox_off")
    for language, words in (("en", "did what is not permitted"), ("zh", "不被允许")):
        shown = run("sandbox", "run", write(tmp_path, "d.py", "open('/etc/passwd')"), PROWESS_LANG=language)
        assert words in shown.stdout
    reduced = json.loads(run("sandbox", "run", str(tmp_path / "s.py"), "--json", PROWESS_SANDBOX="landlock").stdout)
    assert (reduced["status"], reduced["isolation"]) == ("ok", "reduced")
    rows = {row["check"]: row for row in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert (rows["isolation"]["state"], rows["isolation"]["detail"]) == ("ok", "bubblewrap (full)")
    rows = {
        row["check"]: row for row in json.loads(run("doctor", "--json", PROWESS_SANDBOX="landlock").stdout)["checks"]
    }
    assert (rows["isolation"]["state"], rows["isolation"]["detail"]) == ("warn", "landlock (reduced)")
    assert "do not run" not in rows["isolation"]["remedy"].split(";")[0]
