"""Parts of the bubblewrap sandbox that need no sandbox: the channel, the filters, the judgement, the guest's own rules."""

from __future__ import annotations

import ast
import json
import signal
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prowess.adapters.sandboxes.bubblewrap as package
from prowess.adapters.sandboxes.bubblewrap import filters, syscalls
from prowess.adapters.sandboxes.bubblewrap.channel import Forged, Frames, Lines, TooLong, call_of
from prowess.adapters.sandboxes.bubblewrap.guest import quick_json
from prowess.adapters.sandboxes.bubblewrap.outcome import Ended, result_of
from prowess.sandbox.model import Isolation, SandboxLimits
from prowess.sandbox.model import SandboxStatus as Status

GUEST = Path(package.__file__).parent / "guest"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_v2_any_bytes_of_a_script_are_messages_or_refused(chunks: list[bytes]) -> None:
    lines = Lines(100)
    try:
        for chunk in chunks:
            assert all(isinstance(message, dict) for message in lines.feed(chunk))
    except (Forged, TooLong):
        pass


@given(st.dictionaries(st.sampled_from(["id", "call", "name", "arguments", "user"]), JSON, max_size=5))
def test_v2_a_call_is_exact_or_forged(message: dict[str, Any]) -> None:
    try:
        call = call_of(message, 1)
    except Forged:
        return
    assert set(message) == {"id", "call", "name", "arguments"}
    assert message["id"] == 1
    assert type(message["id"]) is int
    assert isinstance(call.name, str)


@given(JSON, st.integers(1, 50))
def test_v2_frames_are_put_together_however_they_are_cut(value: Any, size: int) -> None:
    body = json.dumps({"value": value}).encode()
    sent = (len(body).to_bytes(4, "big") + body) * 2
    frames = Frames(1_000_000)
    found = [message for start in range(0, len(sent), size) for message in frames.feed(sent[start : start + size])]
    assert found == [{"value": value}] * 2


def test_v2_a_frame_beyond_its_limit_is_refused_by_its_length() -> None:
    with pytest.raises(Forged):
        list(Frames(100).feed(b"\xff\xff\xff\xff"))


@given(JSON)
def test_x6_the_guests_own_json_says_what_json_says(value: Any) -> None:
    assert json.loads(quick_json.dumps(value)) == value
    assert quick_json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", object()])
