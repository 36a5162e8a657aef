"""From a message to a script tool's arguments, and from its result to what the agent says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prowess.kernel.untrusted import Untrusted, quote
from prowess.messages import render
from prowess.skills.manifest import ParameterSpec
from prowess.turns.definitions import Instruction

MAX_SAID = 4_000
"""characters of a result that a voice without a model says"""
MAX_QUOTED = 20_000
"""characters of a result in the instruction for a model"""

_PAIR = re.compile(r"""([A-Za-z_][A-Za-z0-9_.-]{0,63})=("(?:[^"\\]|\\.)*"|'[^']*'|\S*)(?:\s+|$)""", re.ASCII)


def arguments_of(text: str, specs: Sequence[ParameterSpec]) -> Mapping[str, Any]:
    """The arguments that a message gives to the tool that it selected.

    A JSON object of parameters; ``name=value`` pairs; or the text itself where there is one required parameter and it
    is a text. Raises ``ValueError`` where it is none of these: then the tool is not called.
    """
    text = text.strip()
    names = {spec.name: spec for spec in specs}
    given = _json_object(text)
    if given is not None and names.keys() >= given.keys():
        return given
    pairs = _pairs(text, names)
    if pairs is not None:
        return pairs
    required = [spec for spec in specs if spec.required]
    if len(required) == 1 and required[0].type == "string" and text:
        return {required[0].name: text}
    if not names or (not required and not text):
        return {}
    if given is not None:
        return given  # what is wrong with it is said by the schema
    raise ValueError("the message gives no arguments")


def result_instruction(name: str, output: Any, language: str) -> Instruction:
    """What the agent says of a result: it is data that nobody has vouched for."""
    shown = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2)
    quoted = quote(Untrusted(_cut(shown, MAX_QUOTED, language), "tool"), language=language)
    text = render("instruct.script_result", language, {"name": name}) + "\n\n" + quoted
    said = render("say.script_empty", language, {"name": name}) if output is None or shown == "" else shown
    return Instruction(text, (_cut(said, MAX_SAID, language),), language)


def _cut(text: str, limit: int, language: str) -> str:
    if len(text) <= limit:
        return text
    return text[:limit] + render("say.script_more", language, {"count": len(text) - limit})


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _pairs(text: str, names: Mapping[str, ParameterSpec]) -> dict[str, Any] | None:
    """``name=value …`` of known names and nothing else; values in quotes may hold spaces."""
    found: dict[str, Any] = {}
    position = 0
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None or pair[1] not in names or pair[1] in found:
            return None
        found[pair[1]] = _value(names[pair[1]], pair[2])
        position = pair.end()
    return found or None


def _value(spec: ParameterSpec, written: str) -> Any:
    """A text as it stands, anything else as JSON; what is neither is left for the schema to refuse."""
    if written[:1] in ("'", '"') and written[-1:] == written[:1] and len(written) > 1:
        written = re.sub(r"\\(.)", r"\1", written[1:-1]) if written[0] == '"' else written[1:-1]
    if spec.type in ("string", "file"):
        return written
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written
