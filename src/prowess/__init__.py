"""Prowess: a governed skill runtime for AI agents.

Names are imported when first used, so that ``import prowess`` and the linter start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.access.actions import command_resource
    from prowess.access.approvals.model import Approval, ApprovalStatus
    from prowess.access.filters import SkillFilter
    from prowess.access.guards import CommandGuard, Guard
    from prowess.access.model import (
        ApprovalMode,
        Decision,
        EffectiveAction,
        Grant,
        Mode,
        PermissionRequirement,
        Risk,
        StandingApproval,
    )
    from prowess.access.policies import Attempt
    from prowess.access.resolver import CallContext, CapabilityResolver
    from prowess.access.roles.model import Role
    from prowess.access.surface import CapabilitySurface
    from prowess.automation.delegation.model import Delegation, Stopped, TaskGraph, TaskStatus
    from prowess.automation.triggers.model import Fire, Rehearsal, Trigger
    from prowess.chat.model import Agent, Message
    from prowess.errors import (
        Conflict,
        DeliveryError,
        Denied,
        InvalidInput,
        LimitExceeded,
        NotFound,
        PayloadTooLarge,
        ProwessError,
        SkillFileError,
        StorageError,
        VoiceError,
    )
    from prowess.events.model import Event
    from prowess.kernel.clock import Clock, ManualClock, SystemClock
    from prowess.kernel.untrusted import Untrusted, quote
    from prowess.memory.model import Memory, MemoryLayer
    from prowess.runtime.app import Prowess, open
    from prowess.runtime.models import model_voice
    from prowess.secrets.model import SecretInfo, SecretOwner, SecretSlot
    from prowess.skills.manifest import SkillManifest
    from prowess.turns.definitions import (
        BackgroundContext,
        BackgroundRequest,
        BackgroundSkill,
        Instruction,
        PromptSkill,
        ToolContext,
        ToolGroup,
        ToolSkill,
        ToolTurn,
        WorkflowAdvance,
        WorkflowSkill,
        WorkflowTurn,
    )
    from prowess.turns.limits import TurnLimits
    from prowess.turns.options import Unattended
    from prowess.turns.outcome import ToolOutcome
    from prowess.turns.plan import TurnPlan
    from prowess.turns.ports import Line, Prompt, Resumed, SkillCard, StopSignal, Suspended, ToolBox, Voice, VoiceLimits
    from prowess.turns.request import PlanTool, Selection, TurnRequest, TurnResult
    from prowess.turns.safety import SafetyPolicy, SafetyRule
    from prowess.turns.writing import background_skill, prompt_skill, tool_skill, workflow_skill

_HOMES = {
    "prowess.access.actions": ("command_resource",),
    "prowess.access.approvals.model": ("Approval", "ApprovalStatus"),
    "prowess.access.filters": ("SkillFilter",),
    "prowess.access.guards": ("CommandGuard", "Guard"),
    "prowess.access.model": (
        "ApprovalMode",
        "Decision",
        "EffectiveAction",
        "Grant",
        "Mode",
        "PermissionRequirement",
        "Risk",
        "StandingApproval",
    ),
    "prowess.access.policies": ("Attempt",),
    "prowess.access.resolver": ("CallContext", "CapabilityResolver"),
    "prowess.access.roles.model": ("Role",),
    "prowess.access.surface": ("CapabilitySurface",),
    "prowess.automation.delegation.model": ("Delegation", "Stopped", "TaskGraph", "TaskStatus"),
    "prowess.automation.triggers.model": ("Fire", "Rehearsal", "Trigger"),
    "prowess.chat.model": ("Agent", "Message"),
    "prowess.errors": (
        "Conflict",
        "DeliveryError",
        "Denied",
        "InvalidInput",
        "LimitExceeded",
        "NotFound",
        "PayloadTooLarge",
        "ProwessError",
        "SkillFileError",
        "StorageError",
        "VoiceError",
    ),
    "prowess.events.model": ("Event",),
    "prowess.kernel.clock": ("Clock", "ManualClock", "SystemClock"),
    "prowess.kernel.untrusted": ("Untrusted", "quote"),
    "prowess.memory.model": ("Memory", "MemoryLayer"),
    "prowess.runtime.app": ("Prowess", "open"),
    "prowess.runtime.models": ("model_voice",),
    "prowess.secrets.model": ("SecretInfo", "SecretOwner", "SecretSlot"),
    "prowess.skills.manifest": ("SkillManifest",),
    "prowess.turns.definitions": (
        "BackgroundContext",
        "BackgroundRequest",
        "BackgroundSkill",
        "Instruction",
        "PromptSkill",
        "ToolContext",
        "ToolGroup",
        "ToolSkill",
        "ToolTurn",
        "WorkflowAdvance",
        "WorkflowSkill",
        "WorkflowTurn",
    ),
    "prowess.turns.limits": ("TurnLimits",),
    "prowess.turns.options": ("Unattended",),
    "prowess.turns.outcome": ("ToolOutcome",),
    "prowess.turns.plan": ("TurnPlan",),
    "prowess.turns.ports": (
        "Line",
        "Prompt",
        "Resumed",
        "SkillCard",
        "StopSignal",
        "Suspended",
        "ToolBox",
        "Voice",
        "VoiceLimits",
    ),
    "prowess.turns.request": ("PlanTool", "Selection", "TurnRequest", "TurnResult"),
    "prowess.turns.safety": ("SafetyPolicy", "SafetyRule"),
    "prowess.turns.writing": ("background_skill", "prompt_skill", "tool_skill", "workflow_skill"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "Approval",
    "ApprovalMode",
    "ApprovalStatus",
    "Attempt",
    "BackgroundContext",
    "BackgroundRequest",
    "BackgroundSkill",
    "CallContext",
    "CapabilityResolver",
    "CapabilitySurface",
    "Clock",
    "CommandGuard",
    "Conflict",
    "Decision",
    "Delegation",
    "DeliveryError",
    "Denied",
    "EffectiveAction",
    "Event",
    "Fire",
    "Grant",
    "Guard",
    "Instruction",
    "InvalidInput",
    "LimitExceeded",
    "Line",
    "ManualClock",
    "Memory",
    "MemoryLayer",
    "Message",
    "Mode",
    "NotFound",
    "PayloadTooLarge",
    "PermissionRequirement",
    "PlanTool",
    "Prompt",
    "PromptSkill",
    "Prowess",
    "ProwessError",
    "Rehearsal",
    "Resumed",
    "Risk",
    "Role",
    "SafetyPolicy",
    "SafetyRule",
    "SecretInfo",
    "SecretOwner",
    "SecretSlot",
    "Selection",
    "SkillCard",
    "SkillFileError",
    "SkillFilter",
    "SkillManifest",
    "StandingApproval",
    "StopSignal",
    "Stopped",
    "StorageError",
    "Suspended",
    "SystemClock",
    "TaskGraph",
    "TaskStatus",
    "ToolBox",
    "ToolContext",
    "ToolGroup",
    "ToolOutcome",
    "ToolSkill",
    "ToolTurn",
    "Trigger",
    "TurnLimits",
    "TurnPlan",
    "TurnRequest",
    "TurnResult",
    "Unattended",
    "Untrusted",
    "Voice",
    "VoiceError",
    "VoiceLimits",
    "WorkflowAdvance",
    "WorkflowSkill",
    "WorkflowTurn",
    "background_skill",
    "command_resource",
    "model_voice",
    "open",
    "prompt_skill",
    "quote",
    "tool_skill",
    "workflow_skill",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'prowess' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
