"""Table tests of a surface: a line says what an agent has, what a surface names, and what is asked (G14).

``{"agent": {"skills": {id: [tool]}, "groups": {name: [tool]}, "tools": […], "system": […],
"activate_on_skill": {group: skill}}, "surface": {"skills", "groups", "tools"}, "active_groups": […],
"ask": {"kind": "skill|group|tool|execute", "name"}, "expect"?}``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prowess.access.capabilities import CallSurface, Capabilities, GroupCapability, SkillCapability
from prowess.access.model import Verdict
from prowess.access.surface import CapabilitySurface, GroupId, SkillKey
from prowess.errors import InvalidInput
from prowess.kernel.names import normalise_skill_name


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentTable(_Strict):
    """What the agent has. A key of ``skills`` may carry a version, as ``id@version``."""

    skills: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    tools: list[str] = []
    system: list[str] = []
    """names of skills, groups or tools; each thing that bears the name is marked"""
    activate_on_skill: dict[str, str] = {}


class SurfaceTable(_Strict):
    """The surface; a dimension that is null or left out takes no part."""

    skills: list[str | tuple[str, str]] | None = None
    groups: list[str] | None = None
    tools: list[str] | None = None


class Question(_Strict):
    """What is asked."""

    kind: Literal["skill", "group", "tool", "execute"]
    name: str


class TableTest(_Strict):
    """One line."""

    agent: AgentTable = AgentTable()
    surface: SurfaceTable = SurfaceTable()
    active_groups: list[str] = []
    ask: Question
    expect: bool | dict[str, Any] | None = Field(default=None)

    def answer(self) -> Verdict:
        """What the surface says. Raises ``InvalidInput``."""
        surface = CapabilitySurface(self.surface.skills, self.surface.groups, self.surface.tools)
        equipped = frozenset(map(GroupId.parse, self.active_groups))
        call = CallSurface(_capabilities(self.agent), (surface,), equipped)
        name = self.ask.name
        if self.ask.kind == "skill":
            return call.skill(normalise_skill_name(name))
        if self.ask.kind == "group":
            return call.group(GroupId.parse(name))
        return call.tool(name) if self.ask.kind == "tool" else call.execute(name)

    def holds(self, verdict: Verdict) -> bool:
        """Whether the verdict is what ``expect`` says; true where it says nothing."""
        if self.expect is None:
            return True
        if isinstance(self.expect, bool):
            return verdict.allowed is self.expect
        shown = verdict_to_json(verdict)
        return all(key in shown and shown[key] == value for key, value in self.expect.items())


class Answered(NamedTuple):
    """A line's verdict and whether it is the expected one."""

    verdict: Verdict
    holds: bool


def run_table_test(line: Mapping[str, Any]) -> Answered:
    """Raises ``InvalidInput('table_test')`` with the place of the first fault."""
    try:
        test = TableTest.model_validate(line)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise InvalidInput("table_test", place=".".join(map(str, fault["loc"])), cause=fault["msg"]) from None
    verdict = test.answer()
    return Answered(verdict, test.holds(verdict))


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """``{"allowed", "layer", "reason"}``."""
    layer = None if verdict.layer is None else str(verdict.layer)
    return {"allowed": verdict.allowed, "layer": layer, "reason": verdict.reason}


def _capabilities(agent: AgentTable) -> Capabilities:
    marks = frozenset(agent.system)
    skills = [_skill(name, tools, marks) for name, tools in agent.skills.items()]
    groups = [
        GroupCapability(
            name,
            frozenset(tools),
            _bound(agent.activate_on_skill.get(name)),
            system=name in marks,
        )
        for name, tools in agent.groups.items()
    ]
    twice = len({skill.key.id for skill in skills}) < len(skills)
    wrong = next((name for name in agent.groups if GroupId.parse(name).kind == "skill"), None)
    if twice or wrong is not None:
        raise InvalidInput("table_test", place="agent.skills" if twice else f"agent.groups.{wrong}", cause="name")
    return Capabilities(skills, groups, agent.tools, marks)


def _skill(name: str, tools: list[str], marks: frozenset[str]) -> SkillCapability:
    skill_id, _, version = name.partition("@")
    canonical = normalise_skill_name(skill_id)
    return SkillCapability(SkillKey(canonical, version or None), frozenset(tools), bool({name, canonical} & marks))


def _bound(skill: str | None) -> str | None:
    return None if skill is None else normalise_skill_name(skill)
