"""The escape list of the sandbox: each attempt as root's script and as an ordinary user's; and what the host saw of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from tests.escapes.attempts import ALL, LIBC, source
from tests.escapes.attempts import Attempt as Listed
from tests.escapes.conftest import Attempt, Host


@pytest.mark.parametrize("listed", ALL, ids=[f"{item.number}-{item.name}" for item in ALL])
def test_v2_an_attempt_to_escape_is_denied(listed: Listed, attempt: Attempt, host: Host, who: str) -> None:
    result = attempt(source(listed), wall_ms=500 if "timeout" in listed.statuses else 6_000)
    assert result["status"] in listed.statuses, result
    assert result["output"] is None
    assert result["isolation"] == ("reduced" if who == "reduced" else "full")
    host.check()


def _held(attempt: Attempt, body: str) -> Any:
    result = attempt(f"{LIBC}\ndef main(secret, readable, writable, port, udp_port, abstract, host_pid):\n{body}")
    assert result["status"] == "ok", result
    return result["output"]


def test_v2_no_descriptor_of_the_host_is_inherited(attempt: Attempt, host: Host) -> None:
    found = _held(
        attempt,
        """
    import prowess_skill, stat
    found = []
    for number in range(1024):
        try:
            found.append((number == prowess_skill._channel, stat.S_IFMT(os.fstat(number).st_mode)))
        except OSError:
            pass
    return found
""",
    )
    pipe, device, sock = 0o010000, 0o020000, 0o140000
    assert sorted(found) == sorted([[False, device], [False, pipe], [False, pipe], [True, sock]])


def test_v2_nothing_of_the_environment_comes_in(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROWESS_CANARY", "secret")
    found = _held(attempt, "    return dict(os.environ)\n")
    assert set(found) <= {"PATH", "LC_ALL", "HOME", "MALLOC_ARENA_MAX", "PWD", "TMPDIR"}


def test_v2_no_process_of_the_host_is_seen_or_killed(attempt: Attempt, host: Host) -> None:
    found = _held(
        attempt,
        """
    try:
        seen = [name for name in os.listdir('/proc') if name.isdigit()]
    except PermissionError:
        seen = []
    killed = []
    for pid in (-1, host_pid):
        try:
            os.kill(pid, 9)
            killed.append(pid)
        except OSError:
            pass
    return [len(seen), killed]
""",
    )
    assert found[0] <= 2
    assert host.given["host_pid"] not in found[1]


def test_v2_a_process_cannot_look_into_its_child(attempt: Attempt) -> None:
    result = attempt(
        f"{LIBC}\ndef main(**host):\n    child = os.fork()\n    if child == 0:\n        import time; time.sleep(5); os._exit(0)\n"
        "    open(f'/proc/{child}/environ').read()\n    return 'escaped'"
    )
    assert result["status"] == "denied"


def test_v2_what_it_prints_is_cut(attempt: Attempt) -> None:
    flood = "import sys\ndef main(**host):\n    for _ in range(300): sys.stdout.write('x' * 100_000); sys.stderr.write('y' * 100_000)\n    return 1"
    result = attempt(flood, output_bytes=50_000)
    assert (result["status"], len(result["stdout"]), len(result["stderr"])) == ("ok", 50_000, 50_000)


def test_v2_what_it_starts_does_not_outlive_it(attempt: Attempt) -> None:
    name = f"esc-{os.getpid() % 100_000}"
    body = f"""
    import time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            call('prctl', 15, b'{name}', 0, 0, 0)
            time.sleep(30)
        os._exit(0)
    time.sleep(0.05)
    return 'left behind'
"""
    assert _held(attempt, body) == "left behind"
    assert name not in _names()


def _names() -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            found.add(entry.read_text().strip())
    return found


def test_v2_deleting_is_apart_from_writing(attempt: Attempt, host: Host) -> None:
    only_delete = {"delete": [str(host.writable)]}
    assert attempt("def main(writable, **host): open(writable + '/new', 'w')", only_delete)["status"] == "denied"
    assert attempt("import os\ndef main(writable, **host): os.truncate(writable + '/canary.txt', 0)", only_delete)["status"] == "denied"  # fmt: skip
    host.check()
    (host.writable / "old").write_text("x")
    result = attempt("import os\ndef main(writable, **host): os.unlink(writable + '/old'); return 1", only_delete)
    assert (result["output"], (host.writable / "old").exists()) == (1, False)
    result = attempt("def main(writable, **host): open(writable + '/made', 'w').write('made'); return 1")
    assert (result["output"], (host.writable / "made").read_text()) == (1, "made")


def test_v2_what_is_left_in_out_is_copied_and_no_link_followed(attempt: Attempt) -> None:
    result = attempt(
        "import os\ndef main(**host):\n    os.makedirs('a/b'); open('a/b/x.txt', 'w').write('left')\n"
        "    os.symlink('/usr/bin/env', 'link'); os.symlink('/usr', 'folder')\n    return 1"
    )
    assert [file["path"] for file in result["artifacts"]] == ["a/b/x.txt"]
