"""What a skill is in code: prompt, workflow and tool definitions, and what registration refuses (W1, X1, T9).

Definitions are immutable data plus pure functions. A definition never receives a database or a client: a tool handler
gets a ``ToolContext`` with the resources that its manifest declares, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, Protocol

from pydantic import BaseModel, SecretStr

from prowess.access.capabilities import META_TOOLS
from prowess.access.model import ApprovalMode
from prowess.access.surface import SKILL_GROUP_SUFFIX
from prowess.errors import InvalidInput
from prowess.kernel.untrusted import Untrusted
from prowess.memory.model import MemoryHit
from prowess.secrets.model import SecretSlot
from prowess.skills.manifest import SkillKind, SkillManifest
from prowess.skills.matchers import Matchers
from prowess.turns.cancelling import CancelToken as CancelToken
from prowess.turns.scripting import ScriptChannel, ScriptSource

MIN_TOOL_TIMEOUT = timedelta(milliseconds=100)
MAX_TOOL_TIMEOUT = timedelta(seconds=30)
MAX_TOOL_CALLS_PER_TURN = 4
MAX_JOB_ATTEMPTS = 10

_TOOL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_MOUNTED_ID = re.compile(rf"([a-z0-9]+(?:-[a-z0-9]+)*)/{_TOOL_ID.pattern}")
"""``server/tool`` (ruling 12.21); only tools of an MCP server have a ``/`` in their name"""

SERVER_GROUP_PREFIX = "mcp:"
"""before a server's name: the tool group of its tools. A declared group's name cannot hold a ``:``"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the executor hands to the agent's voice (T9)."""

    text: str
    """the instruction for a model: what to do in this turn, in the agent's own words"""
    say: tuple[str, ...]
    """the same, readable as it stands: what a voice without a model says, a line or paragraph each"""
    language: str
    """``en`` or ``zh``"""


@dataclass(frozen=True, kw_only=True)
class PromptSkill:
    """A skill that serves one turn by an instruction made from its body."""

    manifest: SkillManifest
    body: str
    """the manual: Markdown, given to the model as it stands"""
    say: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """language → lines for a voice without a model; without them it names the skill and shows the start of the body"""

    @cached_property
    def matchers(self) -> Matchers:
        """The compiled selection rules of the manifest."""
        return Matchers(self.manifest.triggers)


WorkflowStatus = Literal["waiting_user", "completed"]


@dataclass(frozen=True, slots=True)
class WorkflowTurn:
    """One user message on its way into a workflow."""

    state: Any
    """the parsed state, as ``parse_state`` returned it"""
    step: str
    text: str
    language: str
    first: bool
    """whether this message created the session"""
    now: datetime


@dataclass(frozen=True, slots=True)
class WorkflowAdvance:
    """What one turn made of the state."""

    state: Any
    """JSON-serialisable: a mapping of plain values"""
    step: str
    status: WorkflowStatus
    pending_question: str | None
    instruction: Instruction


@dataclass(frozen=True, kw_only=True)
class WorkflowSkill:
    """A multi-turn skill with a persisted session (W1). ``run_turn`` is deterministic and calls no chat model (T9)."""

    manifest: SkillManifest
    session_ttl: timedelta
    initial_step: str
    create_initial_state: Callable[[], Any]
    parse_state: Callable[[Any], Any]
    """checks a stored state; raises ``ValueError`` where it is not one (W4)"""
    run_turn: Callable[[WorkflowTurn], WorkflowAdvance]
    state_version: int = 1
    migrate_state: Callable[[Any, int], Any] | None = None
    """(stored state, its version) → state of ``state_version``; raises ``ValueError`` where it cannot (W9)"""

    @cached_property
    def matchers(self) -> Matchers:
        """The compiled selection rules of the manifest."""
        return Matchers(self.manifest.triggers)


class MemoryReader(Protocol):
    """The memories of this user and agent, in the layers that the skill declared and was granted (M2)."""

    def recall(self, query: str, limit: int) -> tuple[MemoryHit, ...]:
        """At most ``limit`` active memories that match, best first; the most important ones where it names nothing."""
        ...

    def most_important(self, limit: int) -> tuple[MemoryHit, ...]:
        """At most ``limit`` active memories, the most important first."""
        ...


@dataclass(frozen=True, slots=True)
class SkillActivity:
    """How often one skill was used, and how that ended; uses that still go on are in ``uses`` alone."""

    skill_id: str
    uses: int
    completed: int
    failed: int
    denied: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What passed between one user and one agent in a span of time: counts and ids, never text."""

    said: int
    """messages of the user"""
    answered: int
    """messages of the agent"""
    fired: int
    """messages that a trigger sent"""
    skills: tuple[SkillActivity, ...]
    """most used first"""
    waiting: tuple[str, ...]
    """skills whose session waits for the user's answer"""


class ActivityReader(Protocol):
    """The activity of this user with this agent, and of nobody else."""

    def since(self, start: datetime) -> Activity:
        """From ``start`` until now."""
        ...


