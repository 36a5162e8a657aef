"""Joining what runs the scripts of installed skills (X6): sandbox, files, permissions, channel."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prowess.adapters.sandboxes.choosing import choose_sandbox
from prowess.db.engine import Database
from prowess.errors import InvalidInput
from prowess.events.log import EventLog
from prowess.memory.service import MemoryService
from prowess.sandbox.model import SandboxProfile
from prowess.sandbox.ports import Sandbox
from prowess.sandbox.profile import compile_profile
from prowess.secrets.service import SecretService
from prowess.skills.manifest import SkillManifest
from prowess.skills.scripts import runnable_script
from prowess.skills.service import served_manifest
from prowess.skills.store import StoredSkill
from prowess.turns.definitions import PromptSkill, SkillDefinition
from prowess.turns.dispatch import Dispatcher
from prowess.turns.scripts.channel import ChannelParts
from prowess.turns.scripts.definition import script_definition
from prowess.turns.scripts.files import ScriptFiles
from prowess.turns.scripts.memories import ScriptMemories
from prowess.turns.scripts.running import ScriptRunner
from prowess.turns.scripts.variables import MAX_VALUE, ScriptVariables

logger = logging.getLogger(__name__)


class InstalledSkills:
    """Makes definitions of installed versions: a tool where its script runs here, else a prompt skill (ruling 12.8)."""

    def __init__(self) -> None:
        self.runner: ScriptRunner | None = None
        """set when the database is open; without it no script runs"""

    def definition(self, stored: StoredSkill) -> SkillDefinition:
        """The definition. Whatever keeps the script from running, the skill serves as a prompt."""
        script, runner = runnable_script(stored), self.runner
        if script is not None and runner is not None and runner.can_run:
            try:
                return script_definition(stored, script, runner)
            except Exception as error:
                code = error.code if isinstance(error, InvalidInput) else type(error).__name__
                logger.warning("the script of skill %s does not run here: %s", stored.manifest.id, code)
        return PromptSkill(manifest=served_manifest(stored.manifest), body=stored.body)


@dataclass(frozen=True, slots=True)
class ScriptParts:
    """What runs scripts in this process."""

    sandbox: Sandbox
    ours: bool
    """made here, and closed with the runtime"""

    def close(self) -> None:
        """Stop what runs in the sandbox, and what is kept ready."""
        if self.ours:
            self.sandbox.close()


def join_scripts(
    sandbox: Sandbox | str,
    roots: Iterable[str | Path],
    environment: Mapping[str, str],
    installed: InstalledSkills,
    *,
    database: Database,
    log: EventLog,
    dispatcher: Dispatcher,
    memory: MemoryService,
    secrets: SecretService,
) -> ScriptParts:
    """Join them. Raises ``InvalidInput`` (``sandbox_option``, ``script_root_unusable``, ``script_environment``)."""
    allowed, given = _folders(roots), _environment(environment)
    chosen = choose_sandbox(sandbox) if isinstance(sandbox, str) else sandbox

    def profile_of(manifest: SkillManifest) -> SandboxProfile:
        return compile_profile(manifest.permissions, manifest.constraints, roots=allowed)

    installed.runner = ScriptRunner(chosen, ScriptFiles(database), profile_of)
    channels = ChannelParts(
        log,
        dispatcher,
        lambda call: ScriptMemories(memory, call),
        lambda call: ScriptVariables(given, secrets, call),
    )
    dispatcher.handling.channels = channels.open
    return ScriptParts(chosen, ours=isinstance(sandbox, str))


def _folders(roots: Iterable[str | Path]) -> tuple[str, ...]:
    """The folders below which scripts may be permitted files."""
    found: list[str] = []
    for root in roots:
        real = Path(os.path.realpath(root))
        if not real.is_dir() or real == Path(real.anchor):
            raise InvalidInput("script_root_unusable", field="script_roots", path=str(root)[:200])
        found.append(str(real))
    return tuple(found)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if len(value) > MAX_VALUE or "\0" in value:
            raise InvalidInput("script_environment", field="script_environment", name=name[:100])
    return dict(given)
