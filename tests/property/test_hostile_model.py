"""A scripted hostile model: it calls every name it ever saw, with forged ids and arguments (G8, G15, U1, C33).

Ten thousand turns of users with different surfaces; after all of them the executions in the database are exactly those
that the law allows, and nothing else of it has changed.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from tests.support.kit import AGENT, Recorder, manual, request, tool

import prowess
from prowess import CapabilitySurface, Prowess, ToolGroup, TurnLimits
from prowess.access.model import ApprovalMode, PermissionRequirement, Risk

TURNS, PARTS = 10_000, 4
LOAD, RESET = "load_skill_through_path", "reset_equipped_tools"
SENDING = PermissionRequirement("mail:send", Risk.L3, ApprovalMode.PER_OPERATION)


class Loose(BaseModel):
    """Takes anything."""

    model_config = ConfigDict(extra="allow")


SURFACES = {
    "nobody": CapabilitySurface.DENY_ALL,
    "reader": CapabilitySurface(skills=["reader"]),
    "grouper": CapabilitySurface(groups=["desk"]),
    "namer": CapabilitySurface(tools=["tool.writer"]),
    "mailer": CapabilitySurface(skills=["mailer", "payer", "private"]),
    "other-source": CapabilitySurface(skills=[("elsewhere", "reader"), "writer@9.9.9"]),
}
ENTITLED = {
    "nobody": set(),
    "reader": {"tool.reader"},
    "grouper": {"tool.reader", "tool.desk"},
    "namer": {"tool.writer"},
    # granted, and still never run: one needs a yes, one is irreversible, one has no consent
    "mailer": set(),
    "other-source": set(),
}


def opened(recorder: Recorder) -> Prowess:
    def loose(name: str, **fields: Any) -> Any:
        return tool(name, recorder_for(recorder, name), input_schema=Loose, max_calls_per_turn=4, **fields)

    return prowess.open(
        "sqlite://",
        skills=(
            loose("reader"),
            loose("writer", effect="write"),
            loose("desk"),
            loose("mailer", permissions=[SENDING], effect="write"),
            loose("payer", permissions=[("card:charge", "L4")], effect="write"),
            loose("private", permissions=[("memory:read", "L1")]),
            manual("handbook"),
        ),
        groups=[
            ToolGroup(name="desk", tools=("tool.reader", "tool.desk")),
            ToolGroup(name="vault", tools=("tool.writer", "tool.payer")),
        ],
        limits=TurnLimits(tool_calls=1_000),
    )


def recorder_for(recorder: Recorder, name: str) -> Any:
    def run(context: Any, _: Loose) -> Any:
        recorder.calls.append(f"{context.user} {name}")
        return {"text": "done"}

    return run


def forged(draw: random.Random, users: list[str]) -> Any:
    """Arguments that claim to be somebody else, or are nothing at all."""
    victim = draw.choice(users)
    claim = {
        "user": victim,
        "user_id": victim,
        "tenant": "default",
        "agent": "operator",
        "approved": True,
        "approval_id": "approval-1",
        "grant_id": "grant-1",
        "surface": {"skills": None, "groups": None, "tools": None},
        "mode": "bypass",
        "role": "admin",
        "message_id": "m1",
        "_context": {"user": victim},
    }
    return draw.choice(
        [
            claim,
            {"skill_id": "reader", **claim},
            {"groups": ["vault"]},
            {"groups": ["desk"]},
            {},
            [claim],
            "{}",
            None,
            7,
            {"text": "x"},
        ]
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_u1_g8_g15_no_ungranted_execution_whatever_a_model_names(part: int) -> None:
    draw = random.Random(part)
    recorder = Recorder()
    app = opened(recorder)
    users = sorted(SURFACES)
    names = [LOAD, RESET, "tool.reader", "tool.writer", "tool.desk", "tool.mailer", "tool.payer", "tool.private"]
    seen = [
        *names,
        "reader",
        "writer_skill_tools",
        "agent-memory.search",
        "grant",
        "approve",
        "../tool.writer",
        "TOOL.WRITER",
    ]
    before = _law(app)
    for number in range(TURNS // PARTS):
        user = draw.choice(users)
        surface = SURFACES[user]
        text = draw.choice(["hello", "/writer x", "/reader x", "/skill mailer x", "/payer", "/handbook"])
        asked = request(f"m{part}-{number}", text, user=user, conversation=f"{user}-{draw.randrange(3)}")
        plan = app.begin(asked, surface=surface)
        shown = {item.name for item in plan.tools}
        assert (
            shown - {LOAD, RESET} <= ENTITLED[user] | {"tool.mailer", "tool.payer", "tool.private"}
            if user == "mailer"
            else (shown - {LOAD, RESET} <= ENTITLED[user])
        )
        seen += [item.name for item in plan.tools if item.name not in seen]
        for _ in range(draw.randrange(1, 6)):
            name = RESET if draw.random() < 0.2 else draw.choice(seen)
            outcome = app.call(plan, name, forged(draw, users))
            if name not in ENTITLED[user] | {LOAD, RESET}:
                assert outcome.status not in ("succeeded", "recorded"), (user, name)
            if outcome.output is not None and name == LOAD:
                assert surface.names_skill(_key(app, outcome.output.skill_id))  # type: ignore[attr-defined]
        if draw.random() < 0.2:
            app.finish(plan, "done")
    executed = {tuple(line.split(" ")) for line in recorder.calls}
    allowed = {(user, tool_id.removeprefix("tool.")) for user, tools in ENTITLED.items() for tool_id in tools}
    assert executed == allowed  # each that is allowed did run, and no other
    assert _law(app) == before
    app.close()


def _key(app: Prowess, skill: str) -> Any:
    from prowess.access.surface import SkillKey

    entry = app.skill(skill)
    return SkillKey(entry.manifest.id, entry.manifest.version, entry.source)


def _law(app: Prowess) -> Any:
    """All that decides: consents, roles, standing approvals, bindings."""
    users = sorted(SURFACES)
    with app._parts.database.read() as connection:
        tables = ("skill_permission_grants", "roles", "role_members", "standing_approvals", "skill_bindings", "secrets")
        counts = [connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar() for name in tables]
    return counts, [app.grants(user=user) for user in users], AGENT
