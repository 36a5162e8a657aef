"""The manifest of a skill: what it is, what it asks for, what limits it (S2, S3; chapter 2 of the lifecycle seed).

A manifest only *requests*: status, counts and scores live in the database. Everything here is immutable; unknown keys
of a file are kept in ``extra`` and survive a rewrite.
"""

from __future__ import annotations

import posixpath
import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.kernel.names import is_skill_name
from prowess.skills.names import Version

MAX_DESCRIPTION_LENGTH = 1024
MAX_COMPATIBILITY_LENGTH = 500

_Strings = tuple[str, ...]


class SkillKind(StrEnum):
    """The four kinds of skill."""

    PROMPT = "prompt"
    WORKFLOW = "workflow"
    TOOL = "tool"
    BACKGROUND = "background"


class ChatScope(StrEnum):
    """Where a skill may serve (T7)."""

    SINGLE = "single_chat"
    GROUP = "group_chat"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ParameterSpec(_Part):
    """One parameter of a tool (S4); compiled to JSON Schema by ``skills.parameters``."""

    name: str = ""
    type: Literal["string", "integer", "float", "boolean", "array", "object", "file", "enum"]
    required: bool = False
    default: Any = None
    description: str = ""
    enum: tuple[Any, ...] | None = None
    pattern: str | None = None
    min: float | None = Field(default=None, allow_inf_nan=False)
    max: float | None = Field(default=None, allow_inf_nan=False)
    min_length: int | None = Field(default=None, ge=0)
    max_length: int | None = Field(default=None, ge=0)
    items: ParameterSpec | None = None
    properties: dict[str, ParameterSpec] | None = None


class ReturnSpec(_Part):
    """What a tool returns."""

    type: Literal["string", "integer", "float", "boolean", "array", "object", "file", "enum", "null"]
    description: str = ""
    items: ParameterSpec | None = None
    properties: dict[str, ParameterSpec] | None = None


class ToolError(_Part):
    """An error that a tool documents."""

    code: str
    message: str = ""
    http_status: int | None = None


