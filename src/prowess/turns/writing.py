"""Writing skills in Python: one function a kind, with sensible defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel

from prowess.access.model import ApprovalMode, PermissionRequirement, Risk
from prowess.secrets.model import OwnerKind, SecretSlot
from prowess.skills.manifest import ChatScope, RequirementSpec, SkillKind, SkillManifest, TriggerRules
from prowess.turns.definitions import (
    BackgroundContext,
    BackgroundRequest,
    BackgroundSkill,
    Instruction,
    PromptSkill,
    ToolContext,
    ToolSkill,
    ToolTurn,
    WorkflowAdvance,
    WorkflowSkill,
    WorkflowTurn,
    check_definition,
)

_BOTH = (ChatScope.SINGLE, ChatScope.GROUP)


def prompt_skill(
    id: str,
    *,
    description: str,
    body: str,
    version: str = "1.0.0",
    keywords: Iterable[str] = (),
    patterns: Iterable[str] = (),
    scopes: Iterable[ChatScope | str] = _BOTH,
    say: Mapping[str, tuple[str, ...]] | None = None,
    **manifest: Any,
) -> PromptSkill:
    """A prompt skill: ``body`` is its manual. Further keywords are fields of ``SkillManifest``.

    Raises ``pydantic.ValidationError`` for a field that does not fit.
    """
    declared = _manifest(id, version, SkillKind.PROMPT, description, keywords, patterns, scopes, (), manifest)
    return PromptSkill(manifest=declared, body=body, say=say or {})


def workflow_skill(
    id: str,
    *,
    description: str,
    initial_step: str,
    create_initial_state: Callable[[], Any],
    parse_state: Callable[[Any], Any],
    run_turn: Callable[[WorkflowTurn], WorkflowAdvance],
    session_ttl: timedelta = timedelta(days=14),
    version: str = "1.0.0",
    keywords: Iterable[str] = (),
    patterns: Iterable[str] = (),
    scopes: Iterable[ChatScope | str] = (ChatScope.SINGLE,),
    state_version: int = 1,
    migrate_state: Callable[[Any, int], Any] | None = None,
    **manifest: Any,
) -> WorkflowSkill:
    """A workflow skill (W1). Raises ``pydantic.ValidationError``, ``InvalidInput('workflow_bounds')``."""
    declared = _manifest(id, version, SkillKind.WORKFLOW, description, keywords, patterns, scopes, (), manifest)
    skill = WorkflowSkill(
        manifest=declared,
        session_ttl=session_ttl,
        initial_step=initial_step,
        create_initial_state=create_initial_state,
        parse_state=parse_state,
        run_turn=run_turn,
        state_version=state_version,
        migrate_state=migrate_state,
    )
    check_definition(skill)
    return skill


def tool_skill(
    id: str,
    *,
    description: str,
    tool_id: str,
    input_schema: type[BaseModel],
    output_schema: type[BaseModel],
    build_input: Callable[[ToolTurn], Mapping[str, Any]],
    execute: Callable[[ToolContext, Any], Any],
    build_system_instruction: Callable[[Any, str], Instruction],
    permissions: Iterable[PermissionRequirement | tuple[str, Risk | str]] = (),
    timeout: timedelta = timedelta(seconds=2),
    max_calls_per_turn: int = 1,
    effect: Literal["read", "write"] = "read",
    resource: Callable[[Any], str | None] | None = None,
    secrets: Iterable[SecretSlot | tuple[str, OwnerKind]] = (),
    version: str = "1.0.0",
    keywords: Iterable[str] = (),
    patterns: Iterable[str] = (),
    scopes: Iterable[ChatScope | str] = (ChatScope.SINGLE,),
    **manifest: Any,
) -> ToolSkill:
    """A tool skill (X1).

    ``permissions``: requirements, or ``(code, risk)`` with the approval that the risk needs; ``secrets``: slots, or
    ``(name, "user" | "tenant" | "skill")``.
    Raises ``pydantic.ValidationError``, ``ValueError`` for a risk and approval that do not fit (G1),
    ``InvalidInput('tool_bounds')``.
    """
    declared = _manifest(id, version, SkillKind.TOOL, description, keywords, patterns, scopes, permissions, manifest)
    skill = ToolSkill(
        manifest=declared,
        tool_id=tool_id,
        timeout=timeout,
        max_calls_per_turn=max_calls_per_turn,
        input_schema=input_schema,
        output_schema=output_schema,
        build_input=build_input,
        execute=execute,
        build_system_instruction=build_system_instruction,
        effect=effect,
        resource=resource,
        secrets=tuple(slot if isinstance(slot, SecretSlot) else SecretSlot(*slot) for slot in secrets),
    )
    check_definition(skill)
    return skill


def background_skill(
    id: str,
    *,
    description: str,
    payload_schema: type[BaseModel],
    build_payload: Callable[[BackgroundRequest], Mapping[str, Any]] = asdict,
    compose: Callable[[Any, str], str] | None = None,
    execute: Callable[[BackgroundContext, Any], None] | None = None,
    permissions: Iterable[PermissionRequirement | tuple[str, Risk | str]] = (),
    max_attempts: int = 3,
    earliest: timedelta = timedelta(minutes=1),
    latest: timedelta = timedelta(days=365),
    secrets: Iterable[SecretSlot | tuple[str, OwnerKind]] = (),
    version: str = "1.0.0",
    **manifest: Any,
) -> BackgroundSkill:
    """A background skill (B3): ``compose`` makes the one message that a job leaves, ``execute`` does anything else.

    Raises ``pydantic.ValidationError``, ``InvalidInput('background_bounds')``.
    """
    declared = _manifest(
        id, version, SkillKind.BACKGROUND, description, (), (), (ChatScope.SINGLE,), permissions, manifest
    )
    skill = BackgroundSkill(
        manifest=declared,
        payload_schema=payload_schema,
        build_payload=build_payload,
        compose=compose,
        execute=execute,
        max_attempts=max_attempts,
        earliest=earliest,
        latest=latest,
        secrets=tuple(slot if isinstance(slot, SecretSlot) else SecretSlot(*slot) for slot in secrets),
    )
    check_definition(skill)
    return skill


def _manifest(
    id: str,
    version: str,
    kind: SkillKind,
    description: str,
    keywords: Iterable[str],
    patterns: Iterable[str],
    scopes: Iterable[ChatScope | str],
    permissions: Iterable[PermissionRequirement | tuple[str, Risk | str]],
    rest: Mapping[str, Any],
) -> SkillManifest:
    fields: dict[str, Any] = dict(rest)
    # The resource whitelist of the manifest is called ``permissions`` too; a caller gives it as ``resources``.
    if "resources" in fields:
        fields["permissions"] = fields.pop("resources")
    return SkillManifest(
        id=id,
        version=version,
        kind=kind,
        description=description,
        scopes=tuple(ChatScope(scope) for scope in scopes),
        triggers=TriggerRules(keywords=tuple(keywords), patterns=tuple(patterns)),
        requirements=tuple(_requirement(item) for item in permissions),
        **fields,
    )


def _requirement(item: PermissionRequirement | tuple[str, Risk | str]) -> RequirementSpec:
    if isinstance(item, PermissionRequirement):
        return RequirementSpec(code=item.code, risk=item.risk, approval=item.approval)
    code, level = item
    risk = Risk(level)
    approval = {Risk.L0: ApprovalMode.NONE, Risk.L3: ApprovalMode.PER_OPERATION, Risk.L4: ApprovalMode.PER_OPERATION}
    return RequirementSpec(code=code, risk=risk, approval=approval.get(risk, ApprovalMode.PERSISTENT))