class Proposals(Protocol):
    """Where a tool may leave a trigger for the user to confirm; nothing that it leaves is active (B15, G15)."""

    def propose(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store a proposal for the calling user and agent; returns ``{"id", "name", "kind", "next"}``.

        Raises ``InvalidInput``, ``NotFound``, ``Denied`` and ``LimitExceeded`` for one that could never be confirmed.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool handler may use. Made by the server for one call, immutable (U2)."""

    tenant: str
    user: str
    agent: str
    language: str
    now: datetime
    cancel: CancelToken
    memories: MemoryReader | None = None
    """set where the skill declared and was granted ``memory:read``"""
    activity: ActivityReader | None = None
    """set where the skill declared and was granted ``activity:read``"""
    proposals: Proposals | None = None
    """set where the skill declared and was granted ``automation:propose``"""
    secrets: Mapping[str, SecretStr] = field(default_factory=dict, repr=False)
    """what the declared slots hold, by name; ``get_secret_value()`` shows it"""
    channel: ScriptChannel | None = field(default=None, repr=False)
    """what a script may ask while it runs; set where the tool is one"""


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """What ``build_input`` may look at when a message itself selected the tool."""

    text: str
    """the message, without the slash command"""
    language: str


@dataclass(frozen=True, kw_only=True)
class ToolSkill:
    """A controlled tool (X1)."""

    manifest: SkillManifest
    tool_id: str
    timeout: timedelta
    max_calls_per_turn: int
    input_schema: type[BaseModel]
    output_schema: type[BaseModel]
    build_input: Callable[[ToolTurn], Mapping[str, Any]]
    execute: Callable[[ToolContext, Any], Any]
    """(context, validated input) → output; may return a model of ``output_schema`` or a mapping"""
    build_system_instruction: Callable[[Any, str], Instruction]
    """(validated output, language) → instruction"""
    effect: Literal["read", "write"] = "read"
    """a repeated read runs again, a repeated write returns its recorded outcome (X4)"""
    destructive: bool = False
    """whether it destroys what cannot be brought back (ruling 12.25): unattended, it always asks (B14)"""
    secrets: tuple[SecretSlot, ...] = ()
    """slots that must be filled: the caller's own, the tenant's or the skill's; without them the call fails (U4)"""
    resource: Callable[[Any], str | None] | None = None
    """validated input → what the call acts on: an address, a path, a command (ruling 12.32). Then grants and policies
    can be for some resources, and an "always allow" binds this one; without it, it binds the very arguments (U5)"""
    body: str = ""
    """the manual, for a model that loads it; without one the description stands in"""
    script: ScriptSource | None = None
    """what ``execute`` runs in the sandbox, where it is a script (X6)"""
    server: str | None = None
    """the MCP server that it is mounted from; then its id is ``server/tool``, and it is in the group ``mcp:server``"""
    described: Untrusted | None = None
    """what nobody vouches for says of it: quoted to the model in the tool's schema, and shown nowhere else (X7)"""

    @cached_property
    def matchers(self) -> Matchers:
        """The compiled selection rules of the manifest."""
        return Matchers(self.manifest.triggers)

    @cached_property
    def input_json_schema(self) -> Mapping[str, Any]:
        """``input_schema`` as JSON Schema."""
        return self.input_schema.model_json_schema()


@dataclass(frozen=True, slots=True)
class BackgroundContext:
    """What the handler of a background job may use. Made by the server for one attempt, immutable (B3, U2)."""

    tenant: str
    user: str
    agent: str
    language: str
    """the agent's"""
    now: datetime
    job_id: str
    """the same in every attempt: the key for effects of the handler's own that must happen once (B8)"""
    attempt: int
    """1 for the first"""
    cancel: CancelToken
    """set when the job was taken over or its worker stops"""
    send: Callable[[str], str]
    """(text) → id of the agent's message that is now in the conversation. Asks the gate again, against the grants of
    that moment; the n-th message of a job is stored once, in whatever attempt. Raises ``Denied``, ``Conflict`` where
    another worker has the job (G4, B5)"""
    memories: MemoryReader | None = None
    """set where the skill declared and was granted ``memory:read``"""
    secrets: Mapping[str, SecretStr] = field(default_factory=dict, repr=False)
    """what the declared slots hold, by name"""


@dataclass(frozen=True, slots=True)
class BackgroundRequest:
    """What the server has verified when a job is scheduled, and the person's own words (B3)."""

    agent_id: str
    agent_name: str
    conversation_id: str
    note: str
    """may be empty; untrusted"""


@dataclass(frozen=True, kw_only=True)
class BackgroundSkill:
    """Work that outlives the request (B3). It has ``compose`` or ``execute``, never both."""

    manifest: SkillManifest
    payload_schema: type[BaseModel]
    build_payload: Callable[[BackgroundRequest], Mapping[str, Any]] = asdict
    """(verified request) → payload, checked against the schema when the job is scheduled and when it runs"""
    compose: Callable[[Any, str], str] | None = None
    """(validated payload, the agent's language) → the message. Pure and quick: it runs inside the transaction that
    claims, stores and finishes a whole batch of jobs"""
    execute: Callable[[BackgroundContext, Any], None] | None = None
    """(context, validated payload): anything else; runs outside any transaction, under a lease that is renewed"""
    max_attempts: int = 3
    earliest: timedelta = timedelta(minutes=1)
    """how far ahead a job must be planned at least"""
    latest: timedelta = timedelta(days=365)
    """and at most"""
    secrets: tuple[SecretSlot, ...] = ()
    """slots that must be filled, for ``execute``"""

    @cached_property
    def matchers(self) -> Matchers:
        """The compiled selection rules of the manifest."""
        return Matchers(self.manifest.triggers)


SkillDefinition = PromptSkill | WorkflowSkill | ToolSkill | BackgroundSkill


def serves_turns(definition: SkillDefinition) -> bool:
    """Whether a message can select it; background work is scheduled, by a person or a trigger."""
    return not isinstance(definition, BackgroundSkill)


@dataclass(frozen=True, kw_only=True)
class ToolGroup:
    """Tools that are equipped together. A model manages what it is shown by ``reset_equipped_tools``."""

    name: str
    tools: tuple[str, ...]
    """tool ids; one that the agent lacks means nothing"""
    description: str = ""
    activate_on_skill: str | None = None
    """loading this skill activates the group, and granting the skill grants it (G7)"""
    manageable: bool = True
    """whether a model may equip it by name"""
    system: bool = False
    """exempt from entitlement, the group alone: not its tools (G10)"""
    equipped: bool = False
    """active in a new conversation"""


def check_group(group: ToolGroup) -> None:
    """Raises ``InvalidInput('tool_group')`` for a name that is no name or is kept for a skill's own group."""
    wrong = None
    if not _TOOL_ID.fullmatch(group.name) or group.name.endswith(SKILL_GROUP_SUFFIX):
        wrong = "name"
    elif not group.tools or not all(map(is_tool_id, group.tools)) or META_TOOLS & set(group.tools):
        wrong = "tools"
    if wrong is not None:
        raise InvalidInput("tool_group", group=group.name, field=wrong, suffix=SKILL_GROUP_SUFFIX)


def is_tool_id(name: str) -> bool:
    """Whether a tool can have this name: one of ours, or ``server/tool``."""
    return (_TOOL_ID.fullmatch(name) or _MOUNTED_ID.fullmatch(name)) is not None


_KINDS: dict[type, SkillKind] = {
    PromptSkill: SkillKind.PROMPT,
    WorkflowSkill: SkillKind.WORKFLOW,
    ToolSkill: SkillKind.TOOL,
    BackgroundSkill: SkillKind.BACKGROUND,
}


def check_definition(definition: SkillDefinition) -> None:
    """What registration refuses (X1), duplicates apart: those the catalog knows.

    Raises ``InvalidInput`` (``wrong_skill_kind``, ``tool_bounds``, ``workflow_bounds``, ``background_bounds``).
    """
    manifest = definition.manifest
    expected = _KINDS[type(definition)]
    if manifest.kind is not expected:
        raise InvalidInput("wrong_skill_kind", skill=manifest.id, expected=str(expected), got=str(manifest.kind))
    if isinstance(definition, ToolSkill):
        _check_tool(definition)
    if isinstance(definition, WorkflowSkill) and definition.session_ttl <= timedelta(0):
        raise InvalidInput("workflow_bounds", skill=manifest.id, field="session_ttl")
    if isinstance(definition, BackgroundSkill):
        _check_background(definition)


def _check_tool(tool: ToolSkill) -> None:
    bounds = {
        "tool_id": _is_id_of(tool) and tool.tool_id not in META_TOOLS,
        "timeout": MIN_TOOL_TIMEOUT <= tool.timeout <= MAX_TOOL_TIMEOUT,
        "max_calls_per_turn": 1 <= tool.max_calls_per_turn <= MAX_TOOL_CALLS_PER_TURN,
    }
    for name, holds in bounds.items():
        if not holds:
            raise InvalidInput("tool_bounds", skill=tool.manifest.id, field=name)


def _is_id_of(tool: ToolSkill) -> bool:
    if tool.server is None:
        return _TOOL_ID.fullmatch(tool.tool_id) is not None
    found = _MOUNTED_ID.fullmatch(tool.tool_id)
    return found is not None and found.group(1) == tool.server


def _check_background(skill: BackgroundSkill) -> None:
    """Nobody is there to approve an operation of a job: what needs that is a tool, called in a turn."""
    approvals = (requirement.approval for requirement in skill.manifest.permission_requirements)
    bounds = {
        "compose": (skill.compose is None) != (skill.execute is None),
        "max_attempts": 1 <= skill.max_attempts <= MAX_JOB_ATTEMPTS,
        "permissions": ApprovalMode.PER_OPERATION not in approvals,
    }
    for name, holds in bounds.items():
        if not holds:
            raise InvalidInput("background_bounds", skill=skill.manifest.id, field=name)