class ToolSpec(_Part):
    """A tool that a skill declares. Its name keeps its own case and underscores (ruling 12.1)."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
    description: str = ""
    parameters: tuple[ParameterSpec, ...] = ()
    returns: ReturnSpec | None = None
    errors: tuple[ToolError, ...] = ()


_EVERYTHING = re.compile(r"(?:[A-Za-z]:)?[/*?.~]*")


def names_everything(pattern: str) -> bool:
    """Whether a path pattern names a whole disk, home or folder of work: ``/**``, ``/app/../**``, ``~/**``, ``.``."""
    return _EVERYTHING.fullmatch(posixpath.normpath(pattern.strip().replace("\\", "/"))) is not None


class FilesystemPermissions(_Part):
    """Path patterns; what is not named is not reachable (S5)."""

    read: _Strings = ()
    write: _Strings = ()
    delete: _Strings = ()

    @field_validator("read", "write", "delete")
    @classmethod
    def _no_whole_disk(cls, paths: _Strings) -> _Strings:
        for path in paths:
            if names_everything(path):
                raise ValueError(f"{path!r} names everything; name the folders that are needed")
        return paths


class NetworkPermissions(_Part):
    """Exact host names."""

    allowed: bool = False
    domains: _Strings = ()


class ShellPermissions(_Part):
    """Named commands."""

    allowed: bool = False
    commands: _Strings = ()


MemoryLayer = Literal["L1", "L2", "L3", "L4", "L5"]


class MemoryPermissions(_Part):
    """Memory layers (M1, M2)."""

    read_layers: tuple[MemoryLayer, ...] = ()
    write_layers: tuple[MemoryLayer, ...] = ()


class EnvironmentPermissions(_Part):
    """Names of environment variables."""

    read: _Strings = ()
    write: _Strings = ()


class ResourcePermissions(_Part):
    """The resources that a skill's code may touch: a whitelist (S5)."""

    filesystem: FilesystemPermissions = FilesystemPermissions()
    network: NetworkPermissions = NetworkPermissions()
    shell: ShellPermissions = ShellPermissions()
    memory: MemoryPermissions = MemoryPermissions()
    env_vars: EnvironmentPermissions = EnvironmentPermissions()


class RequirementSpec(_Part):
    """A permission requirement as written in a file (G1)."""

    code: str
    risk: Risk
    approval: ApprovalMode = ApprovalMode.PERSISTENT

    @model_validator(mode="after")
    def _lawful(self) -> RequirementSpec:
        self.to_requirement()
        return self

    def to_requirement(self) -> PermissionRequirement:
        """The law's own form. Raises ``ValueError`` where risk and approval do not fit."""
        return PermissionRequirement(self.code, self.risk, self.approval)


class RetryPolicy(_Part):
    """Retries of a failed call; delays in milliseconds."""

    max_retries: int = Field(default=0, ge=0, le=10)
    backoff: Literal["none", "fixed", "linear", "exponential"] = "none"
    initial_delay: int = Field(default=0, ge=0)


class Schedule(_Part):
    """A schedule that a skill asks for; it becomes a trigger only when a person confirms (B15)."""

    type: Literal["once", "cron", "interval"]
    expression: str
    timezone: str | None = None


class Constraints(_Part):
    """Limits on one call: time in ms, memory in MB, calls a minute."""

    max_execution_time: int | None = Field(default=None, ge=1)
    max_memory_usage: int | None = Field(default=None, ge=1)
    rate_limit: int | None = Field(default=None, ge=1)
    retry_policy: RetryPolicy | None = None
    schedule: Schedule | None = None


class Dependencies(_Part):
    """What a skill needs beside itself. Packages are ``{ecosystem: name}`` pairs, as the seed writes them."""

    skills: _Strings = ()
    packages: tuple[dict[str, str], ...] = ()
    min_agent_version: str | None = None


class TriggerRules(_Part):
    """Deterministic selection rules (T5). Any pattern fires; so do ``min_keywords`` different keywords."""

    patterns: _Strings = ()
    keywords: _Strings = ()
    min_keywords: int = Field(default=2, ge=1, le=10)
    exclude: _Strings = ()


class SkillManifest(_Part):
    """A skill's declaration. ``id`` is the canonical kebab-case name."""

    id: str
    version: str
    kind: SkillKind = SkillKind.PROMPT
    description: str = Field(min_length=1, max_length=MAX_DESCRIPTION_LENGTH)
    scopes: tuple[ChatScope, ...] = Field(default=(ChatScope.SINGLE, ChatScope.GROUP), min_length=1)
    display_name: str | None = None
    author: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    trigger_source: str | None = None
    license: str | None = None
    compatibility: str | None = Field(default=None, max_length=MAX_COMPATIBILITY_LENGTH)
    allowed_tools: _Strings | None = None
    """null: the file does not restrict tools; a tuple, even empty, does"""
    metadata: dict[str, str] = {}
    triggers: TriggerRules = TriggerRules()
    tools: tuple[ToolSpec, ...] = ()
    requirements: tuple[RequirementSpec, ...] = ()
    permissions: ResourcePermissions = ResourcePermissions()
    constraints: Constraints = Constraints()
    dependencies: Dependencies = Dependencies()
    tags: _Strings = ()
    category: str | None = None
    priority: Literal["low", "normal", "high"] | None = None
    extra: dict[str, Any] = {}
    """unknown keys of the file, kept for rewriting"""

    @field_validator("id")
    @classmethod
    def _canonical_name(cls, value: str) -> str:
        if not is_skill_name(value):
            raise ValueError("a skill name is 1–64 of a–z, 0–9 and single inner hyphens")
        return value

    @field_validator("version")
    @classmethod
    def _semantic_version(cls, value: str) -> str:
        return Version(value).text

    @model_validator(mode="after")
    def _one_requirement_a_code(self) -> SkillManifest:
        codes = [requirement.code for requirement in self.requirements]
        if len(set(codes)) != len(codes):
            raise ValueError("a permission code is required twice")
        return self

    @property
    def permission_requirements(self) -> tuple[PermissionRequirement, ...]:
        """The requirements in the law's own form."""
        return tuple(requirement.to_requirement() for requirement in self.requirements)
