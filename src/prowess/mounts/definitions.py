"""A mounted tool as a definition of the catalog, like every other tool (X7, G11)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from prowess.kernel.canonical import digest
from prowess.kernel.untrusted import Untrusted, quote
from prowess.messages import render
from prowess.mounts.cleaning import clean, cleaned_json, depth_of, holds_hidden
from prowess.mounts.mapping import map_tool
from prowess.mounts.model import Mount, MountedTool, ToolListing
from prowess.mounts.schemas import MAX_VALUE_DEPTH, TooManySteps, arguments_model, faults
from prowess.skills.catalog import MOUNTED_PREFIX, CatalogEntry
from prowess.skills.manifest import SkillKind, SkillManifest
from prowess.turns.definitions import (
    MAX_TOOL_CALLS_PER_TURN,
    Instruction,
    SkillDefinition,
    ToolContext,
    ToolSkill,
    ToolTurn,
    check_definition,
)
from prowess.turns.runners.tool import ToolFailure

MAX_OUTPUT = 100_000
"""characters of one result that a model is shown"""
MAX_ERROR = 2_000
"""characters of what a server says of a call that failed"""
_SLUG = 40

CallServer = Callable[[Mount, MountedTool, ToolContext, Mapping[str, Any]], Any]
"""(mount, tool, context, arguments) → the result as the protocol has it; raises ``ToolFailure``"""


class MountedOutput(BaseModel):
    """What a server returned: untrusted, without hidden characters, and fenced as data."""

    model_config = ConfigDict(frozen=True)

    content: str
    hidden_characters: int = 0
    """how many were taken out"""
    cut: bool = False
    """whether it was longer than what is shown"""


def skill_id(server: str, tool: str) -> str:
    """The id of the skill that the tool is granted by, such as ``mcp-weather-forecast-1a2b3c4d``.

    The digest keeps every pair apart, however its names are spelled (G11).
    """
    slug = re.sub(r"[^a-z0-9]+", "-", f"mcp-{server}-{tool}".lower())[: _SLUG + 10].strip("-")
    return f"{slug}-{digest([server, tool])[:8]}"


def source_of(server: str) -> str:
    """What the catalog names as the source of a server's tools."""
    return f"{MOUNTED_PREFIX}{server}"


def entry_of(mount: Mount, tool: MountedTool, call: CallServer) -> CatalogEntry[SkillDefinition]:
    """The entry of an approved tool. Raises what registration raises of a definition that cannot stand."""
    pinned = tool.pinned
    assert pinned is not None
    definition = _definition(mount, tool, pinned, call)
    check_definition(definition)
    return CatalogEntry(definition, source_of(mount.server), _seal(mount, tool))


def _seal(mount: Mount, tool: MountedTool) -> str:
    """Of all that was approved: what the tool is, what was said of it, and where it is."""
    assert tool.pinned is not None
    spec = mount.spec
    return digest([tool.pinned.digest, tool.override.to_json(), tool.revision, list(spec.command), spec.url])


def _definition(mount: Mount, tool: MountedTool, pinned: ToolListing, call: CallServer) -> ToolSkill:
    mapped = map_tool(mount.server, pinned, tool.override)
    manifest = SkillManifest(
        id=skill_id(mount.server, pinned.name),
        # An approval of a call is for a version: one of a server that was mounted before is for another.
        version=f"1.0.{tool.revision}+{_seal(mount, tool)[:8]}",
        kind=SkillKind.TOOL,
        display_name=tool.id,
        # Our own words: a description is also shown where nothing is fenced.
        description=f"The tool {pinned.name} of the MCP server {mount.server}.",
        requirements=mapped.requirements,
    )

    def execute(context: ToolContext, arguments: Any) -> MountedOutput:
        return read_result(mount.server, pinned, call(mount, tool, context, arguments.root), context.language)

    return ToolSkill(
        manifest=manifest,
        tool_id=tool.id,
        server=mount.server,
        described=Untrusted(pinned.description, source_of(mount.server)) if pinned.description else None,
        timeout=timedelta(milliseconds=mount.spec.call_ms),
        max_calls_per_turn=MAX_TOOL_CALLS_PER_TURN,
        input_schema=arguments_model(tool.id, pinned.input_schema),
        output_schema=MountedOutput,
        build_input=_arguments_of,
        execute=execute,
        build_system_instruction=lambda output, language: _instruction(tool.id, output, language),
        effect=mapped.effect,
        destructive=mapped.destructive,
        secrets=mount.spec.slots,
    )


def read_result(server: str, pinned: ToolListing, result: Any, language: str) -> MountedOutput:
    """What a model is shown of a result.

    Raises ``ToolFailure``: ``mount_tool_error`` with what the server says of it, ``invalid_output`` where it is not
    what its schema promised.
    """
    if result.is_error:
        said = clean(_texts(result.content), MAX_ERROR).text
        quoted = quote(Untrusted(said, source_of(server)), language=language) if said else ""
        raise ToolFailure("mount_tool_error", quoted)
    value = result.structured_content
    if pinned.output_schema is not None and not _fits(value, pinned.output_schema):
        raise ToolFailure("invalid_output")
    if value is None:
        text, hidden = _texts(result.content), 0
    else:
        if depth_of(value, MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH:
            raise ToolFailure("invalid_output")
        plain = cleaned_json(value)
        text, hidden = json.dumps(plain, ensure_ascii=False), int(holds_hidden(value))
    shown = clean(text, MAX_OUTPUT)
    content = quote(Untrusted(shown.text, source_of(server)), language=language)
    return MountedOutput(content=content, hidden_characters=hidden + shown.hidden, cut=shown.cut)


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    if value is None or depth_of(value, MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH:
        return False
    try:
        return not faults(value, schema)
    except (TooManySteps, RecursionError):
        return False


def _texts(blocks: Any) -> str:
    """The text of a result; of anything else its kind and size, for a model cannot use it here."""
    parts = []
    for block in blocks:
        text = getattr(block, "text", None) or getattr(getattr(block, "resource", None), "text", None)
        if isinstance(text, str):
            parts.append(text)
        elif block.type != "text":
            size = len(getattr(block, "data", "") or getattr(getattr(block, "resource", None), "blob", "") or "")
            address = str(getattr(block, "uri", "") or "")[:500]
            parts.append(f"[{block.type} {address or size}]")
    return "\n".join(parts)


def _arguments_of(turn: ToolTurn) -> Mapping[str, Any]:
    """A person who names the tool in a command writes its arguments as a JSON object."""
    found = json.loads(turn.text) if turn.text.strip().startswith("{") else {}
    return found if isinstance(found, dict) else {}


def _instruction(tool: str, output: MountedOutput, language: str) -> Instruction:
    told = render("instruct.mounted_tool", language, {"tool": tool})
    return Instruction(
        f"{told}\n{output.content}", (render("say.mounted_tool", language, {"tool": tool}), output.content), language
    )
