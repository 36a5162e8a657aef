"""The host of a script under test: tool calls are answered from the case, and nothing outside is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prowess.sandbox.model import ScriptCall
from prowess.sandbox.ports import ScriptCallRefused
from prowess.skills.manifest import SkillManifest
from prowess.skills.parameters import same_value
from prowess.turns.scripting import spellings
from prowess.validation.behaviour.cases import ToolAnswer


class ReplayHost:
    """Answers one run. Memory is empty, variables are unset, declared programs may run: in a sandbox of their own."""

    def __init__(self, manifest: SkillManifest, answers: Sequence[ToolAnswer]) -> None:
        self._manifest = manifest
        self._answers = list(answers)
        self._written: dict[str, str] = {}
        self.mismatch: str | None = None
        """the first tool call that the case does not expect"""
        self.unanswered = False
        """a declared tool was called for which there is nothing to answer"""

    @property
    def left(self) -> Sequence[ToolAnswer]:
        """Calls that were expected and not made."""
        return self._answers

    def answer(self, call: ScriptCall) -> Any:
        """As the port."""
        asked = self._manifest.permissions
        declared = {
            "tool": self._manifest.allowed_tools or (),
            "memory.read": asked.memory.read_layers,
            "memory.write": asked.memory.write_layers,
            "environment.read": asked.env_vars.read,
            "environment.write": asked.env_vars.write,
            "command": spellings(asked.shell.commands if asked.shell.allowed else ()),
        }[call.kind]
        if call.name not in declared:
            raise ScriptCallRefused("script_undeclared")
        if call.kind == "tool":
            return self._tool(call)
        if call.kind == "environment.write":
            self._written[call.name] = str(call.arguments.get("value", ""))
        return {"memory.read": [], "environment.read": self._written.get(call.name)}.get(call.kind)

    def _tool(self, call: ScriptCall) -> Any:
        if not self._answers:
            self.unanswered = True
            self.mismatch = self.mismatch or call.name
            raise ScriptCallRefused("behavior_calls")
        expected = self._answers.pop(0)
        if expected.tool != call.name or not same_value(expected.arguments, call.arguments):
            self.mismatch = self.mismatch or call.name
            raise ScriptCallRefused("behavior_calls")
        if expected.error is not None:
            raise ScriptCallRefused(expected.error)
        return expected.output
