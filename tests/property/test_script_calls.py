"""Whatever a script asks for over its channel, it gets no more than was declared and is granted (U1, M2, G4)."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.kit import AGENT, Recorder, ScriptedVoice, request, tool
from tests.support.scripts import enter_unproven, write_skill

import prowess
from prowess import NotFound, Prowess
from prowess.sandbox.model import CallKind, Isolation, SandboxJob, SandboxResult, SandboxStatus, ScriptCall
from prowess.sandbox.ports import Cancellation, ScriptCallRefused, ScriptHost

Asked = tuple[CallKind, str, Mapping[str, Any]]
_numbers = itertools.count()


class Channel:
    """A sandbox that runs no script, but asks what it was told to ask."""

    name = "channel"
    isolation = Isolation.FULL

    def __init__(self) -> None:
        self.steps: list[Asked | str] = []
        self.revoke: Callable[[str], object] = str
        self.answers: list[tuple[Asked, bool, Any, frozenset[str]]] = []
        """what was asked, whether it was given, what came, and the codes that were granted at that moment"""

    def run(self, job: SandboxJob, host: ScriptHost | None = None, cancel: Cancellation | None = None) -> SandboxResult:
        assert host is not None
        granted = frozenset(CODES.values())
        for step in self.steps:
            if isinstance(step, str):
                granted -= {step}
                self.revoke(step)
                continue
            try:
                self.answers.append((step, True, host.answer(ScriptCall(*step)), granted))
            except ScriptCallRefused as refused:
                self.answers.append((step, False, refused.code, granted))
        return SandboxResult(SandboxStatus.OK, Isolation.FULL, output=1)

    def close(self) -> None:
        pass


DECLARED: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool.open", "tool.closed"),
    "memory.read": ("L2", "L3", "L4"),
    "memory.write": ("L3",),
    "environment.read": ("REGION", "UNSET"),
    "environment.write": ("SET",),
    "command": ("jq",),
}
CODES = {
    "memory.read": "memory:read",
    "memory.write": "memory:write",
    "environment.read": "env:read",
    "command": "shell:run",
}
NAMES = [
    *sorted({name for names in DECLARED.values() for name in names}),
    "L1", "L5", "PATH", "sh", "/usr/bin/jq", "tool.absent", "reset_equipped_tools", "", "\0", "x" * 5_000, "../jq",
]  # fmt: skip
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=20), st.lists(st.integers(), max_size=2))
ARGUMENTS = st.dictionaries(
    st.sampled_from(["query", "limit", "text", "importance", "value", "argv"]), VALUES, max_size=3
)
ASKED = st.one_of(
    st.tuples(st.sampled_from(get_args(CallKind)), st.sampled_from(NAMES), ARGUMENTS),
    st.sampled_from([(kind, name) for kind, names in DECLARED.items() for name in names]).flatmap(
        lambda known: st.tuples(st.just(known[0]), st.just(known[1]), ARGUMENTS)
    ),
)
STEPS = st.lists(st.one_of(ASKED, ASKED, ASKED, st.sampled_from(sorted(set(CODES.values())))), max_size=12)


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[Prowess, Channel, dict[str, Recorder]]]:
    channel, recorders = Channel(), {name: Recorder() for name in ("open", "closed", "other")}
    tools = (
        tool("open", recorders["open"], max_calls_per_turn=4),
        tool("closed", recorders["closed"], permissions=[("notes:read", "L1")]),
        tool("other", recorders["other"]),
    )
    with tempfile.TemporaryDirectory() as folder:
        app = prowess.open(
            "sqlite://", skills=tools, voice=ScriptedVoice(), sandbox=channel, script_environment={"REGION": "north"}
        )
        permissions = {
            "memory": {"read_layers": list(DECLARED["memory.read"]), "write_layers": list(DECLARED["memory.write"])},
            "env_vars": {"read": list(DECLARED["environment.read"]), "write": list(DECLARED["environment.write"])},
            "shell": {"allowed": True, "commands": list(DECLARED["command"])},
        }
        skill = write_skill(Path(folder), "", permissions=permissions, allowed_tools=DECLARED["tool"])
        assert enter_unproven(app, skill).notes == ()
        yield app, channel, recorders
        app.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_u1_m2_g4_a_script_gets_no_more_than_declared_and_granted(
    parts: tuple[Prowess, Channel, dict[str, Recorder]], steps: list[Asked | str]
) -> None:
    app, channel, recorders = parts
    number = next(_numbers)
    user = f"u{number}"
    for code in set(CODES.values()):
        app.grant(user=user, skill="worker", code=code)

    def revoke(code: str) -> None:
        with contextlib.suppress(NotFound):
            app.revoke(user=user, skill="worker", code=code)

    channel.steps, channel.answers, channel.revoke = steps, [], revoke
    before = {name: len(recorder.calls) for name, recorder in recorders.items()}
    plan = app.begin(request(f"m{number}", "hello", user=user, conversation=f"c{number}"))
    outcome = app.call(plan, "worker", {})
    # Running a program is asked for each time: until somebody says yes, nothing runs at all.
    assert (outcome.status, channel.answers) == ("pending", [])
    assert outcome.approval is not None
    app.approve(outcome.approval, by=user)
    assert app.resume_call(outcome.approval).status == "succeeded"
    stored = 0
    for (kind, name, _), was_given, value, granted in channel.answers:
        if not was_given:
            continue
        assert name in DECLARED[kind] or (kind, name) == ("command", "/usr/bin/jq"), "as a script may write it"
        assert kind not in CODES or CODES[kind] in granted
        assert name not in ("tool.closed", "L4"), "not granted to the user, or no layer that is stored"
        assert (kind, name) != ("environment.read", "REGION") or value == "north"
        stored += kind == "memory.write"
    assert len(recorders["closed"].calls) == before["closed"]
    assert len(recorders["other"].calls) == before["other"]
    memories = app.memories(user=user)
    assert [(memory.agent, str(memory.layer)) for memory in memories] == [(AGENT, "L3")] * stored
