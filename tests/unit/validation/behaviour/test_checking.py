"""Level 2: cases, bounds and limits of a script, in the real sandbox (V2, V4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripts import INDENT, TEXT, format_json_skill, write_skill

from prowess.adapters.sandboxes.choosing import choose_sandbox
from prowess.sandbox.ports import Sandbox
from prowess.skills.skill_md import read_skill_folder
from prowess.validation.behaviour.checking import check_behaviour
from prowess.validation.checking import check_folder

BROKEN_JSON = {"errors": [{"code": "JSONDecodeError", "message": "The text is no JSON."}]}
NUMBER = {"name": "number", "type": "integer", "required": True, "min": 0, "max": 9}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    found = choose_sandbox("bubblewrap", ready=2)
    yield found
    found.close()


def checked(folder: Path, sandbox: Sandbox) -> dict[str, Any]:
    report = check_behaviour(read_skill_folder(folder), lambda: sandbox).to_json()
    return {
        "verdict": report["verdict"],
        "issues": sorted({(issue["code"], Path(issue["file"]).name, issue["line"]) for issue in report["issues"]}),
        "cases": {case["name"]: case["passed"] for case in report["levels"]["behavior"].get("cases", ())},
        "report": report,
    }


def skill(folder: Path, script: str, **more: Any) -> Path:
    """A skill whose tool takes one digit."""
    return write_skill(folder, script, **{"parameters": [NUMBER], "constraints": {"max_execution_time": 1500}, **more})


def test_v2_v4_a_good_script_passes_its_cases_and_every_bound(tmp_path: Path, sandbox: Sandbox) -> None:
    script = """
        import json

        class TextIsNoJson(Exception):
            pass

        def format_json(text, indent=2):
            try:
                return {"text": json.dumps(json.loads(text), indent=indent, sort_keys=True)}
            except ValueError:
                raise TextIsNoJson from None
    """
    cases = [
        {
            "name": "sorts",
            "params": {"text": '{"b":1,"a":2}', "indent": 0},
            "output": {"text": '{\n"a": 2,\n"b": 1\n}'},
        },
        {"name": "no JSON", "params": {"text": "{"}, "error": "TextIsNoJson"},
        {"name": "too wide", "params": {"text": "1", "indent": 9}, "error": "invalid_input"},
    ]
    folder = format_json_skill(tmp_path, script=script, cases=cases, errors=["TextIsNoJson"])
    found = checked(folder, sandbox)
    assert (found["verdict"], found["issues"]) == ("pass", [])
    assert {"sorts", "no JSON", "too wide", "boundary: usual", "boundary: text: long"} <= found["cases"].keys()
    assert all(found["cases"].values())
    level = found["report"]["levels"]["behavior"]
    assert level["checks"] == len(level["cases"]) > 15
    first = level["cases"][0]
    assert first["ms"] > 0
    assert 1 < first["mb"] < 200


@pytest.mark.parametrize(
    ("script", "cases", "issue"),
    [
        ("def worker(number):\n    return number + 1", [{"params": {"number": 1}, "output": 3}], ("behavior_output", "cases.jsonl", 1)),
        ("def worker(number):\n    return 9 // number", [], ("behavior_failed", "worker.py", 2)),
        ("def worker(number):\n    while True:\n        pass", [], ("behavior_timeout", "worker.py", 1)),
        ("def worker(number):\n    kept = bytearray(1 << 30)\n    return len(kept)", [], ("behavior_memory", "worker.py", 1)),
        ("def worker(number):\n    return {1, 2}", [], ("behavior_failed", "worker.py", 1)),
        ("def worker(number):\n    return open('/etc/shadow').read()", [], ("behavior_denied", "worker.py", 2)),
        ("def worker(number):\n    return 'x' * (2 << 20)", [], ("behavior_failed", "worker.py", 1)),
        ("def worker(number):\n    return number", [{"params": {"number": 1}, "error": "tool_error"}], ("behavior_no_error", "cases.jsonl", 1)),
        ("def worker(number):\n    return number", [{"params": {"number": 77}}], ("behavior_params", "cases.jsonl", 1)),
        ("def worker(number):\n    return number", [{"name": "no params"}], ("behavior_case", "cases.jsonl", 1)),
    ],
    ids=["output", "crash", "loop", "memory", "not-json", "denied", "large", "no-error", "params", "no-case"],
)  # fmt: skip
def test_v2_what_a_script_does_wrong_is_found(
    script: str, cases: list[dict[str, Any]], issue: tuple[str, str, int], tmp_path: Path, sandbox: Sandbox
) -> None:
    found = checked(skill(tmp_path, script, cases=cases), sandbox)
    assert found["verdict"] == "reject"
    assert issue in found["issues"]
    assert {code for code, _, _ in found["issues"]} <= {issue[0], "behavior_unfinished"}


def test_v2_arguments_that_the_schema_refuses_never_reach_the_script(tmp_path: Path, sandbox: Sandbox) -> None:
    script = """
        def worker(number):
            if not (type(number) is int and 0 <= number <= 9):
                raise RuntimeError("reached")
            return number
    """
    found = checked(skill(tmp_path, script, returns={"type": "integer"}), sandbox)
    assert (found["verdict"], found["issues"]) == ("pass", [])
    ran = {case["name"] for case in found["report"]["levels"]["behavior"]["cases"] if case["ms"] > 0}
    assert "boundary: number: most" in ran
    assert "boundary: number: one above" in found["cases"].keys() - ran


def test_v2_a_crash_on_the_empty_text_is_found(tmp_path: Path, sandbox: Sandbox) -> None:
    found = checked(skill(tmp_path, "def worker(text):\n    return text[0]", parameters=[TEXT]), sandbox)
    assert found["issues"] == [("behavior_failed", "worker.py", 2)]
    assert found["cases"]["boundary: text: empty"] is False
    assert found["cases"]["boundary: text: long"] is True


def test_v2_a_script_that_changes_its_mind_is_flagged(tmp_path: Path, sandbox: Sandbox) -> None:
    script = "import os\n\ndef worker(number):\n    return os.urandom(8).hex()"
    found = checked(skill(tmp_path, script, cases=[{"params": {"number": 1}}]), sandbox)
    assert (found["verdict"], found["issues"]) == ("pass", [("behavior_flaky", "cases.jsonl", 1)])


def test_v2_a_flood_of_output_is_cut_and_told(tmp_path: Path, sandbox: Sandbox) -> None:
    script = "def worker():\n    for _ in range(1 << 14):\n        print('x' * (1 << 16))\n    return 1"
    found = checked(skill(tmp_path, script, parameters=[], constraints={"max_execution_time": 10_000}), sandbox)
    assert {code for code, _, _ in found["issues"]} <= {"behavior_prints", "behavior_failed", "behavior_timeout"}
    assert found["issues"] != []
    assert found["report"]["levels"]["behavior"]["cases"][0]["mb"] < 200


def test_v2_tool_calls_are_answered_from_the_case_in_their_order(tmp_path: Path, sandbox: Sandbox) -> None:
    script = """
        import prowess_skill

        def worker(number):
            first = prowess_skill.call_tool("look_up", key=number)
            return prowess_skill.call_tool("look_up", key=first)
    """
    answers = [
        {"tool": "look_up", "args": {"key": 1}, "output": 2},
        {"tool": "look_up", "args": {"key": 2}, "output": "found"},
    ]
    cases = [
        {"name": "good", "params": {"number": 1}, "calls": answers, "output": "found"},
        {"name": "other arguments", "params": {"number": 5}, "calls": answers, "output": "found"},
        {"name": "one too few", "params": {"number": 1}, "calls": answers[:1], "output": "found"},
        {"name": "one too many", "params": {"number": 1}, "calls": [*answers, answers[0]], "output": "found"},
    ]
    folder = skill(tmp_path, script, cases=cases, allowed_tools=["look_up"])
    found = checked(folder, sandbox)
    assert [found["cases"][case["name"]] for case in cases] == [True, False, False, False]
    # Between the bounds nobody answers the tool: that is said, and is no pass.
    assert found["cases"]["boundary: usual"] is False
    codes = {code for code, _, _ in found["issues"]}
    assert codes == {"behavior_calls", "behavior_unproven"}
    alone = checked(skill(tmp_path / "b", script, cases=cases[:1], allowed_tools=["look_up"]), sandbox)
    assert alone["verdict"] == "review"


def test_v2_nothing_of_the_machine_is_given_to_a_test(tmp_path: Path, sandbox: Sandbox) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "a.txt").write_text("a")
    script = f"import os\n\ndef worker():\n    os.remove({str(kept / 'a.txt')!r})\n    return 1"
    permissions = {"filesystem": {"delete": [f"{kept}/**"]}}
    found = checked(skill(tmp_path, script, parameters=[], permissions=permissions), sandbox)
    assert (found["verdict"], {code for code, _, _ in found["issues"]}) == ("review", {"behavior_unproven"})
    assert (kept / "a.txt").read_text() == "a"


def test_v2_where_scripts_cannot_be_isolated_nothing_is_proven(tmp_path: Path) -> None:
    found = checked(skill(tmp_path, "def worker(number):\n    return 1"), choose_sandbox("refuse"))
    assert (found["verdict"], found["cases"]) == ("reject", {})
    assert found["issues"] == [("behavior_refused", "worker.py", 1)]


def test_v2_a_skill_without_a_script_has_nothing_to_prove(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: plain\ndescription: A plain one.\n---\nDo it.\n")

    def never() -> Sandbox:
        raise AssertionError("no sandbox is needed")

    report = check_folder(str(folder), "all", never).to_json()
    assert report["levels"]["behavior"]["verdict"] == "pass"
    assert report["levels"]["behavior"]["checks"] == 0
    assert check_folder(str(folder), "behavior", never).to_json()["levels"].keys() == {"behavior"}
    assert check_folder(str(folder), "syntax", never).to_json()["levels"].keys() == {"syntax"}


def test_v2_a_skill_that_is_not_well_formed_is_not_tried(tmp_path: Path, sandbox: Sandbox) -> None:
    folder = skill(tmp_path, "def worker(number):\n    return 1", version="latest")
    report = check_folder(str(folder), "all", lambda: sandbox)
    assert (report.ok, set(report.levels)) == (False, {"syntax", "security"})


def test_v2_permissions_that_cannot_be_kept_fail_the_level(tmp_path: Path, sandbox: Sandbox) -> None:
    permissions = {"filesystem": {"read": ["relative/path"]}}
    found = checked(skill(tmp_path, "def worker(number):\n    return 1", permissions=permissions), sandbox)
    assert (found["verdict"], found["issues"]) == ("reject", [("sandbox_path", "prowess.yaml", 1)])


def test_v2_defaults_reach_the_script_as_they_do_in_a_turn(tmp_path: Path, sandbox: Sandbox) -> None:
    script = "def worker(text, indent):\n    return [text, indent]"
    cases = [
        {"params": {"text": "a"}, "output": ["a", 2]},
        {"params": {"text": "a", "indent": 4.0}, "output": ["a", 4]},
    ]
    found = checked(skill(tmp_path, script, parameters=[TEXT, INDENT], cases=cases), sandbox)
    assert (found["verdict"], found["issues"]) == ("pass", [])
