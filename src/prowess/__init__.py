"""Prowess: a governed skill runtime for AI agents.

Names are imported when first used, so that ``import prowess`` and the linter start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prowess.access.model import ApprovalMode, Decision, Grant, PermissionRequirement, Risk
    from prowess.chat.model import Agent, Message
    from prowess.errors import (
        Conflict,
        Denied,
        InvalidInput,
        LimitExceeded,
        NotFound,
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
    from prowess.skills.manifest import SkillManifest
    from prowess.turns.definitions import (
        Instruction,
        PromptSkill,
        ToolContext,
        ToolSkill,
        ToolTurn,
        WorkflowAdvance,
        WorkflowSkill,
        WorkflowTurn,
    )
    from prowess.turns.outcome import ToolOutcome
    from prowess.turns.plan import TurnPlan
    from prowess.turns.ports import Prompt, Voice
    from prowess.turns.request import Selection, TurnRequest, TurnResult
    from prowess.turns.safety import SafetyPolicy, SafetyRule
    from prowess.turns.writing import prompt_skill, tool_skill, workflow_skill

_HOMES = {
    "prowess.access.model": ("ApprovalMode", "Decision", "Grant", "PermissionRequirement", "Risk"),
    "prowess.chat.model": ("Agent", "Message"),
    "prowess.errors": (
        "Conflict",
        "Denied",
        "InvalidInput",
        "LimitExceeded",
        "NotFound",
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
    "prowess.skills.manifest": ("SkillManifest",),
    "prowess.turns.definitions": (
        "Instruction",
        "PromptSkill",
        "ToolContext",
        "ToolSkill",
        "ToolTurn",
        "WorkflowAdvance",
        "WorkflowSkill",
        "WorkflowTurn",
    ),
    "prowess.turns.outcome": ("ToolOutcome",),
    "prowess.turns.plan": ("TurnPlan",),
    "prowess.turns.ports": ("Prompt", "Voice"),
    "prowess.turns.request": ("Selection", "TurnRequest", "TurnResult"),
    "prowess.turns.safety": ("SafetyPolicy", "SafetyRule"),
    "prowess.turns.writing": ("prompt_skill", "tool_skill", "workflow_skill"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "ApprovalMode",
    "Clock",
    "Conflict",
    "Decision",
    "Denied",
    "Event",
    "Grant",
    "Instruction",
    "InvalidInput",
    "LimitExceeded",
    "ManualClock",
    "Memory",
    "MemoryLayer",
    "Message",
    "NotFound",
    "PermissionRequirement",
    "Prompt",
    "PromptSkill",
    "Prowess",
    "ProwessError",
    "Risk",
    "SafetyPolicy",
    "SafetyRule",
    "Selection",
    "SkillFileError",
    "SkillManifest",
    "StorageError",
    "SystemClock",
    "ToolContext",
    "ToolOutcome",
    "ToolSkill",
    "ToolTurn",
    "TurnPlan",
    "TurnRequest",
    "TurnResult",
    "Untrusted",
    "Voice",
    "VoiceError",
    "WorkflowAdvance",
    "WorkflowSkill",
    "WorkflowTurn",
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