def test_x6_the_guests_own_json_refuses_what_is_none(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        quick_json.dumps([value])


def _simulate(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """The kernel's answer, by the rules of the classic packet filter."""
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(*arguments, *(0,) * (6 - len(arguments))))
    lines = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, register = 0, 0
    while True:
        code, yes, no, operand = lines[at]
        at += 1
        if code == 0x20:
            register = struct.unpack_from("=I", data, operand)[0]
        elif code == 0x54:
            register &= operand
        elif code == 0x06:
            return operand
        else:
            holds = {0x15: register == operand, 0x35: register >= operand, 0x45: bool(register & operand)}[code]
            at += yes if holds else no


ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026


@pytest.mark.parametrize("name", ["x86_64", "aarch64"])
def test_v2_the_filters_answer_as_written_on_both_processors(name: str) -> None:
    kind = syscalls.MACHINES[name]
    outer, boot = filters.outer(kind), filters.boot(kind)
    script, online = filters.script(kind, network=False, landlock=6), filters.script(kind, network=True, landlock=2)

    def asked(program: bytes, table: Any, call: str, *arguments: int) -> int:
        return _simulate(program, kind.audit, table[call][kind.column], arguments)

    for table in (syscalls.MOUNTS, syscalls.OTHER_PROCESSES, syscalls.KERNEL_SURFACE, syscalls.ADMINISTRATION):
        for call, columns in table.items():
            if columns[kind.column] is not None:
                assert asked(outer, table, call) == EPERM, call
    assert asked(outer, syscalls.CLONE3, "clone3") == ENOSYS
    assert asked(outer, syscalls.CLONE, "clone", signal.SIGCHLD) == ALLOW
    for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert asked(outer, syscalls.CLONE, "clone", flag | signal.SIGCHLD) == EPERM
    assert [asked(outer, syscalls.SOCKET, "socket", family) for family in (1, 2, 10, 16, 17, 38, 40)] == [ALLOW] * 3 + [
        EPERM
    ] * 4
    assert [asked(outer, syscalls.IOCTL, "ioctl", 0, request) for request in (0x5401, 0x5412, 0x541C)] == [
        ALLOW,
        EPERM,
        EPERM,
    ]
    assert asked(outer, syscalls.EXEC, "execve") == ALLOW
    assert asked(boot, syscalls.EXEC, "execve") == asked(boot, syscalls.EXEC, "execveat") == EPERM
    assert asked(script, syscalls.SOCKET, "socket", 2, 1) == EPERM
    assert asked(online, syscalls.SOCKET, "socket", 2, 1 | 0o2000000) == ALLOW
    assert asked(online, syscalls.SOCKET, "socket", 2, 2) == asked(online, syscalls.SOCKET, "socket", 1, 1) == EPERM
    assert asked(script, syscalls.PRLIMIT, "prlimit64", 0, 7, 0, 1 << 40) == ALLOW
    assert asked(script, syscalls.PRLIMIT, "prlimit64", 0, 7, 1 << 40) == EPERM
    assert asked(script, syscalls.TRUNCATE, "truncate") == ALLOW
    assert asked(online, syscalls.TRUNCATE, "truncate") == EPERM
    for program in (outer, boot, script, online):
        assert _simulate(program, 0x40000003, 1) == KILL
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
    if name == "x86_64":
        assert _simulate(outer, kind.audit, 0x40000000 + 39) == KILL


def report(**changed: Any) -> dict[str, Any]:
    return {"reason": "exit", "status": 0, "peak_kb": 2048, "duration_ms": 1.5, "artifacts": [], **changed}


@pytest.mark.parametrize(
    ("ended", "status", "code"),
    [
        (Ended(report=report(), said={"result": 1}), Status.OK, None),
        (Ended(report=report(status=3 << 8), said={"result": 1}), Status.ERROR, "sandbox_no_result"),
        (Ended(report=report(), said={"failure": {"kind": "denied"}}), Status.ERROR, "sandbox_no_result"),
        (Ended(report=report(reason="timeout", status=9), said={"result": 1}), Status.TIMEOUT, "sandbox_timeout"),
        (Ended(report=report(reason="memory", status=9), said={"result": 1}), Status.MEMORY, "sandbox_memory"),
        (Ended(report=report(reason="disk", status=9), said={"result": 1}), Status.DENIED, "sandbox_denied"),
        (Ended(report=report(status=signal.SIGSYS), said={"result": 1}), Status.DENIED, "sandbox_denied"),
        (Ended(report=report(status=signal.SIGXCPU)), Status.TIMEOUT, "sandbox_timeout"),
        (Ended(report=report(status=signal.SIGSEGV)), Status.ERROR, "sandbox_script_crashed"),
        (Ended(report=report(), said={"result": 1}, forged=True), Status.DENIED, "sandbox_channel"),
        (Ended(report=report(), said={"result": 1}, cancelled=True), Status.CANCELLED, "sandbox_cancelled"),
        (Ended(report=report(artifacts=None), said={"result": 1}), Status.ERROR, "sandbox_artifacts_large"),
        (Ended(said={"result": 1}, lost=True, overdue=True), Status.TIMEOUT, "sandbox_timeout"),
        (Ended(said={"result": 1}, lost=True), Status.ERROR, "sandbox_lost"),
        (Ended(report=report(), said={"result": "x" * 2_000_000}), Status.ERROR, "sandbox_output_large"),
    ],
)
def test_v2_time_memory_and_success_are_never_the_scripts_word(ended: Ended, status: Status, code: str | None) -> None:
    result = result_of(ended, SandboxLimits(), Isolation.FULL, 7.0)
    assert (result.status, result.code) == (status, code)
    assert result.output == (1 if status is Status.OK else None)


@given(JSON)
def test_v2_whatever_a_script_says_of_its_end_is_taken_in(said: Any) -> None:
    result = result_of(
        Ended(report=report(status=3 << 8), said={"failure": said}), SandboxLimits(), Isolation.FULL, 0.0
    )
    assert not result.ok
    assert all(isinstance(entry, str) and len(entry) <= 500 for entry in result.denied)


@pytest.mark.parametrize("file", sorted(GUEST.glob("*.py")), ids=lambda file: file.name)
def test_x6_the_guest_is_python_3_9_and_its_standard_library(file: Path) -> None:
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    own = "prowess.adapters.sandboxes"
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.split(".")[0] in sys.stdlib_module_names or name.startswith(own), name
        assert not isinstance(node, ast.Match)
    # Annotations such as ``int | None`` are never evaluated there.
    assert file.name == "__init__.py" or "from __future__ import annotations" in file.read_text()


def test_x6_the_start_of_a_sandbox_imports_nothing_slow() -> None:
    slow = {"json", "re", "enum", "typing", "collections", "threading", "socket", "signal", "base64", "subprocess"}
    for file in GUEST.glob("*.py"):
        if file.name == "canaries.py":
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = (
                    {node.module or ""} if isinstance(node, ast.ImportFrom) else {alias.name for alias in node.names}
                )
                assert not names & slow, (file.name, names)
