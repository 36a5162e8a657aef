"""An installed skill whose script runs, as a tool skill: same runner, same gate, other executor (X6)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from pydantic import BaseModel

from prowess.skills.manifest import SkillManifest
from prowess.skills.requirements import WRITING
from prowess.skills.scripts import ScriptTool
from prowess.skills.service import script_manifest
from prowess.skills.store import StoredSkill
from prowess.turns.definitions import (
    MAX_TOOL_CALLS_PER_TURN,
    MAX_TOOL_TIMEOUT,
    Instruction,
    ToolSkill,
    ToolTurn,
    check_definition,
)
from prowess.turns.scripting import ScriptSource
from prowess.turns.scripts.running import ScriptRunner
from prowess.turns.scripts.saying import arguments_of, result_instruction
from prowess.turns.scripts.schemas import input_model, output_model

GRACE = timedelta(seconds=1)
"""beyond the script's own time, so that the sandbox and not the waiting thread says how it ended"""


def script_definition(stored: StoredSkill, script: ScriptTool, runner: ScriptRunner) -> ToolSkill:
    """The tool skill. Raises ``InvalidInput`` where registration refuses it or its permissions cannot be kept here."""
    manifest = script_manifest(stored.manifest)
    spec = script.spec
    limits = runner.profile(manifest).limits
    source = ScriptSource(stored.digest, script.path, script.entry)
    name = manifest.display_name or manifest.id

    def build_input(turn: ToolTurn) -> Mapping[str, Any]:
        return arguments_of(turn.text, spec.parameters)

    def say(output: BaseModel, language: str) -> Instruction:
        return result_instruction(name, output.model_dump(mode="json"), language)

    tool = ToolSkill(
        manifest=manifest,
        tool_id=spec.name,
        timeout=min(timedelta(milliseconds=limits.wall_ms) + GRACE, MAX_TOOL_TIMEOUT),
        max_calls_per_turn=MAX_TOOL_CALLS_PER_TURN,
        input_schema=input_model(manifest.id, spec.parameters),
        output_schema=output_model(manifest.id, spec.returns),
        build_input=build_input,
        execute=partial(runner.run, manifest, source),
        build_system_instruction=say,
        effect="write" if may_write(manifest) else "read",
        destructive=bool(manifest.permissions.filesystem.delete),
        body=stored.body,
        script=source,
    )
    check_definition(tool)
    return tool


def may_write(manifest: SkillManifest) -> bool:
    """Whether a call may change something: by itself, or through a tool, which may be any.

    A repeated write is answered from its record and never done twice (X4).
    """
    return bool(manifest.allowed_tools) or any(item.code in WRITING for item in manifest.requirements)
